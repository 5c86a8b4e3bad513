/*
 * What goes wrong is told, and nothing is lost: bad arguments, ranks that disagree, peers that do
 * not come, aborts, faults at every call.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"
#include "comm.h"
#include "device/emulated.h"
#include "suite.h"
#include "world.h"

static ringlet_options emulated(ringlet_scheduler scheduler) {
    ringlet_options o;
    ringlet_options_init(&o);
    o.backend = RINGLET_BACKEND_EMULATED;
    o.scheduler = scheduler;
    o.scratch_bytes = 4096;
    return o;
}

static void ignore(void *context, const char *message) {
    (void)context, (void)message;
}

#define ck_assert_words(part)                                                                      \
    ck_assert_msg(strstr(ringlet_error_message(), part), "\"%s\" is not in \"%s\"", part,          \
                  ringlet_error_message())
#define ck_assert_fails(call, expected, part)                                                      \
    do {                                                                                           \
        ck_assert_status(call, expected);                                                          \
        ck_assert_words(part);                                                                     \
    } while (0)

/* ---- creation ---- */

START_TEST(test_bad_creation) {
    ringlet_comm *comm = (ringlet_comm *)&comm, *untouched = comm;
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED), wrong;
    int twice[] = {1, 0, 1}, far[] = {0, 70000}, negative[] = {-1};
    int64_t live = memory_live();
    ck_assert_fails(ringlet_comm_create(NULL, NULL, 2, &o), RINGLET_INVALID_ARGUMENT, "out");
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 0, &o), RINGLET_INVALID_ARGUMENT,
                    "ranks is 0");
    ck_assert_fails(ringlet_comm_create(&comm, NULL, -3, &o), RINGLET_INVALID_ARGUMENT, "-3");
    ck_assert_fails(ringlet_comm_create(&comm, twice, 3, &o), RINGLET_INVALID_ARGUMENT,
                    "ranks 0 and 2 both name device 1");
    ck_assert_fails(ringlet_comm_create(&comm, far, 2, &o), RINGLET_NO_DEVICE, "device 70000");
    ck_assert_fails(ringlet_comm_create(&comm, negative, 1, &o), RINGLET_NO_DEVICE, "device -1");
    wrong = o;
    wrong.struct_size = 3;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT,
                    "ringlet_options_init");
    wrong = o;
    wrong.backend = (ringlet_backend)9;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT,
                    "backend");
    wrong = o;
    wrong.algorithm = (ringlet_algorithm)9;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT,
                    "algorithm");
    wrong = o;
    wrong.scheduler = (ringlet_scheduler)-1;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT,
                    "scheduler");
    wrong = o;
    wrong.rings = 1000;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT,
                    "1000 rings");
    wrong = o;
    wrong.scratch_bytes = 7;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT,
                    "scratch_bytes is 7");
    wrong = o;
    wrong.timeout_ms = -2;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT,
                    "timeout_ms is -2");
    wrong = o;
    wrong.machine = "/dev/null";
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_SYSTEM_ERROR,
                    "no plain file");
    wrong.machine = "/nonexistent/machine.txt";
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_SYSTEM_ERROR,
                    "/nonexistent/machine.txt");
    wrong.backend = RINGLET_BACKEND_CUDA;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &wrong), RINGLET_INVALID_ARGUMENT, "CUDA");
    ck_assert_ptr_eq(comm, untouched);
    ck_assert_int_eq(memory_live(), live);
}
END_TEST

START_TEST(test_malformed_machine_file) {
    char path[] = "/tmp/ringlet-machine-XXXXXX";
    int file = mkstemp(path);
    const char *text = "\tGPU0\tGPU1\nGPU0\t X \tNV9\nGPU1\tNVX\t X \n";
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    ringlet_comm *comm = NULL;
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
    o.machine = path;
    ck_assert_fails(ringlet_comm_create(&comm, NULL, 2, &o), RINGLET_PARSE_ERROR, ":3:6");
    unlink(path);
}
END_TEST

