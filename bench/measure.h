/*
 * Timing: samples of many operations, contenders taking turns.
 * Owns the threads that call. Never prints.
 */
#ifndef RINGLET_BENCH_MEASURE_H
#define RINGLET_BENCH_MEASURE_H

#include "contender.h"
#include "crew.h"

enum { MEASURE_SAMPLES_MAX = 15, MEASURE_CONTENDERS_MAX = 24 };

struct measure_config {
    uint64_t warmups, iterations; /* operations before, and in each sample */
    int samples;                  /* at most MEASURE_SAMPLES_MAX */
    bool singly;                  /* besides, as many operations again, each timed on its own */
};

struct measure_result {
    double median_us, least_us, most_us; /* of one operation, over the samples */
    uint64_t operations;                 /* that were timed on their own */
    double p50_us, p90_us, p99_us, longest_us;
};

/* (largest - smallest) / median over the samples */
double measure_spread(const struct measure_result *result);

/* One operation, started on all ranks and done on all. False with the session's error set. `crew`
 * has a thread a rank. */
bool measure_once(struct crew *crew, struct contender *contender, const struct session_call *call);

/*
 * Warms every contender up, then takes samples, contender after contender in each round. A sample:
 * all ranks start together, each enqueues its operations and waits for its stream; the slowest rank
 * counts. An operation on its own: the same with one operation, so that the time of the call and of
 * the wait is in it.
 */
bool measure_all(struct crew *crew, struct contender *const *contenders, int count,
                 const struct session_call *call, const struct measure_config *config,
                 struct measure_result *out);

#endif
