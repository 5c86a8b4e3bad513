/*
 * Reductions of int32 and uint32. Owns the instances of these kernels. Never launches one.
 */
#include "reduce.cuh"

namespace ringlet {

using Signed = Number<int32_t>;
using Unsigned = Number<uint32_t>;

Kernels kernels_int32(ringlet_op op) {
    return kernels_of_integer<Signed, Unsigned, int32_t>(op);
}

Kernels kernels_uint32(ringlet_op op) {
    return kernels_of_integer<Unsigned, Unsigned, uint32_t>(op);
}

} // namespace ringlet
