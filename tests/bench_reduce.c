/*
 * Reductions of two inputs, checked and timed: for each type and operation the CPU twin on one
 * thread and on all, and the kernel where there is a GPU; beside them a STREAM-like triad, which
 * says what the memory can do. Owns nothing that is measured. Never trusts a result unchecked.
 *
 * usage: bench-reduce [MEGABYTES]   of one input; 64 if not given
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/clock.h"
#include "base/dtype.h"
#include "device/device.h"
#include "reduce_values.h"

enum { SAMPLES = 7, KERNELS_A_SAMPLE = 10, CHUNK = 1000 };

struct bench {
    uint64_t bytes; /* of one range */
    char *a, *b, *dst, *expected;
    struct device_system *cuda; /* NULL: no GPU */
    struct device_queue queue;
    void *device[3];
    int failed;
};

static void stop(const char *what) {
    fprintf(stderr, "bench-reduce: %s: %s\n", what, ringlet_error_message());
    exit(EXIT_FAILURE);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples) {
    qsort(samples, SAMPLES, sizeof *samples, by_value);
    return samples[SAMPLES / 2];
}

/* Three ranges moved; decimal GB. */
static double rate_gbps(const struct bench *bench, double ns) {
    return 3 * (double)bench->bytes / ns;
}

/* ---- the triad ---- */

static void triad_plain(double *dst, const double *a, const double *b, uint64_t count) {
#ifdef RINGLET_OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (uint64_t i = 0; i < count; i++)
        dst[i] = a[i] + 3.0 * b[i];
}

static void triad_streaming(double *dst, const double *a, const double *b, uint64_t count) {
#if defined(__x86_64__)
#ifdef RINGLET_OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (uint64_t i = 0; i < count / 2; i++) {
        __m128d product = _mm_mul_pd(_mm_set1_pd(3), _mm_load_pd(b + 2 * i));
        _mm_stream_pd(dst + 2 * i, _mm_add_pd(_mm_load_pd(a + 2 * i), product));
    }
    _mm_sfence();
#else
    triad_plain(dst, a, b, count);
#endif
}

static double triad_once(struct bench *bench, bool streaming) {
    uint64_t count = bench->bytes / sizeof(double), start = clock_now_ns();
    (streaming ? triad_streaming : triad_plain)((void *)bench->dst, (const void *)bench->a,
                                                (const void *)bench->b, count);
    return rate_gbps(bench, (double)(clock_now_ns() - start));
}

/* ---- one type and operation ---- */

static bool right(struct bench *bench, const struct device_reduction *how, const void *got,
                  const char *what) {
    uint64_t count = bench->bytes / ringlet_dtype_size(how->dtype);
    uint64_t at = values_differ(how->dtype, got, bench->expected, count);
    if (at != count)
        printf("WRONG: %s, %s of %s, element %llu\n", what, ringlet_op_name(how->op),
               ringlet_dtype_name(how->dtype), (unsigned long long)at);
    bench->failed += at != count;
    return at == count;
}

/* In short pieces, on one thread, by another way through the code than what is timed. */
static void expect(struct bench *bench, const struct device_reduction *how) {
    uint32_t size = ringlet_dtype_size(how->dtype);
    uint64_t count = bench->bytes / size;
    for (uint64_t i = 0; i < count; i += CHUNK) {
        const void *inputs[] = {bench->a + i * size, bench->b + i * size};
        device_cpu_reduce(bench->expected + i * size, inputs, 2,
                          count - i < CHUNK ? count - i : CHUNK, how);
    }
}

typedef void reduce_fn(void *, const void *const *, uint32_t, uint64_t,
                       const struct device_reduction *);

static double cpu_once(struct bench *bench, const struct device_reduction *how, reduce_fn *reduce) {
    const void *inputs[] = {bench->a, bench->b};
    uint64_t count = bench->bytes / ringlet_dtype_size(how->dtype), start = clock_now_ns();
    reduce(bench->dst, inputs, 2, count, how);
    return rate_gbps(bench, (double)(clock_now_ns() - start));
}

