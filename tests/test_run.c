/*
 * Plans on emulated devices, under the seeded scheduler: right results and no race for every seed;
 * and with one wait less, a race for some.
 */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/emulated.h"
#include "run/run.h"
#include "suite.h"

enum { RANKS_MAX = 6, COUNT_MAX = 200 };

struct machine {
    struct device_system *system;
    struct run *run;
    uint32_t ranks;
    float *send[RANKS_MAX], *recv[RANKS_MAX], *spare[RANKS_MAX];
    ringlet_stream stream[RANKS_MAX];
    struct run_buffers buffers[RANKS_MAX];
};

static void machine_open(struct machine *m, uint32_t ranks, uint64_t seed, bool keep_going) {
    struct topology topology;
    int devices[RANKS_MAX];
    memset(m, 0, sizeof *m);
    m->ranks = ranks;
    ck_assert_ok(topology_make_switch(&topology, ranks));
    struct emulated_config config = {&topology, RINGLET_SCHEDULER_SEEDED, seed, keep_going};
    ck_assert_ok(emulated_open(&m->system, &config));
    topology_free(&topology);
    for (uint32_t r = 0; r < ranks; r++) {
        void *memory;
        devices[r] = (int)r;
        ck_assert_ok(m->system->ops->memory_alloc(m->system, (int)r, COUNT_MAX * 4, &memory));
        m->send[r] = memory;
        ck_assert_ok(m->system->ops->memory_alloc(m->system, (int)r, COUNT_MAX * 4, &memory));
        m->recv[r] = memory;
        ck_assert_ok(m->system->ops->memory_alloc(m->system, (int)r, COUNT_MAX * 4, &memory));
        m->spare[r] = memory;
        ck_assert_ok(m->system->ops->stream_create(m->system, (int)r, &m->stream[r]));
        m->buffers[r] = (struct run_buffers){m->send[r], m->recv[r], m->stream[r]};
    }
    ck_assert_ok(run_create(&m->run, m->system, devices, ranks, 4096, 4096));
}

static void machine_close(struct machine *m) {
    ck_assert_ok(run_destroy(&m->run, 10000));
    m->system->ops->close(m->system);
}

static void fill(struct machine *m, uint64_t count, uint32_t salt) {
    float data[COUNT_MAX];
    for (uint32_t r = 0; r < m->ranks; r++) {
        for (uint64_t i = 0; i < count; i++)
            data[i] = (float)(i * 7 + r * 1000 + salt);
        struct device_queue queue = {(int)r, m->stream[r]};
        ck_assert_ok(m->system->ops->transfer(m->system, queue, m->send[r], data, count * 4, true));
    }
}

/* What a caller may do between two calls, in its own stream's order: write both buffers. */
static void caller_works(struct machine *m, uint64_t count) {
    struct device_tag tag = {0, 0, 0};
    for (uint32_t r = 0; r < m->ranks; r++) {
        struct device_queue queue = {(int)r, m->stream[r]};
        ck_assert_ok(m->system->ops->copy(m->system, queue, (int)r, m->recv[r], (int)r, m->spare[r],
                                          count * 4, tag));
        ck_assert_ok(m->system->ops->copy(m->system, queue, (int)r, m->send[r], (int)r, m->spare[r],
                                          count * 4, tag));
    }
}

static ringlet_status enqueue(struct machine *m, const struct plan *plan, uint32_t number) {
    struct run_part parts[RANKS_MAX];
    uint32_t waiting[RANKS_MAX], left = m->ranks;
    ringlet_status status = RINGLET_OK;
    ck_assert_ok(run_prepare(m->run, plan));
    memset(parts, 0, sizeof parts);
    for (uint32_t r = 0; r < m->ranks; r++) {
        parts[r].run = m->run;
        parts[r].call = (struct run_call){plan, number, RINGLET_FLOAT32, RINGLET_SUM};
        parts[r].buffers = m->buffers;
        parts[r].rank = waiting[r] = r;
    }
    while (left) {
        uint32_t pick = m->system->ops->turn(m->system, left);
        enum run_state state = run_advance(&parts[waiting[pick]], 1, &status);
        if (state == RUN_FAILED)
            return status;
        if (state == RUN_DONE)
            waiting[pick] = waiting[--left];
    }
    return RINGLET_OK;
}

static bool never(void *context) {
    (void)context;
    return false;
}

static ringlet_status finish(struct machine *m) {
    ringlet_status status = RINGLET_OK;
    for (uint32_t r = 0; r < m->ranks && !status; r++) {
        struct device_queue queue = {(int)r, m->stream[r]};
        status = device_wait(m->system, queue, 10000, never, NULL);
    }
    return status;
}

