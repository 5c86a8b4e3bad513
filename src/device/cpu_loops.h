/*
 * The inner loops of the CPU's reductions, once for each instruction set.
 * Owns the table that every instruction set fills in. Never knows how many inputs there are.
 *
 * Loops go over short runs of elements (CPU_LOOPS_RUN at most), whose intermediate results stay in
 * the nearest cache. A destination is an input exactly or overlaps none.
 */
#ifndef RINGLET_DEVICE_CPU_LOOPS_H
#define RINGLET_DEVICE_CPU_LOOPS_H

#include <stdint.h>

#include "base/dtype.h"

enum { CPU_LOOPS_RUN = 1024, CPU_LOOPS_BINARY = RINGLET_MAX + 1, CPU_LOOPS_MAX = 3 };

typedef void cpu_binary_fn(void *dst, const void *a, const void *b, uint64_t count);
typedef void cpu_scale_fn(void *dst, const void *a, double factor, uint64_t count);
typedef void cpu_add_scaled_fn(void *dst, const void *a, const void *b, double factor,
                               uint64_t count);

/* Tables by type: the 16-bit types compute as float32 between widen and narrow, which are theirs
 * alone; scale and add_scaled are there for float32 and float64. */
struct cpu_loops {
    const char *name;                                     /* "avx2" */
    cpu_binary_fn *binary[DTYPE_COUNT][CPU_LOOPS_BINARY]; /* dst = a op b */
    /* The same past the caches: dst begins with a cache line and count fills lines. */
    cpu_binary_fn *past[DTYPE_COUNT][CPU_LOOPS_BINARY];
    cpu_scale_fn *scale[DTYPE_COUNT];           /* dst = a * factor */
    cpu_add_scaled_fn *add_scaled[DTYPE_COUNT]; /* dst = a + b * factor, rounded twice */
    void (*widen[DTYPE_COUNT])(float *dst, const void *src, uint64_t count);
    void (*narrow[DTYPE_COUNT])(void *dst, const float *src, uint64_t count); /* to nearest even */
    /* A copy that goes past the caches; src is aligned as CPU_LOOPS_ALIGNED. */
    void (*stream)(void *dst, const void *src, uint64_t bytes);
};

#define CPU_LOOPS_ALIGNED _Alignas(64)

extern const struct cpu_loops cpu_loops_baseline, cpu_loops_avx2, cpu_loops_avx512;

/* Those that this CPU can run, slowest first; returns how many. */
uint32_t cpu_loops_list(const struct cpu_loops *out[CPU_LOOPS_MAX]);

struct device_reduction;
/* device_cpu_reduce() with loops of the caller's choice. */
void cpu_loops_reduce(const struct cpu_loops *loops, void *dst, const void *const *inputs,
                      uint32_t input_count, uint64_t count, const struct device_reduction *how);

#endif
