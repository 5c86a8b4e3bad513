/*
 * What is chosen and kept: the tuner, the plan cache, the team of threads.
 */
#include <stdatomic.h>

#include "base/memory.h"
#include "plan/cache.h"
#include "run/team.h"
#include "suite.h"
#include "tune/tune.h"
#ifdef RINGLET_OPENMP
#include <omp.h>
#endif

START_TEST(test_slices_by_size) {
    struct tune_choice c = tune_choose(PLAN_ALL_REDUCE, 2, 2, 4, RINGLET_ALGORITHM_AUTO, 0, 0);
    ck_assert_int_eq(c.algorithm, PLAN_RING);
    ck_assert_uint_eq(c.rings, 1);
    ck_assert_uint_eq(c.slices, 1);
    c = tune_choose(PLAN_ALL_REDUCE, 2, 1 << 20, 4, RINGLET_ALGORITHM_AUTO, 0, 0);
    ck_assert_uint_eq(c.slices, 1); /* chunks of 2 MiB */
    c = tune_choose(PLAN_ALL_REDUCE, 2, 64 << 20, 4, RINGLET_ALGORITHM_AUTO, 0, 0);
    ck_assert_uint_eq(c.slices, 2);
    c = tune_choose(PLAN_ALL_REDUCE, 64, 32 << 20, 4, RINGLET_ALGORITHM_AUTO, 0, 0);
    ck_assert_uint_eq(c.slices, 1); /* the same bytes in 64 chunks of 2 MiB */
    c = tune_choose(PLAN_ALL_GATHER, 64, 2 << 20, 4, RINGLET_ALGORITHM_AUTO, 0, 0);
    ck_assert_uint_eq(c.slices, 2); /* count is a chunk here */
    c = tune_choose(PLAN_BROADCAST, 2, 64 << 20, 4, RINGLET_ALGORITHM_AUTO, 0, 0);
    ck_assert_uint_eq(c.slices, 1); /* one hop */
    c = tune_choose(PLAN_BROADCAST, 8, 64 << 20, 4, RINGLET_ALGORITHM_AUTO, 0, 0);
    ck_assert_uint_gt(c.slices, 8);
}
END_TEST

START_TEST(test_what_is_given_is_kept) {
    struct tune_choice c =
        tune_choose(PLAN_REDUCE_SCATTER, 8, 1000, 4, RINGLET_ALGORITHM_RING, 3, 7);
    ck_assert_int_eq(c.algorithm, PLAN_RING);
    ck_assert_uint_eq(c.rings, 3);
    ck_assert_uint_eq(c.slices, 7);
    ck_assert_str_eq(c.why, "asked for");
    static const struct {
        ringlet_algorithm asked;
        enum plan_algorithm got;
    } forms[] = {{RINGLET_ALGORITHM_HOST, PLAN_HOST_STAGED},
                 {RINGLET_ALGORITHM_HOST_PIPELINED, PLAN_HOST_PIPELINED},
                 {RINGLET_ALGORITHM_DIRECT, PLAN_DIRECT}};
    for (int i = 0; i < 3; i++) {
        c = tune_choose(PLAN_ALL_REDUCE, 8, 1000, 4, forms[i].asked, 3, 7);
        ck_assert_int_eq(c.algorithm, forms[i].got);
        ck_assert_uint_eq(c.rings, 1); /* they know none */
    }
    c = tune_choose(PLAN_BROADCAST, 8, 1000, 4, RINGLET_ALGORITHM_DIRECT, 0, 0);
    ck_assert_int_eq(c.algorithm, PLAN_RING);
    ck_assert_str_eq(c.why, "direct has no broadcast");
}
END_TEST

static struct plan_spec spec_of(uint64_t count) {
    struct plan_spec spec = {.collective = PLAN_ALL_REDUCE,
                             .algorithm = PLAN_RING,
                             .ranks = 2,
                             .count = count,
                             .element_bytes = 4,
                             .rings = 1,
                             .slices = 1,
                             .granule = 1,
                             .scratch_count = 1024,
                             .host_count = 1024};
    return spec;
}

static const struct plan *get(struct plan_cache *cache, uint64_t count) {
    struct plan_cache_entry *entry = NULL;
    struct plan_spec spec = spec_of(count);
    ck_assert_ok(plan_cache_get(cache, &spec, &entry));
    ck_assert_uint_eq(entry->plan->spec.count, count);
    return entry->plan;
}

START_TEST(test_cache_keeps_the_latest) {
    static struct plan_cache cache;
    int64_t live = memory_live();
    const struct plan *first = get(&cache, 1);
    for (uint64_t count = 2; count <= PLAN_CACHE_MAX; count++)
        get(&cache, count);
    ck_assert_uint_eq(cache.built, PLAN_CACHE_MAX);
    ck_assert_ptr_eq(get(&cache, 1), first); /* used again, so 2 is the oldest now */
    get(&cache, 1000);
    ck_assert_ptr_eq(get(&cache, 1), first);
    ck_assert_uint_eq(cache.built, PLAN_CACHE_MAX + 1);
    get(&cache, 2);
    ck_assert_uint_eq(cache.built, PLAN_CACHE_MAX + 2);
    plan_cache_clear(&cache);
    ck_assert_int_eq(memory_live(), live);
}
END_TEST

