#include "base/history.h"

#include <string.h>

#include "base/memory.h"

struct history_interval { /* ends where the next begins */
    uint64_t begin;
    struct history_access writer;
    uint32_t readers; /* first node, HISTORY_NONE if none */
};

struct history_reader {
    struct history_access access;
    uint32_t next;
};

bool history_init(struct history *h) {
    memset(h, 0, sizeof *h);
    h->reader_free = HISTORY_NONE;
    if (!memory_resize(&h->intervals, 4, sizeof *h->intervals))
        return false;
    h->interval_capacity = 4;
    h->interval_count = 1;
    h->intervals[0] = (struct history_interval){0, {HISTORY_NONE, 0}, HISTORY_NONE};
    return true;
}

void history_free(struct history *h) {
    memory_free(h->intervals);
    memory_free(h->readers);
    memset(h, 0, sizeof *h);
}

static bool holds(const struct history *h, uint32_t i, uint64_t at) {
    return h->intervals[i].begin <= at &&
           (i + 1 == h->interval_count || h->intervals[i + 1].begin > at);
}

/* Index of the interval that holds `at`. */
static uint32_t find(struct history *h, uint64_t at) {
    uint32_t first = h->near > 1 ? h->near - 2 : 0;
    for (uint32_t i = first; i < first + 5 && i < h->interval_count; i++)
        if (holds(h, i, at))
            return h->near = i;
    uint32_t low = 0, high = h->interval_count; /* begin[low] <= at, begin[high] > at */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (h->intervals[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return h->near = low;
}

static uint32_t reader_new(struct history *h) {
    if (h->reader_free == HISTORY_NONE) {
        uint32_t grown = h->reader_capacity ? 2 * h->reader_capacity : 8;
        if (!memory_resize(&h->readers, grown, sizeof *h->readers))
            return HISTORY_NONE;
        for (uint32_t i = h->reader_capacity; i < grown; i++)
            h->readers[i].next = i + 1 < grown ? i + 1 : HISTORY_NONE;
        h->reader_free = h->reader_capacity;
        h->reader_capacity = grown;
    }
    uint32_t node = h->reader_free;
    h->reader_free = h->readers[node].next;
    return node;
}

static void readers_drop(struct history *h, uint32_t first) {
    while (first != HISTORY_NONE) {
        uint32_t next = h->readers[first].next;
        h->readers[first].next = h->reader_free;
        h->reader_free = first;
        first = next;
    }
}

/* The access becomes a reader, in place of an earlier one of its lane. */
static bool reader_add(struct history *h, uint32_t *first, struct history_access access) {
    for (uint32_t node = *first; node != HISTORY_NONE; node = h->readers[node].next) {
        if (h->readers[node].access.lane == access.lane) {
            h->readers[node].access = access;
            return true;
        }
    }
    uint32_t node = reader_new(h);
    if (node == HISTORY_NONE)
        return false;
    h->readers[node].access = access;
    h->readers[node].next = *first;
    *first = node;
    return true;
}

static bool readers_copy(struct history *h, uint32_t from, uint32_t *to) {
    *to = HISTORY_NONE;
    for (uint32_t node = from; node != HISTORY_NONE; node = h->readers[node].next) {
        uint32_t copy = reader_new(h);
        if (copy == HISTORY_NONE) {
            readers_drop(h, *to);
            return false;
        }
        h->readers[copy].access = h->readers[node].access;
        h->readers[copy].next = *to;
        *to = copy;
    }
    return true;
}

/* Makes `at` a boundary and gives the index of the interval that begins there, or HISTORY_NONE. */
static uint32_t cut(struct history *h, uint64_t at) {
    uint32_t i = find(h, at);
    if (h->intervals[i].begin == at)
        return i;
    if (h->interval_count == h->interval_capacity) {
        if (!memory_resize(&h->intervals, 2 * (size_t)h->interval_capacity, sizeof *h->intervals))
            return HISTORY_NONE;
        h->interval_capacity *= 2;
    }
    struct history_interval right = h->intervals[i];
    right.begin = at;
    if (!readers_copy(h, h->intervals[i].readers, &right.readers))
        return HISTORY_NONE;
    memmove(&h->intervals[i + 2], &h->intervals[i + 1],
            (h->interval_count - i - 1) * sizeof *h->intervals);
    h->intervals[i + 1] = right;
    h->interval_count++;
    return i + 1;
}

bool history_cut(struct history *h, uint64_t at) {
    return cut(h, at) != HISTORY_NONE;
}

/* Reports what an access to interval i conflicts with; false when the user stopped. */
static bool report(const struct history *h, uint32_t i, bool write, history_conflict *conflict,
                   void *context) {
    const struct history_interval *interval = &h->intervals[i];
    uint64_t begin = interval->begin;
    uint64_t end = i + 1 < h->interval_count ? interval[1].begin : UINT64_MAX;
    if (write && interval->readers != HISTORY_NONE) {
        for (uint32_t node = interval->readers; node != HISTORY_NONE; node = h->readers[node].next)
            if (!conflict(context, h->readers[node].access, false, begin, end))
                return false;
        return true;
    }
    return interval->writer.id == HISTORY_NONE ||
           conflict(context, interval->writer, true, begin, end);
}

/* One written interval takes the place of those from first to before last. */
static void replace(struct history *h, uint32_t first, uint32_t last,
                    struct history_access access) {
    for (uint32_t i = first; i < last; i++)
        readers_drop(h, h->intervals[i].readers);
    h->intervals[first].writer = access;
    h->intervals[first].readers = HISTORY_NONE;
    memmove(&h->intervals[first + 1], &h->intervals[last],
            (h->interval_count - last) * sizeof *h->intervals);
    h->interval_count -= last - first - 1;
}

enum history_result history_access(struct history *h, uint64_t begin, uint64_t end,
                                   struct history_access access, bool write,
                                   history_conflict *conflict, void *context) {
    if (begin >= end)
        return HISTORY_OK;
    uint32_t first = cut(h, begin);
    if (first == HISTORY_NONE)
        return HISTORY_OUT_OF_MEMORY;
    uint32_t last = cut(h, end);
    if (last == HISTORY_NONE)
        return HISTORY_OUT_OF_MEMORY;
    if (conflict)
        for (uint32_t i = first; i < last; i++)
            if (!report(h, i, write, conflict, context))
                return HISTORY_STOPPED;
    if (write) {
        replace(h, first, last, access);
        return HISTORY_OK;
    }
    for (uint32_t i = first; i < last; i++)
        if (!reader_add(h, &h->intervals[i].readers, access))
            return HISTORY_OUT_OF_MEMORY;
    return HISTORY_OK;
}

void history_visit(const struct history *h,
                   void (*visit)(void *context, struct history_access access), void *context) {
    for (uint32_t i = 0; i < h->interval_count; i++) {
        const struct history_interval *interval = &h->intervals[i];
        if (interval->writer.id != HISTORY_NONE)
            visit(context, interval->writer);
        for (uint32_t node = interval->readers; node != HISTORY_NONE; node = h->readers[node].next)
            visit(context, h->readers[node].access);
    }
}
