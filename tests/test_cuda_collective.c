/*
 * The public interface on CUDA devices: the same run code as on emulated ones. Several ranks share
 * a device, so that one GPU runs 1 to 8 ranks; with two, edges between devices are peer copies.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cuda_missing.h"
#include "device/device.h"
#include "suite.h"
#include "world.h"
#ifdef RINGLET_OPENMP
#include <omp.h>
#endif

static uint64_t state;

static uint32_t pick(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static int64_t live_before;

static void setup(void) {
    live_before = memory_live();
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
}

static void teardown(void) {
    ck_assert_int_eq(memory_live(), live_before);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
}

static ringlet_options on_cuda(void) {
    ringlet_options o;
    ringlet_options_init(&o);
    o.backend = RINGLET_BACKEND_CUDA;
    o.share_devices = 1;
    return o;
}

static void open_ranks(struct world *w, int ranks, uint64_t most, const ringlet_options *options) {
    int devices[WORLD_RANKS_MAX], count = device_cuda_count();
    for (int r = 0; r < ranks; r++)
        devices[r] = r % count;
    world_open_on(w, devices, ranks, most, options);
}

static void quiet(void *context, const char *message) {
    (void)context, (void)message;
}

/* Each number of ranks, collective and placement, at sizes about chunk and slice boundaries. */
START_TEST(test_every_collective) {
    static const uint64_t counts[] = {0, 1, 3, 31, 32, 33, 257, 5000, 100003};
    struct world w;
    ringlet_options o = on_cuda();
    o.slices = 3;
    open_ranks(&w, _i, 100003, &o);
    for (int collective = 0; collective < WORLD_COLLECTIVES; collective++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            world_set(&w, (enum world_collective)collective, counts[i],
                      (uint32_t)(i * 0x55 ^ (unsigned)_i) & ((1u << _i) - 1), i % 3);
            ck_assert_ok(i % 2 ? world_call_threads(&w, 1) : world_call_all(&w));
            world_check(&w);
        }
    world_close(&w);
}
END_TEST

START_TEST(test_random) {
    struct world w;
    state = (uint64_t)_i + 1;
    int ranks = 1 + (int)pick(8);
    ringlet_options o = on_cuda();
    o.rings = pick(3);
    o.slices = pick(6);
    o.algorithm = pick(2) ? RINGLET_ALGORITHM_RING : (ringlet_algorithm)pick(5);
    o.disable_p2p = o.algorithm != RINGLET_ALGORITHM_DIRECT && pick(4) == 0;
    o.scratch_bytes = pick(2) ? 0 : 4096u * (2 + pick(20));
    open_ranks(&w, ranks, 60000, &o);
    for (int call = 0; call < 6; call++) {
        world_set(&w, (enum world_collective)pick(WORLD_COLLECTIVES), pick(60000),
                  pick(1u << ranks), pick(4));
        if (pick(2))
            ck_assert_ok(world_call_all(&w));
        else /* many in a row without waiting */
            ck_assert_ok(world_call_threads(&w, w.in_place ? 1 : 1 + (int)pick(30)));
        world_check(&w);
    }
    world_close(&w);
}
END_TEST

/* Slots of bounded scratch are used many times, by messages large enough to be under way together.
 */
START_TEST(test_large_with_little_scratch) {
    struct world w;
    ringlet_options o = on_cuda();
    uint64_t count = 6u << 20;
    o.scratch_bytes = 1 << 20;
    open_ranks(&w, 2 + _i, count, &o);
    for (int collective = 0; collective < 2; collective++) {
        world_set(&w, (enum world_collective)collective,
                  collective ? count / (uint64_t)(2 + _i) : count, 0xff, 0);
        ck_assert_ok(world_call_threads(&w, 1));
        world_check(&w);
    }
    world_close(&w);
}
END_TEST