static double kernel_once(struct bench *bench, const struct device_reduction *how) {
    const struct device_ops *ops = bench->cuda->ops;
    const void *inputs[] = {bench->device[1], bench->device[2]};
    uint64_t count = bench->bytes / ringlet_dtype_size(how->dtype), start = clock_now_ns();
    for (int i = 0; i < KERNELS_A_SAMPLE; i++)
        if (ops->reduce(bench->cuda, bench->queue, 0, bench->device[0], inputs, 2, count, how,
                        (struct device_tag){0, 0, 0}))
            stop("reduce");
    if (device_wait(bench->cuda, bench->queue, -1, NULL, NULL))
        stop("wait");
    return rate_gbps(bench, (double)(clock_now_ns() - start) / KERNELS_A_SAMPLE);
}

static double time_kernel(struct bench *bench, const struct device_reduction *how) {
    const struct device_ops *ops = bench->cuda->ops;
    double samples[SAMPLES];
    if (ops->transfer(bench->cuda, bench->queue, bench->device[1], bench->a, bench->bytes, true) ||
        ops->transfer(bench->cuda, bench->queue, bench->device[2], bench->b, bench->bytes, true))
        stop("transfer");
    for (int i = 0; i < SAMPLES; i++)
        samples[i] = kernel_once(bench, how);
    memset(bench->dst, 0xa5, bench->bytes);
    if (ops->transfer(bench->cuda, bench->queue, bench->dst, bench->device[0], bench->bytes, false))
        stop("transfer");
    right(bench, how, bench->dst, "kernel");
    return median(samples);
}

static void measure(struct bench *bench, ringlet_dtype dtype, ringlet_op op) {
    struct device_reduction how = {dtype, op, 8, true, true};
    double one[SAMPLES], all[SAMPLES], triad[SAMPLES];
    uint64_t count = bench->bytes / ringlet_dtype_size(dtype);
    values_fill(dtype, bench->a, count, 1);
    values_fill(dtype, bench->b, count, 2);
    expect(bench, &how);
    for (int i = 0; i < SAMPLES; i++) {
        double plain = triad_once(bench, false), streaming = triad_once(bench, true);
        triad[i] = plain > streaming ? plain : streaming;
        one[i] = cpu_once(bench, &how, device_cpu_reduce);
        memset(bench->dst, 0xa5, bench->bytes);
        all[i] = cpu_once(bench, &how, device_cpu_reduce_parallel);
        right(bench, &how, bench->dst, "all processors");
    }
    double memory = median(triad), parallel = median(all);
    printf("%-9s %-5s %8.1f %8.1f %8.1f %6.0f %%", ringlet_dtype_name(dtype), ringlet_op_name(op),
           median(one), parallel, memory, 100 * parallel / memory);
    if (bench->cuda)
        printf(" %9.0f", time_kernel(bench, &how));
    printf("\n");
    fflush(stdout);
}

static void open_cuda(struct bench *bench) {
    if (device_cuda_count() == 0 || device_open_cuda(&bench->cuda)) {
        printf("no GPU: %s\n", device_cuda_text());
        bench->cuda = NULL;
        return;
    }
    const struct device_ops *ops = bench->cuda->ops;
    if (ops->stream_create(bench->cuda, 0, &bench->queue.stream))
        stop("stream");
    for (int i = 0; i < 3; i++)
        if (ops->memory_alloc(bench->cuda, 0, bench->bytes, &bench->device[i]))
            stop("memory");
}

static char *memory_make(uint64_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes))
        stop("memory");
    memset(memory, 1, bytes);
    return memory;
}

int main(int argument_count, char **arguments) {
    long megabytes = argument_count > 1 ? strtol(arguments[1], NULL, 10) : 64;
    struct bench bench = {.bytes = (uint64_t)(megabytes > 0 ? megabytes : 64) * 1000000 / 64 * 64};
    bench.a = memory_make(bench.bytes);
    bench.b = memory_make(bench.bytes);
    bench.dst = memory_make(bench.bytes);
    bench.expected = memory_make(bench.bytes);
    open_cuda(&bench);
    printf("two inputs of %llu bytes; GB/s, of three ranges; triad: the better of plain and past "
           "the caches\n",
           (unsigned long long)bench.bytes);
    printf("%-9s %-5s %8s %8s %8s %8s%s\n", "type", "op", "1 thread", "all", "triad", "of it",
           bench.cuda ? "    kernel" : "");
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        for (int op = 0; op < DTYPE_OP_COUNT; op++)
            measure(&bench, (ringlet_dtype)dtype, (ringlet_op)op);
    if (bench.cuda)
        bench.cuda->ops->close(bench.cuda);
    free(bench.a);
    free(bench.b);
    free(bench.dst);
    free(bench.expected);
    return bench.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
