/*
 * The CUDA kernels behind one plain C header.
 * Owns the launch of each kernel. Never waits, allocates or chooses a device: it works on the
 * context that is current, and every error is returned (a cudaError_t as int, 0 for success).
 */
#ifndef RINGLET_KERNELS_KERNELS_H
#define RINGLET_KERNELS_KERNELS_H

#include <stdint.h>

#include "ringlet/ringlet.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KERNELS_INPUTS_MAX = 64 };

/* Loads every kernel into the current context, so that no later launch has to: loading lazily
 * synchronises the device, which deadlocks against work that waits for a peer. */
int kernels_load(void);

/* See struct device_reduction, whose numbers these are. */
struct kernels_reduction {
    ringlet_dtype dtype;
    ringlet_op op;
    uint32_t ranks;
    int first, last;
};

/*
 * dst[i] = inputs[0][i] op inputs[1][i] op ... for i < count, in this order and in the order of
 * `stream`; the CPU twin is device_cpu_reduce(), and results are the same bit for bit but for the
 * payload of a NaN. dst may be any input exactly; other overlaps are not allowed. Pointers are
 * aligned for the type; where all are equally far from a 16-byte boundary the kernel moves 16 bytes
 * an access. 1 to KERNELS_INPUTS_MAX inputs; two have kernels of their own. At most max_blocks
 * blocks (at least 1) of 256 threads. The arguments have been checked.
 */
int kernels_reduce(struct CUstream_st *stream, uint32_t max_blocks, void *dst,
                   const void *const *inputs, uint32_t input_count, uint64_t count,
                   const struct kernels_reduction *how);

#ifdef __cplusplus
}
#endif

#endif
