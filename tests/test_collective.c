/*
 * The public interface on emulated devices: results in both call shapes, many shapes of data, calls
 * in a row, two streams, two communicators.
 */
#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "comm.h"
#include "slow.h"
#include "suite.h"
#include "world.h"
#ifdef RINGLET_OPENMP
#include <omp.h>
#endif

static uint64_t state;

static uint32_t pick(uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static ringlet_options emulated(ringlet_scheduler scheduler, uint64_t seed) {
    ringlet_options o;
    ringlet_options_init(&o);
    o.backend = RINGLET_BACKEND_EMULATED;
    o.scheduler = scheduler;
    o.seed = seed;
    o.scratch_bytes = SUITE_SCRATCH;
    return o;
}

/* Random communicators and calls. A failure names its seed: the loop index. */
static ringlet_options random_options(ringlet_scheduler scheduler, uint64_t seed) {
    ringlet_options o = emulated(scheduler, seed);
    o.rings = pick(3);
    o.slices = pick(5);
    o.algorithm = pick(2) ? RINGLET_ALGORITHM_RING : (ringlet_algorithm)pick(5);
    o.disable_p2p = o.algorithm != RINGLET_ALGORITHM_DIRECT && pick(5) == 0;
    if (pick(2))
        o.scratch_bytes = 1024u * (2 + pick(6));
    return o;
}

static uint64_t random_count(void) {
    switch (pick(4)) {
    case 0:
        return pick(8);
    case 1:
        return 32u * pick(40);
    default:
        return pick(1500);
    }
}

static void seeded(int seed) {
    struct world w;
    state = (uint64_t)seed + 1;
    int ranks = 1 + (int)pick(6);
    ringlet_options o = random_options(RINGLET_SCHEDULER_SEEDED, (uint64_t)seed);
    world_open(&w, ranks, 1500, &o);
    for (int call = 0; call < 3; call++) {
        world_set(&w, (enum world_collective)pick(WORLD_COLLECTIVES), random_count(),
                  pick(1u << ranks), pick(4));
        ck_assert_msg(world_call_all(&w) == RINGLET_OK, "seed %d: %s", seed,
                      ringlet_error_message());
        if (!w.in_place && pick(2)) /* twice in a row without waiting */
            ck_assert_ok(world_call_all(&w));
        world_check(&w);
    }
    world_close(&w);
}

/* A process for 25 seeds: forking is dear. */
START_TEST(test_seeded) {
    for (int seed = 25 * _i; seed < 25 * (_i + 1); seed++)
        seeded(seed);
}
END_TEST

/* More ranks than a machine has, from one thread. */
START_TEST(test_many_ranks_from_one_thread) {
    ringlet_comm *comm = NULL;
    ringlet_options o = emulated((ringlet_scheduler)_i, 0);
    o.scratch_bytes = 4096;
    int ranks = _i == RINGLET_SCHEDULER_SEEDED ? 256 : 24;
    void *buffer[256];
    float ones[64], result[64];
    for (int i = 0; i < 64; i++)
        ones[i] = 1;
    ck_assert_ok(ringlet_comm_create(&comm, NULL, ranks, &o));
    for (int r = 0; r < ranks; r++) {
        ck_assert_ok(ringlet_buffer_alloc(comm, r, sizeof ones, &buffer[r]));
        ck_assert_ok(ringlet_buffer_write(comm, r, buffer[r], ones, sizeof ones, NULL));
    }
    ck_assert_ok(ringlet_all_reduce_multi(comm, (const void *const *)buffer, buffer, 64,
                                          RINGLET_FLOAT32, RINGLET_SUM, NULL));
    for (int r = 0; r < ranks; r++) {
        ck_assert_ok(ringlet_buffer_read(comm, r, result, buffer[r], sizeof result, NULL));
        for (int i = 0; i < 64; i++)
            ck_assert(result[i] == (float)ranks);
    }
    ck_assert_ok(ringlet_comm_destroy(&comm));
}
END_TEST

START_TEST(test_threads) {
    struct world w;
    state = (uint64_t)_i + 7;
    int ranks = 1 + (int)pick(5);
    ringlet_options o = random_options(RINGLET_SCHEDULER_THREADS, 0);
    world_open(&w, ranks, 1500, &o);
    for (int call = 0; call < 6; call++) {
        world_set(&w, (enum world_collective)pick(WORLD_COLLECTIVES), random_count(),
                  pick(1u << ranks), pick(4));
        if (pick(2))
            ck_assert_ok(world_call_all(&w));
        else
            ck_assert_ok(world_call_threads(&w, w.in_place ? 1 : 1 + (int)pick(20)));
        world_check(&w);
    }
    world_close(&w);
}
END_TEST

START_TEST(test_eight_ranks_large_in_place) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS, 0);
    o.scratch_bytes = 64 << 10; /* slots are used many times */
    world_open(&w, 8, 200000, &o);
    world_set(&w, WORLD_ALL_REDUCE, 200000, 0xff, 0);
    ck_assert_ok(world_call_threads(&w, 1));
    world_check(&w);
    world_set(&w, WORLD_REDUCE_SCATTER, 30000, 0x55, 1);
    ck_assert_ok(world_call_all(&w));
    world_check(&w);
    world_close(&w);
}
END_TEST

