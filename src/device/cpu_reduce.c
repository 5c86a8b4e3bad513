/*
 * The CPU twin of the reduction kernel, also used by the host algorithm and the emulated devices.
 * Owns the arithmetic of one reduction on the CPU. Never allocates and never starts threads.
 */
#include "device/device.h"

/* dst is a or b exactly or overlaps neither, so no iteration depends on another; compilers cannot
 * know that, and their own overlap test would send the in-place form to the scalar loop. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

__attribute__((always_inline)) static inline void sum(float *dst, const float *a, const float *b,
                                                      uint64_t count) {
    INDEPENDENT
    for (uint64_t i = 0; i < count; i++)
        dst[i] = a[i] + b[i];
}

static void sum_float32(float *dst, const float *a, const float *b, uint64_t count) {
    sum(dst, a, b, count);
}

#if defined(__x86_64__)
/* The baseline of x86-64 has 16-byte vectors only. */
__attribute__((target("avx2"))) static void sum_float32_avx2(float *dst, const float *a,
                                                             const float *b, uint64_t count) {
    sum(dst, a, b, count);
}
#endif

void device_cpu_reduce(void *dst, const void *a, const void *b, uint64_t count, ringlet_dtype dtype,
                       ringlet_op op) {
    if (dtype != RINGLET_FLOAT32 || op != RINGLET_SUM)
        return;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        sum_float32_avx2(dst, a, b, count);
        return;
    }
#endif
    sum_float32(dst, a, b, count);
}