START_TEST(test_two_streams) {
    struct world w;
    ringlet_options o = on_cuda();
    ringlet_stream first[3], second[3];
    open_ranks(&w, 3, 300000, &o);
    for (int r = 0; r < 3; r++) {
        first[r] = w.stream[r];
        ck_assert_ok(ringlet_stream_create(w.comm, r, &second[r]));
    }
    world_set(&w, WORLD_ALL_REDUCE, 300000, 0, 0);
    for (int i = 0; i < 40; i++) {
        memcpy(w.stream, i % 2 ? second : first, sizeof second);
        ck_assert_ok(world_call_all(&w));
    }
    world_check(&w);
    memcpy(w.stream, first, sizeof first);
    for (int r = 0; r < 3; r++)
        ck_assert_ok(ringlet_stream_destroy(w.comm, r, second[r]));
    world_close(&w);
}
END_TEST

START_TEST(test_two_communicators) {
    struct world a, b;
    ringlet_options o = on_cuda();
    open_ranks(&a, 2, 200000, &o);
    open_ranks(&b, 4, 200000, &o);
    world_set(&a, WORLD_ALL_REDUCE, 200000, 0, 0);
    world_set(&b, WORLD_ALL_REDUCE, 200000, 0, 0);
    for (int i = 0; i < 30; i++) {
        ck_assert_ok(world_call_all(&a));
        ck_assert_ok(world_call_all(&b));
    }
    world_check(&a);
    world_check(&b);
    world_close(&a);
    world_close(&b);
}
END_TEST

/* Streams NULL, the default stream of each device, which other streams of the caller's wait for. */
START_TEST(test_default_streams) {
    struct world w;
    ringlet_options o = on_cuda();
    ringlet_stream own[2];
    open_ranks(&w, 2, 1000, &o);
    memcpy(own, w.stream, sizeof own);
    memset(w.stream, 0, sizeof w.stream);
    world_set(&w, WORLD_ALL_REDUCE, 1000, 1, 0);
    ck_assert_ok(world_call_all(&w));
    world_check(&w);
    world_set(&w, WORLD_ALL_REDUCE, 1000, 1, 0);
    ck_assert_ok(world_call_threads(&w, 1));
    world_check(&w);
    memcpy(w.stream, own, sizeof own);
    world_close(&w);
}
END_TEST

/* What the caller had set stays: current device, last error, OpenMP. */
START_TEST(test_caller_untouched) {
    struct world w;
    ringlet_options o = on_cuda();
    int last = device_cuda_count() - 1, device = -1;
    void *nothing = NULL;
    ck_assert_int_eq(cudaSetDevice(last), cudaSuccess);
    ck_assert_int_ne(cudaMalloc(&nothing, SIZE_MAX / 2), cudaSuccess);
    cudaError_t error = cudaPeekAtLastError();
    ck_assert_int_ne(error, cudaSuccess);
    open_ranks(&w, 3, 1000, &o);
    world_set(&w, WORLD_ALL_REDUCE, 1000, 1, 0);
    ck_assert_ok(world_call_all(&w));
    world_check(&w);
    w.recv[0] = NULL;
    ck_assert_status(world_call_all(&w), RINGLET_INVALID_ARGUMENT);
    ck_assert_int_eq(cudaPeekAtLastError(), error);
    ck_assert_int_eq(cudaGetDevice(&device), cudaSuccess);
    ck_assert_int_eq(device, last);
    world_close(&w);
    ck_assert_int_eq(cudaGetLastError(), error);
    ck_assert_int_eq(cudaGetDevice(&device), cudaSuccess);
    ck_assert_int_eq(device, last);
}
END_TEST

#ifdef RINGLET_OPENMP
START_TEST(test_inside_a_parallel_region) {
    struct world w;
    ringlet_options o = on_cuda();
    ringlet_status status = RINGLET_OK;
    open_ranks(&w, 4, 5000, &o);
    world_set(&w, WORLD_ALL_REDUCE, 5000, 0, 0);
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        status = world_call_all(&w);
    }
    ck_assert_ok(status);
    world_check(&w);
    world_close(&w);
}
END_TEST
#endif