START_TEST(test_a_device_shared_when_asked) {
    struct world w;
    int devices[] = {0, 0, 1, 0};
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
    o.share_devices = 1;
    world_open_on(&w, devices, 4, 100, &o);
    world_set(&w, WORLD_ALL_REDUCE, 100, 5, 0);
    ck_assert_ok(world_call_all(&w));
    world_check(&w);
    world_close(&w);
}
END_TEST

/* ---- a call's arguments ---- */

/* After each refused call the communicator works, and nothing was touched by it. */
static void still_works(struct world *w) {
    world_set(w, WORLD_ALL_REDUCE, 50, 0, 0);
    ck_assert_ok(world_call_all(w));
    world_check(w);
}

START_TEST(test_bad_arguments) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
    world_open(&w, 2, 100, &o);
    still_works(&w);
    float *send[2], *recv[2], ordinary[8];
    const void *const *s = (const void *const *)send;
    void *const *r = (void *const *)recv;
    memcpy(send, w.send, sizeof send);
    memcpy(recv, w.recv, sizeof recv);
#define REFUSED(count, type, operation, words)                                                     \
    ck_assert_fails(ringlet_all_reduce_multi(w.comm, s, r, count, type, operation, w.stream),      \
                    RINGLET_INVALID_ARGUMENT, words);                                              \
    still_works(&w);                                                                               \
    memcpy(send, w.send, sizeof send);                                                             \
    memcpy(recv, w.recv, sizeof recv)

    ck_assert_fails(ringlet_all_reduce_multi(NULL, s, r, 1, RINGLET_FLOAT32, RINGLET_SUM, w.stream),
                    RINGLET_INVALID_ARGUMENT, "comm is NULL");
    ck_assert_fails(
        ringlet_all_reduce_multi(w.comm, NULL, r, 1, RINGLET_FLOAT32, RINGLET_SUM, w.stream),
        RINGLET_INVALID_ARGUMENT, "send is NULL");
    REFUSED(10, (ringlet_dtype)99, RINGLET_SUM, "type 99");
    REFUSED(10, (ringlet_dtype)-1, RINGLET_SUM, "type -1");
    REFUSED(10, RINGLET_FLOAT32, (ringlet_op)7, "operation 7");
    REFUSED(UINT64_MAX / 2, RINGLET_FLOAT32, RINGLET_SUM, "too large");
    REFUSED(UINT64_MAX / 8, RINGLET_FLOAT32, RINGLET_SUM, "too large");
    recv[1] = NULL;
    REFUSED(10, RINGLET_FLOAT32, RINGLET_SUM, "rank 1: recv is NULL");
    send[0] = NULL;
    REFUSED(10, RINGLET_FLOAT32, RINGLET_SUM, "rank 0: send is NULL");
    recv[0] = send[0] + 3;
    REFUSED(10, RINGLET_FLOAT32, RINGLET_SUM, "overlap");
    recv[1] = (float *)((char *)recv[1] + 2);
    REFUSED(10, RINGLET_FLOAT32, RINGLET_SUM, "aligned");
    send[0] = ordinary;
    REFUSED(8, RINGLET_FLOAT32, RINGLET_SUM, "not device memory");
    send[0] = w.send[1];
    REFUSED(8, RINGLET_FLOAT32, RINGLET_SUM, "memory of device 1");
    send[1] = w.block[1] + w.block_elements - 3;
    REFUSED(8, RINGLET_FLOAT32, RINGLET_SUM, "12 bytes to the end");
    ringlet_stream swapped[2] = {w.stream[1], w.stream[0]};
    ck_assert_fails(
        ringlet_all_reduce_multi(w.comm, s, r, 8, RINGLET_FLOAT32, RINGLET_SUM, swapped),
        RINGLET_INVALID_ARGUMENT, "another device");
    still_works(&w);
    swapped[0] = (ringlet_stream)(void *)ordinary;
    ck_assert_fails(
        ringlet_all_reduce_multi(w.comm, s, r, 8, RINGLET_FLOAT32, RINGLET_SUM, swapped),
        RINGLET_INVALID_ARGUMENT, "not a stream");
    still_works(&w);
    ck_assert_fails(ringlet_broadcast_multi(w.comm, s, r, 8, RINGLET_FLOAT32, 2, w.stream),
                    RINGLET_INVALID_ARGUMENT, "root 2");
    ck_assert_fails(ringlet_broadcast_multi(w.comm, s, r, 8, RINGLET_FLOAT32, -1, w.stream),
                    RINGLET_INVALID_ARGUMENT, "root -1");
    still_works(&w);
    ck_assert_fails(ringlet_all_reduce(w.comm, 2, send[0], recv[0], 8, RINGLET_FLOAT32, RINGLET_SUM,
                                       w.stream[0]),
                    RINGLET_INVALID_ARGUMENT, "rank 2");
    ck_assert_fails(ringlet_all_reduce(w.comm, -1, send[0], recv[0], 8, RINGLET_FLOAT32,
                                       RINGLET_SUM, w.stream[0]),
                    RINGLET_INVALID_ARGUMENT, "rank -1");
    still_works(&w);
    world_close(&w);
