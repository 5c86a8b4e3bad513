#include <stdio.h>

#include "base/clock.h"
#include "plan/plan.h"
#include "plan_configs.h"
#include "slow.h"
#include "suite.h"

/* EVERY_MAX: most waits tried in a plan; THIN: 1, or try only each so-manieth combination. */
enum { RANKS_MAX = 16, EVERY_MAX = SUITE_SLOW ? 100 : 2500, THIN = SUITE_SLOW ? 13 : 1 };
static const uint32_t slice_counts[] = {1, 2, 3, 7};
enum { SLICE_COUNTS = sizeof slice_counts / sizeof *slice_counts };

static void prove(const struct config *c, const struct plan *plan) {
    char text[CONFIG_TEXT];
    struct plan_fault fault;
    ck_assert_int_eq(plan->exact_waits, c->spec.ranks <= PLAN_EXACT_RANKS_MAX);
    ck_assert_msg(plan_check_structure(plan, &fault) == RINGLET_OK, "%s: %s", config_text(c, text),
                  fault.text);
    ck_assert_msg(plan_check_result(plan, &fault) == RINGLET_OK, "%s: %s", config_text(c, text),
                  fault.text);
    ck_assert_msg(plan_check_order(plan, PLAN_NONE, &fault) == RINGLET_OK, "%s: %s",
                  config_text(c, text), fault.text);
}

/* Every `stride`-th wait is needed. */
static void prove_waits(const struct config *c, const struct plan *plan, uint32_t first,
                        uint32_t stride) {
    char text[CONFIG_TEXT];
    struct plan_fault fault;
    for (uint32_t wait = first; wait < plan->wait_count; wait += stride)
        ck_assert_msg(plan_check_order(plan, wait, &fault) == RINGLET_PARSE_ERROR,
                      "%s: nothing needs wait %u (for step %u)", config_text(c, text), wait,
                      plan->waits[wait]);
}

/* Besides the ring, and in how many draws they differ (in place, room). */
static const enum plan_algorithm others[] = {PLAN_HOST_STAGED, PLAN_HOST_PIPELINED, PLAN_DIRECT};
enum { OTHERS = 3, OTHER_DRAWS = 9 };

static bool exists(enum plan_algorithm algorithm, int collective) {
    return algorithm != PLAN_DIRECT || collective != PLAN_BROADCAST;
}

struct tally {
    uint32_t plans, waits;
};

/* One spec: the three proofs, and the need for its waits: all of them where they are few, else a
 * spread of about `spread`. */
static void prove_one(enum plan_algorithm algorithm, enum plan_collective collective, uint32_t n,
                      uint64_t count, uint32_t slices, uint32_t draw, uint32_t spread,
                      struct tally *tally) {
    struct config c;
    uint32_t random = (uint32_t)count * 31 + draw * 7 + n;
    struct plan *plan = config_draw(&c, algorithm, collective, n, count, slices, draw, random);
    uint32_t stride = plan->wait_count / spread + 1;
    prove(&c, plan);
    prove_waits(&c, plan, tally->plans % stride, stride);
    tally->plans++;
    tally->waits += plan->wait_count / stride;
    plan_free(plan);
}

/* Counts 0, below n, and of every remainder class of what a chunk is cut into. */
static uint32_t counts_for(enum plan_collective collective, uint32_t n, uint32_t slices,
                           uint64_t counts[64]) {
    uint32_t used = 0;
    uint64_t parts = collective == PLAN_ALL_REDUCE ? (uint64_t)n * slices : slices;
    uint64_t classes = collective == PLAN_ALL_REDUCE ? n : slices;
    counts[used++] = 0;
    counts[used++] = 1;
    if (n > 2)
        counts[used++] = n - 1;
    if (n > 4)
        counts[used++] = n / 2;
    for (uint64_t rest = 0; rest < classes; rest++) /* far from whole chunks, and near */
        counts[used++] = (rest % 2 ? 1 : 3) * parts + rest;
    ck_assert_uint_le(used, 64);
    return used;
}