static void check_sums(struct machine *m, uint64_t count, uint32_t salt) {
    float data[COUNT_MAX];
    for (uint32_t r = 0; r < m->ranks; r++) {
        struct device_queue queue = {(int)r, m->stream[r]};
        ck_assert_ok(
            m->system->ops->transfer(m->system, queue, data, m->recv[r], count * 4, false));
        for (uint64_t i = 0; i < count; i++) {
            float sum = 0;
            for (uint32_t o = 0; o < m->ranks; o++)
                sum += (float)(i * 7 + o * 1000 + salt);
            if (data[i] != sum) /* an assertion each is slow */
                ck_abort_msg("rank %u element %llu: %g, not %g", r, (unsigned long long)i,
                             (double)data[i], (double)sum);
        }
    }
}

static struct plan_spec spec_of(uint32_t ranks, uint64_t count) {
    struct plan_spec spec = {.collective = PLAN_ALL_REDUCE,
                             .algorithm = PLAN_RING,
                             .ranks = ranks,
                             .count = count,
                             .element_bytes = 4,
                             .rings = 1,
                             .slices = 2,
                             .granule = 1,
                             .scratch_count = 1024,
                             .host_count = 1024};
    return spec;
}

/* The same plan run three times in a row without waiting: calls compose, and the data of the last
 * is right. */
START_TEST(test_seeds_race_free) {
    struct machine m;
    uint64_t seed = (uint64_t)_i;
    uint32_t ranks = 2 + (uint32_t)_i % 4;
    uint64_t count = 1 + (uint64_t)(_i * 13) % COUNT_MAX;
    struct plan_spec spec = spec_of(ranks, count);
    struct plan *plan = NULL;
    ck_assert_ok(plan_build(&plan, &spec));
    machine_open(&m, ranks, seed, false);
    run_start_at(m.run, UINT32_MAX - 2);
    fill(&m, count, 3);
    for (uint32_t call = 1; call <= 3; call++)
        ck_assert_msg(enqueue(&m, plan, call + UINT32_MAX - 2) == RINGLET_OK, "seed %d: %s", _i,
                      status_message());
    ck_assert_msg(finish(&m) == RINGLET_OK, "seed %d: %s", _i, status_message());
    ck_assert_msg(!emulated_races(m.system), "seed %d: %s", _i, emulated_race_text(m.system));
    check_sums(&m, count, 3);
    machine_close(&m);
    plan_free(plan);
}
END_TEST

/* Without any one wait, some seed shows a race: the emulator's checker sees what the proof says.
 * Waits on ENTER and waits of LEAVE guard against the neighbouring calls, so the plan runs
 * twice. */
START_TEST(test_each_wait_is_needed_when_run) {
    uint32_t ranks = 2 + (uint32_t)_i % 2;
    uint8_t in_place[RANKS_MAX] = {0};
    struct plan_spec spec = spec_of(ranks, 12);
    struct plan *plan = NULL;
    memset(in_place, _i / 2, sizeof in_place);
    spec.in_place = in_place;
    spec.scratch_count = 6; /* two or three slots, so that they are used again */
    ck_assert_ok(plan_build(&plan, &spec));
    ck_assert_uint_gt(plan->wait_count, 0);
    struct plan_spec scatter_spec = spec_of(ranks, 12 / ranks);
    struct plan *scatter = NULL;
    scatter_spec.collective = PLAN_REDUCE_SCATTER;
    ck_assert_ok(plan_build(&scatter, &scatter_spec));
    for (uint32_t step = 0; step < plan->step_count; step++) {
        for (uint32_t w = 0; w < plan->steps[step].wait_count; w++) {
            struct plan *broken = NULL;
            ck_assert_ok(plan_clone(&broken, plan));
            struct plan_step *victim = &broken->steps[step];
            broken->waits[victim->wait_first + w] =
                broken->waits[victim->wait_first + victim->wait_count - 1];
            victim->wait_count--;
            bool caught = false;
            for (uint64_t seed = 1; seed <= 60 && !caught; seed++) {
                struct machine m;
                machine_open(&m, ranks, seed, true);
                caller_works(&m, 12);
                ck_assert_ok(enqueue(&m, scatter, 1));
                if (_i / 2)
                    for (uint32_t r = 0; r < ranks; r++)
                        m.buffers[r].recv = (void *)(uintptr_t)m.buffers[r].send;
                for (uint32_t call = 2; call <= 3; call++) {
                    caller_works(&m, 12);
                    ck_assert_ok(enqueue(&m, broken, call));
                }
                caller_works(&m, 12);
                ck_assert_ok(finish(&m));
                caught = emulated_races(m.system) > 0;
                machine_close(&m);
            }
            char text[200];
            plan_step_text(plan, step, text, sizeof text);
            ck_assert_msg(caught, "no race without wait %u of step %u (%s)", w, step, text);
            plan_free(broken);
        }
    }
    plan_free(scatter);
    plan_free(plan);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("run");
    TCase *seeds = tcase_create("seeds"), *waits = tcase_create("waits");
    tcase_add_loop_test(seeds, test_seeds_race_free, 0, 1000);
    suite_add_tcase(suite, seeds);
    tcase_set_timeout(waits, 300);
    tcase_add_loop_test(waits, test_each_wait_is_needed_when_run, 0, 4);
    suite_add_tcase(suite, waits);
    return suite;
}

SUITE_MAIN(suite)