#undef REFUSED
}
END_TEST

START_TEST(test_in_place_forms) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
    world_open(&w, 2, 100, &o);
    world_set(&w, WORLD_REDUCE_SCATTER, 20, 3, 0);
    w.recv[1] = w.send[1]; /* rank 0's form */
    ck_assert_fails(world_call_all(&w), RINGLET_INVALID_ARGUMENT, "recv = send + rank * count");
    world_set(&w, WORLD_ALL_GATHER, 20, 3, 0);
    w.send[1] = w.recv[1];
    ck_assert_fails(world_call_all(&w), RINGLET_INVALID_ARGUMENT, "send = recv + rank * count");
    still_works(&w);
    world_close(&w);
}
END_TEST

/* A slip in a helper's arguments is refused and ends nothing. */
START_TEST(test_bad_transfers) {
    struct world w;
    ringlet_options o = emulated((ringlet_scheduler)_i);
    float host[64] = {0};
    world_open(&w, 2, 10, &o);
    uint64_t all = w.block_elements * sizeof(float);
    ck_assert_fails(ringlet_buffer_write(w.comm, 0, w.block[0], host, all + 4, NULL),
                    RINGLET_INVALID_ARGUMENT, "bytes to the end");
    ck_assert_fails(ringlet_buffer_write(w.comm, 0, w.block[0], host, UINT64_MAX, NULL),
                    RINGLET_INVALID_ARGUMENT, "bytes to the end");
    ck_assert_fails(ringlet_buffer_read(w.comm, 1, host, w.block[0], 8, NULL),
                    RINGLET_INVALID_ARGUMENT, "memory of device 0, but the rank's is device 1");
    ck_assert_fails(ringlet_buffer_read(w.comm, 1, host, host + 8, 8, NULL),
                    RINGLET_INVALID_ARGUMENT, "not device memory");
    ck_assert_fails(ringlet_buffer_write(w.comm, 1, w.block[1], w.block[0], 8, NULL),
                    RINGLET_INVALID_ARGUMENT, "not host memory");
    ck_assert_fails(ringlet_buffer_write(w.comm, 1, NULL, host, 8, NULL), RINGLET_INVALID_ARGUMENT,
                    "buffer is NULL");
    ck_assert_fails(ringlet_buffer_read(w.comm, 1, NULL, w.block[1], 8, NULL),
                    RINGLET_INVALID_ARGUMENT, "host is NULL");
    ck_assert_ok(ringlet_buffer_write(w.comm, 1, NULL, NULL, 0, NULL));
    still_works(&w);
    world_close(&w);
}
END_TEST

/* Nothing to do is done without buffers. */
START_TEST(test_count_zero) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
    world_open(&w, 3, 10, &o);
    ck_assert_ok(
        ringlet_all_reduce_multi(w.comm, NULL, NULL, 0, RINGLET_FLOAT32, RINGLET_SUM, NULL));
    still_works(&w);
    world_close(&w);
}
END_TEST

