/*
 * Runs plans on devices: the same code on CUDA devices and on emulated ones.
 * Owns each rank's internal streams, events, scratch and pinned host memory, and how far each
 * rank's host program has come. Never chooses a plan, and never waits: who drives it does.
 *
 * Recording an event and waiting for it are host calls, often of two threads: a wait issued before
 * the record waits for nothing, and one issued after the event was recorded again waits for the
 * wrong thing. So:
 *  - a rank publishes (release) how many steps it has enqueued, records included, and a peer that
 * wants to wait looks (acquire) first; not yet there means RUN_BLOCKED, and the caller tries again
 * later;
 *  - within a call each event is recorded once; it is recorded again in a later call only after
 * every rank has entered that call (agree.h), so after every wait on it has been issued.
 */
#ifndef RINGLET_RUN_RUN_H
#define RINGLET_RUN_RUN_H

#include "device/device.h"
#include "plan/plan.h"

struct run;

struct run_buffers { /* what the caller gave for one rank */
    const void *send;
    void *recv;
    ringlet_stream stream;
};

struct run_call { /* what all ranks of a call share; stays as it is until every part is done */
    const struct plan *plan;
    uint32_t number; /* of the call, counting up by one, modulo 2^32 */
    ringlet_dtype dtype;
    ringlet_op op;
};

struct run_part { /* one rank's part of a call, resumable; zero it before setting the first four */
    struct run *run;
    struct run_call call;
    const struct run_buffers *buffers; /* [ranks] */
    uint32_t rank;
    uint32_t next, waits_done; /* progress: step of the rank's program, waits of it issued */
};

enum run_state { RUN_DONE, RUN_READY, RUN_BLOCKED, RUN_FAILED };

/* `scratch_bytes` of device memory are taken for each rank now; pinned memory (`host_bytes` a rank)
 * when the first plan needs it. The system is the caller's. */
ringlet_status run_create(struct run **out, struct device_system *system, const int *devices,
                          uint32_t ranks, uint64_t scratch_bytes, uint64_t host_bytes);

/* Takes the pinned memory now. */
ringlet_status run_host_start(struct run *run);

/* Waits up to timeout_ms for what is under way, then frees everything and sets *run to NULL.
 * TIMEOUT or DEVICE_ERROR: what is still in use is left allocated, and the message says what. */
ringlet_status run_destroy(struct run **run, int64_t timeout_ms);

/* Streams, events and pinned memory for a plan, on every rank. One call at a time, before any rank
 * is inside run_advance() with this plan, and when none is with another. */
ringlet_status run_prepare(struct run *run, const struct plan *plan);

/* Enqueues up to `steps` steps of the rank's part: RUN_DONE when all of it is enqueued; RUN_READY
 * when the number is used up; RUN_BLOCKED when the next step waits for a peer's host program;
 * RUN_FAILED with *status and the thread's message. The calling thread must be bound to the rank's
 * device. */
enum run_state run_advance(struct run_part *part, uint32_t steps, ringlet_status *status);

/* Of a part that is RUN_BLOCKED: the rank whose host program it waits for. */
uint32_t run_blocker(const struct run_part *part);

/* For a part that will not be finished: what it has put on the caller's stream so far is then
 * waited for by run_drain() as well. */
void run_give_up(struct run_part *part);

/* Waits up to timeout_ms a stream for all that calls have enqueued so far. TIMEOUT with words,
 * DEVICE_ERROR. */
ringlet_status run_drain(struct run *run, int64_t timeout_ms);

/* The next call is numbered `number` + 1 (it is 1 otherwise; tests: wrap). */
void run_start_at(struct run *run, uint32_t number);

/* Changes whenever any rank has enqueued a step, so that peers that are slow are told from peers
 * that are stuck. */
uint64_t run_progress(const struct run *run);

/* Pinned memory allocated so far, all ranks together. */
uint64_t run_host_bytes(const struct run *run);

#endif
