/*
 * The race checker of the emulated devices: what is a race is found under every seed, what is none
 * never.
 */
#include <string.h>

#include "base/memory.h"
#include "device/emulated_private.h"
#include "reduce_two.h"
#include "suite.h"

enum { GPUS = 3, BYTES = 1024, SEEDS = 300, LONG_MS = 20000 };

struct bench { /* two devices with a stream each, and memory */
    struct device_system *system;
    const struct device_ops *ops;
    struct device_queue q[GPUS];
    struct device_event *event[GPUS];
    char *a[GPUS], *b[GPUS], *host;
    uint32_t step;
};

static struct bench bench_open(uint64_t seed, bool keep_going) {
    struct bench t = {.step = 10};
    struct topology machine;
    ck_assert_ok(topology_make_switch(&machine, GPUS));
    struct emulated_config config = {&machine, RINGLET_SCHEDULER_SEEDED, seed, keep_going};
    ck_assert_ok(emulated_open(&t.system, &config));
    topology_free(&machine);
    t.ops = t.system->ops;
    for (int i = 0; i < GPUS; i++) {
        void *memory;
        t.q[i].device = i;
        ck_assert_ok(t.ops->stream_create(t.system, i, &t.q[i].stream));
        ck_assert_ok(t.ops->event_create(t.system, i, &t.event[i]));
        ck_assert_ok(t.ops->memory_alloc(t.system, i, BYTES, &memory));
        t.a[i] = memory;
        ck_assert_ok(t.ops->memory_alloc(t.system, i, BYTES, &memory));
        t.b[i] = memory;
        ck_assert_ok(t.ops->host_alloc(t.system, BYTES, &memory));
        t.host = memory;
    }
    return t;
}

static struct device_tag tag_of(struct bench *t, int rank) {
    return (struct device_tag){4, (uint32_t)rank, t->step++};
}

/* From device `from`'s a to device `to`'s b, in from's stream. */
static void push(struct bench *t, int from, int to) {
    ck_assert_ok(t->ops->copy(t->system, t->q[from], to, t->b[to], from, t->a[from], BYTES,
                              tag_of(t, from)));
}

/* Reads bytes of b and writes a, in the device's own stream. */
static void use(struct bench *t, int device, uint64_t offset, uint64_t bytes) {
    ck_assert_ok(reduce_two(t->system, t->q[device], device, t->a[device] + offset,
                            t->b[device] + offset, t->a[device] + offset, bytes / 4,
                            RINGLET_FLOAT32, RINGLET_SUM, tag_of(t, device)));
}

static void record(struct bench *t, int device) {
    ck_assert_ok(t->ops->record(t->system, t->q[device], t->event[device]));
}

static void await(struct bench *t, int waiter, int recorder) {
    ck_assert_ok(t->ops->wait(t->system, t->q[waiter], t->event[recorder]));
}

static ringlet_status sync(struct bench *t, int device) {
    return device_wait(t->system, t->q[device], LONG_MS, NULL, NULL);
}

/* Runs operations until so many have run in all, without being told that their queues are idle. */
static void run_until(struct bench *t, uint64_t operations) {
    bool idle = false;
    ck_assert_ok(emulated_hold(t->system, t->q[2])); /* so that looking there runs the others */
    while (emulated_operations(t->system) < operations)
        ck_assert_ok(t->ops->poll(t->system, t->q[2], &idle));
    ck_assert(!idle);
}

/* Runs what is left and gives the races found. */
static uint64_t finish(struct bench *t) {
    for (int i = 0; i < GPUS; i++)
        ck_assert_ok(sync(t, i));
    uint64_t races = emulated_races(t->system);
    ck_assert_int_eq(races == 0, emulated_race_text(t->system)[0] == 0);
    t->ops->close(t->system);
    return races;
}

static uint64_t missing_wait_is_found_under_every_seed(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    push(&t, 0, 1);
    record(&t, 0);
    use(&t, 1, 0, BYTES);
    return finish(&t);
}

static uint64_t wait_orders(uint64_t seed) {
    struct bench t = bench_open(seed, false);
    push(&t, 0, 1);
    record(&t, 0);
    await(&t, 1, 0);
    use(&t, 1, 0, BYTES);
    return finish(&t);
}

static uint64_t reuse_before_the_reader_is_done(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    for (int round = 0; round < 2;
         round++) { /* the second push overwrites what use() may still read */
        push(&t, 0, 1);
        record(&t, 0);
        await(&t, 1, 0);
        use(&t, 1, 0, BYTES);
    }
    return finish(&t);
}

