/*
 * Agreement: the ranks of a communicator enter a call together and compare what they were asked
 * for, before data is touched. Owns the board on which each rank publishes its call. Never knows
 * what a call means beyond equality.
 *
 * Invariants. Rank r alone writes its entries, and its calls are numbered 1, 2, 3, ... (modulo
 * 2^32). To enter call c it fills slot c % AGREE_DEPTH, then publishes entered = c (release). Who
 * sees entered >= c (acquire) may read that slot. A slot is filled again for call c + AGREE_DEPTH
 * only when every rank has entered call c + 1 at least, so has read slot c for the last time. And
 * who has seen all ranks enter call c + 1 knows that all have finished enqueuing call c: events and
 * progress counters of call c can be used again.
 */
#ifndef RINGLET_RUN_AGREE_H
#define RINGLET_RUN_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "ringlet/ringlet.h"

enum { AGREE_DEPTH = 16, AGREE_TEXT_MAX = 240 };

struct agree_call { /* what one rank was asked for */
    uint32_t collective, dtype, op, root;
    uint64_t count;
    /* Not compared; for the peers that copy: */
    const void *send;
    void *recv;
    ringlet_stream stream;
    bool in_place;
    /* A rank whose own arguments are wrong enters too, so that its peers are told and do not wait.
     */
    ringlet_status bad;
    char text[AGREE_TEXT_MAX];
};

struct agree;

struct agree *agree_new(uint32_t ranks); /* NULL when out of memory */
void agree_free(struct agree *agree);

/* Enters the rank's next call. Waits only if the rank is AGREE_DEPTH calls ahead of a peer: then up
 * to timeout_ms, TIMEOUT. stop is asked now and then; true ends the wait with ABORTED. *number is
 * the call's. */
ringlet_status agree_enter(struct agree *agree, uint32_t rank, const struct agree_call *call,
                           int64_t timeout_ms, bool (*stop)(void *), void *context,
                           uint32_t *number);

/* Waits until every rank has entered call `number`. TIMEOUT: *missing is the first rank that has
 * not. */
ringlet_status agree_wait(struct agree *agree, uint32_t number, int64_t timeout_ms,
                          bool (*stop)(void *), void *context, uint32_t *missing);

/* What a rank published for a call that it is known to have entered. */
const struct agree_call *agree_peer(const struct agree *agree, uint32_t rank, uint32_t number);

bool agree_entered(const struct agree *agree, uint32_t rank, uint32_t number);

/* For one thread that drives every rank: all enter the same next call, whatever each had entered
 * before. */
uint32_t agree_enter_all(struct agree *agree, const struct agree_call *calls);

/* Names of a call's parts, for messages. */
struct agree_names {
    const char *(*collective)(uint32_t), *(*dtype)(uint32_t), *(*op)(uint32_t);
};

/* Compares what all ranks published: the same verdict, in the same words, on every rank. OK; the
 * status of a rank whose arguments were wrong; or MISMATCH, naming ranks and values. */
ringlet_status agree_compare(const struct agree *agree, uint32_t number,
                             const struct agree_names *names);

/* The calls of every rank are numbered on from here (tests: wrap). */
void agree_start_at(struct agree *agree, uint32_t number);

#endif