/* Calls of one communicator from two streams in turn are chained, though the streams are not
 * ordered. */
START_TEST(test_two_streams) {
    struct world w;
    ringlet_options o = emulated((ringlet_scheduler)(_i % 2), (uint64_t)_i);
    world_open(&w, 3, 600, &o);
    ringlet_stream second[3], first[3];
    for (int r = 0; r < 3; r++) {
        first[r] = w.stream[r];
        ck_assert_ok(ringlet_stream_create(w.comm, r, &second[r]));
    }
    world_set(&w, WORLD_ALL_REDUCE, 600, 0, 0);
    for (int i = 0; i < 6; i++) {
        memcpy(w.stream, i % 2 ? second : first, sizeof second);
        ck_assert_ok(world_call_all(&w));
    }
    world_check(&w); /* waits for the second; the chain includes the first */
    memcpy(w.stream, first, sizeof first);
    for (int r = 0; r < 3; r++)
        ck_assert_ok(ringlet_stream_destroy(w.comm, r, second[r]));
    world_close(&w);
}
END_TEST

/* Two communicators on the same emulated devices: streams of one order the calls of both. */
START_TEST(test_two_communicators) {
    struct world a, b;
    ringlet_options o = emulated((ringlet_scheduler)(_i % 2), (uint64_t)_i);
    world_open(&a, 3, 500, &o);
    ringlet_options shared = o;
    shared.machine_of = a.comm;
    world_open(&b, 2, 500, &shared);
    world_set(&a, WORLD_ALL_REDUCE, 500, 0, 0);
    world_set(&b, WORLD_ALL_REDUCE, 500, 0, 0);
    for (int i = 0; i < 5; i++) {
        ck_assert_ok(world_call_all(&a));
        ck_assert_ok(world_call_all(&b));
    }
    world_check(&a);
    world_check(&b);
    /* a buffer and a stream of a serve b */
    ck_assert_ok(ringlet_stream_wait(b.comm, 1, a.stream[1], 1000));
    ck_assert_ok(ringlet_comm_destroy(&a.comm)); /* the devices live on with b */
    world_set(&b, WORLD_ALL_GATHER, 100, 1, 0);
    ck_assert_ok(world_call_all(&b));
    world_check(&b);
    world_close(&b);
    ck_assert_ptr_null(a.comm);
    memory_free(a.host);
}
END_TEST

