#include "session.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool session_fail(struct session *session, const char *format, ...) {
    va_list arguments;
    if (session->error[0])
        return false;
    va_start(arguments, format);
    vsnprintf(session->error, sizeof session->error, format, arguments);
    va_end(arguments);
    return false;
}

const char *session_words(ringlet_status status) {
    const char *words = ringlet_error_message();
    return *words ? words : ringlet_status_text(status);
}

static bool allocate_arrays(struct session *s, const struct session_config *config) {
    size_t n = (size_t)config->ranks;
    s->devices = calloc(n, sizeof *s->devices);
    s->one = calloc(n, sizeof *s->one);
    s->two = calloc(n, sizeof *s->two);
    s->streams = calloc(n, sizeof *s->streams);
    s->send = calloc(n, sizeof *s->send);
    s->recv = calloc(n, sizeof *s->recv);
    if (!s->devices || !s->one || !s->two || !s->streams || !s->send || !s->recv)
        return session_fail(s, "no memory for %d ranks", config->ranks);
    memcpy(s->devices, config->devices, n * sizeof *s->devices);
    return true;
}

static bool allocate_rank(struct session *s, int rank) {
    uint64_t bytes = s->bytes + UINT64_C(2) * SESSION_GUARD;
    ringlet_status status = ringlet_buffer_alloc(s->comm, rank, bytes, &s->one[rank]);
    if (!status)
        status = ringlet_buffer_alloc(s->comm, rank, bytes, &s->two[rank]);
    if (!status)
        status = ringlet_stream_create(s->comm, rank, &s->streams[rank]);
    return !status || session_fail(s, "%s", session_words(status));
}

static bool query(struct session *s) {
    ringlet_comm_info info = {.struct_size = sizeof info};
    ringlet_status status = ringlet_comm_query(s->comm, &info);
    if (status)
        return session_fail(s, "%s", session_words(status));
    s->emulated = info.emulated;
    s->modelled = info.modelled_time;
    snprintf(s->machine, sizeof s->machine, "%s", info.machine);
    return true;
}

bool session_open(struct session *s, const struct session_config *config) {
    memset(s, 0, sizeof *s);
    s->timeout_ms = config->options.timeout_ms;
    s->bytes = config->bytes;
    if (!allocate_arrays(s, config))
        return false;
    ringlet_status status =
        ringlet_comm_create(&s->comm, s->devices, config->ranks, &config->options);
    if (status)
        return session_fail(s, "%s", session_words(status));
    s->ranks = config->ranks;
    if (!query(s))
        return false;
    for (int rank = 0; rank < s->ranks; rank++)
        if (!allocate_rank(s, rank))
            return false;
    return true;
}

bool session_close(struct session *s) {
    ringlet_status status = RINGLET_OK;
    for (int rank = 0; rank < s->ranks; rank++) {
        ringlet_buffer_free(s->comm, rank, s->one[rank]);
        ringlet_buffer_free(s->comm, rank, s->two[rank]);
        ringlet_stream_destroy(s->comm, rank, s->streams[rank]);
    }
    status = ringlet_comm_destroy(&s->comm);
    free(s->devices);
    free(s->one);
    free(s->two);
    free(s->streams);
    free(s->send);
    free(s->recv);
    s->ranks = 0;
    return !status || session_fail(s, "%s", session_words(status));
}

ringlet_status session_comm(const struct session *s, const struct session_config *config,
                            ringlet_comm **out) {
    ringlet_options options = config->options;
    if (s->emulated) {
        options.machine = NULL;
        options.machine_of = s->comm;
    }
    return ringlet_comm_create(out, s->devices, s->ranks, &options);
}

bool session_reduces(enum session_collective collective) {
    return collective == SESSION_ALL_REDUCE || collective == SESSION_REDUCE_SCATTER;
}

size_t session_element_size(const struct session_call *call) {
    return ringlet_dtype_size(call->type);
}

uint64_t session_send_count(const struct session *s, const struct session_call *call) {
    return call->collective == SESSION_REDUCE_SCATTER ? call->count * (uint64_t)s->ranks
                                                      : call->count;
}

uint64_t session_recv_count(const struct session *s, const struct session_call *call) {
    return call->collective == SESSION_ALL_GATHER ? call->count * (uint64_t)s->ranks : call->count;
}

uint64_t session_bytes(const struct session *s, const struct session_call *call) {
    uint64_t send = session_send_count(s, call), recv = session_recv_count(s, call);
    return (send > recv ? send : recv) * session_element_size(call);
}

static uint64_t offset(const struct session_call *call, int rank) {
    return call->count * session_element_size(call) * (uint64_t)rank;
}

void *session_send(const struct session *s, const struct session_call *call, int rank) {
    char *one = (char *)s->one[rank] + SESSION_GUARD, *two = (char *)s->two[rank] + SESSION_GUARD;
    if (!call->in_place || call->collective == SESSION_REDUCE_SCATTER)
        return one;
    return call->collective == SESSION_ALL_GATHER ? two + offset(call, rank) : two;
}

void *session_recv(const struct session *s, const struct session_call *call, int rank) {
    if (call->in_place && call->collective == SESSION_REDUCE_SCATTER)
        return (char *)session_send(s, call, rank) + offset(call, rank);
    return (char *)s->two[rank] + SESSION_GUARD;
}

ringlet_status session_wait(struct session *s, int rank) {
    return ringlet_stream_wait(s->comm, rank, s->streams[rank], s->timeout_ms);
}

ringlet_status session_wait_all(struct session *s) {
    ringlet_status status = RINGLET_OK;
    for (int rank = 0; rank < s->ranks && !status; rank++)
        status = session_wait(s, rank);
    return status;
}