static uint64_t reuse_after_the_reader_is_done(uint64_t seed) {
    struct bench t = bench_open(seed, false);
    for (int round = 0; round < 5; round++) {
        push(&t, 0, 1);
        record(&t, 0);
        await(&t, 1, 0);
        use(&t, 1, 0, BYTES);
        record(&t, 1);
        await(&t, 0, 1);
    }
    return finish(&t);
}

static uint64_t order_is_handed_on(uint64_t seed) {
    struct bench t = bench_open(seed, false);
    push(&t, 0, 2);
    record(&t, 0);
    await(&t, 1, 0);
    record(&t, 1); /* device 1 does nothing in between */
    await(&t, 2, 1);
    use(&t, 2, 0, BYTES);
    return finish(&t);
}

static uint64_t record_covers_only_what_is_before_it(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    record(&t, 0);
    push(&t, 0, 1);
    await(&t, 1, 0);
    use(&t, 1, 0, BYTES);
    return finish(&t);
}

static uint64_t later_record_does_not_serve_an_earlier_wait(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    record(&t, 0);
    await(&t, 1, 0);
    push(&t, 0, 1);
    record(&t, 0);
    use(&t, 1, 0, BYTES);
    return finish(&t);
}

static uint64_t wait_before_the_first_record_orders_nothing(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    await(&t, 1, 0);
    push(&t, 0, 1);
    record(&t, 0);
    use(&t, 1, 0, BYTES);
    return finish(&t);
}

static uint64_t reading_together_is_no_race(uint64_t seed) {
    struct bench t = bench_open(seed, false);
    push(&t, 0, 1);
    push(&t, 0, 2); /* both read a of device 0 */
    struct device_tag tag = tag_of(&t, 1);
    ck_assert_ok(t.ops->copy(t.system, t.q[1], DEVICE_HOST, t.host, 0, t.a[0], BYTES, tag));
    return finish(&t);
}

static uint64_t ranges_that_only_touch_are_no_race(uint64_t seed) {
    struct bench t = bench_open(seed, false);
    struct device_tag tag = tag_of(&t, 0);
    ck_assert_ok(t.ops->copy(t.system, t.q[0], 1, t.b[1], 0, t.a[0], 256, tag));
    ck_assert_ok(t.ops->copy(t.system, t.q[0], 1, t.b[1] + 512, 0, t.a[0], 512, tag));
    use(&t, 1, 256, 256);
    return finish(&t);
}

static uint64_t a_single_byte_is_a_race(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    struct device_tag tag = tag_of(&t, 0);
    ck_assert_ok(t.ops->copy(t.system, t.q[0], 1, t.b[1], 0, t.a[0], 257, tag));
    use(&t, 1, 256, 256);
    for (int i = 0; i < 2; i++)
        ck_assert_ok(sync(&t, i));
    ck_assert_ptr_nonnull(strstr(emulated_race_text(t.system), "bytes [256, 257) of the 1024"));
    return finish(&t);
}

static uint64_t pinned_memory_is_watched(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    ck_assert_ok(
        t.ops->copy(t.system, t.q[0], DEVICE_HOST, t.host, 0, t.a[0], BYTES, tag_of(&t, 0)));
    ck_assert_ok(
        t.ops->copy(t.system, t.q[1], 1, t.b[1], DEVICE_HOST, t.host, BYTES, tag_of(&t, 1)));
    return finish(&t);
}

static uint64_t host_that_saw_idle_orders(uint64_t seed) {
    struct bench t = bench_open(seed, false);
    push(&t, 0, 1);
    ck_assert_ok(sync(&t, 0));
    use(&t, 1, 0, BYTES);
    return finish(&t);
}

/* The copy has run by the time the second operation is issued, but nobody was told. */
static uint64_t having_run_earlier_is_no_order(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    push(&t, 0, 1);
    run_until(&t, 1);
    emulated_release(t.system);
    use(&t, 1, 0, BYTES);
    return finish(&t);
}

/* What the host learns after issuing an operation does not order that operation. */
static uint64_t knowledge_counts_from_when_it_was_had(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    push(&t, 0, 1);
    ck_assert_ok(emulated_hold(t.system, t.q[1]));
    use(&t, 1, 0, BYTES);
    ck_assert_ok(sync(&t, 0));
    emulated_release(t.system);
    return finish(&t);
}

static uint64_t transfers_are_watched(uint64_t seed) {
    struct bench t = bench_open(seed, true);
    char data[BYTES] = {0};
    ck_assert_ok(t.ops->transfer(t.system, t.q[0], t.a[0], data, BYTES, true));
    push(&t, 0, 1); /* after it: the queue's order */
    ck_assert_ok(t.ops->transfer(t.system, t.q[2], t.a[2], data, BYTES, true));
    ck_assert_ok(t.ops->copy(t.system, t.q[1], 1, t.a[1], 2, t.a[2], BYTES, tag_of(&t, 1)));
    ck_assert_uint_eq(emulated_races(t.system), 0); /* the host had waited for that transfer */
    ck_assert_ok(t.ops->transfer(t.system, t.q[1], data, t.b[1], BYTES, false));
    return finish(&t); /* reads what device 0 pushes */
}