/* Few ranks: every combination there is (in a slow build, a spread). */
START_TEST(test_few_ranks) {
    uint32_t n = (uint32_t)_i;
    struct tally tally = {0, 0};
    for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_BROADCAST; collective++)
        for (int s = 0; s < SLICE_COUNTS; s++) {
            uint64_t counts[64];
            uint32_t used =
                counts_for((enum plan_collective)collective, n, slice_counts[s], counts);
            for (uint32_t i = 0; i < used; i++) {
                for (uint32_t draw = i % THIN; draw < CONFIG_DRAWS; draw += THIN)
                    prove_one(PLAN_RING, (enum plan_collective)collective, n, counts[i],
                              slice_counts[s], draw, n < 4 ? 40 : 10, &tally);
                for (uint32_t k = i % THIN; k < OTHERS * OTHER_DRAWS; k += THIN)
                    if (exists(others[k % OTHERS], collective))
                        prove_one(others[k % OTHERS], (enum plan_collective)collective, n,
                                  counts[i], slice_counts[s], k / OTHERS, n < 4 ? 1000 : 20,
                                  &tally);
            }
        }
    printf("# n=%u: %u plans proved, %u waits needed\n", n, tally.plans, tally.waits);
}
END_TEST

/* More ranks: every count and slice count, the rest drawn anew each time. */
START_TEST(test_more_ranks) {
    uint32_t n = (uint32_t)_i, draw = 5 * n;
    struct tally tally = {0, 0};
    for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_BROADCAST; collective++)
        for (int s = 0; s < SLICE_COUNTS; s++) {
            uint64_t counts[64];
            uint32_t used =
                counts_for((enum plan_collective)collective, n, slice_counts[s], counts);
            for (uint32_t i = 0; i < used; i++) {
                for (int again = 0; again < (SUITE_SLOW ? 1 : 3); again++) {
                    draw += 29; /* prime to CONFIG_DRAWS: all are met */
                    prove_one(PLAN_RING, (enum plan_collective)collective, n, counts[i],
                              slice_counts[s], draw % CONFIG_DRAWS, 8, &tally);
                }
                if (exists(others[(s + i) % OTHERS], collective))
                    prove_one(others[(s + i) % OTHERS], (enum plan_collective)collective, n,
                              counts[i], slice_counts[s] % 4, draw % OTHER_DRAWS, 4, &tally);
            }
        }
    printf("# n=%u: %u plans proved, %u waits needed\n", n, tally.plans, tally.waits);
}
END_TEST

/* Every wait of some plans of every size (of the largest ones, a spread of EVERY_MAX). */
START_TEST(test_every_wait) {
    uint32_t n = (uint32_t)_i;
    struct tally tally = {0, 0};
    for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_BROADCAST; collective++)
        for (uint32_t k = 0; k < (n < 6 ? 12u : n < 10 ? 3u : 1u); k++) {
            uint32_t slices = n < 10 ? slice_counts[k % 3] : 1;
            uint32_t draw = (41 * (k + n) + 13 * (uint32_t)collective) % CONFIG_DRAWS;
            prove_one(PLAN_RING, (enum plan_collective)collective, n, 2 * n * slices + k, slices,
                      draw, EVERY_MAX, &tally);
            enum plan_algorithm other = others[(k + n) % OTHERS];
            if (exists(other, collective))
                prove_one(other, (enum plan_collective)collective, n, n + k, 1 + k % 3, draw % 9,
                          EVERY_MAX, &tally);
        }
    printf("# n=%u: all waits of %u plans needed, %u\n", n, tally.plans, tally.waits);
}
END_TEST

/* ---- at the edges ---- */

static const enum plan_algorithm algorithms[] = {PLAN_RING, PLAN_HOST_STAGED, PLAN_HOST_PIPELINED,
                                                 PLAN_DIRECT};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms };

