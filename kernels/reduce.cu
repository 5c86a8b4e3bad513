/*
 * Element-wise sums in device memory.
 * Owns the reduction kernels and their launch. Never reads through the read-only cache: dst may be
 * an input, and inputs arrive while earlier kernels run.
 */
#include "kernels.h"

#include <cuda_runtime_api.h>

namespace {

enum { THREADS = 256, VECTOR = 4, VECTOR_BYTES = 16 };

__device__ __forceinline__ float sum(float a, float b) {
    return a + b;
}

__device__ __forceinline__ float4 sum(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* A block adds tiles of UNROLL items a thread, neighbours in a warp adjacent; all loads of a tile
 * are in flight before its first store, which an input that is dst makes the compiler keep. */
template <typename T, int UNROLL>
__device__ __forceinline__ void sum_tiles(T *dst, const T *a, const T *b, uint64_t count) {
    const uint64_t tile = (uint64_t)UNROLL * THREADS;
    for (uint64_t begin = blockIdx.x * tile; begin < count; begin += gridDim.x * tile) {
        uint64_t at = begin + threadIdx.x;
        if (count - begin < tile) {
            for (; at < count; at += THREADS)
                dst[at] = sum(a[at], b[at]);
            return;
        }
        T x[UNROLL], y[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            x[i] = a[at + i * THREADS];
            y[i] = b[at + i * THREADS];
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            dst[at + i * THREADS] = sum(x[i], y[i]);
    }
}

enum { UNROLL_VECTOR = 4, UNROLL_SCALAR = 8 };

/* dst + head, a + head and b + head are 16-byte aligned; head < VECTOR, head <= count. */
__global__ void __launch_bounds__(THREADS)
    sum_vectors(float *dst, const float *a, const float *b, uint64_t count, uint32_t head) {
    uint64_t vectors = (count - head) / VECTOR;
    uint64_t tail = head + vectors * VECTOR; /* at most VECTOR - 1 elements are left from here */
    if (blockIdx.x == 0 && threadIdx.x < head)
        dst[threadIdx.x] = sum(a[threadIdx.x], b[threadIdx.x]);
    if (blockIdx.x == 0 && threadIdx.x < count - tail)
        dst[tail + threadIdx.x] = sum(a[tail + threadIdx.x], b[tail + threadIdx.x]);
    sum_tiles<float4, UNROLL_VECTOR>(reinterpret_cast<float4 *>(dst + head),
                                     reinterpret_cast<const float4 *>(a + head),
                                     reinterpret_cast<const float4 *>(b + head), vectors);
}

__global__ void __launch_bounds__(THREADS)
    sum_scalars(float *dst, const float *a, const float *b, uint64_t count) {
    sum_tiles<float, UNROLL_SCALAR>(dst, a, b, count);
}

uint32_t blocks_for(uint64_t items, uint32_t unroll, uint32_t max_blocks) {
    uint64_t tile = (uint64_t)unroll * THREADS;
    uint64_t blocks = items / tile + (items % tile != 0);
    if (blocks < 1)
        return 1;
    return blocks < max_blocks ? (uint32_t)blocks : max_blocks;
}

uint32_t misalignment(const void *pointer) {
    return (uint32_t)(reinterpret_cast<uintptr_t>(pointer) % VECTOR_BYTES);
}

} // namespace

extern "C" int kernels_load(void) {
    struct cudaFuncAttributes attributes;
    cudaError_t error =
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(sum_vectors));
    if (error == cudaSuccess)
        error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(sum_scalars));
    return (int)error;
}

/* cudaLaunchKernel and not <<<>>>: it returns its own error, so nobody's last error has to be
 * read. */
extern "C" int kernels_sum_float32(struct CUstream_st *stream, uint32_t max_blocks, float *dst,
                                   const float *a, const float *b, uint64_t count) {
    if (count == 0)
        return (int)cudaSuccess;
    if (max_blocks == 0)
        max_blocks = 1;
    uint32_t off = misalignment(dst);
    if (off == misalignment(a) && off == misalignment(b)) {
        uint32_t head = (VECTOR_BYTES - off) % VECTOR_BYTES / (uint32_t)sizeof(float);
        if (head > count)
            head = (uint32_t)count;
        void *arguments[] = {&dst, &a, &b, &count, &head};
        dim3 grid(blocks_for((count - head) / VECTOR, UNROLL_VECTOR, max_blocks));
        return (int)cudaLaunchKernel(reinterpret_cast<const void *>(sum_vectors), grid,
                                     dim3(THREADS), arguments, 0, stream);
    }
    void *arguments[] = {&dst, &a, &b, &count};
    dim3 grid(blocks_for(count, UNROLL_SCALAR, max_blocks));
    return (int)cudaLaunchKernel(reinterpret_cast<const void *>(sum_scalars), grid, dim3(THREADS),
                                 arguments, 0, stream);
}
