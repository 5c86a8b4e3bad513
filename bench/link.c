/*
 * The ceiling: plain copies round the ring, all ranks at once.
 * Owns a second look at the CUDA devices, by the device interface. Never measures.
 */
#include <stdlib.h>

#include "contender.h"
#include "device/device.h"

struct link {
    struct contender base;
    struct device_system *system;
};

static ringlet_status copy(struct link *self, uint64_t bytes, int rank) {
    struct session *s = self->base.session;
    struct session_call plain = {.collective = SESSION_ALL_REDUCE};
    int right = (rank + 1) % s->ranks;
    struct device_queue queue = {s->devices[rank], s->streams[rank]};
    struct device_tag tag = {0, (uint32_t)rank, 0};
    return self->system->ops->copy(self->system, queue, s->devices[right],
                                   session_recv(s, &plain, right), s->devices[rank],
                                   session_send(s, &plain, rank), bytes, tag);
}

static const char *enqueue(struct contender *base, const struct session_call *call, int rank,
                           uint64_t times) {
    struct link *self = (struct link *)base;
    struct session *s = base->session;
    int saved;
    ringlet_status status = self->system->ops->bind(self->system, s->devices[rank], &saved);
    if (status)
        return session_words(status);
    for (uint64_t i = 0; i < times && !status; i++)
        status = copy(self, session_bytes(s, call), rank);
    self->system->ops->unbind(self->system, saved);
    return status ? session_words(status) : NULL;
}

static void close_link(struct contender *base) {
    struct link *self = (struct link *)base;
    self->system->ops->close(self->system);
    free(self);
}

struct contender *contender_open_link(struct session *session, const char **why) {
    if (session->emulated) {
        *why = "emulated devices have no link to measure";
        return NULL;
    }
    if (session->ranks < 2) {
        *why = "one rank has no neighbour";
        return NULL;
    }
    for (int rank = 1; rank < session->ranks; rank++)
        for (int other = 0; other < rank; other++)
            if (session->devices[rank] == session->devices[other]) {
                *why = "ranks share a device, and no link joins those";
                return NULL;
            }
    struct link *self = calloc(1, sizeof *self);
    if (!self) {
        *why = "out of memory";
        return NULL;
    }
    ringlet_status status = device_open_cuda(&self->system);
    if (status) {
        *why = session_words(status);
        free(self);
        return NULL;
    }
    self->base = (struct contender){enqueue, false, close_link, session};
    return &self->base;
}