static void still_works(struct world *w) {
    world_set(w, WORLD_ALL_REDUCE, 50, 0, 0);
    ck_assert_ok(world_call_all(w));
    world_check(w);
}

START_TEST(test_refused) {
    struct world w;
    ringlet_options o = on_cuda();
    open_ranks(&w, 2, 1000, &o);
    still_works(&w);
    float *mine = w.recv[1];
    static float ordinary[100];
    void *managed = NULL;
    w.recv[1] = ordinary;
    ck_assert_status(world_call_all(&w), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "rank 1: recv"));
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "not device memory"));
    ck_assert_int_eq(cudaMallocManaged(&managed, 4000, cudaMemAttachGlobal), cudaSuccess);
    w.recv[1] = managed;
    ck_assert_status(world_call_all(&w), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "managed"));
    ck_assert_int_eq(cudaFree(managed), cudaSuccess);
    w.recv[1] = mine;
    if (device_cuda_count() > 1) {
        w.recv[1] = w.recv[0];
        ck_assert_status(world_call_all(&w), RINGLET_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "memory of device 0"));
        w.recv[1] = mine;
        ringlet_stream own = w.stream[1];
        w.stream[1] = w.stream[0];
        ck_assert_status(world_call_all(&w), RINGLET_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "another device"));
        w.stream[1] = own;
    }
    ringlet_stream own = w.stream[0];
    w.stream[0] = cudaStreamPerThread;
    ck_assert_status(world_call_all(&w), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "cudaStreamPerThread"));
    w.stream[0] = own;
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    cudaGraph_t graph = NULL;
    ck_assert_int_eq(cudaStreamBeginCapture(w.stream[0], cudaStreamCaptureModeThreadLocal),
                     cudaSuccess);
    ck_assert_status(world_call_all(&w), RINGLET_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "captured"));
    ck_assert_int_eq(cudaStreamEndCapture(w.stream[0], &graph), cudaSuccess);
    if (graph)
        cudaGraphDestroy(graph);
    still_works(&w);
    world_close(&w);
}
END_TEST

/* Buffers of a memory pool, which peers have no access to: the copies find their way all the same.
 */
START_TEST(test_pool_memory) {
    struct world w;
    ringlet_options o = on_cuda();
    void *pool[2];
    open_ranks(&w, 2, 50000, &o);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(cudaSetDevice(r % device_cuda_count()), cudaSuccess);
        ck_assert_int_eq(cudaMallocAsync(&pool[r], w.block_elements * sizeof(float), w.stream[r]),
                         cudaSuccess);
        ck_assert_ok(ringlet_stream_wait(w.comm, r, w.stream[r], 10000));
    }
    float *blocks[2] = {w.block[0], w.block[1]};
    for (int r = 0; r < 2; r++)
        w.block[r] = pool[r];
    for (int collective = 0; collective < WORLD_COLLECTIVES; collective++)
        for (uint32_t in_place = 0; in_place < 4; in_place++) {
            world_set(&w, (enum world_collective)collective, 50000, in_place, 0);
            ck_assert_ok(world_call_all(&w));
            world_check(&w);
        }
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(cudaFreeAsync(pool[r], w.stream[r]), cudaSuccess);
        ck_assert_ok(ringlet_stream_wait(w.comm, r, w.stream[r], 10000));
        w.block[r] = blocks[r];
    }
    world_close(&w);
}
END_TEST

/* ---- cudaStreamPerThread ---- */

struct per_thread { /* a rank's thread, which calls on the stream that is its own */
    struct world *w;
    int rank, times;
    bool capture;
    ringlet_status status, waited;
    cudaError_t begun, ended;
    char text[400];
    pthread_t thread;
};