START_TEST(test_call_numbers_wrap) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS, 0);
    world_open(&w, 3, 100, &o);
    agree_start_at(w.comm->agree, UINT32_MAX - 5);
    run_start_at(w.comm->run, UINT32_MAX - 5);
    for (int i = 0; i < 12; i++) {
        world_set(&w, WORLD_ALL_REDUCE, 100, 7, 0);
        ck_assert_ok(i % 2 ? world_call_all(&w) : world_call_threads(&w, 1));
        world_check(&w);
    }
    world_close(&w);
}
END_TEST

#ifdef RINGLET_OPENMP
/* Inside a parallel region of the caller's there is no team: the calling thread does it alone. */
START_TEST(test_inside_a_parallel_region) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_THREADS, 0);
    world_open(&w, 4, 300, &o);
    world_set(&w, WORLD_ALL_REDUCE, 300, 0, 0);
    ringlet_status status[2] = {RINGLET_OK, RINGLET_OK};
    omp_set_max_active_levels(1);
    int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        status[0] = world_call_all(&w);
    }
    omp_set_dynamic(1); /* a team smaller than the ranks is likely here */
    status[1] = world_call_all(&w);
    omp_set_dynamic(dynamic);
    ck_assert_int_eq(omp_get_max_threads(), threads);
    ck_assert_ok(status[0]);
    ck_assert_ok(status[1]);
    world_check(&w);
    world_close(&w);
}
END_TEST
#endif

/* A plan is compiled once for a shape and found again. */
START_TEST(test_plans_are_kept) {
    struct world w;
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED, 0);
    world_open(&w, 3, 300, &o);
    for (int i = 0; i < 200; i++) {
        world_set(&w, WORLD_ALL_REDUCE, 1 + (uint64_t)i % 100, (uint32_t)i % 8, 0);
        ck_assert_ok(world_call_all(&w));
        if (i % 2)
            ck_assert_ok(world_call_threads(&w, 1));
    }
    uint64_t built = w.comm->plans.built;
    world_set(&w, WORLD_ALL_REDUCE, 1 + 199 % 100, 199 % 8, 0);
    ck_assert_ok(world_call_all(&w));
    ck_assert_uint_eq(w.comm->plans.built, built);
    world_check(&w);
    world_close(&w);
}
END_TEST

static bool in_cache(const struct plan_cache *cache, const struct plan *plan) {
    for (int i = 0; i < PLAN_CACHE_MAX; i++)
        if (plan && cache->entries[i].plan == plan)
            return true;
    return false;
}

/* A rank remembers its latest plan, which may have been of a call in the other shape; whatever the
 * mixture, the cache never gives away one that a rank still remembers. */
START_TEST(test_shapes_mixed_across_eviction) {
    struct world w;
    ringlet_options o = emulated((ringlet_scheduler)_i, 3);
    world_open(&w, 3, 200, &o);
    for (uint64_t round = 0; round < 3; round++) {
        world_set(&w, WORLD_ALL_REDUCE, 1, 0, 0);
        ck_assert_ok(world_call_threads(&w, 2));
        world_check(&w);
        world_set(&w, WORLD_ALL_REDUCE, 200, 0, 0);
        for (w.count = 2; w.count < PLAN_CACHE_MAX + 3 + round; w.count++) /* a spec each */
            ck_assert_ok(world_call_all(&w));
        for (int r = 0; r < 3; r++)
            ck_assert_msg(in_cache(&w.comm->plans, w.comm->rank[r].plan),
                          "rank %d remembers a plan that has left the cache", r);
        world_set(&w, WORLD_ALL_REDUCE, 100 + round, 0, 0);
        ck_assert_ok(world_call_threads(&w, 2));
        world_check(&w);
    }
    world_close(&w);
}
END_TEST

