/*
 * The CUDA kernels behind one plain C header.
 * Owns the launch of each kernel. Never waits, allocates or chooses a device: it works on the
 * context that is current, and every error is returned (a cudaError_t as int, 0 for success).
 */
#ifndef RINGLET_KERNELS_KERNELS_H
#define RINGLET_KERNELS_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Loads every kernel into the current context, so that no later launch has to: loading lazily
 * synchronises the device, which deadlocks against work that waits for a peer. */
int kernels_load(void);

/*
 * dst[i] = a[i] + b[i] for i < count, in the order of `stream`; its CPU twin is
 * device_cpu_reduce(). dst may be a or b exactly; other overlaps are not allowed. Pointers are
 * aligned to 4 bytes; where all three are equally far from a 16-byte boundary the kernel moves 16
 * bytes an access. At most max_blocks blocks (at least 1) of 256 threads. Subnormals are kept; the
 * payload of a NaN is not the CPU's.
 */
int kernels_sum_float32(struct CUstream_st *stream, uint32_t max_blocks, float *dst, const float *a,
                        const float *b, uint64_t count);

#ifdef __cplusplus
}
#endif

#endif
