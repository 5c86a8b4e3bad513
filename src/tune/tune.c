#include "tune/tune.h"

/*
 * Slices of a chunk. In each turn a slice is copied, added and sent on. With one slice the link
 * rests while the slice is added; with two it carries the one while the other is added, in every
 * turn, and more slices only cost launches. So: two, as soon as half a chunk takes longer to copy
 * than two slices cost to launch. Measured on two H200s (docs/performance.md): two slices win from
 * 16 MB on (8 MB chunks), one below.
 */
enum { TWO_SLICES_FROM_BYTES = 4 << 20 };

static uint32_t slices_for(uint64_t chunk_bytes) {
    return chunk_bytes < TWO_SLICES_FROM_BYTES ? 1 : 2;
}

struct tune_choice tune_choose(enum plan_collective collective, uint32_t ranks, uint64_t count,
                               uint32_t element_bytes, ringlet_algorithm algorithm, uint32_t rings,
                               uint32_t slices) {
    struct tune_choice choice = {PLAN_RING, rings ? rings : 1, slices};
    uint64_t part = collective == PLAN_ALL_REDUCE ? count / ranks : count;
    if (algorithm == RINGLET_ALGORITHM_HOST)
        choice.algorithm = PLAN_HOST_STAGED;
    if (!slices)
        choice.slices = slices_for(part / choice.rings * element_bytes);
    return choice;
}
