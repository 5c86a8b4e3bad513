#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "cuda_missing.h"
#include "device/device.h"
#include "reduce_two.h"
#include "reduce_values.h"
#include "suite.h"

static struct device_system *cuda;
static const struct device_ops *ops;
static int devices;
static const struct device_tag tag = {0, 0, 0};

/* ---- A gate in a stream: what comes behind it waits until it is opened ---- */

static atomic_bool gate_open;

static void CUDART_CB gate(void *unused) {
    (void)unused;
    /* A test that fails with its gate closed must not hang the suite. */
    for (int tries = 0; tries < 100000 && !atomic_load(&gate_open); tries++)
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void close_gate(struct device_queue queue) {
    int saved;
    atomic_store(&gate_open, false);
    ck_assert_ok(ops->bind(cuda, queue.device, &saved));
    ck_assert_int_eq(cudaLaunchHostFunc(queue.stream, gate, NULL), cudaSuccess);
    ops->unbind(cuda, saved);
}

static void open_gate(void) {
    atomic_store(&gate_open, true);
}

/* ---- Fixture and helpers ---- */

static int64_t live_before;

static void setup(void) {
    cudaGetLastError();
    live_before = memory_live();
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    ck_assert_ok(device_open_cuda(&cuda));
    ops = cuda->ops;
    devices = ops->count(cuda);
}

static void teardown(void) {
    open_gate();
    ops->close(cuda);
    cuda = NULL;
    ck_assert_int_eq(memory_live(), live_before);
}

static struct device_queue queue_on(int device) {
    struct device_queue queue = {.device = device};
    ck_assert_ok(ops->stream_create(cuda, device, &queue.stream));
    return queue;
}

static void *memory_on(int place, uint64_t bytes) {
    void *memory = NULL;
    if (place == DEVICE_HOST)
        ck_assert_ok(ops->host_alloc(cuda, bytes, &memory));
    else
        ck_assert_ok(ops->memory_alloc(cuda, place, bytes, &memory));
    return memory;
}

static struct device_event *event_on(int device) {
    struct device_event *event = NULL;
    ck_assert_ok(ops->event_create(cuda, device, &event));
    return event;
}

static bool idle(struct device_queue queue) {
    bool result = false;
    ck_assert_ok(ops->poll(cuda, queue, &result));
    return result;
}

static void finish(struct device_queue queue) {
    ck_assert_ok(device_wait(cuda, queue, 10000, NULL, NULL));
    ck_assert(idle(queue));
}

static void put(struct device_queue queue, void *dst, const void *src, uint64_t bytes) {
    ck_assert_ok(ops->transfer(cuda, queue, dst, src, bytes, true));
}

static void get(struct device_queue queue, void *dst, const void *src, uint64_t bytes) {
    ck_assert_ok(ops->transfer(cuda, queue, dst, src, bytes, false));
}

/* Any float but a NaN, whose payload may differ between CPU and GPU; subnormals and zeros of both
 * signs among them. No two infinities of different sign meet, since there are none. */
static void fill(float *values, uint64_t count, uint64_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t bits = (uint32_t)(state >> 32);
        if ((bits & 0x7f800000u) == 0x7f800000u)
            bits &= 0x807fffffu;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

static float *floats(uint64_t count) {
    float *values = malloc(count * sizeof *values);
    ck_assert_ptr_nonnull(values);
    return values;
}

/* An error of the caller's own, of a kind that nothing here makes. */
static void plant_error(void) {
    cudaGetLastError();
    cudaSetDevice(12345);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaErrorInvalidDevice);
}

static void check_planted(const char *after) {
    ck_assert_msg(cudaPeekAtLastError() == cudaErrorInvalidDevice, "after %s: %s", after,
                  cudaGetErrorName(cudaPeekAtLastError()));
}

/* ---- The system ---- */

START_TEST(test_describe) {
    struct device_info info;
    for (int i = 0; i < devices; i++) {
        memset(&info, 0, sizeof info);
        ck_assert_ok(ops->describe(cuda, i, &info));
        ck_assert_uint_gt(strlen(info.name), 0);
        ck_assert_uint_eq(strlen(info.pci), strlen("0000:3b:00.0"));
        ck_assert_uint_gt(info.memory_bytes, 1u << 20);
        ck_assert_int_ge(info.compute_major, 7);
        ck_assert_ptr_nonnull(strstr(ops->machine(cuda), info.name));
    }
    ck_assert_status(ops->describe(cuda, devices, &info), RINGLET_NO_DEVICE);
    ck_assert_status(ops->describe(cuda, -1, &info), RINGLET_NO_DEVICE);
    ck_assert_str_eq(ops->backend, "cuda");
    ck_assert(!ops->modelled(cuda));
    ck_assert(!ops->single_threaded(cuda));
    ck_assert_int_eq(devices, device_cuda_count());
}
END_TEST

START_TEST(test_one_system) {
    struct device_system *again = NULL;
    void *memory = memory_on(0, 100);
    ck_assert_ok(device_open_cuda(&again));
    ck_assert_ptr_eq(again, cuda);
    ops->retain(again);
    ops->close(again);
    ops->close(again);
    ck_assert_ok(ops->memory_free(cuda, 0, memory));
}
END_TEST

START_TEST(test_memory) {
    void *memory, *none = NULL;
    static const uint64_t sizes[] = {0, 1, 255, 4096, 12345678};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memory = memory_on(devices - 1, sizes[i]);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % 256, 0);
        if (devices > 1)
            ck_assert_status(ops->memory_free(cuda, 0, memory), RINGLET_INVALID_ARGUMENT);
        ck_assert_status(ops->host_free(cuda, memory), RINGLET_INVALID_ARGUMENT);
        ck_assert_ok(ops->memory_free(cuda, devices - 1, memory));
        ck_assert_status(ops->memory_free(cuda, devices - 1, memory), RINGLET_INVALID_ARGUMENT);
    }
    ck_assert_ok(ops->memory_free(cuda, 0, NULL));
    ck_assert_ok(ops->host_free(cuda, NULL));
    plant_error();
    ck_assert_status(ops->memory_alloc(cuda, 0, UINT64_C(1) << 50, &none), RINGLET_OUT_OF_MEMORY);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "cudaMalloc on device 0"));
    ck_assert_ptr_null(none);
    check_planted("an allocation that failed");
    ck_assert_status(ops->memory_alloc(cuda, devices, 1, &none), RINGLET_NO_DEVICE);
    memory_fail_at(1);
    ck_assert_status(ops->memory_alloc(cuda, 0, 1, &none), RINGLET_OUT_OF_MEMORY);
    ck_assert(!memory_fail_pending());
}
END_TEST

