/*
 * Reductions on the CPU: the twin of the kernels, used by the emulated devices too, and its form on
 * several threads for the host algorithms.
 * Owns the order in which inputs are combined, and which loops run. Never allocates.
 */
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif
#if defined(RINGLET_OPENMP)
#include <omp.h>
#endif

#include "device/cpu_loops.h"
#include "device/device.h"

enum {
    LINE_BYTES = 64,
    /* A result this large is not in a cache when it is read again; smaller ones may be. */
    STREAM_BYTES = 4 << 20,
    /* Below this a thread costs more to wake than it saves. */
    BYTES_A_THREAD = 256 << 10
};

/* What the compilers' own question does not know: F16C. On virtual machines CPUID takes
 * microseconds, so it is asked once. */
#if defined(__x86_64__)
static bool has_f16c(void) {
    enum { UNKNOWN, NO, YES };
    static atomic_int answer = UNKNOWN;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    unsigned a, b, c = 0, d;
    if (known == UNKNOWN) {
        known = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) ? YES : NO;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == YES;
}
#endif

uint32_t cpu_loops_list(const struct cpu_loops *out[CPU_LOOPS_MAX]) {
    uint32_t count = 0;
    out[count++] = &cpu_loops_baseline;
#if defined(__x86_64__)
    if (has_f16c() && __builtin_cpu_supports("avx2")) {
        out[count++] = &cpu_loops_avx2;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
            out[count++] = &cpu_loops_avx512;
    }
#endif
    return count;
}

static const struct cpu_loops *best_loops(void) {
    const struct cpu_loops *loops[CPU_LOOPS_MAX];
    return loops[cpu_loops_list(loops) - 1];
}

/* ---- the caller's floating-point mode ---- */

/* The thread may flush subnormals or round another way (-ffast-math in the caller's program turns
 * the first on); results must not depend on that. */
static uint32_t mode_enter(void) {
#if defined(__x86_64__)
    enum { TO_NEAREST_ALL_MASKED = 0x1f80 };
    uint32_t mode = _mm_getcsr();
    _mm_setcsr(TO_NEAREST_ALL_MASKED);
    return mode;
#else
    return 0;
#endif
}

static void mode_leave(uint32_t mode) {
#if defined(__x86_64__)
    _mm_setcsr(mode);
#else
    (void)mode;
#endif
}

/* ---- one run of elements ---- */

struct job {
    const struct cpu_loops *loops;
    ringlet_dtype dtype;
    cpu_binary_fn *combine;
    cpu_binary_fn
        *past; /* the same past the caches; NULL: a result needs more than combining two */
    uint32_t input_count, size;
    double factor;      /* of a rank's own contributions; 0: they are not scaled */
    bool scale_first;   /* inputs[0] is such a contribution too */
    uint64_t divide_by; /* the finished sum; 0: it is not divided */
    bool stream;        /* the result goes past the caches */
};

static uint32_t nonzero(uint32_t ranks) {
    return ranks ? ranks : 1;
}

static struct job job_make(const struct cpu_loops *loops, uint32_t input_count,
                           const struct device_reduction *how) {
    bool average = how->op == RINGLET_AVG, is_float = dtype_is_float(how->dtype);
    double factor = how->dtype == RINGLET_FLOAT64 ? 1.0 / nonzero(how->ranks)
                                                  : 1.0f / (float)nonzero(how->ranks);
    bool simple = input_count == 2 && !(average && (is_float || how->last));
    return (struct job){
        .loops = loops,
        .dtype = how->dtype,
        .combine = loops->binary[how->dtype][average ? RINGLET_SUM : how->op],
        .past = simple ? loops->past[how->dtype][average ? RINGLET_SUM : how->op] : NULL,
        .input_count = input_count,
        .size = ringlet_dtype_size(how->dtype),
        .factor = average && is_float ? factor : 0,
        .scale_first = average && is_float && how->first,
        .divide_by = average && !is_float && how->last ? nonzero(how->ranks) : 0,
    };
}

/* Division and conversion truncate toward zero in C. The small types divide as floats that hold
 * them exactly, since there are vector instructions for it: a quotient that is no integer is
 * further from one than its rounding reaches, so what is cut off is the same. */
#define DIVIDE(type, wide)                                                                         \
    do {                                                                                           \
        type *values = dst;                                                                        \
        for (uint64_t i = 0; i < count; i++)                                                       \
            values[i] = (type)((wide)values[i] / (wide)by);                                        \
    } while (0)