/* Beyond PLAN_EXACT_RANKS_MAX ranks some waits may be implied by others, but none is missing. */
START_TEST(test_inexact_plans_suffice) {
    static const uint32_t ranks[] = {65, 70, 100};
    uint32_t n = ranks[_i], plans = 0;
    for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_BROADCAST; collective++)
        for (int a = 0; a < ALGORITHMS; a++) {
            enum plan_algorithm algorithm = algorithms[a];
            if (!exists(algorithm, collective) || (SUITE_SLOW && (a + collective + _i) % 3))
                continue;
            struct config c;
            uint64_t count = collective == PLAN_ALL_REDUCE ? 2 * n + 7 : 3;
            uint32_t slices = algorithm == PLAN_RING && collective == PLAN_BROADCAST ? 3 : 1;
            uint32_t draw = (uint32_t)(41 * a + 13 * collective) + 7 * n;
            struct plan *plan = config_draw(&c, algorithm, (enum plan_collective)collective, n,
                                            count, slices, draw % CONFIG_DRAWS, draw);
            prove(&c, plan);
            plan_free(plan);
            plans++;
        }
    printf("# n=%u: %u inexact plans proved\n", n, plans);
}
END_TEST

/* Additions of as many operands as one step takes, and of more, which are several steps. */
START_TEST(test_more_operands_than_a_step_takes) {
    static const uint32_t ranks[] = {PLAN_OPERANDS_MAX, PLAN_OPERANDS_MAX + 1,
                                     2 * PLAN_OPERANDS_MAX - 1};
    uint32_t n = ranks[_i], steps = (n - 2) / (PLAN_OPERANDS_MAX - 1) + 1;
    for (int a = 1; a < ALGORITHMS; a++)
        for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_REDUCE_SCATTER; collective++) {
            struct config c;
            uint32_t first = 0, last = 0, additions = 0;
            uint32_t draw = 3 * CONFIG_PLENTY + (uint32_t)(a + collective) % 3;
            uint64_t count = collective == PLAN_ALL_REDUCE ? n + 3 : 2;
            struct plan *plan = config_draw(&c, algorithms[a], (enum plan_collective)collective, n,
                                            count, 1, draw, draw + n);
            prove(&c, plan);
            for (uint32_t id = 0; id < plan->step_count; id++) {
                const struct plan_step *step = &plan->steps[id];
                ck_assert_uint_le(plan_operands(step), PLAN_OPERANDS_MAX);
                additions += step->op == PLAN_REDUCE;
                first += step->op == PLAN_REDUCE && step->flags & PLAN_FIRST;
                last += step->op == PLAN_REDUCE && step->flags & PLAN_LAST;
            }
            ck_assert_uint_gt(first, 0);
            ck_assert_uint_eq(first, last);
            ck_assert_uint_eq(additions, first * steps);
            plan_free(plan);
        }
}
END_TEST

_Static_assert(2 * PLAN_OPERANDS_MAX - 1 <= CONFIG_RANKS, "room for as many ranks");

/* The largest count of `bytes` each that a collective takes. */
static uint64_t count_most(enum plan_collective collective, uint32_t n, uint32_t bytes) {
    bool whole = collective == PLAN_ALL_REDUCE || collective == PLAN_BROADCAST;
    return (uint64_t)INT64_MAX / bytes / (whole ? 1 : n);
}

/* Counts up to what 2^63 bytes hold; room in plenty, so that steps are few and large. */
static uint32_t huge(enum plan_algorithm algorithm, enum plan_collective collective, uint32_t n,
                     uint32_t bytes, uint32_t variant) {
    static const uint64_t counts[] = {(1ull << 33) + 5, (1ull << 40) + 3, (1ull << 60) + 1,
                                      UINT64_MAX};
    uint8_t in_place[16];
    uint32_t proved = 0;
    for (int i = 0; i < 4; i++) {
        struct config c = {.in_place_many = variant % 2 ? CONFIG_ALL : CONFIG_NONE,
                           .room = CONFIG_PLENTY};
        uint64_t most = count_most(collective, n, bytes);
        for (uint32_t r = 0; r < n; r++)
            in_place[r] = variant % 2 && (collective != PLAN_BROADCAST || r == n / 2);
        c.spec = (struct plan_spec){.collective = collective,
                                    .algorithm = algorithm,
                                    .ranks = n,
                                    .root = n / 2,
                                    .count = counts[i] < most ? counts[i] : most,
                                    .element_bytes = bytes,
                                    .rings = algorithm == PLAN_RING ? 1 + n % 3 : 1,
                                    .slices = 3,
                                    .granule = variant / 2 ? 32 : 1,
                                    .scratch_count = 1ull << 58,
                                    .host_count = 1ull << 58,
                                    .in_place = in_place};
        struct plan *plan = NULL;
        ck_assert_ok(plan_build(&plan, &c.spec));
        prove(&c, plan);
        plan_free(plan);
        proved++;
    }
    return proved;
}

