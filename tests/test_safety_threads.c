/*
 * What goes wrong while threads are inside the library: peers that are slow or stuck, buffers freed
 * behind a failure, deadlines, faults at any moment, ranks that run ahead.
 * Owns devices that are slower than they should be. Never checks arguments (test_safety.c).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "comm.h"
#include "device/emulated.h"
#include "slow.h"
#include "suite.h"
#include "world.h"

#define ck_assert_fails(call, expected, part)                                                      \
    do {                                                                                           \
        ck_assert_status(call, expected);                                                          \
        ck_assert_msg(strstr(ringlet_error_message(), part), "\"%s\" is not in \"%s\"", part,      \
                      ringlet_error_message());                                                    \
    } while (0)

static ringlet_options ring_on_threads(int64_t timeout_ms) {
    ringlet_options o;
    ringlet_options_init(&o);
    o.backend = RINGLET_BACKEND_EMULATED;
    o.scheduler = RINGLET_SCHEDULER_THREADS;
    o.algorithm = RINGLET_ALGORITHM_RING;
    o.timeout_ms = timeout_ms;
    o.scratch_bytes = SUITE_SCRATCH;
    return o;
}

static void ignore(void *context, const char *message) {
    (void)context, (void)message;
}

static void nap(void) {
    usleep(1000);
}

static void hold(struct world *w, int rank) {
    struct device_queue queue = {w->comm->devices[rank], w->stream[rank]};
    ck_assert_ok(emulated_hold(w->comm->system, queue));
}

/* ---- devices whose copies are slow to be enqueued ---- */

typedef ringlet_status copy_call(struct device_system *, struct device_queue, int, void *, int,
                                 const void *, uint64_t, struct device_tag);

static const struct device_ops *usual;
static struct device_ops changed;

static void copies_go_through(struct world *w, copy_call *copy) {
    usual = w->comm->system->ops;
    changed = *usual;
    changed.copy = copy;
    w->comm->system->ops = &changed;
}

static void ops_as_usual(struct world *w) {
    w->comm->system->ops = usual;
}

/* ---- buffers freed behind a failure ---- */

static atomic_bool held, go;
static _Atomic int late_status;

static ringlet_status copy_held(struct device_system *system, struct device_queue queue, int to,
                                void *dst, int from, const void *src, uint64_t bytes,
                                struct device_tag tag) {
    bool mine = queue.device == 0 && to == 1 && !atomic_exchange(&held, true);
    while (mine && !atomic_load(&go))
        nap();
    ringlet_status status = usual->copy(system, queue, to, dst, from, src, bytes, tag);
    if (mine)
        atomic_store(&late_status, (int)status);
    return status;
}

struct member {
    struct world *w;
    int rank;
    ringlet_status status;
    pthread_t thread;
};

static void *member_run(void *argument) {
    struct member *member = argument;
    member->status = world_call(member->w, member->rank);
    return NULL;
}

static void member_start(struct member *member, struct world *w, int rank) {
    *member = (struct member){.w = w, .rank = rank};
    ck_assert_int_eq(pthread_create(&member->thread, NULL, member_run, member), 0);
}

static void *let_go_soon(void *unused) {
    usleep(30000);
    atomic_store(&go, true);
    return unused;
}

/* Rank 0 is about to enqueue a copy into rank 1's buffer when the communicator is aborted; rank 1,
 * which was told, frees that buffer: not before rank 0 is out of its call (_i = 0), or not at all
 * within the deadline (_i = 1). */
START_TEST(test_free_waits_for_peers_still_enqueuing) {
    struct world w;
    struct member member[2];
    pthread_t other;
    ringlet_options o = ring_on_threads(_i ? 1000 : 30000);
    world_open(&w, 2, 1000, &o);
    world_set(&w, WORLD_ALL_GATHER, 1000, 0, 0);
    copies_go_through(&w, copy_held);
    for (int r = 0; r < 2; r++)
        member_start(&member[r], &w, r);
    while (!atomic_load(&held))
        nap();
    ck_assert_ok(ringlet_comm_abort(w.comm));
    pthread_join(member[1].thread, NULL);
    ck_assert_int_ne(member[1].status, RINGLET_OK);
    if (_i)
        ck_assert_fails(ringlet_buffer_free(w.comm, 1, w.block[1]), RINGLET_TIMEOUT,
                        "rank 0 is still inside its call after 1000 ms");
    ck_assert_int_eq(pthread_create(&other, NULL, let_go_soon, NULL), 0);
    if (_i)
        pthread_join(member[0].thread, NULL);
    ck_assert_ok(ringlet_buffer_free(w.comm, 1, w.block[1]));
    ck_assert_msg(atomic_load(&go), "the buffer was freed while a peer was still enqueuing");
    ck_assert_int_eq(atomic_load(&late_status), RINGLET_OK);
    w.block[1] = NULL;
    pthread_join(other, NULL);
    if (!_i)
        pthread_join(member[0].thread, NULL);
    world_close(&w);
}
END_TEST

