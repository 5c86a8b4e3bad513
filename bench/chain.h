/*
 * Data for a chain of collectives, each of which takes what the one before left, in place.
 * Owns the values, which every operation maps to themselves, so that they stay finite. Never times.
 */
#ifndef RINGLET_BENCH_CHAIN_H
#define RINGLET_BENCH_CHAIN_H

#include "session.h"

/* Zeros for a sum, else ones, in all that the call reads. False with the session's error set. */
bool chain_fill(struct session *session, const struct session_call *call);

#endif
