#include "tune/tune.h"

/*
 * Slices of a chunk. With S slices the first of C bytes waits C / (S rate) before it can be added,
 * and each slice costs some microseconds of launching and signalling, so the best S grows as the
 * square root of C. SLICE_SCALE_BYTES is rate times twice that cost (390 GB/s and about 5 us, two
 * H200s): S = 1 up to there.
 */
enum { SLICE_SCALE_BYTES = 4 << 20, SLICES_MAX = 16 };

static uint32_t slices_for(uint64_t chunk_bytes) {
    uint32_t slices = 1;
    while (slices < SLICES_MAX &&
           (uint64_t)(slices + 1) * (slices + 1) * SLICE_SCALE_BYTES <= chunk_bytes)
        slices++;
    return slices;
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