static void divide(void *dst, uint64_t by, uint64_t count, ringlet_dtype dtype) {
    switch (dtype) {
    case RINGLET_INT8:
        DIVIDE(int8_t, float);
        return;
    case RINGLET_INT32:
        DIVIDE(int32_t, double);
        return;
    case RINGLET_INT64:
        DIVIDE(int64_t, int64_t);
        return;
    case RINGLET_UINT8:
        DIVIDE(uint8_t, float);
        return;
    case RINGLET_UINT32:
        DIVIDE(uint32_t, double);
        return;
    case RINGLET_UINT64:
        DIVIDE(uint64_t, uint64_t);
        return;
    case RINGLET_FLOAT16:
    case RINGLET_BFLOAT16:
    case RINGLET_FLOAT32:
    case RINGLET_FLOAT64:
        return; /* their contributions are scaled instead */
    }
}

static void copy_run(void *dst, const void *src, uint64_t bytes) {
    if (dst != src)
        memcpy(dst, src, bytes);
}

/* dst = so_far op input */
static void combine(const struct job *job, void *dst, const void *so_far, const void *input,
                    uint64_t count) {
    if (job->factor != 0)
        job->loops->add_scaled[job->dtype](dst, so_far, input, job->factor, count);
    else
        job->combine(dst, so_far, input, count);
}

/* dst is written last: it may be an input. */
static void run_same_type(const struct job *job, void *dst, const void *const *inputs,
                          uint64_t count) {
    CPU_LOOPS_ALIGNED char partial[CPU_LOOPS_RUN * DTYPE_BYTES_MAX];
    const void *so_far = inputs[0];
    uint32_t last = job->input_count - 1;
    if (job->scale_first) {
        void *to = last ? partial : dst;
        job->loops->scale[job->dtype](to, so_far, job->factor, count);
        so_far = to;
    }
    for (uint32_t k = 1; k <= last; k++) {
        void *to = k < last ? partial : dst;
        combine(job, to, so_far, inputs[k], count);
        so_far = to;
    }
    copy_run(dst, so_far, count * job->size);
    if (job->divide_by)
        divide(dst, job->divide_by, count, job->dtype);
}

static void run_16_bit(const struct job *job, void *dst, const void *const *inputs,
                       uint64_t count) {
    CPU_LOOPS_ALIGNED float partial[CPU_LOOPS_RUN];
    CPU_LOOPS_ALIGNED float input[CPU_LOOPS_RUN];
    const struct cpu_loops *loops = job->loops;
    if (job->input_count == 1 && !job->scale_first) {
        copy_run(dst, inputs[0], count * job->size);
        return;
    }
    loops->widen[job->dtype](partial, inputs[0], count);
    if (job->scale_first)
        loops->scale[job->dtype](partial, partial, job->factor, count);
    for (uint32_t k = 1; k < job->input_count; k++) {
        loops->widen[job->dtype](input, inputs[k], count);
        combine(job, partial, partial, input, count);
    }
    loops->narrow[job->dtype](dst, partial, count);
}

static void run(const struct job *job, void *dst, const void *const *inputs, uint64_t count) {
    if (job->loops->widen[job->dtype])
        run_16_bit(job, dst, inputs, count);
    else
        run_same_type(job, dst, inputs, count);
}

static void run_streaming(const struct job *job, void *dst, const void *const *inputs,
                          uint64_t count) {
    CPU_LOOPS_ALIGNED char result[CPU_LOOPS_RUN * DTYPE_BYTES_MAX];
    if (job->past) {
        job->past(dst, inputs[0], inputs[1], count);
        return;
    }
    run(job, result, inputs, count);
    job->loops->stream(dst, result, count * job->size);
}

/* ---- all of them ---- */

/* How many elements come before the next cache line of dst, so that runs begin with one. */
static uint64_t to_line(const void *dst, uint32_t size) {
    return (LINE_BYTES - (uintptr_t)dst % LINE_BYTES) % LINE_BYTES / size;
}

