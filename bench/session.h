/*
 * What a benchmark runs on: a communicator with two buffers and a stream a rank, and the calls
 * made. Owns them and the words of the first error. Never measures and never checks.
 */
#ifndef RINGLET_BENCH_SESSION_H
#define RINGLET_BENCH_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "ringlet/ringlet.h"

enum { SESSION_ERROR_MAX = 1200, SESSION_GUARD = 512 /* bytes, before and behind a buffer */ };

struct session_config {
    const int *devices;
    int ranks;
    uint64_t bytes; /* the largest message; a buffer has as much, and its guards */
    ringlet_options options;
};

struct session {
    ringlet_comm *comm;
    int ranks;
    int *devices;
    bool emulated, modelled;
    char machine[128];
    uint64_t bytes; /* of a buffer, without its guards */
    int64_t timeout_ms;
    void **one, **two; /* a rank's buffers from their first guard on */
    ringlet_stream *streams;
    const void **send; /* arrays for the calls that take all ranks */
    void **recv;
    char error[SESSION_ERROR_MAX];
};

/* False with the reason in error. Close it in any case. */
bool session_open(struct session *session, const struct session_config *config);
/* False if the communicator could not free everything. */
bool session_close(struct session *session);

/* A second communicator on the same ranks, devices, buffers and streams; destroy it before the
 * session is closed. */
ringlet_status session_comm(const struct session *session, const struct session_config *config,
                            ringlet_comm **out);

/* Notes what went wrong, unless something was noted before; returns false. */
bool session_fail(struct session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A failed call of the library in words. */
const char *session_words(ringlet_status status);

enum session_collective {
    SESSION_ALL_REDUCE,
    SESSION_REDUCE_SCATTER,
    SESSION_ALL_GATHER,
    SESSION_BROADCAST
};

bool session_reduces(enum session_collective collective); /* has an operation */

struct session_call {
    enum session_collective collective;
    bool in_place;
    uint64_t count; /* as the library takes it: a rank's share for reduce-scatter and all-gather */
    ringlet_dtype type;
    ringlet_op op; /* where the collective has one */
    int root;      /* of a broadcast */
};

size_t session_element_size(const struct session_call *call); /* bytes */

/* Elements that a rank sends and receives. */
uint64_t session_send_count(const struct session *session, const struct session_call *call);
uint64_t session_recv_count(const struct session *session, const struct session_call *call);

/* The larger of the two, in bytes: what is called the size of a collective. */
uint64_t session_bytes(const struct session *session, const struct session_call *call);

/* Where a rank's input and output are; out of place the first buffer and the second. */
void *session_send(const struct session *session, const struct session_call *call, int rank);
void *session_recv(const struct session *session, const struct session_call *call, int rank);

/* Waits until the rank's stream, or all streams, are idle. */
ringlet_status session_wait(struct session *session, int rank);
ringlet_status session_wait_all(struct session *session);

#endif