/* ---- deadlines ---- */

START_TEST(test_transfer_deadline) {
    struct world w;
    float value = 0;
    ringlet_options o = ring_on_threads(300);
    world_open(&w, 2, 100, &o);
    world_set(&w, WORLD_ALL_REDUCE, 100, 0, 0);
    hold(&w, 1);
    ck_assert_fails(ringlet_buffer_read(w.comm, 1, &value, w.send[1], sizeof value, w.stream[1]),
                    RINGLET_TIMEOUT, "rank 1: a transfer of 4 bytes did not begin within 300 ms");
    ck_assert_fails(ringlet_buffer_write(w.comm, 1, w.send[1], &value, sizeof value, w.stream[1]),
                    RINGLET_TIMEOUT, "rank 1: a transfer of 4 bytes did not begin within 300 ms");
    ck_assert_ok(ringlet_comm_error(w.comm)); /* the caller's own stream is busy: no failure */
    emulated_release(w.comm->system);
    ck_assert_ok(ringlet_stream_wait(w.comm, 1, w.stream[1], 30000));
    ck_assert_ok(world_call_all(&w));
    world_check(&w); /* what was refused left no trace */
    world_close(&w);
}
END_TEST

static void *abort_soon(void *comm) {
    usleep(30000);
    ringlet_comm_abort(comm);
    return NULL;
}

START_TEST(test_transfer_ends_on_abort) {
    struct world w;
    float value = 0;
    pthread_t thread;
    ringlet_options o = ring_on_threads(-1);
    world_open(&w, 1, 100, &o);
    hold(&w, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, abort_soon, w.comm), 0);
    ringlet_status status =
        _i ? ringlet_buffer_read(w.comm, 0, &value, w.block[0], sizeof value, w.stream[0])
           : ringlet_buffer_write(w.comm, 0, w.block[0], &value, sizeof value, w.stream[0]);
    ck_assert_msg(status == RINGLET_ABORTED, "%s", ringlet_error_message());
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "aborted"));
    pthread_join(thread, NULL);
    emulated_release(w.comm->system);
    world_close(&w);
}
END_TEST

/* The deadline leaves room for a busy machine; SLOW_SLICES copies last longer than it. */
enum { SLOW_TIMEOUT_MS = SUITE_SLOW ? 1500 : 600, SLOW_SLICES = 64 };
enum { SLOW_COPY_US = SLOW_TIMEOUT_MS * 1100 / SLOW_SLICES };
static int slow_device;

static ringlet_status copy_slowly(struct device_system *system, struct device_queue queue, int to,
                                  void *dst, int from, const void *src, uint64_t bytes,
                                  struct device_tag tag) {
    if (queue.device == slow_device)
        usleep(SLOW_COPY_US);
    return usual->copy(system, queue, to, dst, from, src, bytes, tag);
}

/* The deadline is for a peer that does not come, not for the whole of a long call: neither for what
 * a slow peer still has to enqueue of it (_i = 0), nor, where this rank need not wait for that, for
 * the peer's coming to the next call (_i = 1). */
START_TEST(test_slow_but_moving_peer_is_no_timeout) {
    struct world w;
    ringlet_options o = ring_on_threads(SLOW_TIMEOUT_MS);
    o.slices = SLOW_SLICES;
    world_open(&w, 2 + _i, 16000, &o);
    do
        world_set(&w, _i ? WORLD_BROADCAST : WORLD_ALL_REDUCE, 16000, 0, 0);
    while (w.root != 0);
    slow_device = _i;
    copies_go_through(&w, copy_slowly);
    uint64_t start = clock_now_ns();
    ck_assert_ok(world_call_threads(&w, 1 + _i));
    ck_assert_uint_gt(clock_now_ns() - start, SLOW_TIMEOUT_MS * UINT64_C(1000000));
    world_check(&w);
    world_close(&w);
}
END_TEST

