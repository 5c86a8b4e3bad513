#include "check.h"

#include <stdlib.h>
#include <unistd.h>

#include "verify.h"

enum { PIECE = 1 << 20, HELPERS_MAX = 16 };

struct check {
    struct session *session;
    struct crew *ranks, *helpers;
    uint64_t serial; /* the data's seed: never the same twice */
    uint64_t piece;  /* elements of the arrays below */
    float *host, *first_rank;
    struct verify_sum *reference;
};

struct check *check_create(struct session *session, struct crew *ranks, uint64_t elements) {
    struct check *check = calloc(1, sizeof *check);
    if (!check)
        return NULL;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t piece = elements < PIECE ? elements : PIECE;
    *check = (struct check){.session = session, .ranks = ranks};
    check->piece = piece < SESSION_GUARD ? SESSION_GUARD : piece;
    check->host = malloc(check->piece * sizeof *check->host);
    check->first_rank = malloc(check->piece * sizeof *check->first_rank);
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
    enum { WORK_POISON, WORK_FILL, WORK_REFERENCE, WORK_SUM, WORK_INPUT, WORK_POISONED } kind;
    enum verify_data data;
    int rank;
    uint64_t first, count;
    const float *same;
    uint64_t wrong[HELPERS_MAX];
};

static void work_share(void *context, int index) {
    struct work *w = context;
    struct check *c = w->check;
    uint64_t helpers = (uint64_t)crew_size(c->helpers), i = (uint64_t)index;
    uint64_t begin = w->count * i / helpers, count = w->count * (i + 1) / helpers - begin;
    float *host = c->host + begin;
    uint64_t first = w->first + begin;
    w->wrong[index] = 0;
    switch (w->kind) {
    case WORK_POISON:
        verify_poison(host, count);
        break;
    case WORK_FILL:
        verify_fill(host, w->data, c->serial, (uint32_t)w->rank, first, count);
        break;
    case WORK_REFERENCE:
        verify_reference(c->reference + begin, w->data, c->serial, (uint32_t)c->session->ranks,
                         first, count);
        break;
    case WORK_SUM:
        w->wrong[index] =
            verify_against(host, c->reference + begin, w->same ? w->same + begin : NULL, count);
        break;
    case WORK_INPUT:
        w->wrong[index] = verify_input(host, w->data, c->serial, (uint32_t)w->rank, first, count);
        break;
    case WORK_POISONED:
        w->wrong[index] = verify_poisoned(host, count);
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

static bool write_host(struct check *c, int rank, float *to, uint64_t count) {
    struct session *s = c->session;
    return !count || passed(c, ringlet_buffer_write(s->comm, rank, to, c->host, count * sizeof *to,
                                                    s->streams[rank]));
}

static bool read_host(struct check *c, int rank, const float *from, uint64_t count) {
    struct session *s = c->session;
    return !count || passed(c, ringlet_buffer_read(s->comm, rank, c->host, from,
                                                   count * sizeof *from, s->streams[rank]));
}

static uint64_t piece_at(const struct check *c, uint64_t at, uint64_t count) {
    return count - at < c->piece ? count - at : c->piece;
}

/* POISON or FILL over a whole range of a rank's memory. */
static bool write_range(struct work *w, int rank, float *to, uint64_t count) {
    for (uint64_t at = 0; at < count; at += w->count) {
        w->first = at;
        w->count = piece_at(w->check, at, count);
        work_do(w);
        if (!write_host(w->check, rank, to + at, w->count))
            return false;
    }
    return true;
}

/* INPUT or POISONED over a whole range. */
static bool read_range(struct work *w, int rank, const float *from, uint64_t count,
                       uint64_t *wrong) {
    for (uint64_t at = 0; at < count; at += w->count) {
        w->first = at;
        w->count = piece_at(w->check, at, count);
        if (!read_host(w->check, rank, from + at, w->count))
            return false;
        *wrong += work_do(w);
    }
    return true;
}

/* The buffer that a call's output lies in: its first element, and how many the call may touch. */
static float *output_buffer(const struct session *s, const struct session_call *call, int rank,
                            uint64_t *count) {
    bool inside = call->in_place && call->collective == SESSION_REDUCE_SCATTER;
    *count = inside ? session_send_count(s, call) : session_recv_count(s, call);
    return inside ? session_send(s, call, rank) : session_recv(s, call, rank);
}

static bool prepare(struct check *c, const struct session_call *call, enum verify_data data) {
    struct session *s = c->session;
    for (int rank = 0; rank < s->ranks; rank++) {
        uint64_t count;
        float *output = output_buffer(s, call, rank, &count);
        struct work poison = {.check = c, .kind = WORK_POISON};
        struct work fill = {.check = c, .kind = WORK_FILL, .data = data, .rank = rank};
        if (!write_range(&poison, rank, output - SESSION_GUARD, count + 2 * SESSION_GUARD) ||
            !write_range(&fill, rank, session_send(s, call, rank), session_send_count(s, call)))
            return false;
    }
    return true;
}

/* Every rank's output is a sum; `own`: each rank has its own piece of it, else all have all. */
static bool compare_sums(struct check *c, const struct session_call *call, enum verify_data data,
                         int rank, bool own, uint64_t at, uint64_t count, uint64_t *wrong) {
    struct session *s = c->session;
    struct work sum = {.check = c, .kind = WORK_SUM, .data = data, .count = count};
    int last = own ? rank : s->ranks - 1;
    for (int r = rank; r <= last; r++) {
        if (!read_host(c, r, session_recv(s, call, r) + at, count))
            return false;
        *wrong += work_do(&sum);
        if (own)
            continue;
        if (r == rank) {
            float *swapped = c->first_rank;
            c->first_rank = c->host;
            c->host = swapped;
        }
        sum.same = c->first_rank;
    }
    return true;
}

static bool check_sums(struct check *c, const struct session_call *call, enum verify_data data,
                       uint64_t *wrong) {
    bool own = call->collective == SESSION_REDUCE_SCATTER;
    int turns = own ? c->session->ranks : 1;
    for (int rank = 0; rank < turns; rank++)
        for (uint64_t at = 0, count; at < call->count; at += count) {
            count = piece_at(c, at, call->count);
            struct work reference = {.check = c, .kind = WORK_REFERENCE, .data = data};
            reference.first = (own ? call->count * (uint64_t)rank : 0) + at;
            reference.count = count;
            work_do(&reference);
            if (!compare_sums(c, call, data, rank, own, at, count, wrong))
                return false;
        }
    return true;
}

static bool check_gathered(struct check *c, const struct session_call *call, enum verify_data data,
                           uint64_t *wrong) {
    struct session *s = c->session;
    for (int rank = 0; rank < s->ranks; rank++)
        for (int from = 0; from < s->ranks; from++) {
            struct work input = {.check = c, .kind = WORK_INPUT, .data = data, .rank = from};
            const float *piece = session_recv(s, call, rank) + call->count * (uint64_t)from;
            if (!read_range(&input, rank, piece, call->count, wrong))
                return false;
        }
    return true;
}

/* Guards of the output's buffer, and out of place the inputs, are as they were. */
static bool check_untouched(struct check *c, const struct session_call *call, enum verify_data data,
                            uint64_t *wrong) {
    struct session *s = c->session;
    for (int rank = 0; rank < s->ranks; rank++) {
        uint64_t count;
        const float *output = output_buffer(s, call, rank, &count);
        struct work guard = {.check = c, .kind = WORK_POISONED};
        struct work input = {.check = c, .kind = WORK_INPUT, .data = data, .rank = rank};
        if (!read_range(&guard, rank, output - SESSION_GUARD, SESSION_GUARD, wrong) ||
            !read_range(&guard, rank, output + count, SESSION_GUARD, wrong))
            return false;
        if (!call->in_place && !read_range(&input, rank, session_send(s, call, rank),
                                           session_send_count(s, call), wrong))
            return false;
    }
    return true;
}

bool check_call(struct check *c, struct contender *contender, const struct session_call *call,
                uint64_t *wrong) {
    bool gathers = call->collective == SESSION_ALL_GATHER;
    *wrong = 0;
    for (int data = 0; data < VERIFY_DATA_COUNT; data++) {
        enum verify_data kind = (enum verify_data)data;
        c->serial++;
        if (!prepare(c, call, kind) || !measure_once(c->ranks, contender, call))
            return false;
        if (!(gathers ? check_gathered(c, call, kind, wrong) : check_sums(c, call, kind, wrong)) ||
            !check_untouched(c, call, kind, wrong))
            return false;
    }
    return true;
}
