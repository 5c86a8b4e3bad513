#include <math.h>

#include "../bench/chain.h"
#include "../bench/check.h"
#include "../bench/verify.h"
#include "suite.h"

/* A contender that runs Ringlet's collective and then spoils something, as a broken library would.
 */
enum spoil {
    SPOIL_NOTHING,
    SPOIL_ULP,          /* of the last output element of the last rank */
    SPOIL_LOST,         /* as if that element had never been written */
    SPOIL_GUARD_BEHIND, /* an element written behind the output's buffer */
    SPOIL_GUARD_BEFORE,
    SPOIL_INPUT, /* the input's first element, which out of place must stay */
    SPOIL_COUNT
};

struct spoiler {
    struct contender base;
    struct contender *inner;
    enum spoil spoil;
};

enum { RANKS = 3, PIECES = 1300001 /* elements that are checked in several pieces */ };

static void spoil_element(struct session *s, float *element, enum spoil spoil) {
    int rank = s->ranks - 1;
    float value;
    ck_assert_ok(
        ringlet_buffer_read(s->comm, rank, &value, element, sizeof value, s->streams[rank]));
    if (spoil == SPOIL_LOST)
        value = NAN;
    else
        value = spoil == SPOIL_ULP ? nextafterf(value, INFINITY) : 0;
    ck_assert_ok(
        ringlet_buffer_write(s->comm, rank, element, &value, sizeof value, s->streams[rank]));
}

static const char *enqueue(struct contender *base, const struct session_call *call, int rank,
                           uint64_t times) {
    struct spoiler *self = (struct spoiler *)base;
    struct session *s = base->session;
    int last = s->ranks - 1;
    const char *why = self->inner->enqueue(self->inner, call, rank, times);
    ck_assert_ptr_null(why);
    ck_assert_ok(session_wait_all(s));
    float *recv = session_recv(s, call, last);
    uint64_t count = session_recv_count(s, call);
    switch (self->spoil) {
    case SPOIL_ULP:
    case SPOIL_LOST:
        spoil_element(s, recv + count - 1, self->spoil);
        break;
    case SPOIL_GUARD_BEHIND:
        spoil_element(s, recv + count, self->spoil);
        break;
    case SPOIL_GUARD_BEFORE:
        spoil_element(s, (float *)((char *)s->two[last] + SESSION_GUARD) - 1, self->spoil);
        break;
    case SPOIL_INPUT:
        spoil_element(s, session_send(s, call, last), self->spoil);
        break;
    case SPOIL_NOTHING:
    case SPOIL_COUNT:
        break;
    }
    return NULL;
}

static uint64_t count_wrong(enum session_collective collective, bool in_place, uint64_t count,
                            enum spoil spoil) {
    static const int devices[RANKS] = {0, 1, 2};
    struct session s;
    struct session_config config = {devices, RANKS, count * RANKS * sizeof(float), {0}};
    struct session_call call = {collective, in_place, count, RINGLET_FLOAT32, RINGLET_SUM, 1};
    uint64_t wrong = 0;
    ck_assert_ok(ringlet_options_init(&config.options));
    config.options.backend = RINGLET_BACKEND_EMULATED;
    config.options.scheduler = RINGLET_SCHEDULER_SEEDED;
    config.options.scratch_bytes = 1 << 20;
    ck_assert_msg(session_open(&s, &config), "%s", s.error);
    struct check *check = check_create(&s, NULL);
    struct spoiler spoiler = {
        {enqueue, true, NULL, &s}, contender_open_ringlet(&s, s.comm, true), spoil};
    ck_assert_msg(check_call(check, &spoiler.base, &call, &wrong), "%s", s.error);
    contender_close(spoiler.inner);
    check_destroy(check);
    ck_assert_msg(session_close(&s), "%s", s.error);
    return wrong;
}

START_TEST(test_right_results_pass) {
    for (int in_place = 0; in_place < 2; in_place++)
        for (uint64_t count = 1; count < 3000000; count = count * 41 + 3)
            ck_assert_uint_eq(
                count_wrong((enum session_collective)_i, in_place, count, SPOIL_NOTHING), 0);
}
END_TEST