/* What is left behind goes with the last reference. */
START_TEST(test_close_frees_all) {
    enum { MEGABYTE = 1 << 20 };
    size_t during = 0, after = 0, total = 0;
    memory_on(0, 512 * (uint64_t)MEGABYTE);
    memory_on(DEVICE_HOST, MEGABYTE);
    queue_on(devices - 1);
    event_on(devices - 1);
    ck_assert_int_eq(cudaMemGetInfo(&during, &total), cudaSuccess);
    ops->close(cuda);
    ck_assert_int_eq(memory_live(), live_before);
    ck_assert_int_eq(cudaMemGetInfo(&after, &total), cudaSuccess);
    ck_assert_uint_ge(after - during, 500 * (size_t)MEGABYTE);
    ck_assert_ok(device_open_cuda(&cuda));
}
END_TEST

/* ---- The caller's thread ---- */

static void check_current(int expected) {
    int current = -1;
    ck_assert_int_eq(cudaGetDevice(&current), cudaSuccess);
    ck_assert_int_eq(current, expected);
}

static bool current_is(int expected) {
    int current = -1;
    return cudaGetDevice(&current) == cudaSuccess && current == expected;
}

/* Binds every device, nested, on a thread whose current device is `around`. The line of the first
 * thing that is wrong, 0 if nothing is: assertions belong to the main thread. */
static int nest(int around) {
    int outer, inner;
    for (int device = 0; device < devices; device++) {
        int other = devices - 1 - device;
        if (ops->bind(cuda, device, &outer) != RINGLET_OK || !current_is(device))
            return __LINE__;
        if (ops->bind(cuda, other, &inner) != RINGLET_OK || !current_is(other))
            return __LINE__;
        ops->unbind(cuda, inner);
        if (!current_is(device))
            return __LINE__;
        ops->unbind(cuda, outer);
        if (!current_is(around))
            return __LINE__;
    }
    if (ops->bind(cuda, devices, &outer) != RINGLET_NO_DEVICE || !current_is(around))
        return __LINE__;
    return 0;
}

static void *nest_on_fresh_thread(void *result) {
    *(int *)result = nest(0);
    return NULL;
}

START_TEST(test_bind) {
    pthread_t thread;
    int wrong_line = -1;
    for (int device = 0; device < devices; device++) {
        ck_assert_int_eq(cudaSetDevice(device), cudaSuccess);
        ck_assert_int_eq(nest(device), 0);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, nest_on_fresh_thread, &wrong_line), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(wrong_line, 0);
}
END_TEST