/* ---- first shape: ranks that disagree ---- */

struct caller {
    struct world *w;
    int rank;
    uint64_t count;
    enum world_collective collective;
    int root;
    bool null, late;
    ringlet_status status;
    char text[700];
    pthread_t thread;
};

static void *caller_run(void *argument) {
    struct caller *c = argument;
    struct world mine = *c->w;
    mine.count = c->count;
    mine.collective = c->collective;
    mine.root = c->root;
    if (c->null)
        mine.recv[c->rank] = NULL;
    if (c->late)
        usleep(20000);
    c->status = world_call(&mine, c->rank);
    snprintf(c->text, sizeof c->text, "%s", ringlet_error_message());
    return NULL;
}

static void callers_run(struct caller *callers, int count) {
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]), 0);
    for (int i = 0; i < count; i++)
        pthread_join(callers[i].thread, NULL);
}

static void disagree(struct world *w, struct caller *callers, ringlet_status expected,
                     const char *words) {
    callers_run(callers, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(callers[i].status == expected, "rank %d: %s (%s)", i,
                      ringlet_status_name(callers[i].status), callers[i].text);
        ck_assert_msg(strstr(callers[i].text, words), "rank %d: \"%s\" is not in \"%s\"", i, words,
                      callers[i].text);
    }
    world_check(w); /* w.count is 0 here: nothing was touched */
    world_set(w, WORLD_ALL_REDUCE, 60, 0, 0);
    ck_assert_ok(world_call_threads(w, 1));
    world_check(w);
}

