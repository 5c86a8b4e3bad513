/*
 * Reductions of float32 and float64. Owns the instances of these kernels. Never launches one.
 */
#include "reduce.cuh"

namespace ringlet {

Kernels kernels_float32(ringlet_op op) {
    return kernels_of_float<Number<float>>(op);
}

Kernels kernels_float64(ringlet_op op) {
    return kernels_of_float<Number<double>>(op);
}

} // namespace ringlet