static void use_everything(int device, int peer) {
    struct device_queue queue = queue_on(device);
    struct device_event *event = event_on(device);
    float *memory = memory_on(device, 1024), *other = memory_on(peer, 1024);
    float *host = memory_on(DEVICE_HOST, 1024), ordinary[256] = {0};
    struct device_pointer pointer;
    struct device_info info;
    check_planted("making");
    put(queue, memory, ordinary, sizeof ordinary);
    check_planted("transfer");
    close_gate(queue);
    ck_assert_ok(ops->copy(cuda, queue, peer, other, device, memory, 1024, tag));
    ck_assert_ok(ops->copy(cuda, queue, DEVICE_HOST, host, device, memory, 1024, tag));
    check_planted("copy");
    ck_assert_ok(reduce_two(cuda, queue, device, memory, memory, memory, 256, RINGLET_FLOAT32,
                            RINGLET_SUM, tag));
    ck_assert_ok(reduce_two(cuda, queue, DEVICE_HOST, host, host, host, 256, RINGLET_FLOAT32,
                            RINGLET_SUM, tag));
    check_planted("reduce");
    ck_assert_ok(ops->record(cuda, queue, event));
    ck_assert_ok(ops->wait(cuda, (struct device_queue){peer, NULL}, event));
    check_planted("events");
    ck_assert(!idle(queue));
    check_planted("poll of a busy queue");
    open_gate();
    finish(queue);
    finish((struct device_queue){peer, NULL});
    check_planted("poll");
    ops->inspect(cuda, memory, &pointer);
    ops->inspect(cuda, ordinary, &pointer);
    ops->inspect(cuda, (void *)(uintptr_t)4096, &pointer);
    check_planted("inspect");
    ops->stream_check(cuda, queue);
    ops->stream_check(cuda, (struct device_queue){peer, queue.stream});
    ops->stream_check(cuda, (struct device_queue){device, NULL});
    check_planted("stream_check");
    ops->peer_enable(cuda, device, peer);
    ops->peer_enable(cuda, device, peer);
    ops->peer_enable(cuda, device, devices);
    check_planted("peer_enable");
    ck_assert_ok(ops->describe(cuda, device, &info));
    ck_assert_ok(ops->memory_free(cuda, device, memory));
    ck_assert_ok(ops->memory_free(cuda, peer, other));
    ck_assert_ok(ops->host_free(cuda, host));
    ck_assert_ok(ops->event_destroy(cuda, device, event));
    ck_assert_ok(ops->stream_destroy(cuda, device, queue.stream));
    check_planted("freeing");
}

START_TEST(test_thread_untouched) {
    for (int current = 0; current < devices; current++)
        for (int device = 0; device < devices; device++) {
            ck_assert_int_eq(cudaSetDevice(current), cudaSuccess);
            plant_error();
            use_everything(device, (device + 1) % devices);
            check_current(current);
            check_planted("all");
        }
    cudaGetLastError();
}
END_TEST

/* A failure nobody expects is reported, and cleared if the caller had no error of its own. */
START_TEST(test_own_error_cleared) {
    struct device_queue queue = queue_on(0);
    void *memory = memory_on(0, 64);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    ringlet_status status = ops->copy(cuda, queue, 99, memory, 0, memory, 64, tag);
    ck_assert_int_ne(status, RINGLET_OK);
    ck_assert_ptr_nonnull(
        strstr(ringlet_error_message(),
               "cudaMemcpyPeerAsync from device 0 to device 99 (64 bytes): cuda"));
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    close_gate(queue);
    ck_assert(!idle(queue));
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    open_gate();
    finish(queue);
}
END_TEST

/* ---- Copies ---- */

static void copy_between(struct device_queue queue, int dst_place, int src_place) {
    enum { BYTES = 70000 };
    static const uint64_t sizes[] = {0, 1, 3, 4, 16, 4095, 4096, 65537};
    unsigned char sent[BYTES], got[BYTES], expected[BYTES];
    unsigned char *src = memory_on(src_place, BYTES), *dst = memory_on(dst_place, BYTES);
    for (int i = 0; i < BYTES; i++)
        sent[i] = (unsigned char)(i * 7 + i / 251 + 1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t dst_at = i % 2 * 5, src_at = i % 3 * 3;
        memset(expected, 0xee, BYTES);
        if (src_place == DEVICE_HOST)
            memcpy(src, sent, BYTES);
        else
            put((struct device_queue){src_place, NULL}, src, sent, BYTES);
        if (dst_place == DEVICE_HOST)
            memcpy(dst, expected, BYTES);
        else
            put((struct device_queue){dst_place, NULL}, dst, expected, BYTES);
        ck_assert_ok(ops->copy(cuda, queue, dst_place, dst + dst_at, src_place, src + src_at,
                               sizes[i], tag));
        finish(queue);
        if (dst_place == DEVICE_HOST)
            memcpy(got, dst, BYTES);
        else
            get((struct device_queue){dst_place, NULL}, got, dst, BYTES);
        memcpy(expected + dst_at, sent + src_at, sizes[i]);
        ck_assert_msg(!memcmp(got, expected, BYTES), "%d to %d, %llu bytes", src_place, dst_place,
                      (unsigned long long)sizes[i]);
    }
}

START_TEST(test_copies) {
    for (int dst = DEVICE_HOST; dst < devices; dst++)
        for (int src = DEVICE_HOST; src < devices; src++) {
            copy_between(queue_on(src == DEVICE_HOST ? 0 : src), dst, src);
            copy_between((struct device_queue){dst == DEVICE_HOST ? 0 : dst, NULL}, dst, src);
        }
}
END_TEST

/* ---- Reductions ---- */

enum { REDUCE_MAX = 20000, REDUCE_PAD = 16 };

struct reduce_case {
    struct device_queue queue;
    float *device[3]; /* dst, a, b */
    float host[3][REDUCE_MAX + REDUCE_PAD];
};