/* A peer that stands still is one, however long it has moved before. */
START_TEST(test_stuck_peer_is_a_timeout) {
    struct world w;
    struct member member[2];
    ringlet_options o = ring_on_threads(1000);
    world_open(&w, 2, 1000, &o);
    world_set(&w, WORLD_ALL_GATHER, 1000, 0, 0);
    copies_go_through(&w, copy_held);
    for (int r = 0; r < 2; r++)
        member_start(&member[r], &w, r);
    pthread_join(member[1].thread, NULL);
    atomic_store(&go, true);
    pthread_join(member[0].thread, NULL);
    ck_assert_int_eq(member[1].status, RINGLET_TIMEOUT);
    ck_assert_fails(ringlet_comm_error(w.comm), RINGLET_TIMEOUT, "rank 1 waited 1000 ms");
    world_close(&w);
}
END_TEST

/* ---- draining ---- */

static atomic_bool freeing, freed;

static void *free_spare(void *argument) {
    struct member *member = argument;
    atomic_store(&freeing, true);
    member->status = ringlet_buffer_free(member->w->comm, 0, member->w->host);
    atomic_store(&freed, true);
    return NULL;
}

/* Who frees a buffer waits for the streams; calls that need a new plan do not wait for him. */
START_TEST(test_free_does_not_hold_up_new_plans) {
    struct world w, other;
    void *spare;
    ringlet_options o = ring_on_threads(20000);
    world_open(&w, 2, 100, &o);
    ck_assert_ok(ringlet_buffer_alloc(w.comm, 0, 64, &spare));
    world_set(&w, WORLD_ALL_REDUCE, 100, 0, 0);
    hold(&w, 1);
    ck_assert_ok(world_call_threads(&w, 1));
    other = w;
    other.host = spare;
    struct member member = {.w = &other};
    ck_assert_int_eq(pthread_create(&member.thread, NULL, free_spare, &member), 0);
    while (!atomic_load(&freeing))
        nap();
    usleep(30000); /* now it drains */
    for (w.count = 60; w.count < 63; w.count++) {
        ck_assert_ok(world_call_threads(&w, 1));
        ck_assert_msg(!atomic_load(&freed), "a call with a new count waited for the one who frees");
    }
    w.count = 100;
    emulated_release(w.comm->system);
    pthread_join(member.thread, NULL);
    ck_assert_ok(member.status);
    world_check(&w);
    world_close(&w);
}
END_TEST

/* Destroying a communicator waits for the caller's streams by an event. Where the device refuses
 * that, what may still run is not freed under it. */
START_TEST(test_wait_fails_in_drain) {
    struct world w, b;
    ringlet_options o = ring_on_threads(300);
    o.algorithm = (ringlet_algorithm)_i;
    world_open(&w, 2, 16000, &o);
    world_set(&w, WORLD_ALL_REDUCE, 16000, 0, 0);
    b = w;
    o.machine_of = w.comm;
    ck_assert_ok(ringlet_comm_create(&b.comm, NULL, 2, &o));
    ck_assert_ok(world_call_all(&b));
    world_check(&w);
    world_set(&w, WORLD_ALL_REDUCE, 16000, 0, 0);
    hold(&w, 0);
    ck_assert_ok(world_call_all(&b));
    emulated_fail_at(w.comm->system, 1, RINGLET_DEVICE_ERROR);
    ck_assert_fails(ringlet_comm_destroy(&b.comm), RINGLET_TIMEOUT, "stay allocated");
    ck_assert(!emulated_fail_pending(w.comm->system));
    emulated_release(w.comm->system);
    world_check(&w);
    world_close(&w);
}
END_TEST

static ringlet_status wait_refused(struct device_system *system, struct device_queue queue,
                                   struct device_event *event) {
    (void)system, (void)queue, (void)event;
    return status_fail(RINGLET_DEVICE_ERROR, "refused");
}

