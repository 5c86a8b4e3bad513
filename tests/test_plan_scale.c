#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/memory.h"
#include "plan/plan.h"
#include "slow.h"
#include "suite.h"
#include "topology/topology.h"

/* The figures hold for optimised builds; slow ones get room, and no bound on memory. */
enum { SLACK = SUITE_SLOW ? 30 : 1 };
#define GIB (1024.0 * 1024.0 * 1024.0)

/* Processor time: other work on the machine is not the plan's. */
static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double peak_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

static struct plan_spec ring(enum plan_collective collective, uint32_t ranks, uint32_t slices,
                             const uint8_t *in_place) {
    struct plan_spec spec = {.collective = collective,
                             .algorithm = PLAN_RING,
                             .ranks = ranks,
                             .count = UINT64_C(64) << 20,
                             .element_bytes = 4,
                             .rings = 1,
                             .slices = slices,
                             .granule = 32,
                             .scratch_count = UINT64_C(64) << 20,
                             .in_place = in_place};
    return spec;
}

/* 64 ranks, 16 slices: built and proved within a second. */
START_TEST(test_64_ranks) {
    uint8_t in_place[64];
    struct plan *plan;
    struct plan_fault fault;
    memset(in_place, _i & 1, sizeof in_place);
    struct plan_spec spec = ring((enum plan_collective)(_i / 2), 64, 16, in_place);
    double start_s = now_s();
    ck_assert_ok(plan_build(&plan, &spec));
    double built_s = now_s();
    ck_assert_ok(plan_check_structure(plan, &fault));
    ck_assert_ok(plan_check_result(plan, &fault));
    ck_assert_ok(plan_check_order(plan, PLAN_NONE, &fault));
    double done_s = now_s();
    printf("# %s%s, %u steps, %u waits: built in %.3f s, proved in %.3f s\n",
           plan_collective_name(spec.collective), _i & 1 ? " in place" : "", plan->step_count,
           plan->wait_count, built_s - start_s, done_s - built_s);
    ck_assert_uint_eq(plan->slices, 16);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_status(plan_check_order(plan, plan->wait_count / 8 * i + 7 * i, &fault),
                         RINGLET_PARSE_ERROR);
    plan_free(plan);
    ck_assert_double_lt(done_s - start_s, 1.0 * SLACK);
    ck_assert_int_eq(memory_live(), 0);
}
END_TEST

/* A ring of 1,024 modelled GPUs: timed within two seconds and 1 GB, the plan included. */
START_TEST(test_1024_ranks) {
    struct plan_spec spec = ring(PLAN_ALL_REDUCE, 1024, 1, NULL);
    struct topology machine;
    struct plan_cost cost;
    struct plan *plan;
    ck_assert_ok(topology_make_switch(&machine, 1024));
    double start_s = now_s();
    ck_assert_ok(plan_build(&plan, &spec));
    double built_s = now_s();
    ck_assert_ok(plan_cost(plan, &machine, &cost, NULL, NULL));
    double done_s = now_s();
    printf("# %u steps, %u waits: built in %.3f s, timed in %.3f s, peak %.0f MB\n",
           plan->step_count, plan->wait_count, built_s - start_s, done_s - built_s,
           peak_bytes() / 1e6);
    uint64_t chunk_bytes = spec.count / 1024 * 4;
    double hop_ns = topology_copy_ns(&machine, 0, 1, chunk_bytes);
    double add_ns = topology_sum_ns(&machine, 0, chunk_bytes, 2);
    ck_assert_double_eq_tol(cost.total_ns, 2 * 1023 * hop_ns + 1023 * add_ns, 1.0);
    ck_assert_uint_eq(cost.link_bytes, 1024 * 2 * 1023 * chunk_bytes);
    ck_assert_double_lt(done_s - built_s, 2.0 * SLACK);
    if (SLACK == 1)
        ck_assert_double_lt(peak_bytes(), GIB);
    plan_free(plan);
    topology_free(&machine);
    ck_assert_int_eq(memory_live(), 0);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("plan scale");
    TCase *tests = tcase_create("plan scale");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_64_ranks, 0, 6);
    tcase_add_test(tests, test_1024_ranks);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