static void reduce_once(struct reduce_case *c, uint64_t count, const unsigned offset[3],
                        const int buffer[3]) {
    static float expected[REDUCE_MAX + REDUCE_PAD], got[REDUCE_MAX + REDUCE_PAD];
    uint64_t bytes = (count + REDUCE_PAD) * sizeof(float);
    for (int i = 0; i < 3; i++)
        put(c->queue, c->device[i], c->host[i], bytes);
    ck_assert_ok(reduce_two(cuda, c->queue, c->queue.device, c->device[buffer[0]] + offset[0],
                            c->device[buffer[1]] + offset[1], c->device[buffer[2]] + offset[2],
                            count, RINGLET_FLOAT32, RINGLET_SUM, tag));
    get(c->queue, got, c->device[buffer[0]], bytes);
    memcpy(expected, c->host[buffer[0]], bytes);
    /* Where dst is an input, the reference reads the untouched copy. */
    cpu_reduce_two(expected + offset[0], c->host[buffer[1]] + offset[1],
                   c->host[buffer[2]] + offset[2], count, RINGLET_FLOAT32, RINGLET_SUM);
    ck_assert_msg(!memcmp(got, expected, bytes), "count %llu, offsets %u %u %u, buffers %d %d %d",
                  (unsigned long long)count, offset[0], offset[1], offset[2], buffer[0], buffer[1],
                  buffer[2]);
}

static void reduce_offsets(struct reduce_case *c, uint64_t count) {
    static const int apart[] = {0, 1, 2}, dst_is_a[] = {0, 0, 2}, dst_is_b[] = {0, 1, 0},
                     all_one[] = {0, 0, 0};
    for (unsigned i = 0; i < 64; i++) {
        unsigned offset[3] = {i % 4, i / 4 % 4, i / 16};
        reduce_once(c, count, offset, apart);
        if (offset[0] == offset[1])
            reduce_once(c, count, offset, dst_is_a);
        if (offset[0] == offset[2])
            reduce_once(c, count, offset, dst_is_b);
        if (offset[0] == offset[1] && offset[0] == offset[2])
            reduce_once(c, count, offset, all_one);
    }
}