/* What is checked piece by piece: every piece has its own place in the buffers and in the data. */
START_TEST(test_results_in_pieces) {
    enum session_collective collective = (enum session_collective)_i;
    ck_assert_uint_eq(count_wrong(collective, false, PIECES, SPOIL_NOTHING), 0);
    ck_assert_uint_ge(count_wrong(collective, true, PIECES, SPOIL_LOST), 2);
}
END_TEST

/* A chain's values stay what they are, however long it is, whatever was in the buffers before. */
START_TEST(test_a_chain_stays_finite) {
    static const int devices[RANKS] = {0, 1, 2};
    enum { COUNT = 600000, LINKS = 10 };
    static float values[COUNT];
    struct session s;
    struct session_config config = {devices, RANKS, sizeof values, {0}};
    struct session_call call = {SESSION_ALL_REDUCE, true, COUNT, RINGLET_FLOAT32, RINGLET_SUM, 0};
    ck_assert_ok(ringlet_options_init(&config.options));
    config.options.backend = RINGLET_BACKEND_EMULATED;
    ck_assert_msg(session_open(&s, &config), "%s", s.error);
    for (int i = 0; i < COUNT; i++)
        values[i] = 1e30f;
    for (int rank = 0; rank < RANKS; rank++)
        ck_assert_ok(ringlet_buffer_write(s.comm, rank, session_send(&s, &call, rank), values,
                                          sizeof values, s.streams[rank]));
    ck_assert_msg(chain_fill(&s, &call), "%s", s.error);
    struct contender *ringlet = contender_open_ringlet(&s, s.comm, true);
    ck_assert_ptr_null(ringlet->enqueue(ringlet, &call, -1, LINKS));
    ck_assert_ok(session_wait_all(&s));
    for (int rank = 0; rank < RANKS; rank++) {
        ck_assert_ok(ringlet_buffer_read(s.comm, rank, values, session_recv(&s, &call, rank),
                                         sizeof values, s.streams[rank]));
        for (int i = 0; i < COUNT; i++)
            ck_assert(values[i] == 0);
    }
    contender_close(ringlet);
    ck_assert_msg(session_close(&s), "%s", s.error);
}
END_TEST

/* A contender whose k-th operation on its own takes as long as k others. */
struct slower {
    struct contender base;
    struct contender *inner;
    uint64_t operations;
};

static const char *enqueue_slower(struct contender *base, const struct session_call *call, int rank,
                                  uint64_t times) {
    struct slower *self = (struct slower *)base;
    if (times == 1)
        times = ++self->operations;
    return self->inner->enqueue(self->inner, call, rank, times);
}

START_TEST(test_percentiles) {
    static const int devices[RANKS] = {0, 1, 2};
    struct session s;
    struct session_config config = {devices, RANKS, 4096, {0}};
    struct session_call call = {SESSION_ALL_REDUCE, true, 1, RINGLET_FLOAT32, RINGLET_SUM, 0};
    struct measure_config measure = {.iterations = 50, .samples = 2, .singly = true};
    struct measure_result result;
    ck_assert_ok(ringlet_options_init(&config.options));
    config.options.backend = RINGLET_BACKEND_EMULATED;
    config.options.scheduler = RINGLET_SCHEDULER_SEEDED;
    ck_assert_msg(session_open(&s, &config), "%s", s.error);
    struct slower slower = {
        {enqueue_slower, true, NULL, &s}, contender_open_ringlet(&s, s.comm, true), 0};
    struct contender *contender = &slower.base;
    ck_assert_msg(measure_all(NULL, &contender, 1, &call, &measure, &result), "%s", s.error);
    ck_assert_uint_eq(result.operations, 100);
    ck_assert(result.least_us <= result.median_us && result.median_us <= result.most_us);
    double each = result.longest_us / 100;
    ck_assert(fabs(result.median_us / each - 1) < 0.05);
    ck_assert(fabs(result.p50_us / each - 50) < 0.5);
    ck_assert(fabs(result.p90_us / each - 90) < 0.5);
    ck_assert(fabs(result.p99_us / each - 99) < 0.5);
    contender_close(slower.inner);
    ck_assert_msg(session_close(&s), "%s", s.error);
}
END_TEST