/* Where the device refuses every such wait, the streams of the communicator's own still tell. */
START_TEST(test_every_wait_fails_in_drain) {
    struct world w, b;
    ringlet_options o = ring_on_threads(300);
    o.slices = 2;
    world_open(&w, 2, 16000, &o);
    world_set(&w, WORLD_ALL_REDUCE, 16000, 0, 0);
    b = w;
    o.machine_of = w.comm;
    ck_assert_ok(ringlet_comm_create(&b.comm, NULL, 2, &o));
    hold(&w, 0);
    ck_assert_ok(world_call_all(&b));
    copies_go_through(&w, w.comm->system->ops->copy);
    changed.wait = wait_refused;
    ringlet_status status = ringlet_comm_destroy(&b.comm);
    ops_as_usual(&w);
    ck_assert_status(status, RINGLET_TIMEOUT);
    emulated_release(w.comm->system);
    world_check(&w);
    world_close(&w);
}
END_TEST

/* Where everything has come to rest, the error is told, and all is freed. */
START_TEST(test_wait_fails_at_rest) {
    struct world w, b;
    ringlet_options o = ring_on_threads(20000);
    world_open(&w, 2, 1000, &o);
    world_set(&w, WORLD_ALL_REDUCE, 1000, 0, 0);
    int64_t live = emulated_live(w.comm->system);
    b = w;
    o.machine_of = w.comm;
    ck_assert_ok(ringlet_comm_create(&b.comm, NULL, 2, &o));
    ck_assert_ok(world_call_all(&b));
    world_check(&w);
    emulated_fail_at(w.comm->system, 1, RINGLET_DEVICE_ERROR);
    ck_assert_status(ringlet_comm_destroy(&b.comm), RINGLET_DEVICE_ERROR);
    ck_assert_int_eq(emulated_live(w.comm->system), live);
    world_close(&w);
}
END_TEST

/* ---- faults at any moment, a thread a rank ---- */

enum { FAULT_RANKS = 3, FAULT_CALLS = 40, FAULT_MOST = 600 };
enum fault { FAULT_MEMORY, FAULT_DEVICE, FAULT_ABORT, FAULTS };

struct runner {
    ringlet_comm *comm;
    int rank, done; /* calls that were OK */
    float *send, *recv;
    ringlet_stream stream;
    ringlet_status status;
    pthread_t thread;
};

static void *runner_run(void *argument) {
    struct runner *runner = argument;
    for (int i = 0; i < FAULT_CALLS && !runner->status; i++) {
        uint64_t count = 1 + (uint64_t)i * 13 % FAULT_MOST;
        float *recv = i % 2 ? runner->recv : runner->send;
        runner->status = ringlet_all_reduce(runner->comm, runner->rank, runner->send, recv, count,
                                            RINGLET_FLOAT32, RINGLET_SUM, runner->stream);
        runner->done += !runner->status;
    }
    return NULL;
}

static ringlet_comm *fault_comm(uint32_t seed) {
    static const ringlet_algorithm algorithms[] = {
        RINGLET_ALGORITHM_RING, RINGLET_ALGORITHM_DIRECT, RINGLET_ALGORITHM_HOST,
        RINGLET_ALGORITHM_HOST_PIPELINED, RINGLET_ALGORITHM_RING};
    ringlet_options o = ring_on_threads(30000);
    ringlet_comm *comm = NULL;
    o.algorithm = algorithms[seed % 5];
    o.scratch_bytes = 2048;
    o.slices = 2;
    o.rings = 1 + seed % 2;
    o.disable_p2p = seed % 5 == 4;
    ck_assert_ok(ringlet_comm_create(&comm, NULL, FAULT_RANKS, &o));
    return comm;
}

static void runner_open(struct runner *runner, ringlet_comm *comm, int rank) {
    static const float zeros[FAULT_MOST];
    void *send, *recv;
    *runner = (struct runner){.comm = comm, .rank = rank};
    ck_assert_ok(ringlet_buffer_alloc(comm, rank, sizeof zeros, &send));
    ck_assert_ok(ringlet_buffer_alloc(comm, rank, sizeof zeros, &recv));
    ck_assert_ok(ringlet_stream_create(comm, rank, &runner->stream));
    ck_assert_ok(ringlet_buffer_write(comm, rank, send, zeros, sizeof zeros, runner->stream));
    runner->send = send;
    runner->recv = recv;
}