START_TEST(test_reduce) {
    static const uint64_t counts[] = {0,    1,    2,    3,    4,    5,    7,    8,     255,  1023,
                                      1024, 2047, 2048, 2049, 4095, 4096, 4097, 16385, 20000};
    static struct reduce_case c;
    c.queue = queue_on(devices - 1);
    for (unsigned i = 0; i < 3; i++) {
        c.device[i] = memory_on(devices - 1, sizeof c.host[i]);
        fill(c.host[i], REDUCE_MAX + REDUCE_PAD, i + 1);
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        reduce_offsets(&c, counts[i]);
}
END_TEST

/* Every type and operation against the CPU twin: 1 to 64 inputs, counts, offsets, in place or not,
 * contributions and partial results. */
enum { TYPES_COUNT_MAX = 9000, TYPES_BUFFERS = 10, TYPES_PAD = 40, TYPES_TRIES = 30 };

struct types_case {
    struct device_queue queue;
    char *device[TYPES_BUFFERS];
    char *host[TYPES_BUFFERS];
    uint64_t bytes; /* of each */
    uint64_t random;
};

static uint32_t types_below(struct types_case *c, uint32_t limit) {
    return (uint32_t)(values_random(&c->random) % limit);
}

static void types_once(struct types_case *c, const struct device_reduction *how, uint32_t count,
                       uint32_t input_count) {
    const void *on_device[DEVICE_INPUTS_MAX], *on_host[DEVICE_INPUTS_MAX];
    uint32_t size = ringlet_dtype_size(how->dtype);
    uint64_t fits = c->bytes / size, offset[TYPES_BUFFERS], common = types_below(c, TYPES_PAD);
    bool alike = types_below(c, 2), in_place = types_below(c, 2);
    for (int i = 0; i < TYPES_BUFFERS; i++) {
        offset[i] = (alike ? common : types_below(c, TYPES_PAD)) * size;
        values_fill(how->dtype, c->host[i], fits, values_random(&c->random));
        put(c->queue, c->device[i], c->host[i], c->bytes);
    }
    for (uint32_t k = 0; k < input_count; k++) { /* buffer 0 is dst */
        uint32_t buffer = in_place && k == input_count / 2 ? 0 : 1 + k % (TYPES_BUFFERS - 1);
        on_device[k] = c->device[buffer] + offset[buffer];
        on_host[k] = c->host[buffer] + offset[buffer];
    }
    ck_assert_ok(ops->reduce(cuda, c->queue, c->queue.device, c->device[0] + offset[0], on_device,
                             input_count, count, how, tag));
    device_cpu_reduce(c->host[0] + offset[0], on_host, input_count, count, how);
    get(c->queue, c->host[1], c->device[0], c->bytes);
    uint64_t at = values_differ(how->dtype, c->host[1], c->host[0], fits);
    ck_assert_msg(at == fits,
                  "%s of %s, %u inputs, %s, %s, ranks %u first %d last %d, count %u: element %lld "
                  "is %llx, not %llx",
                  ringlet_op_name(how->op), ringlet_dtype_name(how->dtype), input_count,
                  in_place ? "in place" : "out of place", alike ? "16 bytes" : "single", how->ranks,
                  how->first, how->last, count, (long long)at - (long long)(offset[0] / size),
                  (unsigned long long)values_bits(how->dtype, c->host[1], at),
                  (unsigned long long)values_bits(how->dtype, c->host[0], at));
}

START_TEST(test_reduce_types) {
    static const uint32_t inputs[] = {1, 2, 2, 2, 3, 4, 5, 6, 8, 9, 17, DEVICE_INPUTS_MAX};
    static const uint32_t counts[] = {0, 1, 2, 15, 16, 17, 255, 4096, 8191, TYPES_COUNT_MAX};
    static const uint32_t ranks[] = {1, 2, 3, 7, 8, 64, 129, INT32_MAX};
    struct types_case c = {.queue = queue_on(devices - 1), .random = (uint64_t)_i};
    struct device_reduction how = {.dtype = (ringlet_dtype)(_i / DTYPE_OP_COUNT),
                                   .op = (ringlet_op)(_i % DTYPE_OP_COUNT)};
    c.bytes = (TYPES_COUNT_MAX + 2 * TYPES_PAD) * ringlet_dtype_size(how.dtype);
    for (int i = 0; i < TYPES_BUFFERS; i++) {
        c.device[i] = memory_on(devices - 1, c.bytes);
        c.host[i] = malloc(c.bytes);
        ck_assert_ptr_nonnull(c.host[i]);
    }
    for (int i = 0; i < TYPES_TRIES; i++) {
        how.ranks = ranks[types_below(&c, sizeof ranks / sizeof ranks[0])];
        how.first = types_below(&c, 2);
        how.last = types_below(&c, 2);
        types_once(&c, &how, counts[types_below(&c, sizeof counts / sizeof counts[0])],
                   inputs[types_below(&c, sizeof inputs / sizeof inputs[0])]);
    }
    for (int i = 0; i < TYPES_BUFFERS; i++)
        free(c.host[i]);
}
END_TEST

/* More tiles than the grid has blocks, on both forms of the kernel. */
START_TEST(test_reduce_large) {
    uint64_t count = 24 * 1024 * 1024 + 7, room = count + 4;
    struct device_queue queue = queue_on(0);
    float *a = floats(room), *b = floats(room), *got = floats(room);
    float *device_a = memory_on(0, room * 4), *device_b = memory_on(0, room * 4);
    uint64_t at_b = _i ? 1 : 3; /* as far from 16 bytes as a is, or not */
    fill(a, room, 5);
    fill(b, room, 6);
    put(queue, device_a, a, room * 4);
    put(queue, device_b, b, room * 4);
    ck_assert_ok(reduce_two(cuda, queue, 0, device_a + 3, device_a + 3, device_b + at_b, count,
                            RINGLET_FLOAT32, RINGLET_SUM, tag));
    get(queue, got, device_a, room * 4);
    cpu_reduce_two(a + 3, a + 3, b + at_b, count, RINGLET_FLOAT32, RINGLET_SUM);
    ck_assert(!memcmp(got, a, room * 4));
    free(a);
    free(b);
    free(got);
}
END_TEST

/* Counts beyond 32 bits: only the elements around 2^32 and the last ones are not zero. */
START_TEST(test_reduce_huge) {
    enum { AROUND = 64 };
    uint64_t count = (UINT64_C(1) << 32) + 4099, bytes = count * 4;
    uint64_t starts[] = {0, (UINT64_C(1) << 32) - AROUND / 2, count - AROUND};
    size_t available = 0, total = 0;
    ck_assert_int_eq(cudaMemGetInfo(&available, &total), cudaSuccess);
    if (available < bytes * 2 + (UINT64_C(1) << 30)) {
        printf("# counts beyond 32 bits not tried: %zu bytes are free\n", available);
        return;
    }
    struct device_queue queue = queue_on(0);
    float *a = memory_on(0, bytes), *b = memory_on(0, bytes), ones[AROUND], got[AROUND];
    for (int i = 0; i < AROUND; i++)
        ones[i] = (float)(i + 1);
    ck_assert_int_eq(cudaMemsetAsync(a, 0, bytes, queue.stream), cudaSuccess);
    ck_assert_int_eq(cudaMemsetAsync(b, 0, bytes, queue.stream), cudaSuccess);
    for (int i = 0; i < 3; i++) {
        put(queue, a + starts[i], ones, sizeof ones);
        put(queue, b + starts[i], ones, sizeof ones);
    }
    ck_assert_ok(reduce_two(cuda, queue, 0, a, a, b, count, RINGLET_FLOAT32, RINGLET_SUM, tag));
    for (int i = 0; i < 3; i++) {
        get(queue, got, a + starts[i], sizeof got);
        for (int k = 0; k < AROUND; k++)
            ck_assert_msg(got[k] == 2 * ones[k], "start %d, element %d: %g", i, k, (double)got[k]);
    }
}
END_TEST

START_TEST(test_reduce_refused) {
    struct device_queue queue = queue_on(0);
    float *memory = memory_on(0, 64);
    ck_assert_status(
        reduce_two(cuda, queue, 0, memory, memory, memory, 4, (ringlet_dtype)77, RINGLET_SUM, tag),
        RINGLET_UNSUPPORTED);
    ck_assert_status(reduce_two(cuda, queue, devices, memory, memory, memory, 4, RINGLET_FLOAT32,
                                RINGLET_SUM, tag),
                     RINGLET_INVALID_ARGUMENT);
    const void *inputs[DEVICE_INPUTS_MAX + 1] = {memory};
    struct device_reduction how = {.dtype = RINGLET_FLOAT32, .op = RINGLET_SUM};
    ck_assert_status(ops->reduce(cuda, queue, 0, memory, inputs, 0, 4, &how, tag),
                     RINGLET_INVALID_ARGUMENT);
    ck_assert_status(
        ops->reduce(cuda, queue, 0, memory, inputs, DEVICE_INPUTS_MAX + 1, 4, &how, tag),
        RINGLET_INVALID_ARGUMENT);
    how.op = RINGLET_AVG;
    ck_assert_status(ops->reduce(cuda, queue, 0, memory, inputs, 1, 4, &how, tag),
                     RINGLET_INVALID_ARGUMENT);
    int64_t live = memory_live();
    memory_fail_at(1);
    ck_assert_status(reduce_two(cuda, queue, DEVICE_HOST, memory, memory, memory, 4,
                                RINGLET_FLOAT32, RINGLET_SUM, tag),
                     RINGLET_OUT_OF_MEMORY);
    ck_assert_status(reduce_two(cuda, (struct device_queue){devices, NULL}, DEVICE_HOST, memory,
                                memory, memory, 4, RINGLET_FLOAT32, RINGLET_SUM, tag),
                     RINGLET_NO_DEVICE);
    ck_assert_int_eq(memory_live(), live);
}
END_TEST

/* Behind a gate: copy to the host, add there, copy back. Done out of order, the sum is another. */
START_TEST(test_host_reduce_in_order) {
    enum { COUNT = 10001 };
    struct device_queue queue = queue_on(devices - 1);
    float *device = memory_on(devices - 1, COUNT * 4);
    float *a = memory_on(DEVICE_HOST, COUNT * 4), *b = memory_on(DEVICE_HOST, COUNT * 4);
    float *values = floats(COUNT), *expected = floats(COUNT), *got = floats(COUNT);
    fill(values, COUNT, 7);
    fill(b, COUNT, 8);
    memset(a, 0, COUNT * 4);
    put(queue, device, values, COUNT * 4);
    close_gate(queue);
    ck_assert_ok(ops->copy(cuda, queue, DEVICE_HOST, a, devices - 1, device, COUNT * 4, tag));
    ck_assert_ok(
        reduce_two(cuda, queue, DEVICE_HOST, a, a, b, COUNT, RINGLET_FLOAT32, RINGLET_SUM, tag));
    ck_assert_ok(ops->copy(cuda, queue, devices - 1, device, DEVICE_HOST, a, COUNT * 4, tag));
    ck_assert(!idle(queue));
    for (int i = 0; i < COUNT; i++)
        ck_assert(a[i] == 0);
    open_gate();
    finish(queue);
    get(queue, got, device, COUNT * 4);
    cpu_reduce_two(expected, values, b, COUNT, RINGLET_FLOAT32, RINGLET_SUM);
    ck_assert(!memcmp(got, expected, COUNT * 4));
    free(values);
    free(expected);
    free(got);
}
END_TEST

/* ---- Events ---- */

START_TEST(test_wait_for_nothing) {
    struct device_queue queue = queue_on(0);
    ck_assert_ok(ops->wait(cuda, queue, event_on(devices - 1)));
    finish(queue);
}
END_TEST

START_TEST(test_wait_orders) {
    struct device_queue first = queue_on(0), second = queue_on(devices - 1);
    struct device_event *event = event_on(0);
    close_gate(first);
    ck_assert_ok(ops->record(cuda, first, event));
    ck_assert_ok(ops->wait(cuda, second, event));
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    ck_assert(!idle(second));
    open_gate();
    finish(second);
    finish(first);
}
END_TEST

/* A wait binds to the record that was the latest when the wait was issued. */
START_TEST(test_wait_binds_when_issued) {
    struct device_queue first = queue_on(0), early = queue_on(devices - 1),
                        late = queue_on(devices - 1);
    struct device_event *event = event_on(0);
    ck_assert_ok(ops->record(cuda, first, event));
    ck_assert_ok(ops->wait(cuda, early, event));
    close_gate(first);
    ck_assert_ok(ops->record(cuda, first, event));
    ck_assert_ok(ops->wait(cuda, late, event));
    finish(early);
    ck_assert(!idle(late));
    ck_assert(!idle(first));
    open_gate();
    finish(late);
}
END_TEST

/* Recording again does not disturb a wait that was issued before. */
START_TEST(test_record_again) {
    struct device_queue first = queue_on(0), free_queue = queue_on(0), waiter = queue_on(0);
    struct device_event *event = event_on(0);
    close_gate(first);
    ck_assert_ok(ops->record(cuda, first, event));
    ck_assert_ok(ops->wait(cuda, waiter, event));
    ck_assert_ok(ops->record(cuda, free_queue, event));
    finish(free_queue);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    ck_assert(!idle(waiter));
    open_gate();
    finish(waiter);
}
END_TEST

/* ---- Questions ---- */

static void check_pointer(const void *pointer, enum device_pointer_kind kind, int device,
                          uint64_t bytes) {
    struct device_pointer got;
    memset(&got, 0xff, sizeof got);
    ops->inspect(cuda, pointer, &got);
    ck_assert_int_eq(got.kind, kind);
    if (kind == DEVICE_POINTER_DEVICE)
        ck_assert_int_eq(got.device, device);
    /* An allocation may be counted up to its end or up to the end of what was set aside for it. */
    if (bytes)
        ck_assert_msg(
            got.bytes >= bytes && (got.bytes - bytes < (8u << 20) || got.bytes == UINT64_MAX),
            "%llu bytes, not %llu", (unsigned long long)got.bytes, (unsigned long long)bytes);
}

static void *inspect_on_fresh_thread(void *memory) {
    static struct device_pointer got;
    ops->inspect(cuda, memory, &got);
    return &got;
}

START_TEST(test_inspect) {
    enum { BYTES = (1 << 20) + 12 };
    int on_stack = 0;
    void *heap = malloc(BYTES), *managed = NULL, *pinned = memory_on(DEVICE_HOST, BYTES);
    void *fresh = NULL;
    pthread_t thread;
    for (int device = 0; device < devices; device++) {
        char *memory = memory_on(device, BYTES);
        check_pointer(memory, DEVICE_POINTER_DEVICE, device, BYTES);
        check_pointer(memory + 1000, DEVICE_POINTER_DEVICE, device, BYTES - 1000);
        check_pointer(memory + BYTES - 1, DEVICE_POINTER_DEVICE, device, 1);
        /* Also where no context is current. */
        ck_assert_int_eq(pthread_create(&thread, NULL, inspect_on_fresh_thread, memory), 0);
        ck_assert_int_eq(pthread_join(thread, &fresh), 0);
        ck_assert_int_eq(((struct device_pointer *)fresh)->kind, DEVICE_POINTER_DEVICE);
        ck_assert_int_eq(((struct device_pointer *)fresh)->device, device);
    }
    check_pointer(&on_stack, DEVICE_POINTER_HOST, 0, 0);
    check_pointer(heap, DEVICE_POINTER_HOST, 0, 0);
    check_pointer(pinned, DEVICE_POINTER_HOST, 0, BYTES);
    check_pointer(NULL, DEVICE_POINTER_UNKNOWN, 0, 0);
    ck_assert_int_eq(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal), cudaSuccess);
    check_pointer(managed, DEVICE_POINTER_MANAGED, 0, BYTES);
    ck_assert_int_eq(cudaFree(managed), cudaSuccess);
    free(heap);
}
END_TEST

