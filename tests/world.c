#include "world.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "suite.h"

enum { PAD_MAX = 64, POISON_BITS = 0x7fc0beef };

static float poison(void) {
    uint32_t bits = POISON_BITS;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Element i of what rank r contributes: sums over 16 ranks stay exact. */
static float contribution(const struct world *w, int rank, uint64_t i) {
    uint64_t mixed = (i + 1) * 2654435761u ^ ((uint64_t)w->salt * 40503u + (uint64_t)rank * 97u);
    return (float)((mixed >> 7) % 1000 + (uint64_t)rank * 1000);
}

static float sum(const struct world *w, uint64_t i) {
    float total = 0;
    for (int rank = 0; rank < w->ranks; rank++)
        total += contribution(w, rank, i);
    return total;
}

void world_open_on(struct world *w, const int *devices, int ranks, uint64_t most,
                   const ringlet_options *options) {
    memset(w, 0, sizeof *w);
    ringlet_options defaults;
    ringlet_options_init(&defaults);
    defaults.backend = RINGLET_BACKEND_EMULATED;
    w->ranks = ranks;
    /* send and recv side by side, the larger being `ranks` parts, and pads. */
    w->block_elements = (uint64_t)(ranks + 1) * most + 4 * PAD_MAX;
    ck_assert_ok(ringlet_comm_create(&w->comm, devices, ranks, options ? options : &defaults));
    w->host = memory_zeroed(w->block_elements, sizeof *w->host);
    ck_assert_ptr_nonnull(w->host);
    for (int r = 0; r < ranks; r++) {
        void *memory;
        ck_assert_ok(ringlet_buffer_alloc(w->comm, r, w->block_elements * sizeof(float), &memory));
        w->block[r] = memory;
        ck_assert_ok(ringlet_stream_create(w->comm, r, &w->stream[r]));
    }
}

void world_open(struct world *w, int ranks, uint64_t most, const ringlet_options *options) {
    world_open_on(w, NULL, ranks, most, options);
}

void world_close(struct world *w) {
    for (int r = 0; r < w->ranks; r++) {
        ck_assert_ok(ringlet_buffer_free(w->comm, r, w->block[r]));
        ck_assert_ok(ringlet_stream_destroy(w->comm, r, w->stream[r]));
    }
    memory_free(w->host);
    ck_assert_ok(ringlet_comm_destroy(&w->comm));
}

static uint64_t send_count(const struct world *w) {
    return w->collective == WORLD_REDUCE_SCATTER ? w->count * (uint64_t)w->ranks : w->count;
}

static uint64_t recv_count(const struct world *w) {
    return w->collective == WORLD_ALL_GATHER ? w->count * (uint64_t)w->ranks : w->count;
}

static void place(struct world *w, int r) {
    uint64_t part = w->count * (uint64_t)r;
    float *first = w->block[r] + PAD_MAX + w->pad;
    w->send[r] = first;
    w->recv[r] = first + send_count(w) + PAD_MAX;
    if (!(w->in_place >> r & 1) || (w->collective == WORLD_BROADCAST && r != w->root))
        return;
    w->recv[r] = first;
    if (w->collective == WORLD_REDUCE_SCATTER)
        w->recv[r] = first + part;
    if (w->collective == WORLD_ALL_GATHER)
        w->send[r] = first + part;
}

static uint64_t logical(const struct world *w, int r, uint64_t i) {
    return w->collective == WORLD_ALL_GATHER ? i + w->count * (uint64_t)r : i;
}

static void before(const struct world *w, int r) {
    for (uint64_t i = 0; i < w->block_elements; i++)
        w->host[i] = poison();
    for (uint64_t i = 0; i < send_count(w); i++)
        w->host[w->send[r] - w->block[r] + (int64_t)i] = contribution(w, r, logical(w, r, i));
}

static void after(const struct world *w, int r, float *block) {
    float *recv = block + (w->recv[r] - w->block[r]);
    for (uint64_t i = 0; i < recv_count(w); i++) {
        if (w->collective == WORLD_ALL_REDUCE)
            recv[i] = sum(w, i);
        else if (w->collective == WORLD_REDUCE_SCATTER)
            recv[i] = sum(w, i + w->count * (uint64_t)r);
        else if (w->collective == WORLD_BROADCAST)
            recv[i] = contribution(w, w->root, i);
        else
            recv[i] = contribution(w, (int)(i / w->count), i);
    }
}

void world_set(struct world *w, enum world_collective collective, uint64_t count, uint32_t in_place,
               uint64_t pad) {
    w->collective = collective;
    w->count = count;
    w->in_place = in_place;
    w->pad = pad;
    w->salt++;
    w->root = (int)(w->salt % (uint32_t)w->ranks);
    for (int r = 0; r < w->ranks; r++) {
        place(w, r);
        before(w, r);
        ck_assert_ok(ringlet_buffer_write(w->comm, r, w->block[r], w->host,
                                          w->block_elements * sizeof(float), w->stream[r]));
    }
}

ringlet_status world_call(struct world *w, int r) {
    switch (w->collective) {
    case WORLD_ALL_REDUCE:
        return ringlet_all_reduce(w->comm, r, w->send[r], w->recv[r], w->count, RINGLET_FLOAT32,
                                  RINGLET_SUM, w->stream[r]);
    case WORLD_REDUCE_SCATTER:
        return ringlet_reduce_scatter(w->comm, r, w->send[r], w->recv[r], w->count, RINGLET_FLOAT32,
                                      RINGLET_SUM, w->stream[r]);
    case WORLD_ALL_GATHER:
        return ringlet_all_gather(w->comm, r, w->send[r], w->recv[r], w->count, RINGLET_FLOAT32,
                                  w->stream[r]);
    case WORLD_BROADCAST:
        return ringlet_broadcast(w->comm, r, w->send[r], w->recv[r], w->count, RINGLET_FLOAT32,
                                 w->root, w->stream[r]);
    case WORLD_COLLECTIVES:
        break;
    }
    return RINGLET_INVALID_ARGUMENT;
}

ringlet_status world_call_all(struct world *w) {
    const void *send[WORLD_RANKS_MAX];
    void *recv[WORLD_RANKS_MAX];
    for (int r = 0; r < w->ranks; r++) {
        send[r] = w->send[r];
        recv[r] = w->recv[r];
    }
    switch (w->collective) {
    case WORLD_ALL_REDUCE:
        return ringlet_all_reduce_multi(w->comm, send, recv, w->count, RINGLET_FLOAT32, RINGLET_SUM,
                                        w->stream);
    case WORLD_REDUCE_SCATTER:
        return ringlet_reduce_scatter_multi(w->comm, send, recv, w->count, RINGLET_FLOAT32,
                                            RINGLET_SUM, w->stream);
    case WORLD_ALL_GATHER:
        return ringlet_all_gather_multi(w->comm, send, recv, w->count, RINGLET_FLOAT32, w->stream);
    case WORLD_BROADCAST:
        return ringlet_broadcast_multi(w->comm, send, recv, w->count, RINGLET_FLOAT32, w->root,
                                       w->stream);
    case WORLD_COLLECTIVES:
        break;
    }
    return RINGLET_INVALID_ARGUMENT;
}

struct caller {
    struct world *world;
    int rank, times;
    ringlet_status status;
    char text[400];
    pthread_t thread;
};

static void *caller_run(void *argument) {
    struct caller *caller = argument;
    for (int i = 0; i < caller->times && !caller->status; i++)
        caller->status = world_call(caller->world, caller->rank);
    strncpy(caller->text, ringlet_error_message(), sizeof caller->text - 1);
    return NULL;
}

ringlet_status world_call_threads(struct world *w, int times) {
    struct caller callers[WORLD_RANKS_MAX];
    ringlet_status status = RINGLET_OK;
    memset(callers, 0, sizeof callers);
    for (int r = 0; r < w->ranks; r++) {
        callers[r].world = w;
        callers[r].rank = r;
        callers[r].times = times;
        ck_assert_int_eq(pthread_create(&callers[r].thread, NULL, caller_run, &callers[r]), 0);
    }
    for (int r = 0; r < w->ranks; r++)
        pthread_join(callers[r].thread, NULL);
    for (int r = 0; r < w->ranks && !status; r++)
        status = callers[r].status;
    return status;
}

void world_check(struct world *w) {
    float *expected = memory_zeroed(w->block_elements, sizeof *expected);
    ck_assert_ptr_nonnull(expected);
    for (int r = 0; r < w->ranks; r++)
        ck_assert_ok(ringlet_stream_wait(w->comm, r, w->stream[r], 30000));
    for (int r = 0; r < w->ranks; r++) {
        before(w, r);
        memcpy(expected, w->host, w->block_elements * sizeof *expected);
        if (w->count)
            after(w, r, expected);
        ck_assert_ok(ringlet_buffer_read(w->comm, r, w->host, w->block[r],
                                         w->block_elements * sizeof(float), w->stream[r]));
        /* In place, what other chunks of a reduce-scatter's send buffer hold must not change; of an
         * all-reduce everything is result. */
        for (uint64_t i = 0; i < w->block_elements; i++)
            if (memcmp(&w->host[i], &expected[i], sizeof(float))) /* an assertion each is slow */
                ck_abort_msg("rank %d of %d, element %lld of recv (count %llu): %g, not %g", r,
                             w->ranks, (long long)i - (w->recv[r] - w->block[r]),
                             (unsigned long long)w->count, (double)w->host[i], (double)expected[i]);
    }
    memory_free(expected);
}