static void *per_thread_run(void *argument) {
    struct per_thread *own = argument;
    cudaGraph_t graph = NULL;
    if (own->capture) {
        cudaSetDevice(own->rank % device_cuda_count());
        own->begun = cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal);
    }
    for (int i = 0; i < own->times && !own->status; i++)
        own->status = world_call(own->w, own->rank);
    snprintf(own->text, sizeof own->text, "%s", ringlet_error_message());
    if (own->capture)
        own->ended = cudaStreamEndCapture(cudaStreamPerThread, &graph);
    if (graph)
        cudaGraphDestroy(graph);
    own->waited = ringlet_stream_wait(own->w->comm, own->rank, cudaStreamPerThread, 30000);
    return NULL;
}

/* All ranks call, `times` in a row, rank `capturing` with its stream being captured (-1: none). */
static void per_thread_calls(struct world *w, struct per_thread *ranks, int times, int capturing) {
    ringlet_stream own[WORLD_RANKS_MAX];
    memcpy(own, w->stream, sizeof own);
    for (int r = 0; r < w->ranks; r++)
        w->stream[r] = cudaStreamPerThread;
    for (int r = 0; r < w->ranks; r++) {
        ranks[r] =
            (struct per_thread){.w = w, .rank = r, .times = times, .capture = r == capturing};
        ck_assert_int_eq(pthread_create(&ranks[r].thread, NULL, per_thread_run, &ranks[r]), 0);
    }
    for (int r = 0; r < w->ranks; r++)
        pthread_join(ranks[r].thread, NULL);
    memcpy(w->stream, own, sizeof own);
}