static enum device_stream_state state_of(int device, ringlet_stream stream) {
    return ops->stream_check(cuda, (struct device_queue){device, stream});
}

START_TEST(test_stream_check) {
    cudaStream_t blocking = NULL;
    ck_assert_int_eq(cudaStreamCreate(&blocking), cudaSuccess);
    for (int device = 0; device < devices; device++) {
        struct device_queue queue = queue_on(device);
        ck_assert_int_eq(state_of(device, queue.stream), DEVICE_STREAM_OK);
        ck_assert_int_eq(state_of(device, NULL), DEVICE_STREAM_OK);
        ck_assert_int_eq(state_of(device, cudaStreamLegacy), DEVICE_STREAM_OK);
        ck_assert_int_eq(state_of(device, cudaStreamPerThread), DEVICE_STREAM_PER_THREAD);
        if (devices > 1)
            ck_assert_int_eq(state_of((device + 1) % devices, queue.stream),
                             DEVICE_STREAM_OTHER_DEVICE);
    }
    ck_assert_int_eq(state_of(0, blocking), DEVICE_STREAM_OK);
    ck_assert_int_eq(state_of(devices, NULL), DEVICE_STREAM_UNKNOWN);
    ck_assert_int_eq(cudaStreamDestroy(blocking), cudaSuccess);
}
END_TEST