START_TEST(test_queries) {
    ringlet_comm *comm = NULL;
    ringlet_options o = emulated(RINGLET_SCHEDULER_SEEDED, 0);
    int devices[] = {2, 0, 5}, ranks = 0, device = -1;
    o.scratch_bytes = 4096;
    ck_assert_ok(ringlet_comm_create(&comm, devices, 3, &o));
    ck_assert_ok(ringlet_comm_size(comm, &ranks));
    ck_assert_int_eq(ranks, 3);
    ck_assert_ok(ringlet_comm_device(comm, 2, &device));
    ck_assert_int_eq(device, 5);
    ringlet_device_info place = {.struct_size = sizeof place};
    ck_assert_ok(ringlet_comm_device_query(comm, 2, &place));
    ck_assert_int_eq(place.device, 5);
    ck_assert_uint_gt(place.memory_bytes, 1 << 30);
    ck_assert_str_ne(place.name, "");
    ck_assert_status(ringlet_comm_device_query(comm, 3, &place), RINGLET_INVALID_ARGUMENT);
    place.struct_size = 1;
    ck_assert_status(ringlet_comm_device_query(comm, 0, &place), RINGLET_INVALID_ARGUMENT);
    int count = 0;
    ck_assert_ok(ringlet_device_count(RINGLET_BACKEND_EMULATED, NULL, &count));
    ck_assert_int_ge(count, 1024);
    ck_assert_ok(ringlet_device_count(RINGLET_BACKEND_EMULATED,
                                      TEST_SOURCE_ROOT "/machines/dgx1-v100.txt", &count));
    ck_assert_int_eq(count, 8);
    ck_assert_status(ringlet_device_count(RINGLET_BACKEND_EMULATED, "/nowhere", &count),
                     RINGLET_SYSTEM_ERROR);
    ck_assert_ok(ringlet_device_count(RINGLET_BACKEND_AUTO,
                                      TEST_SOURCE_ROOT "/machines/dgx1-v100.txt", &count));
    ck_assert_int_eq(count, 8);
    ck_assert_status(ringlet_device_count(RINGLET_BACKEND_CUDA, "/nowhere", &count),
                     RINGLET_INVALID_ARGUMENT);
    ringlet_comm_info info = {.struct_size = sizeof info};
    ck_assert_ok(ringlet_comm_query(comm, &info));
    ck_assert_int_eq(info.emulated, 1);
    ck_assert_int_eq(info.modelled_time, 1);
    ck_assert_uint_eq(info.scratch_bytes, 4096);
    ck_assert_uint_eq(info.host_bytes, 0);
    ck_assert_str_eq(info.why, "");
    ck_assert_int_eq(info.staged_edges, 0);
    ck_assert_str_eq(info.algorithm, "");
    ck_assert_ok(ringlet_comm_destroy(&comm));
    ck_assert_ptr_null(comm);
    ck_assert_ok(ringlet_comm_destroy(&comm));
    ck_assert_ok(ringlet_comm_destroy(NULL));
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("collective");
    TCase *seeded = tcase_create("seeded"), *threads = tcase_create("threads");
    tcase_add_loop_test(seeded, test_seeded, 0, 100);
    tcase_add_loop_test(seeded, test_two_streams, 0, 40);
    tcase_add_loop_test(seeded, test_two_communicators, 0, 40);
    tcase_add_test(seeded, test_plans_are_kept);
    tcase_add_loop_test(seeded, test_shapes_mixed_across_eviction, 0, 2);
    tcase_add_test(seeded, test_queries);
    tcase_set_timeout(seeded, 60);
    tcase_add_loop_test(seeded, test_many_ranks_from_one_thread, 0, 2);
    suite_add_tcase(suite, seeded);
    tcase_set_timeout(threads, 60);
    tcase_add_loop_test(threads, test_threads, 0, 60);
    tcase_add_test(threads, test_eight_ranks_large_in_place);
    tcase_add_test(threads, test_call_numbers_wrap);
#ifdef RINGLET_OPENMP
    tcase_add_test(threads, test_inside_a_parallel_region);
#endif
    suite_add_tcase(suite, threads);
    return suite;
}

SUITE_MAIN(suite)
