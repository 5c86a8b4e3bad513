/*
 * A communicator with buffers and data, for tests of the public interface.
 * Owns what it allocates. Values are small integers in float32, so every result is exact in any
 * order and each element tells which rank and index it came from.
 */
#ifndef RINGLET_TESTS_WORLD_H
#define RINGLET_TESTS_WORLD_H

#include "ringlet/ringlet.h"

enum world_collective {
    WORLD_ALL_REDUCE,
    WORLD_REDUCE_SCATTER,
    WORLD_ALL_GATHER,
    WORLD_BROADCAST,
    WORLD_COLLECTIVES
};
enum { WORLD_RANKS_MAX = 16 };

struct world {
    ringlet_comm *comm;
    int ranks;
    enum world_collective collective;
    uint64_t count;
    uint32_t salt;     /* changes the data */
    uint32_t in_place; /* bit r: rank r */
    int root;          /* of a broadcast; world_set() turns it */
    uint64_t pad;      /* elements before each buffer, to shift alignment; at most 64 */
    float *block[WORLD_RANKS_MAX];
    float *send[WORLD_RANKS_MAX], *recv[WORLD_RANKS_MAX]; /* device memory */
    ringlet_stream stream[WORLD_RANKS_MAX];
    float *host; /* room for what a rank's block holds */
    uint64_t block_elements;
};

/* Makes a communicator (devices 0, 1, ...; NULL options for emulated devices) with a stream a rank
 * and room for `most` elements a rank's part. */
void world_open(struct world *w, int ranks, uint64_t most, const ringlet_options *options);
void world_open_on(struct world *w, const int *devices, int ranks, uint64_t most,
                   const ringlet_options *options);
void world_close(struct world *w);

/* Places the buffers for a collective and fills them: send with data, all else with a poison. */
void world_set(struct world *w, enum world_collective collective, uint64_t count, uint32_t in_place,
               uint64_t pad);

/* One rank's part, or all ranks from this thread. */
ringlet_status world_call(struct world *w, int rank);
ringlet_status world_call_all(struct world *w);
/* A thread a rank, each calling `times` in a row; the first status that is not OK. Results add up
 * only out of place (in place the result is the next call's input: use times = 1). */
ringlet_status world_call_threads(struct world *w, int times);

/* Waits for the streams and compares every element of every block, those that must not have changed
 * included. Fails the test with words. */
void world_check(struct world *w);

#endif