/* While a stream of the caller's is captured in the strictest mode, the library refuses that stream
 * and the default stream, works on others, and does not break the capture. */
START_TEST(test_stream_check_capturing) {
    struct device_queue other = queue_on(0);
    cudaStream_t blocking = NULL;
    cudaGraph_t graph = NULL;
    ck_assert_int_eq(cudaStreamCreate(&blocking), cudaSuccess);
    ck_assert_int_eq(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal), cudaSuccess);
    enum device_stream_state captured = state_of(0, blocking), legacy = state_of(0, NULL),
                             free_stream = state_of(0, other.stream);
    bool other_idle = false;
    ringlet_status polled = ops->poll(cuda, other, &other_idle);
    void *memory = NULL;
    ringlet_status allocated = ops->memory_alloc(cuda, 0, 4096, &memory);
    cudaError_t ended = cudaStreamEndCapture(blocking, &graph);
    ck_assert_int_eq(captured, DEVICE_STREAM_CAPTURING);
    ck_assert_int_eq(legacy, DEVICE_STREAM_CAPTURING);
    ck_assert_int_eq(free_stream, DEVICE_STREAM_OK);
    ck_assert_int_eq(polled, RINGLET_OK);
    ck_assert(other_idle);
    ck_assert_int_eq(allocated, RINGLET_OK);
    ck_assert_int_eq(ended, cudaSuccess);
    ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
    ck_assert_int_eq(cudaGraphDestroy(graph), cudaSuccess);
    ck_assert_int_eq(cudaStreamDestroy(blocking), cudaSuccess);
}
END_TEST

