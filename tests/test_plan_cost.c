#include <stdio.h>

#include "base/memory.h"
#include "plan_maker.h"
#include "suite.h"
#include "topology/topology.h"

/* A machine whose times are easy: 1 GB/s is a byte a nanosecond. Elements have 4 bytes. */
static void machine_make(struct topology *t, uint32_t gpus) {
    ck_assert_ok(topology_make_switch(t, gpus));
    for (uint32_t i = 0; i < gpus * gpus; i++) {
        t->links[i].rate_gbps = 2;
        t->links[i].latency_us = 0.1;
    }
    t->host_rate_gbps = 1;
    t->host_latency_us = 0.2;
    t->memory_rate_gbps = 6;
    t->kernel_latency_us = 0.05;
    t->cpu_rate_gbps = 3;
    t->cpu_latency_us = 0.5;
}

/* Between GPUs 100 + 4 * count / 2 ns, to or from the host 200 + 4 * count, adding 50 + 2 * count,
 * adding on the CPU 500 + 4 * count. */
enum { COUNT = 50, LINK_NS = 200, HOST_NS = 400, ADD_NS = 150, CPU_ADD_NS = 700 };

struct times {
    struct plan_cost cost;
    double start[MAKER_STEPS], end[MAKER_STEPS];
};

static void times_of(struct maker *m, struct times *times) {
    struct topology machine;
    machine_make(&machine, 4);
    maker_end(m);
    ck_assert_ok(plan_cost(&m->plan, &machine, &times->cost, times->start, times->end));
    struct plan_cost alone;
    ck_assert_ok(plan_cost(&m->plan, &machine, &alone, NULL, NULL));
    ck_assert_double_eq(alone.total_ns, times->cost.total_ns);
    topology_free(&machine);
}

#define ck_assert_times(times, step, from, to)                                                     \
    do {                                                                                           \
        ck_assert_double_eq_tol((times)->start[step], from, 1e-6);                                 \
        ck_assert_double_eq_tol((times)->end[step], to, 1e-6);                                     \
    } while (0)

static void begin(struct maker *m) {
    maker_begin(m, PLAN_ALL_REDUCE, 4, COUNT, 4 * COUNT);
    for (uint32_t rank = 0; rank < 4; rank++)
        maker_mark(m, PLAN_ENTER, rank);
}

static uint32_t copy_to(struct maker *m, uint32_t lane, uint32_t from, uint32_t to) {
    return maker_copy(m, lane, maker_ref(to, PLAN_SCRATCH, 0), maker_ref(from, PLAN_SEND, 0),
                      COUNT);
}

START_TEST(test_lane_order_and_waits) {
    struct maker m;
    struct times times;
    begin(&m);
    uint32_t out = maker_lane(&m, 0, PLAN_OUT);
    uint32_t first = copy_to(&m, out, 0, 1), second = copy_to(&m, out, 0, 1);
    uint32_t add = maker_step(&m, PLAN_REDUCE, 1, maker_ref(1, PLAN_RECV, 0),
                              maker_ref(1, PLAN_SEND, 0), maker_ref(1, PLAN_SCRATCH, 0), COUNT);
    maker_wait(&m, first);
    uint32_t cpu = maker_step(&m, PLAN_REDUCE, 2, maker_ref(2, PLAN_HOST, 0),
                              maker_ref(2, PLAN_HOST, 0), maker_ref(1, PLAN_HOST, 0), COUNT);
    maker_wait(&m, add);
    maker_wait(&m, first);
    uint32_t leave = maker_mark(&m, PLAN_LEAVE, 1);
    uint32_t last = maker_mark(&m, PLAN_LEAVE, 3);
    times_of(&m, &times);
    ck_assert_times(&times, 0, 0, 0);
    ck_assert_times(&times, first, 0, LINK_NS);
    ck_assert_times(&times, second, LINK_NS, 2 * LINK_NS);
    ck_assert_times(&times, add, LINK_NS, LINK_NS + ADD_NS);
    ck_assert_times(&times, cpu, LINK_NS + ADD_NS, LINK_NS + ADD_NS + CPU_ADD_NS);
    ck_assert_times(&times, leave, LINK_NS + ADD_NS, LINK_NS + ADD_NS);
    ck_assert_times(&times, last, 0, 0);
    ck_assert_double_eq_tol(times.cost.total_ns, LINK_NS + ADD_NS, 1e-6); /* of the leaves */
    ck_assert_double_eq_tol(times.cost.link_busy_ns, 2 * LINK_NS, 1e-6);
    ck_assert_uint_eq(times.cost.link_bytes, 2 * 4 * COUNT);
}
END_TEST

