/*
 * Reductions of int64 and uint64. Owns the instances of these kernels. Never launches one.
 */
#include "reduce.cuh"

namespace ringlet {

using Signed = Number<int64_t>;
using Unsigned = Number<uint64_t>;

Kernels kernels_int64(ringlet_op op) {
    return kernels_of_integer<Signed, Unsigned, int64_t>(op);
}

Kernels kernels_uint64(ringlet_op op) {
    return kernels_of_integer<Unsigned, Unsigned, uint64_t>(op);
}

} // namespace ringlet
