/*
 * Index arithmetic of the plans, in closed form and in one place.
 * Owns how counts are cut and which chunk is where in which turn. Never knows buffers or lanes.
 */
#ifndef RINGLET_PLAN_INDEX_H
#define RINGLET_PLAN_INDEX_H

#include <stdint.h>

struct index_range {
    uint64_t offset, count;
};

/* Part `i` of `parts` of `total` elements, cut at multiples of `granule`: sizes differ by one
 * granule at most (the last part may be short), larger ones first, and the parts tile [0,
 * total). */
static inline struct index_range index_part(uint64_t total, uint32_t parts, uint32_t i,
                                            uint32_t granule) {
    uint64_t units = total / granule + (total % granule != 0);
    uint64_t base = units / parts, extra = units % parts;
    uint64_t first = base * i + (i < extra ? i : extra);
    uint64_t end = first + base + (i < extra ? 1 : 0);
    uint64_t from = first == units ? total : first * granule;
    uint64_t to = end == units ? total : end * granule;
    struct index_range range = {from, to - from};
    return range;
}

/* The largest part's size. */
static inline uint64_t index_part_max(uint64_t total, uint32_t parts, uint32_t granule) {
    return index_part(total, parts, 0, granule).count;
}

/*
 * The ring. Position p sends to p + 1 (all modulo n). Chunks are numbered by position.
 *
 * Reduce-scatter, turns t = 0 to n-2: p sends chunk (p - t + shift), so p receives chunk (p - 1 - t
 * + shift) and adds its own part; after the last turn p holds the whole sum of chunk (p + 1 +
 * shift).
 * shift = 0 for all-reduce (the sum of chunk p + 1 ends at p, and the all-gather starts there);
 * shift = -1 for reduce-scatter alone (the sum of chunk p must end at p).
 *
 * All-gather, turns u = 0 to n-2: p sends chunk (p - u + start) and receives chunk (p - 1 - u +
 * start), where p holds chunk p + start at the beginning: start = 1 behind a reduce-scatter with
 * shift 0, 0 alone.
 */
static inline uint32_t index_mod(int64_t value, uint32_t n) {
    int64_t rest = value % (int64_t)n;
    return (uint32_t)(rest < 0 ? rest + (int64_t)n : rest);
}

static inline uint32_t index_ring_sent(uint32_t position, uint32_t turn, int shift, uint32_t n) {
    return index_mod((int64_t)position - (int64_t)turn + shift, n);
}

static inline uint32_t index_ring_received(uint32_t position, uint32_t turn, int shift,
                                           uint32_t n) {
    return index_ring_sent(index_mod((int64_t)position - 1, n), turn, shift, n);
}

#endif