/* Two senders share a receiver's way in; whoever is ready first goes first. Both directions of one
 * GPU, and a copy within it, share nothing. */
START_TEST(test_shared_resources) {
    struct maker m;
    struct times times;
    begin(&m);
    uint32_t out[4];
    for (uint32_t rank = 0; rank < 4; rank++)
        out[rank] = maker_lane(&m, rank, PLAN_OUT);
    uint32_t local =
        maker_copy(&m, 2, maker_ref(2, PLAN_RECV, 0), maker_ref(2, PLAN_SEND, 0), COUNT);
    uint32_t late = copy_to(&m, out[0], 0, 2);
    maker_wait(&m, local);
    uint32_t early = copy_to(&m, out[1], 1, 2);
    uint32_t back = copy_to(&m, out[2], 2, 3);
    uint32_t other = copy_to(&m, out[3], 3, 0);
    maker_mark(&m, PLAN_LEAVE, 0);
    times_of(&m, &times);
    double local_ns = 100 + 4 * COUNT * 2 / 6.0; /* read and written */
    ck_assert_times(&times, local, 0, local_ns);
    ck_assert_times(&times, early, 0, LINK_NS);
    ck_assert_times(&times, late, LINK_NS, 2 * LINK_NS);
    ck_assert_times(&times, back, 0, LINK_NS);
    ck_assert_times(&times, other, 0, LINK_NS);
    ck_assert_double_eq_tol(times.cost.link_busy_ns, 2 * LINK_NS, 1e-6);
    ck_assert_uint_eq(times.cost.link_bytes, 4 * 4 * COUNT);
}
END_TEST

/* To the host and from it: one way each a GPU, beside the link between GPUs. */
START_TEST(test_host) {
    struct maker m;
    struct times times;
    begin(&m);
    uint32_t out = maker_lane(&m, 0, PLAN_OUT), in = maker_lane(&m, 0, PLAN_IN);
    uint32_t up = maker_copy(&m, 0, maker_ref(0, PLAN_HOST, 0), maker_ref(0, PLAN_SEND, 0), COUNT);
    uint32_t again =
        maker_copy(&m, in, maker_ref(1, PLAN_HOST, 0), maker_ref(0, PLAN_SEND, 0), COUNT);
    uint32_t link = copy_to(&m, out, 0, 1);
    uint32_t down =
        maker_copy(&m, 1, maker_ref(1, PLAN_RECV, 0), maker_ref(0, PLAN_HOST, 0), COUNT);
    maker_wait(&m, up);
    maker_mark(&m, PLAN_LEAVE, 1);
    uint32_t both = maker_mark(&m, PLAN_LEAVE, 2); /* the one that starts first ends last */
    maker_wait(&m, up);
    maker_wait(&m, link);
    times_of(&m, &times);
    ck_assert_times(&times, both, HOST_NS, HOST_NS);
    ck_assert_times(&times, up, 0, HOST_NS);
    ck_assert_times(&times, again, HOST_NS, 2 * HOST_NS);
    ck_assert_times(&times, link, 0, LINK_NS);
    ck_assert_times(&times, down, HOST_NS, 2 * HOST_NS);
    ck_assert_double_eq_tol(times.cost.total_ns, 2 * HOST_NS, 1e-6);
    ck_assert_uint_eq(times.cost.link_bytes, 4 * 4 * COUNT);
}
END_TEST

/* Of steps ready at the same time the earlier one goes first. */
START_TEST(test_ties) {
    struct maker m;
    struct times times;
    uint32_t steps[12];
    begin(&m);
    for (uint32_t i = 0; i < 12; i++)
        steps[i] = copy_to(&m, maker_lane(&m, i % 3, PLAN_OUT), i % 3, 3);
    times_of(&m, &times);
    for (int i = 0; i < 12; i++)
        ck_assert_times(&times, steps[i], i * LINK_NS, (i + 1) * LINK_NS);
}
END_TEST

