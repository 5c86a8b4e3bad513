#include "run/agree.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"

struct seat {
    _Alignas(64) _Atomic uint32_t entered;
    struct agree_call calls[AGREE_DEPTH];
};

struct agree {
    uint32_t ranks;
    struct seat *seats;
};

struct agree *agree_new(uint32_t ranks) {
    struct agree *agree = memory_zeroed(1, sizeof *agree);
    if (!agree)
        return NULL;
    agree->ranks = ranks;
    agree->seats = memory_lines(ranks, sizeof *agree->seats);
    if (!agree->seats) {
        memory_free(agree);
        return NULL;
    }
    return agree;
}

void agree_free(struct agree *agree) {
    if (!agree)
        return;
    memory_free(agree->seats);
    memory_free(agree);
}

void agree_start_at(struct agree *agree, uint32_t number) {
    for (uint32_t rank = 0; rank < agree->ranks; rank++)
        atomic_store(&agree->seats[rank].entered, number);
}

/* Whether a is b or later; numbers wrap. */
static bool reached(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) >= 0;
}

bool agree_entered(const struct agree *agree, uint32_t rank, uint32_t number) {
    return reached(atomic_load_explicit(&agree->seats[rank].entered, memory_order_acquire), number);
}

ringlet_status agree_wait(struct agree *agree, uint32_t number, int64_t timeout_ms,
                          bool (*stop)(void *), void *context, uint32_t *missing) {
    struct patience patience = patience_start(timeout_ms);
    for (uint32_t rank = 0; rank < agree->ranks; rank++) {
        while (!agree_entered(agree, rank, number)) {
            if (stop(context))
                return RINGLET_ABORTED;
            if (!patience_pause(&patience)) {
                *missing = rank;
                return RINGLET_TIMEOUT;
            }
        }
    }
    return RINGLET_OK;
}

static void publish(struct agree *agree, uint32_t rank, uint32_t number,
                    const struct agree_call *call) {
    struct agree_call *slot = &agree->seats[rank].calls[number % AGREE_DEPTH];
    size_t size = call->bad ? sizeof *call : offsetof(struct agree_call, text);
    memcpy(slot, call, size);
    atomic_store_explicit(&agree->seats[rank].entered, number, memory_order_release);
}

ringlet_status agree_enter(struct agree *agree, uint32_t rank, const struct agree_call *call,
                           int64_t timeout_ms, bool (*stop)(void *), void *context,
                           uint32_t *number) {
    uint32_t next = atomic_load_explicit(&agree->seats[rank].entered, memory_order_relaxed) + 1;
    uint32_t missing;
    ringlet_status status =
        agree_wait(agree, next - AGREE_DEPTH + 1, timeout_ms, stop, context, &missing);
    if (status)
        return status;
    publish(agree, rank, next, call);
    *number = next;
    return RINGLET_OK;
}

uint32_t agree_enter_all(struct agree *agree, const struct agree_call *calls) {
    uint32_t next = atomic_load(&agree->seats[0].entered);
    for (uint32_t rank = 1; rank < agree->ranks; rank++) {
        uint32_t entered = atomic_load(&agree->seats[rank].entered);
        if (!reached(next, entered))
            next = entered;
    }
    next++;
    for (uint32_t rank = 0; rank < agree->ranks; rank++)
        publish(agree, rank, next, &calls[rank]);
    return next;
}

const struct agree_call *agree_peer(const struct agree *agree, uint32_t rank, uint32_t number) {
    return &agree->seats[rank].calls[number % AGREE_DEPTH];
}

/* ---- the verdict ---- */

enum field { FIELD_COLLECTIVE, FIELD_COUNT, FIELD_DTYPE, FIELD_OP, FIELD_ROOT, FIELDS };

static uint64_t field_value(const struct agree_call *call, enum field field) {
    switch (field) {
    case FIELD_COLLECTIVE:
        return call->collective;
    case FIELD_COUNT:
        return call->count;
    case FIELD_DTYPE:
        return call->dtype;
    case FIELD_OP:
        return call->op;
    case FIELD_ROOT:
        return call->root;
    case FIELDS:
        break;
    }
    return 0;
}

static void field_print(char *text, size_t size, const struct agree_names *names,
                        const struct agree_call *call, enum field field) {
    switch (field) {
    case FIELD_COLLECTIVE:
        snprintf(text, size, "%s", names->collective(call->collective));
        break;
    case FIELD_DTYPE:
        snprintf(text, size, "%s", names->dtype(call->dtype));
        break;
    case FIELD_OP:
        snprintf(text, size, "%s", names->op(call->op));
        break;
    case FIELD_COUNT:
    case FIELD_ROOT:
    case FIELDS:
        snprintf(text, size, "%llu", (unsigned long long)field_value(call, field));
        break;
    }
}

static void append(char *text, size_t size, const char *more) {
    size_t used = strlen(text);
    if (used < size)
        snprintf(text + used, size - used, "%s", more);
}

/* "100 on rank 0, 200 on ranks 1, 3": values in order of the first rank that has each. */
static void field_list(const struct agree *agree, uint32_t number, const struct agree_names *names,
                       enum field field, char *text, size_t size) {
    text[0] = '\0';
    for (uint32_t rank = 0; rank < agree->ranks; rank++) {
        const struct agree_call *call = agree_peer(agree, rank, number);
        uint64_t value = field_value(call, field);
        uint32_t before = 0, same = 0;
        while (before < rank && field_value(agree_peer(agree, before, number), field) != value)
            before++;
        if (before < rank)
            continue;
        for (uint32_t r = rank; r < agree->ranks; r++)
            same += field_value(agree_peer(agree, r, number), field) == value;
        char item[64];
        append(text, size, rank ? "; " : "");
        field_print(item, sizeof item, names, call, field);
        append(text, size, item);
        append(text, size, same > 1 ? " on ranks" : " on rank");
        uint32_t shown = 0;
        for (uint32_t r = rank; r < agree->ranks && shown < 16; r++) {
            if (field_value(agree_peer(agree, r, number), field) != value)
                continue;
            snprintf(item, sizeof item, "%s %u", shown++ ? "," : "", r);
            append(text, size, item);
        }
        append(text, size, shown < same ? ", ..." : "");
    }
}

ringlet_status agree_compare(const struct agree *agree, uint32_t number,
                             const struct agree_names *names) {
    static const char *const labels[FIELDS] = {"collective", "count", "type", "operation", "root"};
    const struct agree_call *first = agree_peer(agree, 0, number);
    bool bad = false, differs[FIELDS] = {false};
    for (uint32_t rank = 0; rank < agree->ranks; rank++) {
        const struct agree_call *call = agree_peer(agree, rank, number);
        bad = bad || call->bad;
        for (int field = 0; field < FIELDS; field++)
            if (field_value(call, (enum field)field) != field_value(first, (enum field)field))
                differs[field] = true;
    }
    for (uint32_t rank = 0; bad && rank < agree->ranks; rank++) {
        const struct agree_call *call = agree_peer(agree, rank, number);
        if (call->bad)
            return status_fail(call->bad, "%s", call->text);
    }
    for (int field = 0; field < FIELDS; field++) {
        if (!differs[field])
            continue;
        char list[600];
        field_list(agree, number, names, (enum field)field, list, sizeof list);
        return status_fail(RINGLET_MISMATCH, "the ranks disagree about the %s: %s", labels[field],
                           list);
    }
    return RINGLET_OK;
}
