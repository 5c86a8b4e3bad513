/*
 * Reductions of int8 and uint8. Owns the instances of these kernels. Never launches one.
 */
#include "reduce.cuh"

namespace ringlet {

using Signed = Number<int8_t, int32_t>;
using Unsigned = Number<uint8_t, uint32_t>;

Kernels kernels_int8(ringlet_op op) {
    return kernels_of_integer<Signed, Unsigned, int32_t>(op);
}

Kernels kernels_uint8(ringlet_op op) {
    return kernels_of_integer<Unsigned, Unsigned, uint32_t>(op);
}

} // namespace ringlet
