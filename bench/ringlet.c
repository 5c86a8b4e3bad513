/*
 * Ringlet's own collectives as contenders, in both call shapes.
 * Owns nothing but the contender. Never measures.
 */
#include <stdlib.h>

#include "contender.h"

struct own {
    struct contender base;
    ringlet_comm *comm;
};

static ringlet_status call_rank(const struct own *self, const struct session_call *call, int rank) {
    const struct session *s = self->base.session;
    const void *send = session_send(s, call, rank);
    void *recv = session_recv(s, call, rank);
    ringlet_stream stream = s->streams[rank];
    switch (call->collective) {
    case SESSION_ALL_REDUCE:
        return ringlet_all_reduce(self->comm, rank, send, recv, call->count, call->type, call->op,
                                  stream);
    case SESSION_REDUCE_SCATTER:
        return ringlet_reduce_scatter(self->comm, rank, send, recv, call->count, call->type,
                                      call->op, stream);
    case SESSION_ALL_GATHER:
        return ringlet_all_gather(self->comm, rank, send, recv, call->count, call->type, stream);
    case SESSION_BROADCAST:
        return ringlet_broadcast(self->comm, rank, send, recv, call->count, call->type, call->root,
                                 stream);
    }
    return RINGLET_INVALID_ARGUMENT;
}

static ringlet_status call_all(const struct own *self, const struct session_call *call) {
    struct session *s = self->base.session;
    switch (call->collective) {
    case SESSION_ALL_REDUCE:
        return ringlet_all_reduce_multi(self->comm, s->send, s->recv, call->count, call->type,
                                        call->op, s->streams);
    case SESSION_REDUCE_SCATTER:
        return ringlet_reduce_scatter_multi(self->comm, s->send, s->recv, call->count, call->type,
                                            call->op, s->streams);
    case SESSION_ALL_GATHER:
        return ringlet_all_gather_multi(self->comm, s->send, s->recv, call->count, call->type,
                                        s->streams);
    case SESSION_BROADCAST:
        return ringlet_broadcast_multi(self->comm, s->send, s->recv, call->count, call->type,
                                       call->root, s->streams);
    }
    return RINGLET_INVALID_ARGUMENT;
}

static const char *enqueue_rank(struct contender *self, const struct session_call *call, int rank,
                                uint64_t times) {
    ringlet_status status = RINGLET_OK;
    for (uint64_t i = 0; i < times && !status; i++)
        status = call_rank((struct own *)self, call, rank);
    return status ? session_words(status) : NULL;
}

static ringlet_status call_all_often(struct contender *self, const struct session_call *call,
                                     uint64_t times) {
    struct session *s = self->session;
    ringlet_status status = RINGLET_OK;
    for (int r = 0; r < s->ranks; r++) {
        s->send[r] = session_send(s, call, r);
        s->recv[r] = session_recv(s, call, r);
    }
    for (uint64_t i = 0; i < times && !status; i++)
        status = call_all((struct own *)self, call);
    return status;
}

static const char *enqueue_all(struct contender *self, const struct session_call *call, int rank,
                               uint64_t times) {
    (void)rank;
    ringlet_status status = call_all_often(self, call, times);
    return status ? session_words(status) : NULL;
}

static void close_ringlet(struct contender *self) {
    free(self);
}

struct contender *contender_open_ringlet(struct session *session, ringlet_comm *comm, bool whole) {
    struct own *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->base =
        (struct contender){whole ? enqueue_all : enqueue_rank, whole, close_ringlet, session};
    self->comm = comm;
    return &self->base;
}

ringlet_status contender_try_ringlet(struct contender *ringlet, const struct session_call *call) {
    ringlet_status status = call_all_often(ringlet, call, 1);
    return status ? status : session_wait_all(ringlet->session);
}