static void start(struct world *w, struct caller *callers) {
    world_set(w, WORLD_ALL_REDUCE, 60, 0, 0);
    for (int i = 0; i < 3; i++)
        callers[i] = (struct caller){.w = w, .rank = i, .count = 60};
    world_set(w, WORLD_ALL_REDUCE, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        w->recv[i] = w->send[i] + 400;
}

/* The three ranks broadcast from these roots. */
static void start_broadcast(struct world *w, struct caller *callers, int a, int b, int c) {
    start(w, callers);
    for (int i = 0; i < 3; i++)
        callers[i].collective = WORLD_BROADCAST;
    callers[0].root = a;
    callers[1].root = b;
    callers[2].root = c;
}

START_TEST(test_roots_that_disagree) {
    struct world w;
    struct caller callers[3];
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    world_open(&w, 3, 200, &o);
    start_broadcast(&w, callers, 0, 1, 0);
    disagree(&w, callers, RINGLET_MISMATCH,
             "the ranks disagree about the root: 0 on ranks 0, 2; 1 on rank 1");
    start_broadcast(&w, callers, 0, 1, 2);
    disagree(&w, callers, RINGLET_MISMATCH, "root: 0 on rank 0; 1 on rank 1; 2 on rank 2");
    start_broadcast(&w, callers, 1, 1, 3);
    disagree(&w, callers, RINGLET_INVALID_ARGUMENT, "root 3 is not one of the 3 ranks");
    start_broadcast(&w, callers, -1, 1, 1);
    disagree(&w, callers, RINGLET_INVALID_ARGUMENT, "root -1 is not one of the 3 ranks");
    world_close(&w);
}
END_TEST

START_TEST(test_ranks_that_disagree) {
    struct world w;
    struct caller callers[3];
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    world_open(&w, 3, 200, &o);
    start(&w, callers);
    callers[1].count = 61;
    disagree(&w, callers, RINGLET_MISMATCH, "count: 60 on ranks 0, 2; 61 on rank 1");
    start(&w, callers);
    callers[2].collective = WORLD_ALL_GATHER;
    disagree(&w, callers, RINGLET_MISMATCH,
             "collective: all-reduce on ranks 0, 1; all-gather on rank 2");
    start(&w, callers);
    callers[0].null = true;
    callers[1].late = callers[2].late = true;
    disagree(&w, callers, RINGLET_INVALID_ARGUMENT, "rank 0: recv is NULL");
    start(&w, callers);
    callers[2].null = callers[2].late = true;
    disagree(&w, callers, RINGLET_INVALID_ARGUMENT, "rank 2: recv is NULL");
    world_close(&w);
}
END_TEST

/* ---- ranks that share a device, and memory with it ---- */

/* Every rank is told the same in either shape, and goes on working. */
static void overlap_refused(struct world *w, const char *words) {
    struct caller callers[3];
    struct world as_given = *w;
    ck_assert_fails(world_call_all(w), RINGLET_INVALID_ARGUMENT, words);
    for (int i = 0; i < 3; i++)
        callers[i] = (struct caller){
            .w = w, .rank = i, .count = w->count, .collective = w->collective, .root = w->root};
    callers_run(callers, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(callers[i].status == RINGLET_INVALID_ARGUMENT, "rank %d: %s (%s)", i,
                      ringlet_status_name(callers[i].status), callers[i].text);
        ck_assert_msg(strstr(callers[i].text, words), "rank %d: %s", i, callers[i].text);
    }
    ck_assert_ok(ringlet_comm_error(w->comm));
    world_set(w, as_given.collective, as_given.count, 0, 0);
    ck_assert_ok(world_call_threads(w, 1));
    world_check(w);
}

START_TEST(test_ranks_of_one_device_overlap) {
    struct world w;
    int devices[] = {0, 1, 0};
    enum world_collective collective = (enum world_collective)_i;
    bool gather = collective == WORLD_ALL_GATHER;
    uint64_t count = 100, recv = gather ? 3 * count : count;
    uint64_t send = collective == WORLD_REDUCE_SCATTER ? 3 * count : count;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    o.share_devices = 1;
    world_open_on(&w, devices, 3, 3 * count, &o);
    world_set(&w, collective, count, 0, 0);
    w.recv[2] = w.recv[0];
    overlap_refused(&w, "ranks 0 and 2 share device 0, and recv of rank 0 overlaps");
    world_set(&w, collective, count, 0, 0);
    w.recv[0] = w.recv[2] + recv - 1; /* by one element */
    overlap_refused(&w, "recv of rank 0 overlaps a buffer of rank 2");
    do /* of a broadcast only the root's send counts */
        world_set(&w, collective, count, 0, 0);
    while (collective == WORLD_BROADCAST && w.root != 2);
    w.recv[2] = w.block[2] + w.block_elements - recv;
    w.recv[0] = w.send[2] + send - 1;
    overlap_refused(&w, "recv of rank 0 overlaps a buffer of rank 2");
    world_set(&w, collective, count, 0, 0); /* side by side is allowed, and so is one send */
    w.recv[0] = w.recv[2] + recv;
    w.send[2] = w.send[0];
    ck_assert_ok(world_call_all(&w));
    ck_assert_ok(world_call_threads(&w, 1));
    world_close(&w);
}
END_TEST

/* One thread that calls for two ranks in turn is told so, and does not hang. */
START_TEST(test_one_thread_for_two_ranks) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    o.timeout_ms = 100;
    world_open(&w, 2, 60, &o);
    world_set(&w, WORLD_ALL_REDUCE, 60, 0, 0);
    ck_assert_fails(world_call(&w, 0), RINGLET_TIMEOUT, "_multi");
    ck_assert_words("rank 1 did not enter");
    /* sticky: every later call has it, from either rank and shape */
    ck_assert_fails(world_call(&w, 1), RINGLET_TIMEOUT, "rank 1 did not enter");
    ck_assert_fails(world_call_all(&w), RINGLET_TIMEOUT, "rank 1 did not enter");
    ck_assert_fails(ringlet_comm_error(w.comm), RINGLET_TIMEOUT, "rank 1 did not enter");
    world_close(&w);
}
END_TEST

