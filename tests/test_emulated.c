/*
 * Emulated devices: CUDA's event semantics one by one under both schedulers, errors, faults,
 * virtual time.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "device/emulated.h"
#include "reduce_two.h"
#include "suite.h"

enum { GPUS = 3, N = 1000, VARIANTS = 12, QUICK_MS = 20, LONG_MS = 20000 };
static const struct device_tag tag = {1, 0, 7};

/* Variant 0: THREADS; 1: SEEDED in time order; then SEEDED by chance. */
static struct emulated_config config_of(int variant, const struct topology *machine) {
    return (struct emulated_config){.machine = machine,
                                    .scheduler = variant == 0 ? RINGLET_SCHEDULER_THREADS
                                                              : RINGLET_SCHEDULER_SEEDED,
                                    .seed = variant < 2 ? 0 : (uint64_t)variant * 7919};
}

static struct device_system *open_variant(int variant) {
    struct topology machine;
    struct device_system *system = NULL;
    ck_assert_ok(topology_make_switch(&machine, GPUS));
    struct emulated_config config = config_of(variant, &machine);
    ck_assert_ok(emulated_open(&system, &config));
    topology_free(&machine);
    return system;
}

static struct device_queue stream_on(struct device_system *s, int device) {
    struct device_queue q = {device, NULL};
    ck_assert_ok(s->ops->stream_create(s, device, &q.stream));
    return q;
}

static struct device_event *event_on(struct device_system *s, int device) {
    struct device_event *event = NULL;
    ck_assert_ok(s->ops->event_create(s, device, &event));
    return event;
}

static float *floats_on(struct device_system *s, int device) {
    void *memory = NULL;
    if (device == DEVICE_HOST)
        ck_assert_ok(s->ops->host_alloc(s, N * sizeof(float), &memory));
    else
        ck_assert_ok(s->ops->memory_alloc(s, device, N * sizeof(float), &memory));
    ck_assert_uint_eq((uintptr_t)memory % 256, 0);
    return memory;
}

static void fill(struct device_system *s, struct device_queue q, float *memory, float value) {
    float host[N];
    for (int i = 0; i < N; i++)
        host[i] = value + (float)i;
    ck_assert_ok(s->ops->transfer(s, q, memory, host, sizeof host, true));
}

static bool holds(struct device_system *s, struct device_queue q, const float *memory,
                  float value) {
    float host[N];
    ck_assert_ok(s->ops->transfer(s, q, host, memory, sizeof host, false));
    for (int i = 0; i < N; i++)
        if (host[i] != value + (float)i)
            return false;
    return true;
}

static ringlet_status copy(struct device_system *s, struct device_queue q, int to, void *dst,
                           int from, const void *src) {
    return s->ops->copy(s, q, to, dst, from, src, N * sizeof(float), tag);
}

static ringlet_status wait_ms(struct device_system *s, struct device_queue q, int64_t ms) {
    return device_wait(s, q, ms, NULL, NULL);
}

START_TEST(test_moves_data) {
    struct device_system *s = open_variant(_i);
    struct device_queue q[GPUS];
    float *a[GPUS], *b[GPUS], *host = floats_on(s, DEVICE_HOST);
    for (int i = 0; i < GPUS; i++) {
        q[i] = i ? stream_on(s, i) : (struct device_queue){0, NULL};
        a[i] = floats_on(s, i);
        b[i] = floats_on(s, i);
        fill(s, q[i], a[i], (float)i * 1000);
    }
    ck_assert_ok(copy(s, q[0], 1, b[1], 0, a[0]));
    ck_assert_ok(wait_ms(s, q[0], LONG_MS));
    ck_assert(holds(s, q[1], b[1], 0));
    ck_assert_ok(s->ops->copy(s, q[1], DEVICE_HOST, host, 1, a[1], N * sizeof(float), tag));
    ck_assert_ok(
        reduce_two(s, q[1], DEVICE_HOST, host, host, host, N, RINGLET_FLOAT32, RINGLET_SUM, tag));
    ck_assert_ok(copy(s, q[1], 1, b[1], DEVICE_HOST, host));
    ck_assert_ok(reduce_two(s, q[1], 1, b[1], b[1], a[1], N, RINGLET_FLOAT32, RINGLET_SUM, tag));
    float got[N];
    ck_assert_ok(s->ops->transfer(s, q[1], got, b[1], sizeof got, false));
    for (int i = 0; i < N; i++)
        ck_assert(got[i] == 3 * (1000 + (float)i));
    ck_assert_uint_ge(emulated_operations(s), 9);
    ck_assert_uint_eq(emulated_races(s), 0);
    s->ops->close(s);
}
END_TEST

START_TEST(test_wait_on_unrecorded_event_waits_for_nothing) {
    struct device_system *s = open_variant(_i);
    struct device_queue first = stream_on(s, 0), second = stream_on(s, 1);
    struct device_event *event = event_on(s, 0);
    float *a = floats_on(s, 1), *b = floats_on(s, 1);
    fill(s, second, a, 5);
    ck_assert_ok(emulated_hold(s, first));
    ck_assert_ok(s->ops->wait(s, second, event));
    ck_assert_ok(s->ops->record(s, first, event)); /* too late for that wait */
    ck_assert_ok(copy(s, second, 1, b, 1, a));
    ck_assert_ok(wait_ms(s, second, LONG_MS));
    ck_assert_status(wait_ms(s, first, QUICK_MS), RINGLET_TIMEOUT);
    ck_assert(holds(s, second, b, 5));
    emulated_release(s);
    ck_assert_ok(wait_ms(s, first, LONG_MS));
    s->ops->close(s);
}
END_TEST

