/*
 * NCCL beside Ringlet: the library is opened at run time, by declarations of the few calls needed.
 * Owns NCCL's communicators. Never sets an environment variable, NCCL's own included.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "device/device.h"
#include "names.h"

/* As nccl.h has them since 2.0; results are ncclResult_t, 0 being success. */
typedef struct ncclComm *nccl_comm;

struct nccl_calls {
    int (*version)(int *);
    const char *(*error_text)(int);
    int (*init_all)(nccl_comm *, int, const int *);
    int (*destroy)(nccl_comm);
    int (*all_reduce)(const void *, void *, size_t, int, int, nccl_comm, ringlet_stream);
    int (*reduce_scatter)(const void *, void *, size_t, int, int, nccl_comm, ringlet_stream);
    int (*all_gather)(const void *, void *, size_t, int, nccl_comm, ringlet_stream);
    int (*broadcast)(const void *, void *, size_t, int, int, nccl_comm, ringlet_stream);
};

struct nccl {
    struct contender base;
    void *library;
    struct nccl_calls calls;
    struct device_system *system; /* for the current device */
    int comm_count;
    char version[32];
    nccl_comm comms[];
};

static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    {"ncclGetVersion", offsetof(struct nccl_calls, version)},
    {"ncclGetErrorString", offsetof(struct nccl_calls, error_text)},
    {"ncclCommInitAll", offsetof(struct nccl_calls, init_all)},
    {"ncclCommDestroy", offsetof(struct nccl_calls, destroy)},
    {"ncclAllReduce", offsetof(struct nccl_calls, all_reduce)},
    {"ncclReduceScatter", offsetof(struct nccl_calls, reduce_scatter)},
    {"ncclAllGather", offsetof(struct nccl_calls, all_gather)},
    {"ncclBroadcast", offsetof(struct nccl_calls, broadcast)},
};

static int call_rank(struct nccl *self, const struct session_call *call, int rank) {
    struct session *s = self->base.session;
    const void *send = session_send(s, call, rank);
    void *recv = session_recv(s, call, rank);
    nccl_comm comm = self->comms[rank];
    ringlet_stream stream = s->streams[rank];
    int type = names_nccl_type_number(call->type), op = names_nccl_op_number(call->op);
    switch (call->collective) {
    case SESSION_ALL_REDUCE:
        return self->calls.all_reduce(send, recv, call->count, type, op, comm, stream);
    case SESSION_REDUCE_SCATTER:
        return self->calls.reduce_scatter(send, recv, call->count, type, op, comm, stream);
    case SESSION_ALL_GATHER:
        return self->calls.all_gather(send, recv, call->count, type, comm, stream);
    case SESSION_BROADCAST:
        return self->calls.broadcast(send, recv, call->count, type, call->root, comm, stream);
    }
    return 0;
}

static const char *enqueue(struct contender *base, const struct session_call *call, int rank,
                           uint64_t times) {
    struct nccl *self = (struct nccl *)base;
    int saved, result = 0;
    ringlet_status status =
        self->system->ops->bind(self->system, base->session->devices[rank], &saved);
    if (status)
        return session_words(status);
    for (uint64_t i = 0; i < times && !result; i++)
        result = call_rank(self, call, rank);
    self->system->ops->unbind(self->system, saved);
    return result ? self->calls.error_text(result) : NULL;
}

static void close_nccl(struct contender *base) {
    struct nccl *self = (struct nccl *)base;
    for (int rank = 0; rank < self->comm_count; rank++)
        self->calls.destroy(self->comms[rank]);
    if (self->system)
        self->system->ops->close(self->system);
    /* The library stays: it may have left threads behind that run its code. */
    free(self);
}

static const char *find_calls(struct nccl *self) {
    self->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!self->library)
        return "libnccl.so.2 is not found; install NCCL or add its folder to LD_LIBRARY_PATH";
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(self->library, symbols[i].name);
        if (!symbol)
            return "libnccl.so.2 lacks a function that is needed";
        memcpy((char *)&self->calls + symbols[i].offset, &symbol, sizeof symbol);
    }
    return NULL;
}

static void note_version(struct nccl *self) {
    int version = 0;
    self->calls.version(&version);
    int thousands = version >= 10000 ? 10000 : 1000; /* 2708 before 2.9, 22809 since */
    snprintf(self->version, sizeof self->version, "%d.%d.%d", version / thousands,
             version % thousands / 100, version % 100);
}

static const char *start(struct nccl *self) {
    struct session *s = self->base.session;
    const char *why = find_calls(self);
    if (why)
        return why;
    note_version(self);
    ringlet_status status = device_open_cuda(&self->system);
    if (status)
        return session_words(status);
    int result = self->calls.init_all(self->comms, s->ranks, s->devices);
    if (result)
        return self->calls.error_text(result);
    self->comm_count = s->ranks;
    return NULL;
}

struct contender *contender_open_nccl(struct session *session, const char **why) {
    if (session->emulated) {
        *why = "NCCL needs CUDA devices, these are emulated";
        return NULL;
    }
    struct nccl *self = calloc(1, sizeof *self + (size_t)session->ranks * sizeof self->comms[0]);
    if (!self) {
        *why = "out of memory";
        return NULL;
    }
    self->base = (struct contender){enqueue, false, close_nccl, session};
    *why = start(self);
    if (!*why)
        return &self->base;
    close_nccl(&self->base);
    return NULL;
}

const char *contender_nccl_version(const struct contender *nccl) {
    return ((const struct nccl *)nccl)->version;
}