START_TEST(test_huge_counts) {
    uint32_t proved = 0;
    for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_BROADCAST; collective++)
        for (uint32_t n = 1; n <= (SUITE_SLOW ? 5 : 9); n++)
            for (uint32_t variant = 0; variant < 4; variant++)
                if (exists(algorithms[_i], collective)) {
                    proved += huge(algorithms[_i], (enum plan_collective)collective, n, 4, variant);
                    proved += huge(algorithms[_i], (enum plan_collective)collective, n, 8, variant);
                }
    printf("# %s: %u huge plans proved\n", plan_algorithm_name(algorithms[_i]), proved);
}
END_TEST

static void overflow_refused(enum plan_collective collective, enum plan_algorithm algorithm,
                             uint32_t n, uint64_t count, bool staged) {
    uint8_t in_place[CONFIG_RANKS], edges[CONFIG_RANKS];
    struct plan *plan = NULL;
    memset(in_place, 1, sizeof in_place); /* so that a ring's all-reduce needs scratch too */
    memset(edges, 1, sizeof edges);
    struct plan_spec spec = {.collective = collective,
                             .algorithm = algorithm,
                             .ranks = n,
                             .count = count,
                             .element_bytes = 1,
                             .rings = 1,
                             .slices = 1,
                             .granule = 1,
                             .scratch_count = 2 * n,
                             .host_count = 2 * n,
                             .in_place = collective < PLAN_ALL_GATHER ? in_place : NULL,
                             .staged = staged ? edges : NULL};
    ck_assert_status(plan_build(&plan, &spec), RINGLET_INVALID_ARGUMENT);
    ck_assert_msg(strstr(ringlet_error_message(), "too many steps"), "%s", ringlet_error_message());
    ck_assert_ptr_null(plan);
}

/* Counts that would take more steps than can be counted are refused at once, in words. (Without
 * additions and staged edges neither ring nor direct need any room.) */
START_TEST(test_host_rounds_overflow) {
    uint64_t start = clock_now_ns();
    enum plan_algorithm algorithm = algorithms[_i];
    bool scratch = algorithm == PLAN_RING || algorithm == PLAN_DIRECT;
    for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_BROADCAST; collective++)
        for (uint32_t n = 2; n <= 100; n += 7)
            for (int bits = 34; bits <= 62; bits += 4) {
                uint64_t count = 1ull << bits;
                if (!exists(algorithm, collective) ||
                    count > count_most((enum plan_collective)collective, n, 1))
                    continue;
                if (!scratch || collective < PLAN_ALL_GATHER)
                    overflow_refused((enum plan_collective)collective, algorithm, n, count, false);
                if (algorithm == PLAN_RING)
                    overflow_refused((enum plan_collective)collective, algorithm, n, count, true);
            }
    ck_assert_uint_lt(clock_now_ns() - start, 5000000000u);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("plan proofs");
    TCase *tests = tcase_create("plan proofs");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, test_few_ranks, 1, 5);
    tcase_add_loop_test(tests, test_more_ranks, 5, RANKS_MAX + 1);
    tcase_add_loop_test(tests, test_every_wait, 2, RANKS_MAX + 1);
    tcase_add_loop_test(tests, test_inexact_plans_suffice, 0, 3);
    tcase_add_loop_test(tests, test_more_operands_than_a_step_takes, 0, 3);
    tcase_add_loop_test(tests, test_huge_counts, 0, ALGORITHMS);
    tcase_add_loop_test(tests, test_host_rounds_overflow, 0, ALGORITHMS);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
