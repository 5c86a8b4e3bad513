/*
 * Ringlet's own collectives as contenders, in both call shapes.
 * Owns nothing but the contender. Never measures.
 */
#include <stdlib.h>

#include "contender.h"

static ringlet_status call_rank(struct session *s, const struct session_call *call, int rank) {
    const void *send = session_send(s, call, rank);
    void *recv = session_recv(s, call, rank);
    ringlet_stream stream = s->streams[rank];
    switch (call->collective) {
    case SESSION_ALL_REDUCE:
        return ringlet_all_reduce(s->comm, rank, send, recv, call->count, RINGLET_FLOAT32,
                                  RINGLET_SUM, stream);
    case SESSION_REDUCE_SCATTER:
        return ringlet_reduce_scatter(s->comm, rank, send, recv, call->count, RINGLET_FLOAT32,
                                      RINGLET_SUM, stream);
    case SESSION_ALL_GATHER:
        return ringlet_all_gather(s->comm, rank, send, recv, call->count, RINGLET_FLOAT32, stream);
    }
    return RINGLET_INVALID_ARGUMENT;
}

static ringlet_status call_all(struct session *s, const struct session_call *call) {
    switch (call->collective) {
    case SESSION_ALL_REDUCE:
        return ringlet_all_reduce_multi(s->comm, s->send, s->recv, call->count, RINGLET_FLOAT32,
                                        RINGLET_SUM, s->streams);
    case SESSION_REDUCE_SCATTER:
        return ringlet_reduce_scatter_multi(s->comm, s->send, s->recv, call->count, RINGLET_FLOAT32,
                                            RINGLET_SUM, s->streams);
    case SESSION_ALL_GATHER:
        return ringlet_all_gather_multi(s->comm, s->send, s->recv, call->count, RINGLET_FLOAT32,
                                        s->streams);
    }
    return RINGLET_INVALID_ARGUMENT;
}

static const char *enqueue_rank(struct contender *self, const struct session_call *call, int rank,
                                uint64_t times) {
    ringlet_status status = RINGLET_OK;
    for (uint64_t i = 0; i < times && !status; i++)
        status = call_rank(self->session, call, rank);
    return status ? session_words(status) : NULL;
}

static const char *enqueue_all(struct contender *self, const struct session_call *call, int rank,
                               uint64_t times) {
    struct session *s = self->session;
    ringlet_status status = RINGLET_OK;
    (void)rank;
    for (int r = 0; r < s->ranks; r++) {
        s->send[r] = session_send(s, call, r);
        s->recv[r] = session_recv(s, call, r);
    }
    for (uint64_t i = 0; i < times && !status; i++)
        status = call_all(s, call);
    return status ? session_words(status) : NULL;
}

static void close_ringlet(struct contender *self) {
    free(self);
}

struct contender *contender_open_ringlet(struct session *session, bool whole) {
    struct contender *self = calloc(1, sizeof *self);
    if (self)
        *self =
            (struct contender){whole ? enqueue_all : enqueue_rank, whole, close_ringlet, session};
    return self;
}
