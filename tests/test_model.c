/*
 * Two ways to the same time: the cost of a plan, and the plan run on emulated devices in the order
 * of modelled time. They share the topology's arithmetic and nothing else.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "comm.h"
#include "slow.h"
#include "suite.h"
#include "topology/topology.h"

static const char *const files[] = {"hgx-h200-2", "four-nvlink-partial", "dgx1-v100",
                                    "a100-pcie-pairs"};
enum { FILES = 4, RANKS_MAX = 8 };

struct model_case {
    uint32_t ranks;
    enum plan_collective collective;
    ringlet_algorithm algorithm;
    uint64_t count;
    uint32_t rings, slices;
    bool no_p2p, in_place;
};

static ringlet_status call(ringlet_comm *comm, const struct model_case *c, void **send,
                           void **recv) {
    const void *const *s = (const void *const *)send;
    if (c->collective == PLAN_ALL_REDUCE)
        return ringlet_all_reduce_multi(comm, s, recv, c->count, RINGLET_FLOAT32, RINGLET_SUM,
                                        NULL);
    if (c->collective == PLAN_REDUCE_SCATTER)
        return ringlet_reduce_scatter_multi(comm, s, recv, c->count, RINGLET_FLOAT32, RINGLET_SUM,
                                            NULL);
    if (c->collective == PLAN_BROADCAST)
        return ringlet_broadcast_multi(comm, s, recv, c->count, RINGLET_FLOAT32, 1, NULL);
    return ringlet_all_gather_multi(comm, s, recv, c->count, RINGLET_FLOAT32, NULL);
}

static void quiet(void *context, const char *message) {
    (void)context, (void)message;
}

static void compare(const char *path, const struct model_case *c) {
    struct topology machine;
    ringlet_comm *comm = NULL;
    ringlet_options o;
    void *send[RANKS_MAX], *recv[RANKS_MAX];
    uint64_t before, after, bytes = c->count * 4 * c->ranks;
    ringlet_log_set(quiet, NULL);
    ringlet_options_init(&o);
    o.backend = RINGLET_BACKEND_EMULATED;
    o.scheduler = RINGLET_SCHEDULER_SEEDED;
    o.machine = path;
    o.algorithm = c->algorithm;
    o.rings = c->rings;
    o.slices = c->slices;
    o.disable_p2p = c->no_p2p;
    o.scratch_bytes = SUITE_SCRATCH;
    ck_assert_ok(topology_read(&machine, path));
    ringlet_status made = ringlet_comm_create(&comm, NULL, (int)c->ranks, &o);
    if (c->algorithm == RINGLET_ALGORITHM_DIRECT && made == RINGLET_UNSUPPORTED) {
        ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "peer access between every two"));
        topology_free(&machine);
        return;
    }
    ck_assert_ok(made);
    for (uint32_t r = 0; r < c->ranks; r++) {
        ck_assert_ok(ringlet_buffer_alloc(comm, (int)r, bytes, &send[r]));
        ck_assert_ok(ringlet_buffer_alloc(comm, (int)r, bytes, &recv[r]));
        if (c->in_place && c->collective == PLAN_ALL_REDUCE)
            recv[r] = send[r];
    }
    ck_assert_ok(ringlet_clock_ns(comm, &before));
    ck_assert_ok(call(comm, c, send, recv));
    for (uint32_t r = 0; r < c->ranks; r++)
        ck_assert_ok(ringlet_stream_wait(comm, (int)r, NULL, 20000));
    ck_assert_ok(ringlet_clock_ns(comm, &after));
    static const char *const names[] = {"auto", "ring", "host", "host-pipelined", "direct"};
    struct plan_cost cost;
    ck_assert_ok(plan_cost(comm->rank[0].plan, &machine, &cost, NULL, NULL));
    double run = (double)(after - before);
    ck_assert_msg(
        fabs(run - cost.total_ns) <= 1 + 1e-9 * cost.total_ns,
        "%s, %u ranks, %s by %s, count %llu, %u rings, %u slices%s%s: run %.1f, cost %.1f", path,
        c->ranks, plan_collective_name(c->collective), names[c->algorithm],
        (unsigned long long)c->count, c->rings, c->slices, c->no_p2p ? ", staged" : "",
        c->in_place ? ", in place" : "", run, cost.total_ns);
    ck_assert_ok(ringlet_comm_destroy(&comm));
    topology_free(&machine);
}

START_TEST(test_run_takes_what_it_costs) {
    char path[512];
    snprintf(path, sizeof path, "%s/machines/%s.txt", TEST_SOURCE_ROOT, files[_i]);
    static const uint64_t counts[] = {1, 1000, 300000};
    static const ringlet_algorithm algorithms[] = {RINGLET_ALGORITHM_RING, RINGLET_ALGORITHM_HOST,
                                                   RINGLET_ALGORITHM_HOST_PIPELINED,
                                                   RINGLET_ALGORITHM_DIRECT};
    uint32_t gpus = _i == 0 ? 2 : _i == 1 ? 4 : 8;
    for (uint32_t ranks = 2; ranks <= gpus; ranks += ranks < 4 ? 1 : 4)
        for (int collective = 0; collective <= PLAN_BROADCAST; collective++)
            for (int form = 0; form < 12; form++) {
                struct model_case c = {ranks,
                                       (enum plan_collective)collective,
                                       algorithms[form % 4],
                                       counts[form / 4],
                                       1 + (uint32_t)form % 2,
                                       1 + (uint32_t)form % 4,
                                       form % 8 == 4,
                                       form % 2 == 1};
                compare(path, &c);
            }
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("model");
    TCase *tests = tcase_create("model");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_run_takes_what_it_costs, 0, FILES);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