START_TEST(test_wait_binds_when_issued) {
    struct device_system *s = open_variant(_i);
    struct device_queue first = stream_on(s, 0), second = stream_on(s, 1);
    struct device_event *event = event_on(s, 0);
    ck_assert_ok(s->ops->record(s, first, event));
    ck_assert_ok(s->ops->wait(s, second, event));
    ck_assert_ok(emulated_hold(s, first));
    ck_assert_ok(s->ops->record(s, first, event)); /* the wait is for the record before */
    ck_assert_ok(wait_ms(s, second, LONG_MS));
    ck_assert_status(wait_ms(s, first, QUICK_MS), RINGLET_TIMEOUT);
    ck_assert_ok(s->ops->wait(s, second, event)); /* this one is for the new record */
    ck_assert_status(wait_ms(s, second, QUICK_MS), RINGLET_TIMEOUT);
    emulated_release(s);
    ck_assert_ok(wait_ms(s, second, LONG_MS));
    s->ops->close(s);
}
END_TEST

START_TEST(test_recording_again_disturbs_no_earlier_wait) {
    struct device_system *s = open_variant(_i);
    struct device_queue first = stream_on(s, 0), second = stream_on(s, 1), third = stream_on(s, 0);
    struct device_event *event = event_on(s, 0);
    float *a = floats_on(s, 0), *b = floats_on(s, 1), *c = floats_on(s, 1);
    fill(s, first, a, 3);
    ck_assert_ok(emulated_hold(s, first));
    ck_assert_ok(copy(s, first, 1, b, 0, a));
    ck_assert_ok(s->ops->record(s, first, event));
    ck_assert_ok(s->ops->wait(s, second, event));
    ck_assert_ok(copy(s, second, 1, c, 1, b));
    ck_assert_ok(s->ops->record(s, third, event)); /* done at once */
    ck_assert_ok(wait_ms(s, third, LONG_MS));
    ck_assert_status(wait_ms(s, second, QUICK_MS), RINGLET_TIMEOUT);
    emulated_release(s);
    ck_assert_ok(wait_ms(s, second, LONG_MS));
    ck_assert(holds(s, second, c, 3));
    ck_assert_uint_eq(emulated_races(s), 0);
    s->ops->close(s);
}
END_TEST

START_TEST(test_wait_covers_what_was_enqueued_before_the_record_only) {
    struct device_system *s = open_variant(_i);
    struct device_queue first = stream_on(s, 0), second = stream_on(s, 1);
    struct device_event *event = event_on(s, 0);
    ck_assert_ok(s->ops->record(s, first, event));
    ck_assert_ok(emulated_hold(s, first)); /* behind the record */
    ck_assert_ok(s->ops->wait(s, second, event));
    ck_assert_ok(wait_ms(s, second, LONG_MS));
    emulated_release(s);
    s->ops->close(s);
}
END_TEST