static struct plan_spec two_ranks(uint64_t count, uint32_t slices) {
    struct plan_spec spec = {.collective = PLAN_ALL_REDUCE,
                             .algorithm = PLAN_RING,
                             .ranks = 2,
                             .count = count,
                             .element_bytes = 4,
                             .rings = 1,
                             .slices = slices,
                             .granule = 1,
                             .scratch_count = count};
    return spec;
}

/* Two ranks in one slice: copy, add, copy. In more, the link never rests: each copy takes longer
 * than an addition, and only copies count. */
START_TEST(test_two_rank_ring) {
    struct topology machine;
    machine_make(&machine, 2);
    for (uint32_t slices = 1; slices <= 8; slices *= 2) {
        struct plan_spec spec = two_ranks(16 * COUNT, slices);
        struct plan_cost cost;
        struct plan *plan;
        uint64_t bytes = spec.count / 2 / slices * 4;
        double copy_ns = topology_copy_ns(&machine, 0, 1, bytes);
        double add_ns = topology_sum_ns(&machine, 0, bytes, 2);
        ck_assert_ok(plan_build(&plan, &spec));
        ck_assert_uint_eq(plan->slices, slices);
        ck_assert_ok(plan_cost(plan, &machine, &cost, NULL, NULL));
        ck_assert_double_lt(add_ns, copy_ns);
        ck_assert_double_eq_tol(cost.total_ns, 2 * slices * copy_ns + (slices == 1 ? add_ns : 0),
                                1e-6);
        ck_assert_double_eq_tol(cost.link_busy_ns, 2 * slices * copy_ns, 1e-6);
        ck_assert_uint_eq(cost.link_bytes, 2 * spec.count * 4);
        plan_free(plan);
    }
    topology_free(&machine);
}
END_TEST

START_TEST(test_refusals) {
    struct topology machine;
    struct plan_cost cost = {.total_ns = -1};
    struct maker m;
    machine_make(&machine, 3);
    begin(&m);
    maker_end(&m);
    ck_assert_status(plan_cost(&m.plan, &machine, &cost, NULL, NULL), RINGLET_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "3 GPUs, the plan 4 ranks"));
    topology_free(&machine);
    machine_make(&machine, 4);
    copy_to(&m, 0, 0, 1);
    maker_wait(&m, 4);
    ck_assert_status(plan_cost(&m.plan, &machine, &cost, NULL, NULL), RINGLET_PARSE_ERROR);
    m.waits[0] = 3;
    m.steps[4].lane = 9;
    ck_assert_status(plan_cost(&m.plan, &machine, &cost, NULL, NULL), RINGLET_PARSE_ERROR);
    m.steps[4].lane = 0;
    m.steps[4].a.rank = 4;
    ck_assert_status(plan_cost(&m.plan, &machine, &cost, NULL, NULL), RINGLET_PARSE_ERROR);
    ck_assert_double_eq(cost.total_ns, -1); /* set only on success */
    m.steps[4].a.rank = 0;
    ck_assert_ok(plan_cost(&m.plan, &machine, &cost, NULL, NULL));
    topology_free(&machine);
}
END_TEST

/* Every allocation fails once: an error each time, nothing leaked. */
START_TEST(test_out_of_memory) {
    struct topology machine;
    struct plan_cost cost;
    struct maker m;
    machine_make(&machine, 4);
    begin(&m);
    copy_to(&m, 0, 0, 1);
    maker_end(&m);
    int64_t live = memory_live();
    uint64_t nth = 0;
    ringlet_status status;
    do {
        memory_fail_at(++nth);
        status = plan_cost(&m.plan, &machine, &cost, NULL, NULL);
        ck_assert(status == RINGLET_OK || status == RINGLET_OUT_OF_MEMORY);
        ck_assert_int_eq(memory_live(), live);
    } while (status != RINGLET_OK);
    ck_assert(memory_fail_pending());
    memory_fail_at(0);
    ck_assert_uint_gt(nth, 8);
    topology_free(&machine);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("plan cost");
    TCase *tests = tcase_create("plan cost");
    tcase_add_test(tests, test_lane_order_and_waits);
    tcase_add_test(tests, test_shared_resources);
    tcase_add_test(tests, test_host);
    tcase_add_test(tests, test_ties);
    tcase_add_test(tests, test_two_rank_ring);
    tcase_add_test(tests, test_refusals);
    tcase_add_test(tests, test_out_of_memory);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