static void reduce_range(const struct job *job, void *dst, const void *const *inputs,
                         uint64_t begin, uint64_t end) {
    const void *at[DEVICE_INPUTS_MAX];
    uint32_t mode = mode_enter();
    uint64_t step = to_line((char *)dst + begin * job->size, job->size);
    step = step ? step : CPU_LOOPS_RUN;
    for (uint64_t i = begin; i < end; i += step, step = CPU_LOOPS_RUN) {
        step = end - i < step ? end - i : step;
        for (uint32_t k = 0; k < job->input_count; k++)
            at[k] = (const char *)inputs[k] + i * job->size;
        void *to = (char *)dst + i * job->size;
        if (job->stream && step == CPU_LOOPS_RUN)
            run_streaming(job, to, at, step);
        else
            run(job, to, at, step);
    }
#if defined(__x86_64__)
    if (job->stream)
        _mm_sfence(); /* such stores are ordered with no others */
#endif
    mode_leave(mode);
}

/* Where dst is an input its lines are in the cache anyway. */
static bool wants_stream(void *dst, const void *const *inputs, uint32_t input_count,
                         uint64_t bytes) {
    bool in_place = false;
    for (uint32_t k = 0; k < input_count; k++)
        in_place = in_place || inputs[k] == dst;
    return !in_place && bytes >= STREAM_BYTES;
}

void cpu_loops_reduce(const struct cpu_loops *loops, void *dst, const void *const *inputs,
                      uint32_t input_count, uint64_t count, const struct device_reduction *how) {
    struct job job = job_make(loops, input_count, how);
    job.stream = wants_stream(dst, inputs, input_count, count * job.size);
    reduce_range(&job, dst, inputs, 0, count);
}

void device_cpu_reduce(void *dst, const void *const *inputs, uint32_t input_count, uint64_t count,
                       const struct device_reduction *how) {
    cpu_loops_reduce(best_loops(), dst, inputs, input_count, count, how);
}

#if defined(RINGLET_OPENMP)
/* Several devices' reductions share the processors. */
static atomic_int sharers;

static uint32_t threads_for(uint64_t bytes, int sharing, uint64_t most) {
    uint64_t share = (most + (uint64_t)sharing - 1) / (uint64_t)sharing;
    uint64_t useful = bytes / BYTES_A_THREAD;
    uint64_t threads = useful < share ? useful : share;
    return threads ? (uint32_t)threads : 1;
}

static void reduce_shared(const struct job *job, void *dst, const void *const *inputs,
                          uint64_t count, uint32_t threads) {
#pragma omp parallel num_threads(threads)
    {
        uint64_t team = (uint64_t)omp_get_num_threads(), me = (uint64_t)omp_get_thread_num();
        uint64_t runs = count / CPU_LOOPS_RUN + (count % CPU_LOOPS_RUN != 0);
        uint64_t each = (runs / team + (runs % team != 0)) * CPU_LOOPS_RUN;
        uint64_t begin = me * each, end = begin + each;
        if (begin < count)
            reduce_range(job, dst, inputs, begin, end < count ? end : count);
    }
}

static void reduce_by_team(void *dst, const void *const *inputs, uint32_t input_count,
                           uint64_t count, const struct device_reduction *how, uint64_t most) {
    struct job job = job_make(best_loops(), input_count, how);
    uint64_t bytes = count * job.size;
    job.stream = wants_stream(dst, inputs, input_count, bytes);
    int sharing = atomic_fetch_add_explicit(&sharers, 1, memory_order_relaxed) + 1;
    uint32_t threads = threads_for(bytes, sharing, most);
    if (threads > 1)
        reduce_shared(&job, dst, inputs, count, threads);
    else
        reduce_range(&job, dst, inputs, 0, count);
    atomic_fetch_sub_explicit(&sharers, 1, memory_order_relaxed);
}

void device_cpu_reduce_parallel(void *dst, const void *const *inputs, uint32_t input_count,
                                uint64_t count, const struct device_reduction *how) {
    reduce_by_team(dst, inputs, input_count, count, how, (uint64_t)omp_get_max_threads());
}

void device_cpu_reduce_beside(void *dst, const void *const *inputs, uint32_t input_count,
                              uint64_t count, const struct device_reduction *how) {
    uint64_t most = (uint64_t)omp_get_max_threads(), quarter = (uint64_t)omp_get_num_procs() / 4;
    reduce_by_team(dst, inputs, input_count, count, how, most < quarter ? most : quarter);
}
#else
void device_cpu_reduce_parallel(void *dst, const void *const *inputs, uint32_t input_count,
                                uint64_t count, const struct device_reduction *how) {
    device_cpu_reduce(dst, inputs, input_count, count, how);
}

void device_cpu_reduce_beside(void *dst, const void *const *inputs, uint32_t input_count,
                              uint64_t count, const struct device_reduction *how) {
    device_cpu_reduce(dst, inputs, input_count, count, how);
}
#endif