START_TEST(test_called_twice_at_once) {
    struct world w;
    struct caller callers[3];
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    world_open(&w, 3, 200, &o);
    start(&w, callers);
    callers[1].rank = 0; /* nobody calls for rank 1 */
    callers[1].late = true;
    callers_run(callers, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(callers[i].status, RINGLET_MISMATCH);
        ck_assert_msg(strstr(callers[i].text, "rank 0 is called by two threads"), "%s",
                      callers[i].text);
    }
    world_close(&w);
}
END_TEST

static void *abort_soon(void *comm) {
    usleep(30000);
    ringlet_comm_abort(comm);
    return NULL;
}

START_TEST(test_abort_ends_waits) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    o.timeout_ms = -1;
    world_open(&w, 2, 60, &o);
    world_set(&w, WORLD_ALL_REDUCE, 60, 0, 0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, abort_soon, w.comm), 0);
    ck_assert_fails(world_call(&w, 0), RINGLET_ABORTED, "aborted");
    pthread_join(thread, NULL);
    ck_assert_fails(world_call(&w, 1), RINGLET_ABORTED, "aborted");
    world_close(&w);
}
END_TEST

static void *call_once(void *argument) {
    struct caller *c = argument;
    c->status = world_call(c->w, c->rank);
    return NULL;
}

/* Destroying under a waiting rank ends its wait first. */
START_TEST(test_destroy_while_a_rank_waits) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    int64_t live = memory_live();
    world_open(&w, 2, 60, &o);
    world_set(&w, WORLD_ALL_REDUCE, 60, 0, 0);
    struct caller caller = {.w = &w, .rank = 0};
    ck_assert_int_eq(pthread_create(&caller.thread, NULL, call_once, &caller), 0);
    while (!atomic_load(&w.comm->rank[0].busy))
        usleep(1000);
    ringlet_comm *comm = w.comm;
    ck_assert_ok(ringlet_comm_destroy(&comm));
    pthread_join(caller.thread, NULL);
    ck_assert_int_eq(caller.status, RINGLET_ABORTED);
    memory_free(w.host);
    ck_assert_int_eq(memory_live(), live);
}
END_TEST

/* ---- work of the caller's that takes long ---- */

START_TEST(test_call_does_not_wait_for_the_stream) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    world_open(&w, 2, 60, &o);
    world_set(&w, WORLD_ALL_REDUCE, 60, 0, 0);
    struct device_queue queue = {1, w.stream[1]};
    ck_assert_ok(emulated_hold(w.comm->system, queue));
    for (int i = 0; i < 5; i++)
        ck_assert_ok(world_call_threads(&w, 1));
    ck_assert_fails(ringlet_stream_wait(w.comm, 0, w.stream[0], 50), RINGLET_TIMEOUT,
                    "rank 0: the stream was still busy after 50 ms");
    ck_assert_fails(ringlet_stream_wait(w.comm, 1, w.stream[1], 0), RINGLET_TIMEOUT, "rank 1");
    emulated_release(w.comm->system);
    world_check(&w);
    world_close(&w);
}
END_TEST

START_TEST(test_destroy_says_what_it_could_not_free) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS);
    o.timeout_ms = 50;
    int64_t live = memory_live();
    world_open(&w, 2, 60, &o);
    world_set(&w, WORLD_ALL_REDUCE, 60, 0, 0);
    struct device_queue queue = {1, w.stream[1]};
    ck_assert_ok(emulated_hold(w.comm->system, queue));
    ck_assert_ok(world_call_all(&w));
    ck_assert_fails(ringlet_comm_destroy(&w.comm), RINGLET_TIMEOUT, "still busy after 50 ms");
    ck_assert_ptr_null(w.comm);
    memory_free(w.host);
    ck_assert_int_eq(memory_live(), live); /* emulated devices end with their last communicator */
}
END_TEST

/* ---- faults ---- */

/* A whole life with a fault planted at the nth device call: it fails with the planted status or
 * works, and nothing leaks. True while the fault was reached. */
