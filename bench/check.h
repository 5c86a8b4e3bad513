/*
 * Checks a collective on fresh data: fills inputs, poisons outputs, calls, compares.
 * Owns host memory for a piece of a buffer and the threads that compute on it. Never times.
 */
#ifndef RINGLET_BENCH_CHECK_H
#define RINGLET_BENCH_CHECK_H

#include "measure.h"

struct check;

/* NULL when memory or threads cannot be had. Memory does not grow with the buffers, which are
 * checked piece by piece. */
struct check *check_create(struct session *session, struct crew *ranks);
void check_destroy(struct check *check);

/*
 * Both kinds of data, each: outputs and the guards around them poisoned, inputs written, one
 * operation. *wrong gets how many elements, over all ranks, are not what they must be: outputs;
 * ranks that differ from each other where all must have the same; guards that were touched; inputs
 * that were touched out of place. False with the session's error set when a call failed.
 */
bool check_call(struct check *check, struct contender *contender, const struct session_call *call,
                uint64_t *wrong);

#endif
