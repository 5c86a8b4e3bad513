#include <stdio.h>

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
    ck_assert(plan->exact_waits);
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

static Suite *suite(void) {
    Suite *suite = suite_create("plan proofs");
    TCase *tests = tcase_create("plan proofs");
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, test_few_ranks, 1, 5);
    tcase_add_loop_test(tests, test_more_ranks, 5, RANKS_MAX + 1);
    tcase_add_loop_test(tests, test_every_wait, 2, RANKS_MAX + 1);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
