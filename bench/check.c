#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#include "verify.h"

enum { PIECE = 1 << 19, HELPERS_MAX = 16, ELEMENT_MAX = 8 /* bytes */ };

struct check {
    struct session *session;
    struct crew *ranks, *helpers;
    struct verify data; /* its seed is never the same twice */
    size_t size;        /* bytes of an element */
    uint64_t piece;     /* elements of the arrays below: what is checked at a time */
    char *host, *first_rank;
    struct verify_result *reference;
};

struct check *check_create(struct session *session, struct crew *ranks) {
    struct check *check = calloc(1, sizeof *check);
    if (!check)
        return NULL;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    *check = (struct check){.session = session, .ranks = ranks};
    check->piece = session->bytes < PIECE ? session->bytes : PIECE;
    if (check->piece < SESSION_GUARD)
        check->piece = SESSION_GUARD;
    check->host = malloc(check->piece * ELEMENT_MAX);
    check->first_rank = malloc(check->piece * ELEMENT_MAX);
    check->reference = malloc(check->piece * sizeof *check->reference);
    check->helpers = crew_create(cores < 1 ? 1 : cores > HELPERS_MAX ? HELPERS_MAX : (int)cores);
    if (check->host && check->first_rank && check->reference && check->helpers)
        return check;
    check_destroy(check);
    return NULL;
}

void check_destroy(struct check *check) {
    if (!check)
        return;
    crew_destroy(check->helpers);
    free(check->host);
    free(check->first_rank);
    free(check->reference);
    free(check);
}

/* Work on `count` elements of host (and reference) that the helpers share out. */
struct work {
    struct check *check;
    enum { WORK_POISON, WORK_FILL, WORK_REFERENCE, WORK_RESULT, WORK_INPUT, WORK_POISONED } kind;
    int rank;
    uint64_t first, count;
    const char *same;
    uint64_t wrong[HELPERS_MAX];
};

static void work_share(void *context, int index) {
    struct work *w = context;
    struct check *c = w->check;
    uint64_t helpers = (uint64_t)crew_size(c->helpers), i = (uint64_t)index;
    uint64_t begin = w->count * i / helpers, count = w->count * (i + 1) / helpers - begin;
    char *host = c->host + begin * c->size;
    uint64_t first = w->first + begin, *wrong = &w->wrong[index];
    *wrong = 0;
    switch (w->kind) {
    case WORK_POISON:
        verify_poison(host, c->data.type, count);
        break;
    case WORK_FILL:
        verify_fill(host, &c->data, (uint32_t)w->rank, first, count);
        break;
    case WORK_REFERENCE:
        verify_reference(c->reference + begin, &c->data, first, count);
        break;
    case WORK_RESULT:
        *wrong = verify_against(host, &c->data, c->reference + begin,
                                w->same ? w->same + begin * c->size : NULL, count);
        break;
    case WORK_INPUT:
        *wrong = verify_input(host, &c->data, (uint32_t)w->rank, first, count);
        break;
    case WORK_POISONED:
        *wrong = verify_poisoned(host, c->data.type, count);
        break;
    }
}

static uint64_t work_do(struct work *work) {
    enum { FEW = 1 << 14 }; /* below, waking threads costs more than it saves */
    struct crew *helpers = work->check->helpers;
    uint64_t wrong = 0;
    if (work->count < FEW)
        for (int i = 0; i < crew_size(helpers); i++)
            work_share(work, i);
    else
        crew_run(helpers, work_share, work);
    for (int i = 0; i < crew_size(helpers); i++)
        wrong += work->wrong[i];
    return wrong;
}

static bool passed(struct check *c, ringlet_status status) {
    return !status || session_fail(c->session, "%s", session_words(status));
}

static bool write_host(struct check *c, int rank, char *to, uint64_t count) {
    struct session *s = c->session;
    return !count || passed(c, ringlet_buffer_write(s->comm, rank, to, c->host, count * c->size,
                                                    s->streams[rank]));
}

static bool read_host(struct check *c, int rank, const char *from, uint64_t count) {
    struct session *s = c->session;
    return !count || passed(c, ringlet_buffer_read(s->comm, rank, c->host, from, count * c->size,
                                                   s->streams[rank]));
}

static uint64_t piece_at(const struct check *c, uint64_t at, uint64_t count) {
    return count - at < c->piece ? count - at : c->piece;
}

/* POISON or FILL over a whole range of a rank's memory. */
static bool write_range(struct work *w, int rank, char *to, uint64_t count) {
    for (uint64_t at = 0; at < count; at += w->count) {
        w->first = at;
        w->count = piece_at(w->check, at, count);
        work_do(w);
        if (!write_host(w->check, rank, to + at * w->check->size, w->count))
            return false;
    }
    return true;
}

/* INPUT or POISONED over a whole range. */
static bool read_range(struct work *w, int rank, const char *from, uint64_t count,
                       uint64_t *wrong) {
    for (uint64_t at = 0; at < count; at += w->count) {
        w->first = at;
        w->count = piece_at(w->check, at, count);
        if (!read_host(w->check, rank, from + at * w->check->size, w->count))
            return false;
        *wrong += work_do(w);
    }
    return true;
}

