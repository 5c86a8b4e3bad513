#include "chain.h"

#include <stdlib.h>

#include "verify.h"

enum { PIECE = 1 << 20 /* bytes of host memory */ };

static uint64_t one_of(ringlet_dtype type) {
    switch (type) {
    case RINGLET_FLOAT16:
    case RINGLET_BFLOAT16:
    case RINGLET_FLOAT32:
    case RINGLET_FLOAT64:
        return verify_round(type, 1);
    case RINGLET_INT8:
    case RINGLET_INT32:
    case RINGLET_INT64:
    case RINGLET_UINT8:
    case RINGLET_UINT32:
    case RINGLET_UINT64:
        break;
    }
    return 1;
}

static bool write_all(struct session *s, int rank, const char *host, char *to, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += PIECE) {
        uint64_t piece = bytes - at < PIECE ? bytes - at : PIECE;
        ringlet_status status =
            ringlet_buffer_write(s->comm, rank, to + at, host, piece, s->streams[rank]);
        if (status)
            return session_fail(s, "%s", session_words(status));
    }
    return true;
}

bool chain_fill(struct session *s, const struct session_call *call) {
    size_t size = session_element_size(call);
    char *host = calloc(1, PIECE);
    if (!host)
        return session_fail(s, "out of memory for a chain's data");
    for (size_t i = 0; i < PIECE / size && call->op != RINGLET_SUM; i++)
        verify_store(host, call->type, i, one_of(call->type));
    bool fine = true;
    for (int rank = 0; rank < s->ranks && fine; rank++)
        fine = write_all(s, rank, host, (char *)session_send(s, call, rank),
                         session_send_count(s, call) * size);
    free(host);
    return fine;
}
