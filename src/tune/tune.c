#include "tune/tune.h"

/*
 * Slices of a chunk. In each turn a slice is copied, added and sent on. With one slice the link
 * rests while the slice is added; with two it carries the one while the other is added, in every
 * turn, and more slices only cost launches. So: two, as soon as half a chunk takes longer to copy
 * than two slices cost to launch. Measured on two H200s (docs/performance.md): two slices win from
 * 16 MB on (8 MB chunks), one below.
 */
enum { TWO_SLICES_FROM_BYTES = 4 << 20 };

static uint32_t ring_slices(uint64_t chunk_bytes) {
    return chunk_bytes < TWO_SLICES_FROM_BYTES ? 1 : 2;
}

/* A broadcast goes from rank to rank, and each further rank waits for one slice: S slices of n - 1
 * hops take S + n - 2 slice times, and each slice costs a launch a hop. */
enum { HOP_COST_BYTES = 2 << 20, BROADCAST_SLICES_MAX = 64 };

static uint32_t broadcast_slices(uint64_t bytes, uint32_t ranks) {
    uint64_t slices = 1;
    while (slices < BROADCAST_SLICES_MAX &&
           (slices + 1) * (slices + 1) * HOP_COST_BYTES <= bytes * (ranks > 2 ? ranks - 2 : 0))
        slices++;
    return (uint32_t)slices;
}

/* Pinned memory is cut into slots anyway; below one slot a few slices overlap copying and adding.
 */
enum { HOST_SLICE_BYTES = 1 << 20, HOST_SLICES_MAX = 8 };

static uint32_t host_slices(uint64_t bytes) {
    uint64_t slices = bytes / HOST_SLICE_BYTES;
    return slices < 1 ? 1 : slices < HOST_SLICES_MAX ? (uint32_t)slices : HOST_SLICES_MAX;
}

static void algorithm_choose(struct tune_choice *choice, enum plan_collective collective,
                             ringlet_algorithm algorithm) {
    choice->why = "asked for";
    switch (algorithm) {
    case RINGLET_ALGORITHM_HOST:
        choice->algorithm = PLAN_HOST_STAGED;
        return;
    case RINGLET_ALGORITHM_HOST_PIPELINED:
        choice->algorithm = PLAN_HOST_PIPELINED;
        return;
    case RINGLET_ALGORITHM_DIRECT:
        choice->algorithm = PLAN_DIRECT;
        if (collective != PLAN_BROADCAST)
            return;
        choice->why = "direct has no broadcast";
        break;
    case RINGLET_ALGORITHM_AUTO:
        choice->why = "the ring serves every machine and size";
        break;
    case RINGLET_ALGORITHM_RING:
        break;
    }
    choice->algorithm = PLAN_RING;
}

struct tune_choice tune_choose(enum plan_collective collective, uint32_t ranks, uint64_t count,
                               uint32_t element_bytes, ringlet_algorithm algorithm, uint32_t rings,
                               uint32_t slices) {
    struct tune_choice choice = {PLAN_RING, rings ? rings : 1, slices, ""};
    uint64_t bytes = count * element_bytes;
    algorithm_choose(&choice, collective, algorithm);
    if (choice.algorithm != PLAN_RING)
        choice.rings = 1;
    if (slices)
        return choice;
    if (choice.algorithm == PLAN_HOST_STAGED || choice.algorithm == PLAN_HOST_PIPELINED)
        choice.slices = host_slices(bytes);
    else if (collective == PLAN_BROADCAST)
        choice.slices = broadcast_slices(bytes / choice.rings, ranks);
    else
        choice.slices =
            ring_slices(bytes / choice.rings / (collective == PLAN_ALL_REDUCE ? ranks : 1));
    return choice;
}