/* Behind a device's failure the end may be told again; whatever is told, all is freed. */
static void runner_close(struct runner *runner, uint32_t seed) {
    void *buffers[2] = {runner->send, runner->recv};
    for (int i = 0; i < 2; i++) {
        ringlet_status status = ringlet_buffer_free(runner->comm, runner->rank, buffers[i]);
        ck_assert_msg(!status || status == RINGLET_DEVICE_ERROR, "seed %u, rank %d: %s", seed,
                      runner->rank, ringlet_error_message());
    }
    ringlet_stream_destroy(runner->comm, runner->rank, runner->stream);
}

static void fault_plant(ringlet_comm *comm, enum fault fault, uint32_t seed) {
    if (fault == FAULT_MEMORY)
        memory_fail_at(seed * 37 % 3000 + 1);
    if (fault == FAULT_DEVICE)
        emulated_fail_at(comm->system, seed * 53 % 4000 + 1, RINGLET_DEVICE_ERROR);
}

/* All ranks fail, with the communicator's one error; none runs on for more than the call that its
 * peers failed in. */
static bool fault_judge(ringlet_comm *comm, const struct runner *runners, enum fault fault,
                        uint32_t seed) {
    static const ringlet_status expected[FAULTS] = {RINGLET_OUT_OF_MEMORY, RINGLET_DEVICE_ERROR,
                                                    RINGLET_ABORTED};
    ringlet_status error = ringlet_comm_error(comm);
    ck_assert_msg(!error || error == expected[fault], "seed %u: %s", seed, ringlet_error_message());
    for (int r = 0; r < FAULT_RANKS; r++) {
        int behind = runners[0].done - runners[r].done;
        ck_assert_msg(behind >= -1 && behind <= 1, "seed %u: rank 0 did %d calls, rank %d did %d",
                      seed, runners[0].done, r, runners[r].done);
        ck_assert_msg(
            runners[r].status == error || (!runners[r].status && runners[r].done == FAULT_CALLS),
            "seed %u, rank %d: %s behind %d calls, but the communicator's error is %s", seed, r,
            ringlet_status_name(runners[r].status), runners[r].done, ringlet_status_name(error));
    }
    return error != RINGLET_OK;
}

static bool fault_once(uint32_t seed) {
    struct runner runners[FAULT_RANKS];
    enum fault fault = (enum fault)(seed % FAULTS);
    int64_t live = memory_live();
    ringlet_comm *comm = fault_comm(seed);
    for (int r = 0; r < FAULT_RANKS; r++)
        runner_open(&runners[r], comm, r);
    fault_plant(comm, fault, seed);
    for (int r = 0; r < FAULT_RANKS; r++)
        ck_assert_int_eq(pthread_create(&runners[r].thread, NULL, runner_run, &runners[r]), 0);
    if (fault == FAULT_ABORT) {
        usleep(seed * 17 % 3000);
        ck_assert_ok(ringlet_comm_abort(comm));
    }
    for (int r = 0; r < FAULT_RANKS; r++)
        pthread_join(runners[r].thread, NULL);
    memory_fail_at(0);
    emulated_fail_at(comm->system, 0, RINGLET_OK);
    bool failed = fault_judge(comm, runners, fault, seed);
    for (int r = 0; r < FAULT_RANKS; r++)
        runner_close(&runners[r], seed);
    ringlet_status end = ringlet_comm_destroy(&comm);
    ck_assert_msg(!end || end == RINGLET_DEVICE_ERROR, "seed %u: %s", seed,
                  ringlet_error_message());
    ck_assert_msg(memory_live() == live, "seed %u: %lld leaked", seed,
                  (long long)(memory_live() - live));
    return failed;
}

START_TEST(test_faults_in_rank_threads) {
    enum { SEEDS = SUITE_SLOW ? 30 : 90 };
    int failed = 0;
    ringlet_log_set(ignore, NULL);
    for (uint32_t seed = 0; seed < SEEDS; seed++)
        failed += fault_once(seed);
    printf("# %d of %d failed as planted\n", failed, SEEDS);
    ck_assert_int_gt(failed, SEEDS / 3);
}
END_TEST

/* ---- ranks that run ahead ---- */

/* Calls come in stretches. In the odd ones one rank's arguments are bad in every call, so that it
 * need not wait for its peers: it runs ahead of them until AGREE_DEPTH stops it. Elsewhere ranks
 * are bad at random. */
enum { AHEAD_RANKS = 3, AHEAD_MOST = 600, STRETCH = 40 };
enum { AHEAD_CALLS = SUITE_SLOW ? 12 * STRETCH : 50 * STRETCH };

