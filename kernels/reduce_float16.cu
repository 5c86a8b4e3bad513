/*
 * Reductions of float16 and bfloat16, which compute in float32 and round once, to nearest even.
 * Owns the instances of these kernels and the conversions. Never launches a kernel.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "reduce.cuh"

namespace ringlet {

struct Half {
    using Stored = __half;
    using Value = float;
    static __device__ __forceinline__ float widen(__half stored) {
        return __half2float(stored);
    }
    static __device__ __forceinline__ __half narrow(float value) {
        return __float2half_rn(value);
    }
};

struct BrainFloat {
    using Stored = __nv_bfloat16;
    using Value = float;
    static __device__ __forceinline__ float widen(__nv_bfloat16 stored) {
        return __bfloat162float(stored);
    }
    static __device__ __forceinline__ __nv_bfloat16 narrow(float value) {
        return __float2bfloat16_rn(value);
    }
};

Kernels kernels_float16(ringlet_op op) {
    return kernels_of_float<Half>(op);
}

Kernels kernels_bfloat16(ringlet_op op) {
    return kernels_of_float<BrainFloat>(op);
}

} // namespace ringlet
