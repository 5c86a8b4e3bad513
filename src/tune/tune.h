/*
 * Which algorithm and how many slices for a call.
 * Owns the choice. A pure function of its arguments, so that ranks agree. Never knows devices.
 */
#ifndef RINGLET_TUNE_TUNE_H
#define RINGLET_TUNE_TUNE_H

#include <stdint.h>

#include "plan/plan.h"

struct tune_choice {
    enum plan_algorithm algorithm;
    uint32_t rings, slices;
    const char *why; /* the algorithm was chosen, in words; static */
};

/* algorithm AUTO, rings 0 and slices 0 are chosen; what is given is kept. count and collective as
 * in struct plan_spec. */
struct tune_choice tune_choose(enum plan_collective collective, uint32_t ranks, uint64_t count,
                               uint32_t element_bytes, ringlet_algorithm algorithm, uint32_t rings,
                               uint32_t slices);

#endif