START_TEST(test_cache_notes_what_is_prepared) {
    static struct plan_cache cache;
    struct plan_cache_entry *entry = NULL;
    struct plan_spec spec = spec_of(3);
    ck_assert_ok(plan_cache_get(&cache, &spec, &entry));
    ck_assert(!entry->prepared);
    entry->prepared = true;
    ck_assert_ok(plan_cache_get(&cache, &spec, &entry));
    ck_assert(entry->prepared);
    for (uint64_t count = 10; count < 10 + PLAN_CACHE_MAX; count++)
        get(&cache, count);
    ck_assert_ok(plan_cache_get(&cache, &spec, &entry)); /* built anew */
    ck_assert(!entry->prepared);
    plan_cache_clear(&cache);
}
END_TEST

START_TEST(test_cache_survives_a_plan_that_cannot_be_built) {
    static struct plan_cache cache;
    struct plan_spec bad = spec_of(1);
    struct plan_cache_entry *entry = NULL;
    const struct plan *good = get(&cache, 5);
    bad.rings = 0;
    ck_assert_status(plan_cache_get(&cache, &bad, &entry), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_null(entry);
    bad = spec_of(7);
    for (uint64_t nth = 1; nth < 200; nth++) {
        memory_fail_at(nth);
        ringlet_status status = plan_cache_get(&cache, &bad, &entry);
        bool pending = memory_fail_pending();
        memory_fail_at(0);
        if (pending)
            break;
        ck_assert_int_eq(status, RINGLET_OUT_OF_MEMORY);
    }
    ck_assert_ptr_eq(get(&cache, 5), good);
    plan_cache_clear(&cache);
}
END_TEST

/* Keys that differ in one field, or say the same in another way. */
START_TEST(test_keys) {
    uint8_t ones[2] = {1, 1}, zeros[2] = {0, 0};
    uint32_t natural[2] = {0, 1}, turned[2] = {1, 0};
    struct plan_spec a = spec_of(9), b = a;
    b.in_place = zeros;
    b.staged = zeros;
    b.order = natural;
    ck_assert(plan_spec_equal(&a, &b));
    b.in_place = ones;
    ck_assert(!plan_spec_equal(&a, &b));
    b = a;
    b.staged = ones;
    ck_assert(!plan_spec_equal(&a, &b));
    b = a;
    b.order = turned;
    ck_assert(!plan_spec_equal(&a, &b));
#define DIFFERS(field)                                                                             \
    b = a;                                                                                         \
    b.field++;                                                                                     \
    ck_assert(!plan_spec_equal(&a, &b))
    DIFFERS(collective);
    DIFFERS(algorithm);
    DIFFERS(count);
    DIFFERS(element_bytes);
    DIFFERS(slices);
    DIFFERS(granule);
    DIFFERS(scratch_count);
    DIFFERS(host_count);
    DIFFERS(root);
#undef DIFFERS
}
END_TEST

enum { MEMBERS = 5 };

struct roll {
    atomic_int here, seen[MEMBERS];
};

static void member(void *context, uint32_t index) {
    struct roll *roll = context;
    atomic_fetch_add(&roll->seen[index], 1);
    atomic_fetch_add(&roll->here, 1);
    while (atomic_load(&roll->here) < MEMBERS) /* all are there at the same time */
        ;
}

START_TEST(test_team_is_there_at_once) {
    struct roll roll = {0};
    ck_assert(team_run(MEMBERS, member, &roll));
    for (int i = 0; i < MEMBERS; i++)
        ck_assert_int_eq(atomic_load(&roll.seen[i]), 1);
}
END_TEST

#ifdef RINGLET_OPENMP
START_TEST(test_no_team_inside_a_parallel_region) {
    struct roll roll = {0};
    bool ran = true;
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        ran = team_run(MEMBERS, member, &roll);
    }
    ck_assert(!ran);
    ck_assert_int_eq(atomic_load(&roll.here), 0);
}
END_TEST
#endif

static Suite *suite(void) {
    Suite *suite = suite_create("choices");
    TCase *tests = tcase_create("choices");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, test_slices_by_size);
    tcase_add_test(tests, test_what_is_given_is_kept);
    tcase_add_test(tests, test_cache_keeps_the_latest);
    tcase_add_test(tests, test_cache_notes_what_is_prepared);
    tcase_add_test(tests, test_cache_survives_a_plan_that_cannot_be_built);
    tcase_add_test(tests, test_keys);
    tcase_add_test(tests, test_team_is_there_at_once);
#ifdef RINGLET_OPENMP
    tcase_add_test(tests, test_no_team_inside_a_parallel_region);
#endif
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