static uint64_t freeing_is_an_access(uint64_t seed) {
    struct bench t = bench_open(seed, seed % 2);
    push(&t, 0, 1);
    record(&t, 0);
    await(&t, 2, 0);
    ck_assert_ok(sync(&t, 2)); /* that is after the copy: so a and b may be freed */
    ck_assert_ok(t.ops->memory_free(t.system, 0, t.a[0]));
    ck_assert_uint_eq(emulated_races(t.system), 0);
    use(&t, 1, 0, BYTES); /* also ordered, by the host */
    run_until(&t, 4);
    ck_assert_status(t.ops->memory_free(t.system, 1, t.b[1]),
                     seed % 2 ? RINGLET_OK : RINGLET_DEVICE_ERROR);
    ck_assert_ptr_nonnull(strstr(emulated_race_text(t.system), "freeing the memory"));
    emulated_release(t.system);
    return finish(&t);
}

/* Each scenario under many seeds: how many races must be found. */
static const struct {
    const char *name;
    uint64_t (*run)(uint64_t seed);
    uint64_t races;
} scenarios[] = {
    {"missing wait is found under every seed", missing_wait_is_found_under_every_seed, 1},
    {"wait orders", wait_orders, 0},
    {"reuse before the reader is done", reuse_before_the_reader_is_done, 1},
    {"reuse after the reader is done", reuse_after_the_reader_is_done, 0},
    {"order is handed on", order_is_handed_on, 0},
    {"record covers only what is before it", record_covers_only_what_is_before_it, 1},
    {"later record does not serve an earlier wait", later_record_does_not_serve_an_earlier_wait, 1},
    {"wait before the first record orders nothing", wait_before_the_first_record_orders_nothing, 1},
    {"reading together is no race", reading_together_is_no_race, 0},
    {"ranges that only touch are no race", ranges_that_only_touch_are_no_race, 0},
    {"a single byte is a race", a_single_byte_is_a_race, 1},
    {"pinned memory is watched", pinned_memory_is_watched, 1},
    {"host that saw idle orders", host_that_saw_idle_orders, 0},
    {"having run earlier is no order", having_run_earlier_is_no_order, 1},
    {"knowledge counts from when it was had", knowledge_counts_from_when_it_was_had, 1},
    {"transfers are watched", transfers_are_watched, 1},
    {"freeing is an access", freeing_is_an_access, 1},
};
enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

START_TEST(test_scenario) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t races = scenarios[_i].run(seed);
        ck_assert_msg(races == scenarios[_i].races, "%s: %d races instead of %d, seed %d",
                      scenarios[_i].name, (int)races, (int)scenarios[_i].races, (int)seed);
    }
}
END_TEST

START_TEST(test_race_fails_its_queue_with_words) {
    struct bench t = bench_open(0, false);
    ck_assert_ok(t.ops->copy(t.system, t.q[0], 1, t.b[1] + 128, 0, t.a[0], 128,
                             (struct device_tag){4, 0, 12}));
    ck_assert_ok(reduce_two(t.system, t.q[1], 1, t.a[1], t.b[1], t.a[1], BYTES / 4, RINGLET_FLOAT32,
                            RINGLET_SUM, (struct device_tag){4, 1, 13}));
    ck_assert_status(sync(&t, 1), RINGLET_DEVICE_ERROR);
    const char *text = emulated_race_text(t.system);
    static const char *const parts[] = {
        "race on device 1, bytes [128, 256) of the 1024",
        "copy of call 4 rank 0 step 12 on device 0 stream 3 writes",
        "reduction of call 4 rank 1 step 13 on device 1 stream 4 reads", "nothing orders the two"};
    for (int i = 0; i < 4; i++)
        ck_assert_msg(strstr(text, parts[i]) && strstr(ringlet_error_message(), parts[i]),
                      "'%s' is not in '%s'", parts[i], text);
    ck_assert_status(sync(&t, 1), RINGLET_DEVICE_ERROR);
    ck_assert_ok(sync(&t, 0));
    t.ops->close(t.system);
}
END_TEST

/*
 * Three ranks pass parcels round a ring, each host program advanced by turns: push to the right
 * neighbour's b once its last use of b is recorded, use what arrives from the left. `forget` leaves
 * one kind of wait out.
 */
enum forget { NOTHING, ARRIVAL, REUSE };
struct program {
    uint32_t at, pushed, used; /* host calls made, and what they published */
};