static struct {
    ringlet_comm *comm;
    float *send[AHEAD_RANKS], *recv[AHEAD_RANKS];
    ringlet_stream stream[AHEAD_RANKS][2];
    _Atomic int done[AHEAD_RANKS]; /* calls */
    atomic_bool quit;
    char wrong[AHEAD_RANKS][600];
    atomic_bool stop; /* something is wrong */
} ahead;

static uint32_t mixed(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

/* What all ranks know of a call. */
struct ahead_call {
    int index;
    uint64_t count;
    uint32_t bad; /* bit r: rank r's arguments are wrong */
    bool in_place, checked;
};

static int runs_ahead(int index) {
    int stretch = index / STRETCH;
    return stretch % 2 ? stretch / 2 % AHEAD_RANKS : -1;
}

static struct ahead_call ahead_make(int index) {
    uint32_t x = mixed((uint32_t)index * 3 + 1);
    struct ahead_call call = {.index = index,
                              .count = x % 4 ? 1 + x % AHEAD_MOST : 1 + x % 7,
                              .bad = mixed(x) % 3 ? 0 : mixed(x + 1) % 8,
                              .in_place = mixed(x + 2) % 2};
    if (runs_ahead(index) >= 0)
        call.bad = 1u << runs_ahead(index);
    call.checked = !call.bad && mixed(x + 4) % 8 == 0;
    return call;
}

static float ahead_value(const struct ahead_call *call, int rank, uint64_t i) {
    return (float)(i + (uint64_t)rank * 1000 + (uint64_t)call->index);
}

static void ahead_wrong(int rank, const struct ahead_call *call, const char *words) {
    snprintf(ahead.wrong[rank], sizeof ahead.wrong[rank], "call %d, rank %d, bad %u: %s",
             call->index, rank, call->bad, words);
    atomic_store(&ahead.stop, true);
}

static void ahead_write(const struct ahead_call *call, int rank, ringlet_stream stream) {
    float values[AHEAD_MOST];
    for (uint64_t i = 0; i < call->count; i++)
        values[i] = ahead_value(call, rank, i);
    for (int i = 0; i < 2; i++)
        ringlet_stream_wait(ahead.comm, rank, ahead.stream[rank][i], 60000);
    if (ringlet_buffer_write(ahead.comm, rank, ahead.send[rank], values,
                             call->count * sizeof *values, stream))
        ahead_wrong(rank, call, ringlet_error_message());
}

static void ahead_check(const struct ahead_call *call, int rank, ringlet_stream stream) {
    float values[AHEAD_MOST];
    const float *recv = call->in_place ? ahead.send[rank] : ahead.recv[rank];
    if (ringlet_buffer_read(ahead.comm, rank, values, recv, call->count * sizeof *values, stream)) {
        ahead_wrong(rank, call, ringlet_error_message());
        return;
    }
    for (uint64_t i = 0; i < call->count; i++) {
        float sum = 0;
        for (int r = 0; r < AHEAD_RANKS; r++)
            sum += ahead_value(call, r, i);
        if (values[i] < sum || values[i] > sum)
            ahead_wrong(rank, call, "the result is wrong");
    }
}

/* Holds this rank back until the one that runs ahead can go no further; it must stand there. */
static void ahead_hold_back(const struct ahead_call *call, int rank) {
    int runner = runs_ahead(call->index);
    if (runner < 0 || runner == rank || call->index % STRETCH)
        return;
    int limit = call->index + AGREE_DEPTH - 1;
    while (atomic_load(&ahead.done[runner]) < limit && !atomic_load(&ahead.stop))
        usleep(100);
    usleep(300);
    if (atomic_load(&ahead.done[runner]) > limit)
        ahead_wrong(rank, call, "a rank ran over what its peers have not read");
}

static void ahead_one(const struct ahead_call *call, int rank) {
    bool bad = call->bad >> rank & 1;
    float *recv = call->in_place ? ahead.send[rank] : ahead.recv[rank];
    ringlet_stream stream =
        ahead.stream[rank][mixed((uint32_t)(call->index * AHEAD_RANKS + rank)) % 2];
    ahead_hold_back(call, rank);
    if (call->checked)
        ahead_write(call, rank, stream);
    ringlet_status status =
        ringlet_all_reduce(ahead.comm, rank, ahead.send[rank], bad ? NULL : recv, call->count,
                           RINGLET_FLOAT32, RINGLET_SUM, stream);
    if (status != (call->bad ? RINGLET_INVALID_ARGUMENT : RINGLET_OK))
        ahead_wrong(rank, call, status ? ringlet_error_message() : "bad arguments went unnoticed");
    if (call->checked && !atomic_load(&ahead.stop))
        ahead_check(call, rank, stream);
}

static void *ahead_rank(void *argument) {
    int rank = (int)((_Atomic int *)argument - ahead.done);
    for (int i = 0; i < AHEAD_CALLS && !atomic_load(&ahead.stop); i++) {
        struct ahead_call call = ahead_make(i);
        ahead_one(&call, rank);
        atomic_store(&ahead.done[rank], i + 1);
    }
    return NULL;
}

static void *ahead_query(void *unused) {
    while (!atomic_load(&ahead.quit)) {
        ringlet_comm_info info = {.struct_size = sizeof info};
        if (ringlet_comm_query(ahead.comm, &info) || info.ranks != AHEAD_RANKS)
            atomic_store(&ahead.stop, true);
        usleep(500);
    }
    return unused;
}

static void ahead_open(void) {
    static const float zeros[AHEAD_MOST];
    ringlet_options o = ring_on_threads(30000);
    o.scratch_bytes = 2048;
    o.slices = 3;
    o.rings = 2;
    ck_assert_ok(ringlet_comm_create(&ahead.comm, NULL, AHEAD_RANKS, &o));
    agree_start_at(ahead.comm->agree, UINT32_MAX - 50); /* numbers wrap on the way */
    run_start_at(ahead.comm->run, UINT32_MAX - 50);
    for (int r = 0; r < AHEAD_RANKS; r++) {
        void *send, *recv;
        ck_assert_ok(ringlet_buffer_alloc(ahead.comm, r, sizeof zeros, &send));
        ck_assert_ok(ringlet_buffer_alloc(ahead.comm, r, sizeof zeros, &recv));
        for (int i = 0; i < 2; i++)
            ck_assert_ok(ringlet_stream_create(ahead.comm, r, &ahead.stream[r][i]));
        ck_assert_ok(ringlet_buffer_write(ahead.comm, r, send, zeros, sizeof zeros, NULL));
        ahead.send[r] = send;
        ahead.recv[r] = recv;
    }
}

START_TEST(test_bad_ranks_run_ahead) {
    pthread_t threads[AHEAD_RANKS], query;
    ahead_open();
    ck_assert_int_eq(pthread_create(&query, NULL, ahead_query, NULL), 0);
    for (int r = 0; r < AHEAD_RANKS; r++)
        ck_assert_int_eq(pthread_create(&threads[r], NULL, ahead_rank, &ahead.done[r]), 0);
    for (int r = 0; r < AHEAD_RANKS; r++)
        pthread_join(threads[r], NULL);
    atomic_store(&ahead.quit, true);
    pthread_join(query, NULL);
    for (int r = 0; r < AHEAD_RANKS; r++)
        ck_assert_msg(!ahead.wrong[r][0], "%s", ahead.wrong[r]);
    ck_assert(!atomic_load(&ahead.stop));
    ck_assert_ok(ringlet_comm_destroy(&ahead.comm));
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("safety_threads");
    TCase *tests = tcase_create("safety_threads");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_free_waits_for_peers_still_enqueuing, 0, 2);
    tcase_add_test(tests, test_transfer_deadline);
    tcase_add_loop_test(tests, test_transfer_ends_on_abort, 0, 2);
    tcase_add_loop_test(tests, test_slow_but_moving_peer_is_no_timeout, 0, 2);
    tcase_add_test(tests, test_stuck_peer_is_a_timeout);
    tcase_add_test(tests, test_free_does_not_hold_up_new_plans);
    tcase_add_loop_test(tests, test_wait_fails_in_drain, RINGLET_ALGORITHM_RING,
                        RINGLET_ALGORITHM_DIRECT + 1);
    tcase_add_test(tests, test_every_wait_fails_in_drain);
    tcase_add_test(tests, test_wait_fails_at_rest);
    tcase_add_test(tests, test_faults_in_rank_threads);
    tcase_add_test(tests, test_bad_ranks_run_ahead);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
