/*
 * The launch of reductions in device memory.
 * Owns the choice of a kernel and the shape of its launch. Never computes with elements.
 */
#include <cuda_runtime_api.h>
#include <string.h>

#include "family.cuh"

namespace {

using namespace ringlet;

const ringlet_dtype dtypes[] = {
#define DTYPE(name, value, bytes, text) RINGLET_##name,
    RINGLET_DTYPE_MAP(DTYPE)
#undef DTYPE
};

const ringlet_op operations[] = {
#define OPERATION(name, value, text) RINGLET_##name,
    RINGLET_OP_MAP(OPERATION)
#undef OPERATION
};

uint32_t size_of(ringlet_dtype dtype) {
    switch (dtype) {
#define DTYPE(name, value, bytes, text)                                                            \
    case RINGLET_##name:                                                                           \
        return bytes;
        RINGLET_DTYPE_MAP(DTYPE)
#undef DTYPE
    }
    return 0;
}

Kernels kernels_for(ringlet_dtype dtype, ringlet_op op) {
    switch (dtype) {
    case RINGLET_FLOAT16:
        return kernels_float16(op);
    case RINGLET_BFLOAT16:
        return kernels_bfloat16(op);
    case RINGLET_FLOAT32:
        return kernels_float32(op);
    case RINGLET_FLOAT64:
        return kernels_float64(op);
    case RINGLET_INT8:
        return kernels_int8(op);
    case RINGLET_INT32:
        return kernels_int32(op);
    case RINGLET_INT64:
        return kernels_int64(op);
    case RINGLET_UINT8:
        return kernels_uint8(op);
    case RINGLET_UINT32:
        return kernels_uint32(op);
    case RINGLET_UINT64:
        return kernels_uint64(op);
    }
    return {};
}

bool is_float(ringlet_dtype dtype) {
    return dtype == RINGLET_FLOAT16 || dtype == RINGLET_BFLOAT16 || dtype == RINGLET_FLOAT32 ||
           dtype == RINGLET_FLOAT64;
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

struct Request {
    cudaStream_t stream;
    uint32_t max_blocks;
    void *dst;
    const void *const *inputs;
    uint32_t input_count;
    uint64_t count;
    const kernels_reduction *how;
};

/* cudaLaunchKernel and not <<<>>>: it returns its own error, so nobody's last error has to be
 * read. */
template <int INPUTS> cudaError_t launch(const Request &r, const Kernel &kernel) {
    Arguments<INPUTS> a;
    uint32_t size = size_of(r.how->dtype), off = misalignment(r.dst);
    uint32_t ranks = r.how->ranks ? r.how->ranks : 1;
    memset(&a, 0, sizeof a);
    a.dst = r.dst;
    a.count = r.count;
    a.input_count = r.input_count;
    a.ranks = ranks;
    a.factor = r.how->dtype == RINGLET_FLOAT64 ? 1.0 / ranks : 1.0f / (float)ranks;
    a.scale_first = r.how->first != 0;
    a.head = (VECTOR_BYTES - off) % VECTOR_BYTES / size;
    if (a.head > r.count)
        a.head = (uint32_t)r.count;
    a.vectors = true;
    for (uint32_t k = 0; k < r.input_count; k++) {
        a.inputs[k] = r.inputs[k];
        a.vectors = a.vectors && misalignment(r.inputs[k]) == off;
    }
    uint32_t blocks = a.vectors ? blocks_for((r.count - a.head) / (VECTOR_BYTES / size),
                                             kernel.vectors, r.max_blocks)
                                : blocks_for(r.count, kernel.singles, r.max_blocks);
    void *arguments[] = {&a};
    return cudaLaunchKernel(kernel.function, dim3(blocks), dim3(THREADS), arguments, 0, r.stream);
}

} // namespace

extern "C" int kernels_load(void) {
    cudaFuncAttributes attributes;
    for (ringlet_dtype dtype : dtypes)
        for (ringlet_op op : operations) {
            Kernels kernels = kernels_for(dtype, op);
            cudaError_t error = cudaFuncGetAttributes(&attributes, kernels.pair.function);
            if (error == cudaSuccess)
                error = cudaFuncGetAttributes(&attributes, kernels.many.function);
            if (error != cudaSuccess)
                return (int)error;
        }
    return (int)cudaSuccess;
}

extern "C" int kernels_reduce(cudaStream_t stream, uint32_t max_blocks, void *dst,
                              const void *const *inputs, uint32_t input_count, uint64_t count,
                              const struct kernels_reduction *how) {
    if (count == 0)
        return (int)cudaSuccess;
    Request request = {stream, max_blocks ? max_blocks : 1, dst, inputs, input_count, count, how};
    bool sums = how->op == RINGLET_AVG && !is_float(how->dtype) && !how->last;
    Kernels kernels = kernels_for(how->dtype, sums ? RINGLET_SUM : how->op);
    if (input_count == PAIR)
        return (int)launch<PAIR>(request, kernels.pair);
    return (int)launch<KERNELS_INPUTS_MAX>(request, kernels.many);
}