static void per_thread_works(struct world *w, enum world_collective collective, uint64_t count) {
    struct per_thread ranks[WORLD_RANKS_MAX];
    world_set(w, collective, count, 0, 0);
    per_thread_calls(w, ranks, 3, -1);
    for (int r = 0; r < w->ranks; r++) {
        ck_assert_msg(ranks[r].status == RINGLET_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_int_eq(ranks[r].waited, RINGLET_OK);
    }
    world_check(w);
}

START_TEST(test_per_thread_stream_in_shape_one) {
    struct world w;
    ringlet_options o = on_cuda();
    open_ranks(&w, 3, 50000, &o);
    for (int collective = 0; collective < WORLD_COLLECTIVES; collective++)
        per_thread_works(&w, (enum world_collective)collective, 50000);
    still_works(&w); /* on streams of their own again */
    world_close(&w);
}
END_TEST

/* A thread's own stream that is being captured is refused, on every rank; the capture goes on. */
START_TEST(test_per_thread_stream_captured) {
    struct world w;
    struct per_thread ranks[WORLD_RANKS_MAX];
    ringlet_options o = on_cuda();
    open_ranks(&w, 2, 1000, &o);
    per_thread_works(&w, WORLD_ALL_REDUCE, 1000);
    world_set(&w, WORLD_ALL_REDUCE, 1000, 0, 0);
    per_thread_calls(&w, ranks, 1, 0);
    ck_assert_int_eq(ranks[0].begun, cudaSuccess);
    ck_assert_int_eq(ranks[0].ended, cudaSuccess);
    for (int r = 0; r < 2; r++) {
        ck_assert_msg(ranks[r].status == RINGLET_UNSUPPORTED, "rank %d: %s (%s)", r,
                      ringlet_status_name(ranks[r].status), ranks[r].text);
        ck_assert_msg(strstr(ranks[r].text, "rank 0: the stream is being captured"), "rank %d: %s",
                      r, ranks[r].text);
        ck_assert_int_eq(ranks[r].waited, RINGLET_OK);
    }
    ck_assert_ok(ringlet_comm_error(w.comm));
    per_thread_works(&w, WORLD_ALL_REDUCE, 1000);
    still_works(&w);
    world_close(&w);
}
END_TEST

/* ---- a stream of a context that is not the runtime's ---- */

/* By the names they have in the driver's library: what cuda.h means by cuCtxCreate has changed its
 * arguments more than once. */
struct driver {
    void *library;
    CUresult (*context_create)(CUcontext *, unsigned, CUdevice);
    CUresult (*context_pop)(CUcontext *);
    CUresult (*context_push)(CUcontext);
    CUresult (*context_destroy)(CUcontext);
    CUresult (*stream_create)(CUstream *, unsigned);
    CUresult (*stream_destroy)(CUstream);
};

static void driver_find(const struct driver *driver, const char *name, void *to) {
    void *function = dlsym(driver->library, name);
    ck_assert_msg(function != NULL, "the driver has no %s", name);
    memcpy(to, &function, sizeof function);
}

static void driver_open(struct driver *driver) {
    driver->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(driver->library);
    driver_find(driver, "cuCtxCreate_v2", &driver->context_create);
    driver_find(driver, "cuCtxPopCurrent_v2", &driver->context_pop);
    driver_find(driver, "cuCtxPushCurrent_v2", &driver->context_push);
    driver_find(driver, "cuCtxDestroy_v2", &driver->context_destroy);
    driver_find(driver, "cuStreamCreate", &driver->stream_create);
    driver_find(driver, "cuStreamDestroy_v2", &driver->stream_destroy);
}

START_TEST(test_stream_of_own_context) {
    struct world w;
    struct driver driver;
    CUcontext context = NULL, popped = NULL;
    CUstream foreign = NULL;
    ringlet_options o = on_cuda();
    open_ranks(&w, 2, 1000, &o);
    still_works(&w);
    driver_open(&driver);
    ck_assert_int_eq(driver.context_create(&context, 0, 0), CUDA_SUCCESS);
    ck_assert_int_eq(driver.stream_create(&foreign, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ck_assert_int_eq(driver.context_pop(&popped), CUDA_SUCCESS);
    ringlet_stream own = w.stream[0];
    world_set(&w, WORLD_ALL_REDUCE, 1000, 0, 0);
    w.stream[0] = foreign;
    ck_assert_status(world_call_all(&w), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "rank 0: "));
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "stream"));
    ck_assert_status(world_call_threads(&w, 1), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(ringlet_stream_wait(w.comm, 0, foreign, 1000), RINGLET_INVALID_ARGUMENT);
    w.stream[0] = own;
    still_works(&w);
    ck_assert_int_eq(driver.context_push(context), CUDA_SUCCESS);
    ck_assert_int_eq(driver.stream_destroy(foreign), CUDA_SUCCESS);
    ck_assert_int_eq(driver.context_pop(&popped), CUDA_SUCCESS);
    ck_assert_int_eq(driver.context_destroy(context), CUDA_SUCCESS);
    still_works(&w);
    world_close(&w);
    dlclose(driver.library);
}
END_TEST

/* ---- memory of ranks that share a device ---- */

START_TEST(test_overlap_of_sharers) {
    struct world w;
    int devices[3] = {0, 0, 0};
    ringlet_options o = on_cuda();
    world_open_on(&w, devices, 3, 3000, &o);
    for (int collective = 0; collective < WORLD_COLLECTIVES; collective++)
        for (int shape = 0; shape < 2; shape++) {
            world_set(&w, (enum world_collective)collective, 1000, 0, 0);
            w.recv[2] = w.recv[0];
            ck_assert_status(shape ? world_call_threads(&w, 1) : world_call_all(&w),
                             RINGLET_INVALID_ARGUMENT);
            if (!shape) /* the words of the other are with its threads */
                ck_assert_ptr_nonnull(
                    strstr(ringlet_error_message(), "ranks 0 and 2 share device 0"));
            ck_assert_ok(ringlet_comm_error(w.comm));
            world_set(&w, (enum world_collective)collective, 1000, 0, 0);
            ck_assert_ok(shape ? world_call_all(&w) : world_call_threads(&w, 1));
            world_check(&w);
        }
    world_close(&w);
}
END_TEST

/* ---- the end while a stream is busy ---- */

static atomic_bool gate_open;

static void CUDART_CB gate(void *unused) {
    (void)unused;
    /* A test that fails with its gate closed must not hang the suite. */
    for (int tries = 0; tries < 100000 && !atomic_load(&gate_open); tries++)
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* What cannot be freed in time is left, and still serves what runs. It stays for good: the test
 * says so to the leak check. (The devices stay open too, so this test is the last.) */
START_TEST(test_destroy_while_busy) {
    struct world w;
    ringlet_options o = on_cuda();
    o.timeout_ms = 1000;
    open_ranks(&w, 2, 100000, &o);
    world_set(&w, WORLD_ALL_REDUCE, 100000, 0, 0);
    ck_assert_ok(world_call_all(&w)); /* all that a first call makes is there */
    world_check(&w);
    world_set(&w, WORLD_ALL_REDUCE, 100000, 3, 0);
    atomic_store(&gate_open, false);
    ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
    ck_assert_int_eq(cudaLaunchHostFunc(w.stream[0], gate, NULL), cudaSuccess);
    ringlet_status called = world_call_all(&w);
    int64_t live = memory_live();
    uint64_t start = clock_now_ns();
    ringlet_status destroyed = ringlet_comm_destroy(&w.comm);
    uint64_t took_ns = clock_now_ns() - start;
    char text[400];
    snprintf(text, sizeof text, "%s", ringlet_error_message());
    cudaError_t busy = cudaStreamQuery(w.stream[0]);
    atomic_store(&gate_open, true);
    ck_assert_int_eq(called, RINGLET_OK);
    ck_assert_msg(destroyed == RINGLET_TIMEOUT, "%s (%s)", ringlet_status_name(destroyed), text);
    ck_assert_ptr_nonnull(strstr(text, "stay allocated"));
    ck_assert_msg(took_ns < 5000000000u, "it took %.1f s", (double)took_ns / 1e9);
    ck_assert_int_eq(busy, cudaErrorNotReady);
    ck_assert_int_lt(memory_live(), live); /* the communicator itself is gone */
    ck_assert_ptr_null(w.comm);
    /* Buffers and streams belong to the devices, so another communicator can see to them. */
    ringlet_comm *second = NULL;
    int devices[2] = {0, 1 % device_cuda_count()};
    o.timeout_ms = 30000;
    ck_assert_ok(ringlet_comm_create(&second, devices, 2, &o));
    w.comm = second;
    world_check(&w);
    world_close(&w);
    ck_assert_int_gt(memory_live(), live_before);
    /* The reference that destroy kept is given back, and what it left is freed. */
    struct device_system *system = NULL;
    ck_assert_ok(device_open_cuda(&system));
    system->ops->close(system);
    system->ops->close(system);
    ck_assert_int_eq(memory_live(), live_before);
}
END_TEST

START_TEST(test_no_such_device) {
    ringlet_comm *comm = NULL;
    ringlet_options o = on_cuda();
    int devices[] = {0, device_cuda_count()}, twice[] = {0, 0};
    ck_assert_status(ringlet_comm_create(&comm, devices, 2, &o), RINGLET_NO_DEVICE);
    o.share_devices = 0;
    ck_assert_status(ringlet_comm_create(&comm, twice, 2, &o), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_null(comm);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cuda_collective");
    TCase *tests = tcase_create("cuda_collective");
    ringlet_log_set(quiet, NULL);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, test_every_collective, 1, 9);
    tcase_add_loop_test(tests, test_random, 0, 60);
    tcase_add_loop_test(tests, test_large_with_little_scratch, 0, 3);
    tcase_add_test(tests, test_two_streams);
    tcase_add_test(tests, test_two_communicators);
    tcase_add_test(tests, test_default_streams);
    tcase_add_test(tests, test_caller_untouched);
#ifdef RINGLET_OPENMP
    tcase_add_test(tests, test_inside_a_parallel_region);
#endif
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_pool_memory);
    tcase_add_test(tests, test_per_thread_stream_in_shape_one);
    tcase_add_test(tests, test_per_thread_stream_captured);
    tcase_add_test(tests, test_stream_of_own_context);
    tcase_add_test(tests, test_overlap_of_sharers);
    tcase_add_test(tests, test_no_such_device);
    tcase_add_test(tests, test_destroy_while_busy);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN_IF(suite, cuda_missing)