/* The two questions that every collective asks, beside the runtime's own of the kind, since all are
 * slow under compute-sanitizer. The best of several rounds, since machines are busy. */
START_TEST(test_questions_are_cheap) {
    enum { ROUNDS = 20, CALLS = 1000, TIMES = 6, SLACK_NS = 300 };
    struct device_queue queue = queue_on(0);
    void *memory = memory_on(0, 1 << 20);
    struct device_pointer pointer;
    struct cudaPointerAttributes attributes;
    uint64_t best_check = UINT64_MAX, best_inspect = UINT64_MAX, best_runtime = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = ops->now_ns(cuda);
        for (int i = 0; i < CALLS; i++)
            ops->stream_check(cuda, queue);
        uint64_t check = ops->now_ns(cuda);
        for (int i = 0; i < CALLS; i++)
            ops->inspect(cuda, memory, &pointer);
        uint64_t inspect = ops->now_ns(cuda);
        for (int i = 0; i < CALLS; i++)
            cudaPointerGetAttributes(&attributes, memory);
        uint64_t end = ops->now_ns(cuda);
        best_check = check - start < best_check ? check - start : best_check;
        best_inspect = inspect - check < best_inspect ? inspect - check : best_inspect;
        best_runtime = end - inspect < best_runtime ? end - inspect : best_runtime;
    }
    printf("# stream_check %.0f ns, inspect %.0f ns, cudaPointerGetAttributes %.0f ns\n",
           (double)best_check / CALLS, (double)best_inspect / CALLS, (double)best_runtime / CALLS);
    ck_assert_uint_lt(best_check / CALLS, TIMES * best_runtime / CALLS + SLACK_NS);
    ck_assert_uint_lt(best_inspect / CALLS, TIMES * best_runtime / CALLS + SLACK_NS);
}
END_TEST

START_TEST(test_turn) {
    unsigned seen[3] = {0};
    for (int i = 0; i < 30; i++) {
        uint32_t next = ops->turn(cuda, 3);
        ck_assert_uint_lt(next, 3);
        seen[next]++;
    }
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(seen[i], 10);
    ck_assert_uint_eq(ops->turn(cuda, 1), 0);
}
END_TEST

/* ---- Peer access ---- */

START_TEST(test_peer_enable) {
    ck_assert_int_eq(ops->peer_enable(cuda, 0, devices), DEVICE_PEER_NO_DEVICE);
    ck_assert_int_eq(ops->peer_enable(cuda, -1, 0), DEVICE_PEER_NO_DEVICE);
    ck_assert_int_eq(ops->peer_enable(cuda, 0, 0), DEVICE_PEER_ALREADY_ON);
    for (int device = 0; device < devices; device++)
        for (int peer = 0; peer < devices; peer++) {
            int can = 0;
            if (device == peer)
                continue;
            ck_assert_int_eq(cudaDeviceCanAccessPeer(&can, device, peer), cudaSuccess);
            enum device_peer first = ops->peer_enable(cuda, device, peer);
            enum device_peer second = ops->peer_enable(cuda, device, peer);
            ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
            if (can) {
                ck_assert_msg(first == DEVICE_PEER_ON, "%s", device_peer_text(first));
                ck_assert_int_eq(second, DEVICE_PEER_ALREADY_ON);
            } else {
                ck_assert_int_eq(first, DEVICE_PEER_NOT_POSSIBLE);
                ck_assert_int_eq(second, DEVICE_PEER_NOT_POSSIBLE);
            }
        }
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cuda_device");
    TCase *tests = tcase_create("device");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_peer_enable); /* first: nothing is enabled yet */
    tcase_add_test(tests, test_describe);
    tcase_add_test(tests, test_one_system);
    tcase_add_test(tests, test_memory);
    tcase_add_test(tests, test_close_frees_all);
    tcase_add_test(tests, test_bind);
    tcase_add_test(tests, test_thread_untouched);
    tcase_add_test(tests, test_own_error_cleared);
    tcase_add_test(tests, test_copies);
    tcase_add_test(tests, test_reduce);
    tcase_add_loop_test(tests, test_reduce_types, 0, DTYPE_COUNT * DTYPE_OP_COUNT);
    tcase_add_loop_test(tests, test_reduce_large, 0, 2);
    tcase_add_test(tests, test_reduce_huge);
    tcase_add_test(tests, test_reduce_refused);
    tcase_add_test(tests, test_host_reduce_in_order);
    tcase_add_test(tests, test_wait_for_nothing);
    tcase_add_test(tests, test_wait_orders);
    tcase_add_test(tests, test_wait_binds_when_issued);
    tcase_add_test(tests, test_record_again);
    tcase_add_test(tests, test_inspect);
    tcase_add_test(tests, test_stream_check);
    tcase_add_test(tests, test_stream_check_capturing);
    tcase_add_test(tests, test_questions_are_cheap);
    tcase_add_test(tests, test_turn);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN_IF(suite, cuda_missing)
