/*
 * What can be timed: Ringlet in both call shapes, a link's copy rate, NCCL.
 * Owns the interface between those and the measuring. Never measures.
 */
#ifndef RINGLET_BENCH_CONTENDER_H
#define RINGLET_BENCH_CONTENDER_H

#include "session.h"

struct contender {
    /* Enqueues `times` operations on the session's streams: all ranks' where `whole`, else rank's,
     * each rank's on a thread of its own. NULL, or what went wrong, valid until the thread's next
     * call. */
    const char *(*enqueue)(struct contender *self, const struct session_call *call, int rank,
                           uint64_t times);
    bool whole;
    void (*close)(struct contender *self); /* frees self */
    struct session *session;
};

/* Ringlet by `comm`, which stays the caller's: one host thread a rank, or one for all. NULL when
 * out of memory. */
struct contender *contender_open_ringlet(struct session *session, ringlet_comm *comm, bool whole);
/* One call from one thread, whatever the form, to see whether the library has it. */
ringlet_status contender_try_ringlet(struct contender *ringlet, const struct session_call *call);

/* Every rank copies its whole first buffer's message to its right neighbour's second one, all at
 * once: what one direction of a link carries while the other is busy too. CUDA only. NULL with the
 * reason. */
struct contender *contender_open_link(struct session *session, const char **why);

/* NCCL on the same buffers and streams, found at run time. NULL with the reason. */
struct contender *contender_open_nccl(struct session *session, const char **why);
/* "2.28.9", of an open contender. */
const char *contender_nccl_version(const struct contender *nccl);

static inline void contender_close(struct contender *contender) {
    if (contender)
        contender->close(contender);
}

#endif