START_TEST(test_streams_and_events_die_when_their_work_is_done) {
    struct device_system *s = open_variant(_i);
    int64_t before = emulated_live(s);
    struct device_queue first = stream_on(s, 0), second = stream_on(s, 1), third = stream_on(s, 1);
    struct device_event *one = event_on(s, 0), *two = event_on(s, 1);
    float *a = floats_on(s, 0), *b = floats_on(s, 1), *c = floats_on(s, 1);
    fill(s, first, a, 9);
    ck_assert_ok(emulated_hold(s, first));
    ck_assert_ok(copy(s, first, 1, b, 0, a));
    ck_assert_ok(s->ops->record(s, first, one));
    ck_assert_ok(s->ops->wait(s, second, one));
    ck_assert_ok(copy(s, second, 1, c, 1, b));
    ck_assert_ok(s->ops->record(s, second, two));
    ck_assert_ok(s->ops->wait(s, third, two));
    ck_assert_ok(s->ops->event_destroy(s, 0, one));
    ck_assert_ok(s->ops->event_destroy(s, 1, two));
    ck_assert_ok(s->ops->stream_destroy(s, 0, first.stream));
    ck_assert_ok(s->ops->stream_destroy(s, 1, second.stream));
    ck_assert_int_eq(s->ops->stream_check(s, first), DEVICE_STREAM_UNKNOWN);
    ck_assert_status(copy(s, first, 1, b, 0, a), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(wait_ms(s, third, QUICK_MS), RINGLET_TIMEOUT);
    emulated_release(s);
    ck_assert_ok(wait_ms(s, third, LONG_MS));
    ck_assert(holds(s, third, c, 9));
    ck_assert_ok(s->ops->stream_destroy(s, 1, third.stream));
    ck_assert_ok(s->ops->memory_free(s, 0, a));
    ck_assert_ok(s->ops->memory_free(s, 1, b));
    ck_assert_ok(s->ops->memory_free(s, 1, c));
    ck_assert_int_eq(emulated_live(s), before);
    s->ops->close(s);
}
END_TEST

START_TEST(test_close_with_pending_work) {
    int64_t before = memory_live();
    struct device_system *s = open_variant(_i);
    struct device_queue first = stream_on(s, 0), second = stream_on(s, 1), third = stream_on(s, 2);
    struct device_event *event = event_on(s, 0);
    float *a = floats_on(s, 0), *b = floats_on(s, 1);
    ck_assert_ok(emulated_hold(s, first));
    for (int i = 0; i < 50; i++)
        ck_assert_ok(copy(s, first, 1, b, 0, a));
    ck_assert_ok(s->ops->record(s, first, event));
    ck_assert_ok(s->ops->wait(s, second, event));
    ck_assert_ok(copy(s, second, 0, a, 1, b));
    ck_assert_ok(s->ops->wait(s, third, event));
    ck_assert_ok(s->ops->stream_destroy(s, 2, third.stream));
    s->ops->retain(s);
    s->ops->close(s);
    ck_assert_status(wait_ms(s, second, QUICK_MS), RINGLET_TIMEOUT);
    s->ops->close(s);
    ck_assert_int_eq(memory_live(), before);
}
END_TEST

static void expect_words(const char *words) {
    ck_assert_msg(strstr(ringlet_error_message(), words) != NULL, "'%s' is not in '%s'", words,
                  ringlet_error_message());
}

START_TEST(test_bad_pointer_when_enqueued) {
    struct device_system *s = open_variant(_i);
    struct device_queue bad = stream_on(s, 0), good = stream_on(s, 0), waiter = stream_on(s, 1);
    float *a = floats_on(s, 0), *b = floats_on(s, 1), outside[N];
    ck_assert_status(s->ops->copy(s, bad, 1, b + 1, 0, a, N * sizeof(float), tag),
                     RINGLET_DEVICE_ERROR);
    expect_words("ends behind its allocation");
    expect_words("step 7");
    ck_assert_status(copy(s, bad, 1, b, 0, a), RINGLET_DEVICE_ERROR); /* for good */
    ck_assert_status(wait_ms(s, bad, LONG_MS), RINGLET_DEVICE_ERROR);
    ck_assert_status(s->ops->record(s, bad, event_on(s, 0)), RINGLET_DEVICE_ERROR);
    ck_assert_ok(copy(s, good, 1, b, 0, a));
    ck_assert_status(copy(s, good, 0, b, 0, a), RINGLET_DEVICE_ERROR);
    expect_words("memory of device 1, not of device 0");
    ck_assert_status(copy(s, waiter, 1, b, DEVICE_HOST, outside), RINGLET_DEVICE_ERROR);
    expect_words("no live memory of pinned host memory");
    ck_assert_ok(s->ops->stream_destroy(s, 0, bad.stream));
    ck_assert_status(wait_ms(s, good, LONG_MS), RINGLET_DEVICE_ERROR);
    ck_assert_ok(
        s->ops->memory_free(s, 0, a)); /* nothing holds on to the good pointers of bad calls */
    s->ops->close(s);
}
END_TEST

/* That a queue failed is all that its user learns, and he must be able to free what it used. */
START_TEST(test_freeing_behind_a_failed_stream) {
    struct device_system *s = open_variant(_i);
    struct device_queue q = stream_on(s, 0);
    float *a = floats_on(s, 0), *b = floats_on(s, 1);
    bool idle = true;
    for (int i = 0; i < 3; i++)
        ck_assert_ok(copy(s, q, 1, b, 0, a));
    ck_assert_ok(s->ops->poll(s, q, &idle)); /* runs the first */
    ck_assert(!idle);
    ck_assert_status(copy(s, q, 1, b + 1, 0, a), RINGLET_DEVICE_ERROR);
    ck_assert_status(wait_ms(s, q, LONG_MS), RINGLET_DEVICE_ERROR);
    ck_assert_ok(s->ops->memory_free(s, 0, a));
    ck_assert_ok(s->ops->memory_free(s, 1, b));
    ck_assert_uint_eq(emulated_races(s), 0);
    s->ops->close(s);
}
END_TEST

START_TEST(test_bad_pointer_when_run) {
    struct device_system *s = open_variant(_i);
    struct device_queue bad = stream_on(s, 0), waiter = stream_on(s, 1), good = stream_on(s, 1);
    struct device_event *event = event_on(s, 0);
    float *a = floats_on(s, 0), *b = floats_on(s, 1);
    fill(s, bad, a, 1);
    ck_assert_ok(emulated_hold(s, bad));
    ck_assert_ok(copy(s, bad, 1, b, 0, a));
    ck_assert_ok(s->ops->record(s, bad, event));
    ck_assert_ok(s->ops->wait(s, waiter, event));
    ck_assert_ok(s->ops->memory_free(s, 1, b));
    emulated_release(s);
    ck_assert_status(wait_ms(s, waiter, LONG_MS), RINGLET_DEVICE_ERROR);
    expect_words("waited for device 0 stream");
    expect_words("no live memory of device 1");
    ck_assert_status(wait_ms(s, bad, LONG_MS), RINGLET_DEVICE_ERROR);
    ck_assert_ok(wait_ms(s, good, LONG_MS));
    s->ops->close(s);
}
END_TEST

START_TEST(test_bad_arguments) {
    struct device_system *s = open_variant(_i);
    struct device_queue q = stream_on(s, 0), other = {1, q.stream}, none = {GPUS, NULL};
    float *a = floats_on(s, 0), *b = floats_on(s, 0);
    void *memory = NULL;
    ringlet_stream stream = NULL;
    int saved = 0;
    struct device_event *event = event_on(s, 1);
    ck_assert_status(s->ops->memory_alloc(s, GPUS, 4, &memory), RINGLET_NO_DEVICE);
    ck_assert_status(s->ops->memory_alloc(s, 0, UINT64_MAX, &memory), RINGLET_OUT_OF_MEMORY);
    ck_assert_status(s->ops->memory_alloc(s, 0, (uint64_t)64 << 30, &memory),
                     RINGLET_OUT_OF_MEMORY);
    expect_words("are in use"); /* a and b are */
    ck_assert_status(s->ops->host_alloc(s, UINT64_MAX - 3, &memory), RINGLET_OUT_OF_MEMORY);
    ck_assert_ptr_null(memory);
    ck_assert_status(s->ops->memory_free(s, 1, a), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(s->ops->memory_free(s, 0, a + 1), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(s->ops->host_free(s, a), RINGLET_INVALID_ARGUMENT);
    ck_assert_ok(s->ops->memory_free(s, 0, NULL));
    ck_assert_ok(s->ops->host_free(s, NULL));
    ck_assert_status(s->ops->stream_create(s, -1, &stream), RINGLET_NO_DEVICE);
    ck_assert_ok(s->ops->stream_destroy(s, 0, NULL));
    ck_assert_status(s->ops->stream_destroy(s, 1, q.stream), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(s->ops->bind(s, GPUS, &saved), RINGLET_NO_DEVICE);
    ck_assert_status(s->ops->record(s, q, event), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(copy(s, other, 0, a, 0, b), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(copy(s, none, 0, a, 0, b), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(copy(s, q, 0, a, GPUS, b), RINGLET_NO_DEVICE);
    ck_assert_status(s->ops->copy(s, q, 0, a, 0, a + 8, 64, tag), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(reduce_two(s, q, 0, a, a + 1, b, 8, RINGLET_FLOAT32, RINGLET_SUM, tag),
                     RINGLET_INVALID_ARGUMENT);
    ck_assert_status(reduce_two(s, q, 1, a, a, b, 8, RINGLET_FLOAT32, RINGLET_SUM, tag),
                     RINGLET_INVALID_ARGUMENT);
    ck_assert_status(reduce_two(s, q, 0, (char *)a + 2, b, b, 8, RINGLET_FLOAT32, RINGLET_SUM, tag),
                     RINGLET_INVALID_ARGUMENT);
    ck_assert_status(reduce_two(s, q, 0, a, a, b, 8, (ringlet_dtype)77, RINGLET_SUM, tag),
                     RINGLET_UNSUPPORTED);
    ck_assert_ok(s->ops->copy(s, q, 0, NULL, 0, NULL, 0, tag)); /* nothing */
    ck_assert_ok(wait_ms(s, q, LONG_MS));                       /* none of these hurt the stream */
    s->ops->close(s);
}
END_TEST

START_TEST(test_stream_check) {
    struct device_system *s = open_variant(_i);
    struct device_queue q = stream_on(s, 0);
    int thing = 0;
    ck_assert_int_eq(s->ops->stream_check(s, q), DEVICE_STREAM_OK);
    ck_assert_int_eq(s->ops->stream_check(s, (struct device_queue){1, NULL}), DEVICE_STREAM_OK);
    q.device = 1;
    ck_assert_int_eq(s->ops->stream_check(s, q), DEVICE_STREAM_OTHER_DEVICE);
    q.stream = (ringlet_stream)(void *)&thing;
    ck_assert_int_eq(s->ops->stream_check(s, q), DEVICE_STREAM_UNKNOWN);
    q.device = GPUS;
    ck_assert_int_eq(s->ops->stream_check(s, q), DEVICE_STREAM_UNKNOWN);
    s->ops->close(s);
}
END_TEST

START_TEST(test_memory) {
    struct device_system *s = open_variant(_i);
    struct device_pointer found;
    int64_t before = emulated_live(s);
    float local = 0;
    float *a = floats_on(s, 2), *host = floats_on(s, DEVICE_HOST);
    void *large = NULL, *empty = NULL;
    ck_assert_int_eq(emulated_live(s), before + 2);
    ck_assert(a[0] != a[0] && a[N - 1] != a[N - 1]); /* fresh memory is not a number */
    s->ops->inspect(s, a + 10, &found);
    ck_assert_int_eq(found.kind, DEVICE_POINTER_DEVICE);
    ck_assert_int_eq(found.device, 2);
    ck_assert_uint_eq(found.bytes, (N - 10) * sizeof(float));
    s->ops->inspect(s, host, &found);
    ck_assert_int_eq(found.kind, DEVICE_POINTER_HOST);
    ck_assert_uint_eq(found.bytes, N * sizeof(float));
    s->ops->inspect(s, &local, &found);
    ck_assert_int_eq(found.kind, DEVICE_POINTER_HOST);
    ck_assert_uint_eq(found.bytes, UINT64_MAX);
    s->ops->inspect(s, NULL, &found);
    ck_assert_int_eq(found.kind, DEVICE_POINTER_UNKNOWN);
    ck_assert_ok(s->ops->memory_alloc(s, 0, (uint64_t)256 << 20, &large));
    ck_assert_ok(s->ops->memory_alloc(s, 0, 0, &empty));
    ck_assert_ptr_nonnull(empty);
    ck_assert_ok(s->ops->memory_free(s, 0, empty));
    ck_assert_ok(s->ops->memory_free(s, 0, large));
    ck_assert_ok(s->ops->memory_free(s, 2, a));
    s->ops->inspect(s, host, &found);
    ck_assert_int_eq(found.device, DEVICE_HOST);
    ck_assert_ok(s->ops->host_free(s, host));
    ck_assert_int_eq(emulated_live(s), before);
    s->ops->close(s);
}
END_TEST

START_TEST(test_peers) {
    struct device_system *s = open_variant(_i);
    ck_assert_int_eq(s->ops->peer_enable(s, 0, 1), DEVICE_PEER_ON);
    ck_assert_int_eq(s->ops->peer_enable(s, 0, 1), DEVICE_PEER_ALREADY_ON);
    ck_assert_int_eq(s->ops->peer_enable(s, 1, 0), DEVICE_PEER_ON); /* directed */
    ck_assert_int_eq(s->ops->peer_enable(s, 0, 0), DEVICE_PEER_NO_DEVICE);
    ck_assert_int_eq(s->ops->peer_enable(s, 0, GPUS), DEVICE_PEER_NO_DEVICE);
    for (int answer = DEVICE_PEER_ON; answer <= DEVICE_PEER_FAILED; answer++) {
        emulated_set_peer(s, 1, 2, (enum device_peer)answer);
        ck_assert_int_eq(s->ops->peer_enable(s, 1, 2), (enum device_peer)answer);
        ck_assert_str_ne(device_peer_text((enum device_peer)answer),
                         device_peer_text((enum device_peer)99));
        emulated_set_peer(s, 1, 2, DEVICE_PEER_NOT_POSSIBLE);
    }
    emulated_fail_at(s, 1, RINGLET_DEVICE_ERROR);
    ck_assert_int_eq(s->ops->peer_enable(s, 2, 1), DEVICE_PEER_FAILED);
    expect_words("planted fault in peer_enable");
    s->ops->close(s);
}
END_TEST

START_TEST(test_peer_not_possible_in_the_machine) {
    struct topology machine;
    struct device_system *s = NULL;
    ck_assert_ok(topology_make_switch(&machine, 2));
    machine.links[1].p2p = false;
    struct emulated_config config = config_of(_i, &machine);
    ck_assert_ok(emulated_open(&s, &config));
    topology_free(&machine);
    ck_assert_int_eq(s->ops->peer_enable(s, 0, 1), DEVICE_PEER_NOT_POSSIBLE);
    ck_assert_int_eq(s->ops->peer_enable(s, 1, 0), DEVICE_PEER_ON);
    s->ops->close(s);
}
END_TEST

START_TEST(test_bindings_nest) {
    struct device_system *s = open_variant(_i);
    struct device_info info;
    int outer = 0, inner = 0;
    ck_assert_ok(s->ops->bind(s, 1, &outer));
    ck_assert_ok(s->ops->bind(s, 2, &inner));
    ck_assert_int_eq(inner, 1);
    s->ops->unbind(s, inner);
    ck_assert_ok(s->ops->bind(s, 0, &inner));
    ck_assert_int_eq(inner, 1);
    s->ops->unbind(s, inner);
    s->ops->unbind(s, outer);
    ck_assert_int_eq(s->ops->count(s), GPUS);
    ck_assert_ok(s->ops->describe(s, 2, &info));
    ck_assert_ptr_nonnull(strstr(info.name, s->ops->machine(s)));
    ck_assert_status(s->ops->describe(s, GPUS, &info), RINGLET_NO_DEVICE);
    ck_assert_int_eq(s->ops->modelled(s), _i > 0);
    ck_assert_int_eq(s->ops->single_threaded(s), _i > 0);
    s->ops->close(s);
}
END_TEST

static bool stop_at_third(void *context) {
    return ++*(int *)context == 3;
}

START_TEST(test_waiting_ends) {
    struct device_system *s = open_variant(_i);
    struct device_queue q = stream_on(s, 0);
    int asked = 0;
    ck_assert_ok(wait_ms(s, q, 0));
    ck_assert_ok(emulated_hold(s, q));
    ck_assert_status(wait_ms(s, q, 0), RINGLET_TIMEOUT);
    ck_assert_status(device_wait(s, q, -1, stop_at_third, &asked), RINGLET_ABORTED);
    ck_assert_int_eq(asked, 3);
    emulated_release(s);
    ck_assert_ok(wait_ms(s, q, -1));
    s->ops->close(s);
}
END_TEST

/* A little of everything; stops at the first failure and gives back all it took. */
static ringlet_status little_of_everything(struct device_system *s) {
    const struct device_ops *ops = s->ops;
    struct device_queue q[2] = {{0, NULL}, {1, NULL}};
    struct device_event *event[2] = {NULL, NULL};
    void *a = NULL, *b = NULL, *host = NULL;
    float data[16] = {0};
    int saved = 0;
    ringlet_status status = ops->bind(s, 0, &saved);
    if (!status)
        ops->unbind(s, saved);
    for (int i = 0; i < 2 && !status; i++) {
        status = ops->stream_create(s, i, &q[i].stream);
        if (!status)
            status = ops->event_create(s, i, &event[i]);
    }
    if (!status && ops->peer_enable(s, 0, 1) == DEVICE_PEER_FAILED)
        status = RINGLET_DEVICE_ERROR;
    if (!status)
        status = ops->memory_alloc(s, 0, sizeof data, &a);
    if (!status)
        status = ops->memory_alloc(s, 1, sizeof data, &b);
    if (!status)
        status = ops->host_alloc(s, sizeof data, &host);
    if (!status)
        status = ops->transfer(s, q[0], a, data, sizeof data, true);
    for (int round = 0; round < 3; round++) {
        if (!status)
            status = ops->wait(s, q[0], event[1]);
        if (!status)
            status = ops->copy(s, q[0], 1, b, 0, a, sizeof data, tag);
        if (!status)
            status = ops->record(s, q[0], event[0]);
        if (!status)
            status = ops->wait(s, q[1], event[0]);
        if (!status)
            status = reduce_two(s, q[1], 1, b, b, b, 16, RINGLET_FLOAT32, RINGLET_SUM, tag);
        if (!status)
            status = ops->copy(s, q[1], DEVICE_HOST, host, 1, b, sizeof data, tag);
        if (!status)
            status = ops->record(s, q[1], event[1]);
    }
    for (int i = 0; i < 2; i++) {
        ringlet_status waited = wait_ms(s, q[i], LONG_MS);
        status = status ? status : waited;
        if (waited) /* the fault was in looking: work goes on, and memory is freed only behind it */
            wait_ms(s, q[i], LONG_MS);
    }
    ringlet_status ends[7] = {ops->memory_free(s, 0, a),
                              ops->memory_free(s, 1, b),
                              ops->host_free(s, host),
                              ops->event_destroy(s, 0, event[0]),
                              ops->event_destroy(s, 1, event[1]),
                              ops->stream_destroy(s, 0, q[0].stream),
                              ops->stream_destroy(s, 1, q[1].stream)};
    for (int i = 0; i < 7; i++)
        status = status ? status : ends[i];
    return status;
}

START_TEST(test_planted_faults_leak_nothing) {
    int64_t memory = memory_live();
    uint64_t nth = 1;
    for (;; nth++) {
        struct device_system *s = open_variant(_i);
        int64_t live = emulated_live(s);
        emulated_fail_at(s, nth, RINGLET_DEVICE_ERROR);
        ringlet_status status = little_of_everything(s);
        bool pending = emulated_fail_pending(s);
        ck_assert_int_eq(emulated_live(s), live);
        s->ops->close(s);
        ck_assert_int_eq(memory_live(), memory);
        if (pending) {
            ck_assert_ok(status);
            break;
        }
    }
    ck_assert_uint_gt(nth, 40);
}
END_TEST

START_TEST(test_lack_of_memory_leaks_nothing) {
    struct topology machine;
    ck_assert_ok(topology_make_switch(&machine, GPUS));
    int64_t memory = memory_live();
    struct emulated_config config = config_of(_i, &machine);
    uint64_t nth = 1, failed = 0;
    for (bool pending = false; !pending; nth++) {
        struct device_system *s = NULL;
        memory_fail_at(nth);
        ringlet_status status = emulated_open(&s, &config);
        ck_assert((status == RINGLET_OK) == (s != NULL));
        if (!status) {
            status = little_of_everything(s);
            ck_assert_int_eq(emulated_live(s), 0);
            s->ops->close(s);
        }
        pending = memory_fail_pending();
        memory_fail_at(0);
        ck_assert(status == RINGLET_OK || status == RINGLET_OUT_OF_MEMORY);
        failed += status != RINGLET_OK;
        ck_assert(pending ? status == RINGLET_OK : true);
        ck_assert_int_eq(memory_live(), memory);
    }
    ck_assert_uint_gt(failed, 20);
    topology_free(&machine);
}
END_TEST

/* Two host threads that each drive a device, through events, in both directions. */
struct driver {
    struct device_system *system;
    struct device_queue queue, other;
    struct device_event *event; /* of this side */
    float *own, *peers, *landing;
    int peer;
};

static void *drive(void *context) {
    struct driver *d = context;
    for (int round = 0; round < 200; round++) {
        ck_assert_ok(d->system->ops->copy(d->system, d->queue, d->peer, d->landing, d->queue.device,
                                          d->own, N * sizeof(float), tag));
        ck_assert_ok(d->system->ops->record(d->system, d->queue, d->event));
        ck_assert_ok(d->system->ops->wait(d->system, d->other, d->event));
        ck_assert_ok(copy(d->system, d->other, d->peer, d->peers, d->peer, d->landing));
        ck_assert_ok(d->system->ops->record(d->system, d->other, d->event));
        ck_assert_ok(d->system->ops->wait(d->system, d->queue, d->event));
    }
    ck_assert_ok(wait_ms(d->system, d->other, LONG_MS));
    ck_assert_ok(wait_ms(d->system, d->queue, LONG_MS));
    return NULL;
}

START_TEST(test_several_host_threads) {
    struct device_system *s = open_variant(_i);
    struct driver drivers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        /* Both queues of a driver are of one device, so that one event serves them in turn. */
        drivers[i] = (struct driver){s,
                                     stream_on(s, i),
                                     stream_on(s, i),
                                     event_on(s, i),
                                     floats_on(s, i),
                                     floats_on(s, i),
                                     floats_on(s, i),
                                     i};
        fill(s, drivers[i].queue, drivers[i].own, (float)i);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, drive, &drivers[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        ck_assert(holds(s, drivers[i].queue, drivers[i].peers, (float)i));
    ck_assert_uint_eq(emulated_races(s), 0);
    s->ops->close(s);
}
END_TEST

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif

#ifdef THREAD_SANITIZER
enum { EXIT_RACE = 66 }; /* the thread sanitizer's */

static void let_run(struct device_system *s, uint64_t operations) {
    while (emulated_operations(s) < operations)
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

/* A dependency is left out, and the operations run well apart: nothing inside the emulated devices
 * may make them look ordered to the thread sanitizer. Must end with its exit status. */
START_TEST(test_thread_sanitizer_sees_a_missing_wait) {
    struct device_system *s = open_variant(0);
    struct device_queue first = stream_on(s, 0), second = stream_on(s, 1), third = stream_on(s, 2);
    struct device_event *event = event_on(s, 0), *unrelated = event_on(s, 2);
    float *a = floats_on(s, 0), *b = floats_on(s, 1), *c = floats_on(s, 1);
    bool idle = false;
    close(STDERR_FILENO); /* the report is expected */
    ck_assert_int_eq(open("/dev/null", O_WRONLY), STDERR_FILENO);
    ck_assert_ok(s->ops->record(s, third, unrelated));
    ck_assert_ok(s->ops->wait(s, second, unrelated));
    ck_assert_ok(s->ops->wait(s, first, unrelated));
    let_run(s, 3);
    ck_assert_ok(copy(s, first, 1, b, 0, a));
    ck_assert_ok(s->ops->record(s, first, event));
    let_run(s, 5);
    if (_i > 0) { /* what a host does meanwhile; none of it synchronises with the copy */
        ck_assert_ok(s->ops->wait(s, third, event));
        ck_assert_ok(s->ops->wait(s, second, unrelated));
        ck_assert_ok(emulated_hold(s, first));
        ck_assert_ok(s->ops->poll(s, first, &idle));
        ck_assert(!idle);
        ck_assert_int_eq(s->ops->stream_check(s, first), DEVICE_STREAM_OK);
        let_run(s, 7);
    }
    if (_i == 2) /* with that wait it is no race */
        ck_assert_ok(s->ops->wait(s, second, event));
    ck_assert_ok(reduce_two(s, second, 1, c, b, b, N, RINGLET_FLOAT32, RINGLET_SUM, tag));
    ck_assert_ok(wait_ms(s, second, LONG_MS));
    s->ops->close(s);
    exit(EXIT_SUCCESS); /* which the sanitizer changes if it has seen the race */
}
END_TEST
#endif

/* Time: a machine whose figures are easy. */
static struct device_system *open_timed(struct topology *machine, uint64_t seed) {
    struct device_system *s = NULL;
    ck_assert_ok(topology_make_switch(machine, GPUS));
    for (int i = 0; i < GPUS * GPUS; i++) {
        machine->links[i].rate_gbps = 4; /* 1 ns for each float */
        machine->links[i].latency_us = 1;
    }
    machine->host_rate_gbps = 2;
    machine->host_latency_us = 3;
    machine->memory_rate_gbps = 12; /* adding takes 1 ns for each float */
    machine->kernel_latency_us = 2;
    struct emulated_config config = {machine, RINGLET_SCHEDULER_SEEDED, seed, false};
    ck_assert_ok(emulated_open(&s, &config));
    for (int i = 0; i < GPUS; i++)
        for (int j = 0; j < GPUS; j++)
            if (i != j)
                ck_assert_int_eq(s->ops->peer_enable(s, i, j), DEVICE_PEER_ON);
    return s;
}

START_TEST(test_virtual_time) {
    struct topology machine;
    struct device_system *s = open_timed(&machine, 0);
    struct device_queue q0 = stream_on(s, 0), q1 = stream_on(s, 1), q2 = stream_on(s, 2);
    struct device_event *event = event_on(s, 0);
    float *a = floats_on(s, 0), *b = floats_on(s, 1), *c = floats_on(s, 2), *d = floats_on(s, 1);
    ck_assert_uint_eq(s->ops->now_ns(s), 0);
    ck_assert_ok(copy(s, q0, 1, b, 0, a)); /* 0 to 2000 */
    ck_assert_ok(s->ops->record(s, q0, event));
    ck_assert_ok(copy(s, q2, 1, d, 2, c)); /* the way into device 1 is taken: 2000 to 4000 */
    ck_assert_ok(s->ops->wait(s, q1, event));
    ck_assert_ok(reduce_two(s, q1, 1, b, b, b, N, RINGLET_FLOAT32, RINGLET_SUM, tag)); /* to 5000 */
    ck_assert_ok(wait_ms(s, q0, LONG_MS));
    ck_assert_uint_eq(s->ops->now_ns(s), 2000);
    ck_assert_ok(wait_ms(s, q2, LONG_MS));
    ck_assert_ok(wait_ms(s, q1, LONG_MS));
    ck_assert_uint_eq(s->ops->now_ns(s), 5000);
    /* The host knows of 5000 and issues: it cannot start before, though q0 ended at 2000. */
    ck_assert_ok(copy(s, q0, 2, c, 0, a)); /* 5000 to 7000 */
    ck_assert_ok(copy(s, q1, 0, a, 1, b)); /* races with the above, also in time: 5000 to 7000 */
    ck_assert_status(wait_ms(s, q1, LONG_MS), RINGLET_DEVICE_ERROR);
    s->ops->close(s);
    topology_free(&machine);
}
END_TEST

START_TEST(test_virtual_time_both_ways_and_through_the_host) {
    struct topology machine;
    struct device_system *s = open_timed(&machine, 0);
    struct device_queue q0 = stream_on(s, 0), q1 = stream_on(s, 1);
    float *a = floats_on(s, 0), *b = floats_on(s, 1), *c = floats_on(s, 0), *d = floats_on(s, 1);
    ck_assert_ok(copy(s, q0, 1, b, 0, a));
    ck_assert_ok(copy(s, q1, 0, c, 1, d)); /* the other way: at the same time */
    ck_assert_ok(wait_ms(s, q0, LONG_MS));
    ck_assert_ok(wait_ms(s, q1, LONG_MS));
    ck_assert_uint_eq(s->ops->now_ns(s), 2000);
    emulated_set_peer(s, 0, 1, DEVICE_PEER_NOT_SUPPORTED);
    struct topology without;
    ck_assert_ok(topology_copy(&without, &machine));
    without.links[1].p2p = false;
    uint64_t slow = (uint64_t)(topology_copy_ns(&without, 0, 1, N * sizeof(float)) + 0.5);
    ck_assert_uint_gt(slow, 6000); /* no sooner than two copies to and from the host start */
    ck_assert_ok(copy(s, q0, 1, b, 0, a));
    ck_assert_ok(wait_ms(s, q0, LONG_MS));
    ck_assert_uint_eq(s->ops->now_ns(s), 2000 + slow);
    ck_assert_ok(copy(s, q1, 1, d, 0, c)); /* pulled: device 1 may access device 0 */
    ck_assert_ok(wait_ms(s, q1, LONG_MS));
    ck_assert_uint_eq(s->ops->now_ns(s), 2000 + slow + 2000);
    topology_free(&without);
    topology_free(&machine);
    s->ops->close(s);
}
END_TEST

/* Operations that are ready at once run in the order of their plan steps, then of their devices. */
START_TEST(test_order_of_modelled_time) {
    struct topology machine;
    struct device_system *s = open_timed(&machine, 0);
    struct device_queue q0 = stream_on(s, 0), q2 = stream_on(s, 2);
    float *a = floats_on(s, 0), *b = floats_on(s, 1), *c = floats_on(s, 2), *d = floats_on(s, 1);
    struct device_tag late = {1, 0, 9};
    ck_assert_ok(s->ops->copy(s, q0, 1, b, 0, a, N * sizeof(float), late));
    ck_assert_ok(copy(s, q2, 1, d, 2, c));
    bool idle = false;
    ck_assert_ok(s->ops->poll(s, q2, &idle));
    ck_assert(idle);
    ck_assert_uint_eq(s->ops->now_ns(s), 2000);
    ck_assert_ok(s->ops->poll(s, q0, &idle));
    ck_assert(idle);
    ck_assert_uint_eq(s->ops->now_ns(s), 4000);
    s->ops->close(s);
    topology_free(&machine);
}
END_TEST

static uint64_t digest_of(uint64_t seed, uint64_t *turns) {
    struct topology machine;
    struct device_system *s = open_timed(&machine, seed);
    struct device_queue q[GPUS];
    float *a[GPUS], *b[GPUS];
    for (int i = 0; i < GPUS; i++) {
        q[i] = stream_on(s, i);
        a[i] = floats_on(s, i);
        b[i] = floats_on(s, i);
    }
    *turns = 0;
    for (int i = 0; i < 60; i++) {
        uint32_t turn = s->ops->turn(s, GPUS);
        ck_assert_uint_lt(turn, GPUS);
        *turns = *turns * 3 + turn;
        ck_assert_ok(copy(s, q[turn], (int)turn, b[turn], (int)turn, a[turn]));
    }
    for (int i = 0; i < GPUS; i++)
        ck_assert_ok(wait_ms(s, q[i], LONG_MS));
    uint64_t digest = emulated_digest(s);
    ck_assert_uint_eq(emulated_operations(s), 60);
    s->ops->close(s);
    topology_free(&machine);
    return digest;
}

START_TEST(test_same_seed_same_run) {
    int different = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        uint64_t turns, again, others;
        uint64_t digest = digest_of(seed, &turns);
        ck_assert_uint_eq(digest, digest_of(seed, &again));
        ck_assert_uint_eq(turns, again);
        different += digest != digest_of(seed + 1, &others);
    }
    ck_assert_int_ge(different, 48);
}
END_TEST

START_TEST(test_turns_in_time_order_go_round) {
    struct device_system *s = open_variant(_i);
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_uint_eq(s->ops->turn(s, 3), i % 3);
    s->ops->close(s);
}
END_TEST

START_TEST(test_bad_configuration) {
    struct topology machine;
    struct device_system *s = NULL;
    ck_assert_ok(topology_make_switch(&machine, 1));
    struct emulated_config config = {NULL, RINGLET_SCHEDULER_SEEDED, 0, false};
    ck_assert_status(emulated_open(&s, &config), RINGLET_INVALID_ARGUMENT);
    config.machine = &machine;
    config.scheduler = (ringlet_scheduler)7;
    ck_assert_status(emulated_open(&s, &config), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_null(s);
    topology_free(&machine);
}
END_TEST

START_TEST(test_cpu_reduce) {
    enum { MOST = 300 };
    float a[MOST + 8], b[MOST + 8], expected[MOST];
    srand(_i + 1);
    uint64_t count = (uint64_t)rand() % MOST;
    int shift_a = rand() % 8, shift_b = rand() % 8;
    for (int i = 0; i < MOST + 8; i++) {
        a[i] = (float)rand() / 1e3f;
        b[i] = (float)rand() / 1e4f;
    }
    for (uint64_t i = 0; i < count; i++)
        expected[i] = a[i + (uint64_t)shift_a] + b[i + (uint64_t)shift_b];
    float end = a[count + (uint64_t)shift_a], dst[MOST] = {0};
    cpu_reduce_two(dst, a + shift_a, b + shift_b, count, RINGLET_FLOAT32, RINGLET_SUM);
    ck_assert_mem_eq(dst, expected, count * sizeof(float));
    ck_assert(dst[count] == 0);
    if (_i % 2)
        cpu_reduce_two(a + shift_a, a + shift_a, b + shift_b, count, RINGLET_FLOAT32, RINGLET_SUM);
    else
        cpu_reduce_two(a + shift_a, b + shift_b, a + shift_a, count, RINGLET_FLOAT32, RINGLET_SUM);
    ck_assert_mem_eq(a + shift_a, expected, count * sizeof(float));
    ck_assert(a[count + (uint64_t)shift_a] == end);
    ck_assert_uint_eq(device_dtype_size(RINGLET_FLOAT32), 4);
    ck_assert_uint_eq(device_dtype_size((ringlet_dtype)77), 0);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("emulated");
    TCase *both = tcase_create("both schedulers");
    tcase_set_timeout(both, 60);
    tcase_add_loop_test(both, test_moves_data, 0, VARIANTS);
    tcase_add_loop_test(both, test_wait_on_unrecorded_event_waits_for_nothing, 0, VARIANTS);
    tcase_add_loop_test(both, test_wait_binds_when_issued, 0, VARIANTS);
    tcase_add_loop_test(both, test_recording_again_disturbs_no_earlier_wait, 0, VARIANTS);
    tcase_add_loop_test(both, test_wait_covers_what_was_enqueued_before_the_record_only, 0,
                        VARIANTS);
    tcase_add_loop_test(both, test_streams_and_events_die_when_their_work_is_done, 0, VARIANTS);
    tcase_add_loop_test(both, test_close_with_pending_work, 0, VARIANTS);
    tcase_add_loop_test(both, test_bad_pointer_when_enqueued, 0, VARIANTS);
    tcase_add_loop_test(both, test_freeing_behind_a_failed_stream, 1, VARIANTS);
    tcase_add_loop_test(both, test_bad_pointer_when_run, 0, VARIANTS);
    tcase_add_loop_test(both, test_bad_arguments, 0, 2);
    tcase_add_loop_test(both, test_stream_check, 0, 2);
    tcase_add_loop_test(both, test_memory, 0, 2);
    tcase_add_loop_test(both, test_peers, 0, 2);
    tcase_add_loop_test(both, test_peer_not_possible_in_the_machine, 0, 2);
    tcase_add_loop_test(both, test_bindings_nest, 0, 2);
    tcase_add_loop_test(both, test_waiting_ends, 0, 2);
    tcase_add_loop_test(both, test_planted_faults_leak_nothing, 0, 4);
    tcase_add_loop_test(both, test_lack_of_memory_leaks_nothing, 0, 4);
    tcase_add_loop_test(both, test_several_host_threads, 0, VARIANTS);
    tcase_add_loop_test(both, test_turns_in_time_order_go_round, 0, 2);
    suite_add_tcase(suite, both);
    TCase *tests = tcase_create("the rest");
    tcase_add_test(tests, test_virtual_time);
    tcase_add_test(tests, test_virtual_time_both_ways_and_through_the_host);
    tcase_add_test(tests, test_order_of_modelled_time);
    tcase_add_test(tests, test_same_seed_same_run);
    tcase_add_test(tests, test_bad_configuration);
    tcase_add_loop_test(tests, test_cpu_reduce, 0, 100);
    suite_add_tcase(suite, tests);
#ifdef THREAD_SANITIZER
    TCase *sanitizer = tcase_create("thread sanitizer");
    tcase_add_loop_exit_test(sanitizer, test_thread_sanitizer_sees_a_missing_wait, EXIT_RACE, 0, 2);
    tcase_add_loop_exit_test(sanitizer, test_thread_sanitizer_sees_a_missing_wait, EXIT_SUCCESS, 2,
                             3);
    suite_add_tcase(suite, sanitizer);
#endif
    return suite;
}

SUITE_MAIN(suite)
