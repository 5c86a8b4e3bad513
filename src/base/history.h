/*
 * Who last touched which range of one buffer: the structure behind the plan's waits, their proof
 * and the emulator's race checker. Owns intervals and reader lists of one buffer. Never knows what
 * orders two accesses: it reports the earlier accesses that conflict and lets its user judge.
 *
 * Invariant: the intervals are disjoint, sorted, and cover [0, UINT64_MAX); each holds its last
 * writer (or none) and, for every lane, the latest access that read it since that write. So an
 * access that is ordered after all that history_access() reports for it is ordered after every
 * earlier conflicting access, provided that those were themselves ordered when they were recorded.
 */
#ifndef RINGLET_BASE_HISTORY_H
#define RINGLET_BASE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

struct history_interval;
struct history_reader;

struct history {
    struct history_interval *intervals;
    uint32_t interval_count, interval_capacity;
    uint32_t near; /* where the last search ended: the next one is often beside it */
    struct history_reader *readers; /* pool of list nodes */
    uint32_t reader_capacity, reader_free;
};

/* An access: an id and the lane it belongs to, both the user's. Accesses of one lane are ordered
 * among themselves; ids below HISTORY_NONE. */
#define HISTORY_NONE UINT32_MAX
struct history_access {
    uint32_t id;
    uint32_t lane;
};

/* Called for an earlier conflicting access; `wrote` says whether that one was the write. The same
 * earlier access may be reported several times. Returning false stops the walk. */
typedef bool history_conflict(void *context, struct history_access earlier, bool wrote,
                              uint64_t begin, uint64_t end);

/* An empty history: nobody has touched anything. False when out of memory. */
bool history_init(struct history *history);
void history_free(struct history *history);

/* Cuts at `at`, so that later accesses ending there split nothing: in ascending order this is O(1)
 * a cut and makes what follows cheaper. Changes no answer. False when out of memory. */
bool history_cut(struct history *history, uint64_t at);

enum history_result { HISTORY_OK, HISTORY_STOPPED, HISTORY_OUT_OF_MEMORY };

/* Reports the accesses that conflict with an access of [begin, end) (a read conflicts with the last
 * write; a write with the readers since, or where there are none with the last write) and records
 * it. conflict may be NULL. An empty range does nothing. When stopped, the access is not recorded.
 */
enum history_result history_access(struct history *history, uint64_t begin, uint64_t end,
                                   struct history_access access, bool write,
                                   history_conflict *conflict, void *context);

/* Calls visit for every access that can still be reported; the same one may come several times. */
void history_visit(const struct history *history,
                   void (*visit)(void *context, struct history_access access), void *context);

#endif