/* One step of a rank's program; false when it has to wait for a neighbour's host. */
static bool advance(struct bench *t, struct program *programs, struct device_event *arrived[],
                    struct device_event *used[], int rank, enum forget forget) {
    struct program *own = &programs[rank];
    int right = (rank + 1) % GPUS, left = (rank + GPUS - 1) % GPUS;
    uint32_t round = own->at / 2;
    if (own->at % 2 == 0) {
        if (programs[right].used < round)
            return false;
        if (forget != REUSE)
            ck_assert_ok(t->ops->wait(t->system, t->q[rank], used[right]));
        push(t, rank, right);
        ck_assert_ok(t->ops->record(t->system, t->q[rank], arrived[rank]));
        own->pushed++;
    } else {
        if (programs[left].pushed <= round)
            return false;
        if (forget != ARRIVAL)
            ck_assert_ok(t->ops->wait(t->system, t->q[rank], arrived[left]));
        use(t, rank, 0, BYTES);
        ck_assert_ok(t->ops->record(t->system, t->q[rank], used[rank]));
        own->used++;
    }
    own->at++;
    return true;
}

static uint64_t pass_parcels(uint64_t seed, enum forget forget) {
    enum { ROUNDS = 6 };
    struct bench t = bench_open(seed, true);
    struct program programs[GPUS] = {{0, 0, 0}};
    struct device_event *used[GPUS];
    for (int i = 0; i < GPUS; i++)
        ck_assert_ok(t.ops->event_create(t.system, i, &used[i]));
    for (uint32_t left = GPUS * ROUNDS * 2; left > 0;) {
        int rank = (int)t.ops->turn(t.system, GPUS);
        if (programs[rank].at < ROUNDS * 2)
            left -= advance(&t, programs, t.event, used, rank, forget);
    }
    return finish(&t);
}

START_TEST(test_ring_of_programs) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        ck_assert_msg(pass_parcels(seed, NOTHING) == 0, "a race where there is none, seed %d",
                      (int)seed);
        ck_assert_msg(pass_parcels(seed, ARRIVAL) > 0, "arrival not awaited, not seen, seed %d",
                      (int)seed);
        ck_assert_msg(pass_parcels(seed, REUSE) > 0, "reuse not awaited, not seen, seed %d",
                      (int)seed);
    }
}
END_TEST

START_TEST(test_long_runs_stay_small) {
    struct bench t = bench_open((uint64_t)_i, false);
    const struct emulated *e = (const struct emulated *)(const void *)t.system;
    for (int round = 0; round < 20000; round++) {
        push(&t, 0, 1);
        record(&t, 0);
        await(&t, 1, 0);
        use(&t, 1, (uint64_t)(round % 16) * 64, 64);
        record(&t, 1);
        await(&t, 0, 1);
        if (round % 64 == 0)
            ck_assert_ok(sync(&t, 1));
    }
    ck_assert_ok(sync(&t, 0));
    ck_assert_uint_ge(emulated_operations(t.system), 120000);
    ck_assert_uint_le(e->race.record_count, 256);
    ck_assert_uint_le((uint64_t)memory_live(), 200);
    ck_assert_uint_eq(finish(&t), 0);
}
END_TEST

START_TEST(test_streams_come_and_go) {
    struct bench t = bench_open((uint64_t)_i, false);
    const struct emulated *e = (const struct emulated *)(const void *)t.system;
    for (int round = 0; round < 2000; round++) {
        struct device_queue q = {1, NULL};
        ck_assert_ok(t.ops->stream_create(t.system, 1, &q.stream));
        push(&t, 0, 1);
        record(&t, 0);
        ck_assert_ok(t.ops->wait(t.system, q, t.event[0]));
        ck_assert_ok(t.ops->copy(t.system, q, 1, t.a[1], 1, t.b[1], BYTES, tag_of(&t, 1)));
        ck_assert_ok(t.ops->record(t.system, q, t.event[1]));
        await(&t, 0, 1);
        ck_assert_ok(t.ops->stream_destroy(t.system, 1, q.stream));
        if (round % 8 == 0)
            ck_assert_ok(sync(&t, 0));
    }
    ck_assert_uint_le(e->race.actor_count, 24);
    ck_assert_uint_le(e->queue_count, 24);
    ck_assert_uint_eq(finish(&t), 0);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("emulated_race");
    TCase *tests = tcase_create("races");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_scenario, 0, SCENARIOS);
    tcase_add_test(tests, test_race_fails_its_queue_with_words);
    tcase_add_test(tests, test_ring_of_programs);
    tcase_add_loop_test(tests, test_long_runs_stay_small, 0, 2);
    tcase_add_loop_test(tests, test_streams_come_and_go, 0, 3);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