static bool life_with_device_fault(uint64_t nth, bool p2p) {
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
    struct topology machine;
    struct device_system *system;
    ck_assert_ok(topology_make_switch(&machine, 3));
    struct emulated_config config = {&machine, RINGLET_SCHEDULER_SEEDED, nth, false};
    ck_assert_ok(emulated_open(&system, &config));
    topology_free(&machine);
    /* A first communicator only holds the system, so that faults can be planted before the second.
     */
    ringlet_comm holder = {.system = system};
    ringlet_comm *comm = NULL;
    o.machine_of = &holder;
    o.disable_p2p = !p2p;
    int64_t live = emulated_live(system);
    emulated_fail_at(system, nth, RINGLET_DEVICE_ERROR);
    ringlet_status status = ringlet_comm_create(&comm, NULL, 3, &o);
    if (!status) {
        void *buffer[3] = {NULL, NULL, NULL};
        for (int r = 0; r < 3 && !status; r++)
            status = ringlet_buffer_alloc(comm, r, 4096, &buffer[r]);
        for (int call = 0; call < 2 && !status; call++)
            status = ringlet_all_reduce_multi(comm, (const void *const *)buffer, buffer, 1000,
                                              RINGLET_FLOAT32, RINGLET_SUM, NULL);
        for (int r = 0; r < 3 && !status; r++)
            status = ringlet_stream_wait(comm, r, NULL, 1000);
        bool pending = emulated_fail_pending(system);
        emulated_fail_at(system, 0, RINGLET_OK);
        for (int r = 0; r < 3; r++)
            ck_assert_ok(ringlet_buffer_free(comm, r, buffer[r]));
        ck_assert_ok(ringlet_comm_destroy(&comm));
        ck_assert_msg(!status || status == RINGLET_DEVICE_ERROR, "fault %llu: %s (%s)",
                      (unsigned long long)nth, ringlet_status_name(status),
                      ringlet_error_message());
        ck_assert_int_eq(emulated_live(system), live);
        system->ops->close(system);
        return !pending;
    }
    ck_assert_ptr_null(comm);
    ck_assert_status(status, RINGLET_DEVICE_ERROR);
    ck_assert_int_eq(emulated_live(system), live);
    system->ops->close(system);
    return true;
}

START_TEST(test_device_fault_at_every_call) {
    int64_t live = memory_live();
    ringlet_log_set(ignore, NULL);
    uint64_t nth = 1;
    while (life_with_device_fault(nth, _i == 0))
        nth++;
    ck_assert_uint_gt(nth, 50); /* it was a life of some length */
    ck_assert_int_eq(memory_live(), live);
}
END_TEST

START_TEST(test_memory_fault_at_every_allocation) {
    int64_t live = memory_live();
    uint64_t nth = 1;
    bool reached = true;
    for (; reached; nth++) {
        ringlet_comm *comm = NULL;
        ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
        void *buffer[3] = {NULL, NULL, NULL};
        memory_fail_at(nth);
        ringlet_status status = ringlet_comm_create(&comm, NULL, 3, &o);
        for (int r = 0; r < 3 && !status; r++)
            status = ringlet_buffer_alloc(comm, r, 4096, &buffer[r]);
        for (int call = 0; call < 2 && !status; call++)
            status = ringlet_all_reduce_multi(comm, (const void *const *)buffer, buffer, 1000,
                                              RINGLET_FLOAT32, RINGLET_SUM, NULL);
        for (int r = 0; r < 3 && !status; r++)
            status = ringlet_stream_wait(comm, r, NULL, 1000);
        reached = !memory_fail_pending();
        memory_fail_at(0);
        ck_assert_msg(reached ? status == RINGLET_OUT_OF_MEMORY || status == RINGLET_OK : !status,
                      "allocation %llu: %s (%s)", (unsigned long long)nth,
                      ringlet_status_name(status), ringlet_error_message());
        /* A device that failed may say so again at the end; everything is freed all the same. */
        for (int r = 0; r < 3 && comm; r++)
            ringlet_buffer_free(comm, r, buffer[r]);
        ringlet_status end = ringlet_comm_destroy(&comm);
        ck_assert_msg(!end || end == status, "allocation %llu: %s (%s)", (unsigned long long)nth,
                      ringlet_status_name(end), ringlet_error_message());
        ck_assert_msg(memory_live() == live, "allocation %llu: %lld leaked",
                      (unsigned long long)nth, (long long)(memory_live() - live));
    }
    ck_assert_uint_gt(nth, 30);
}
END_TEST