/* The buffer that a call's output lies in: its first byte, and how many elements the call may
 * touch. */
static char *output_buffer(const struct session *s, const struct session_call *call, int rank,
                           uint64_t *count) {
    bool inside = call->in_place && call->collective == SESSION_REDUCE_SCATTER;
    *count = inside ? session_send_count(s, call) : session_recv_count(s, call);
    return inside ? session_send(s, call, rank) : session_recv(s, call, rank);
}

static bool prepare(struct check *c, const struct session_call *call) {
    struct session *s = c->session;
    uint64_t guards = 2 * SESSION_GUARD / c->size;
    for (int rank = 0; rank < s->ranks; rank++) {
        uint64_t count;
        char *output = output_buffer(s, call, rank, &count);
        struct work poison = {.check = c, .kind = WORK_POISON};
        struct work fill = {.check = c, .kind = WORK_FILL, .rank = rank};
        if (!write_range(&poison, rank, output - SESSION_GUARD, count + guards) ||
            !write_range(&fill, rank, session_send(s, call, rank), session_send_count(s, call)))
            return false;
    }
    return true;
}

/* Every rank's output is a result; `own`: each rank has its own piece of it, else all have all. */
static bool compare_results(struct check *c, const struct session_call *call, int rank, bool own,
                            uint64_t at, uint64_t count, uint64_t *wrong) {
    struct session *s = c->session;
    struct work result = {.check = c, .kind = WORK_RESULT, .count = count};
    int last = own ? rank : s->ranks - 1;
    for (int r = rank; r <= last; r++) {
        if (!read_host(c, r, (char *)session_recv(s, call, r) + at * c->size, count))
            return false;
        *wrong += work_do(&result);
        if (own)
            continue;
        if (r == rank) {
            char *swapped = c->first_rank;
            c->first_rank = c->host;
            c->host = swapped;
        }
        result.same = c->first_rank;
    }
    return true;
}

static bool check_results(struct check *c, const struct session_call *call, uint64_t *wrong) {
    bool own = call->collective == SESSION_REDUCE_SCATTER;
    int turns = own ? c->session->ranks : 1;
    for (int rank = 0; rank < turns; rank++)
        for (uint64_t at = 0, count; at < call->count; at += count) {
            count = piece_at(c, at, call->count);
            struct work reference = {.check = c, .kind = WORK_REFERENCE};
            reference.first = (own ? call->count * (uint64_t)rank : 0) + at;
            reference.count = count;
            work_do(&reference);
            if (!compare_results(c, call, rank, own, at, count, wrong))
                return false;
        }
    return true;
}

/* Outputs are inputs: of every rank one behind the other, or of the root. */
static bool check_copies(struct check *c, const struct session_call *call, uint64_t *wrong) {
    struct session *s = c->session;
    bool gathers = call->collective == SESSION_ALL_GATHER;
    for (int rank = 0; rank < s->ranks; rank++)
        for (int i = 0; i < (gathers ? s->ranks : 1); i++) {
            struct work input = {.check = c, .kind = WORK_INPUT, .rank = gathers ? i : call->root};
            const char *piece =
                (const char *)session_recv(s, call, rank) + call->count * c->size * (uint64_t)i;
            if (!read_range(&input, rank, piece, call->count, wrong))
                return false;
        }
    return true;
}

/* Guards of the output's buffer, and out of place the inputs, are as they were. */
static bool check_untouched(struct check *c, const struct session_call *call, uint64_t *wrong) {
    struct session *s = c->session;
    uint64_t guard_count = SESSION_GUARD / c->size;
    for (int rank = 0; rank < s->ranks; rank++) {
        uint64_t count;
        const char *output = output_buffer(s, call, rank, &count);
        struct work guard = {.check = c, .kind = WORK_POISONED};
        struct work input = {.check = c, .kind = WORK_INPUT, .rank = rank};
        if (!read_range(&guard, rank, output - SESSION_GUARD, guard_count, wrong) ||
            !read_range(&guard, rank, output + count * c->size, guard_count, wrong))
            return false;
        if (!call->in_place && !read_range(&input, rank, session_send(s, call, rank),
                                           session_send_count(s, call), wrong))
            return false;
    }
    return true;
}

bool check_call(struct check *c, struct contender *contender, const struct session_call *call,
                uint64_t *wrong) {
    bool reduces = session_reduces(call->collective);
    *wrong = 0;
    c->data.type = call->type;
    c->data.op = call->op;
    c->data.ranks = (uint32_t)c->session->ranks;
    c->size = session_element_size(call);
    for (int data = 0; data < VERIFY_DATA_COUNT; data++) {
        c->data.data = (enum verify_data)data;
        c->data.seed++;
        if (!prepare(c, call) || !measure_once(c->ranks, contender, call))
            return false;
        if (!(reduces ? check_results(c, call, wrong) : check_copies(c, call, wrong)) ||
            !check_untouched(c, call, wrong))
            return false;
    }
    return true;
}