/* For what is no sum the values are ones, of any type. */
START_TEST(test_a_chain_of_ones) {
    static const int devices[RANKS] = {0, 1, 2};
    ringlet_dtype type = (ringlet_dtype)_i;
    uint64_t values[16];
    struct session s;
    struct session_config config = {devices, RANKS, sizeof values, {0}};
    struct session_call call = {SESSION_ALL_REDUCE, true, 16, type, RINGLET_PROD, 0};
    ck_assert_ok(ringlet_options_init(&config.options));
    config.options.backend = RINGLET_BACKEND_EMULATED;
    ck_assert_msg(session_open(&s, &config), "%s", s.error);
    ck_assert_msg(chain_fill(&s, &call), "%s", s.error);
    ck_assert_ok(ringlet_buffer_read(s.comm, 2, values, session_send(&s, &call, 2),
                                     16 * ringlet_dtype_size(type), s.streams[2]));
    bool is_float = type <= RINGLET_FLOAT64;
    for (uint64_t i = 0; i < 16; i++) {
        uint64_t bits = verify_load(values, type, i);
        ck_assert(is_float ? verify_float(type, bits) == 1 : bits == 1);
    }
    ck_assert_msg(session_close(&s), "%s", s.error);
}
END_TEST

START_TEST(test_every_damage_is_counted) {
    enum session_collective collective = (enum session_collective)_i;
    for (int spoil = SPOIL_ULP; spoil < SPOIL_COUNT; spoil++)
        for (int in_place = 0; in_place < 2; in_place++) {
            bool guard = spoil == SPOIL_GUARD_BEFORE || spoil == SPOIL_GUARD_BEHIND;
            /* In place the input may change, and a reduce-scatter's output lies inside its input.
             */
            if (in_place && (spoil == SPOIL_INPUT || (guard && collective)))
                continue;
            uint64_t wrong = count_wrong(collective, in_place, 70, (enum spoil)spoil);
            /* Each of the two kinds of data shows it, but a reduce-scatter's random data hides an
             * ulp. */
            uint64_t least = spoil == SPOIL_ULP && collective == SESSION_REDUCE_SCATTER ? 1 : 2;
            ck_assert_msg(wrong >= least && wrong <= 2, "spoil %d, in place %d: %d wrong", spoil,
                          in_place, (int)wrong);
        }
}
END_TEST

/* A call that fails is reported in words, with nothing hanging or leaking. */
START_TEST(test_a_failed_call_is_reported) {
    static const int devices[RANKS] = {0, 1, 2};
    struct session s;
    struct session_config config = {devices, RANKS, 4096, {0}};
    struct session_call call = {SESSION_ALL_REDUCE, false, 16, RINGLET_FLOAT32, RINGLET_SUM, 0};
    uint64_t wrong;
    ck_assert_ok(ringlet_options_init(&config.options));
    config.options.backend = RINGLET_BACKEND_EMULATED;
    ck_assert_msg(session_open(&s, &config), "%s", s.error);
    struct check *check = check_create(&s, NULL);
    struct contender *ringlet = contender_open_ringlet(&s, s.comm, true);
    ck_assert_ok(ringlet_comm_abort(s.comm));
    ck_assert(!check_call(check, ringlet, &call, &wrong));
    ck_assert_str_ne(s.error, "");
    contender_close(ringlet);
    check_destroy(check);
    session_close(&s);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("bench_check");
    TCase *tests = tcase_create("check");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_right_results_pass, 0, 4);
    tcase_add_loop_test(tests, test_every_damage_is_counted, 0, 4);
    tcase_add_loop_test(tests, test_results_in_pieces, 0, 4);
    tcase_add_test(tests, test_a_chain_stays_finite);
    tcase_add_test(tests, test_percentiles);
    tcase_add_loop_test(tests, test_a_chain_of_ones, 0, 10);
    tcase_add_test(tests, test_a_failed_call_is_reported);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