/* ---- edges ---- */

static char warned[2000];

static void collect(void *context, const char *message) {
    (void)context;
    strncat(warned, message, sizeof warned - strlen(warned) - 1);
    strncat(warned, "\n", sizeof warned - strlen(warned) - 1);
}

START_TEST(test_edges_without_peer_access_are_staged_and_named) {
    static const enum device_peer results[] = {DEVICE_PEER_NOT_POSSIBLE, DEVICE_PEER_NOT_SUPPORTED,
                                               DEVICE_PEER_EXHAUSTED, DEVICE_PEER_NO_DEVICE,
                                               DEVICE_PEER_FAILED};
    struct topology machine;
    struct device_system *system;
    ck_assert_ok(topology_make_switch(&machine, 3));
    struct emulated_config config = {&machine, RINGLET_SCHEDULER_SEEDED, 5, false};
    ck_assert_ok(emulated_open(&system, &config));
    topology_free(&machine);
    ringlet_comm holder = {.system = system};
    emulated_set_peer(system, 1, 2, results[_i]);
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED);
    o.machine_of = &holder;
    warned[0] = '\0';
    ringlet_log_set(collect, NULL);
    struct world w;
    world_open(&w, 3, 700, &o);
    ck_assert_msg(strstr(warned, "rank 1 to rank 2"), "%s", warned);
    ck_assert_msg(strstr(warned, device_peer_text(results[_i])), "%s", warned);
    ck_assert_ptr_null(strstr(warned, "rank 0 to"));
    ringlet_comm_info info = {.struct_size = sizeof info};
    ck_assert_ok(ringlet_comm_query(w.comm, &info));
    ck_assert_int_eq(info.staged_edges, 1);
    for (int collective = 0; collective < WORLD_COLLECTIVES; collective++) {
        world_set(&w, (enum world_collective)collective, 700, 2, 0);
        ck_assert_ok(world_call_all(&w));
        world_check(&w);
    }
    ck_assert_ok(ringlet_comm_query(w.comm, &info));
    ck_assert_uint_gt(info.host_bytes, 0);
    world_close(&w);
    system->ops->close(system);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("safety");
    TCase *tests = tcase_create("safety");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_bad_creation);
    tcase_add_test(tests, test_malformed_machine_file);
    tcase_add_test(tests, test_a_device_shared_when_asked);
    tcase_add_test(tests, test_bad_arguments);
    tcase_add_test(tests, test_in_place_forms);
    tcase_add_loop_test(tests, test_bad_transfers, 0, 2);
    tcase_add_test(tests, test_count_zero);
    tcase_add_test(tests, test_ranks_that_disagree);
    tcase_add_test(tests, test_roots_that_disagree);
    tcase_add_loop_test(tests, test_ranks_of_one_device_overlap, 0, WORLD_COLLECTIVES);
    tcase_add_test(tests, test_one_thread_for_two_ranks);
    tcase_add_test(tests, test_called_twice_at_once);
    tcase_add_test(tests, test_abort_ends_waits);
    tcase_add_test(tests, test_destroy_while_a_rank_waits);
    tcase_add_test(tests, test_call_does_not_wait_for_the_stream);
    tcase_add_test(tests, test_destroy_says_what_it_could_not_free);
    tcase_add_loop_test(tests, test_device_fault_at_every_call, 0, 2);
    tcase_add_test(tests, test_memory_fault_at_every_allocation);
    tcase_add_loop_test(tests, test_edges_without_peer_access_are_staged_and_named, 0, 5);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
