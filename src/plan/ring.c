/*
 * The ring: reduce-scatter and all-gather, alone or one behind the other as all-reduce; broadcast
 * along it. Owns what is copied and added where, and the use of scratch. Never orders anything: the
 * builder does.
 *
 * Scratch is a ring of `slots` slots, each as large as the largest slice. The m-th slice to land at
 * a rank takes slot m % slots. All-reduce frees it with the addition that reads it, so any number
 * of slots will do; a reduce-scatter adds within the slot and forwards from there in the next turn,
 * so a landing m must find landing m - slots forwarded: the slices in flight between two turns
 * (`batch`) are fewer than the slots.
 */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/builder.h"
#include "plan/index.h"

enum { SCATTER_BATCH_MAX = 4, STEPS_MAX = 1u << 26 };

struct ring { /* one of several side by side */
    struct plan_builder *builder;
    const struct plan_spec *spec;
    uint32_t index, n;
    uint32_t slices; /* of the largest chunk */
    uint32_t batch;  /* slices that go through all turns before the next ones start */
    uint32_t slots;
    uint64_t slot_count;    /* elements */
    uint64_t scratch_first; /* this ring's share of SCRATCH and HOST */
    uint64_t host_first, piece_count;
    uint32_t *out, *in, *add; /* [n] lanes by position */
    uint32_t *pieces;         /* [n] staged pieces sent so far from each position */
};

static uint32_t rank_at(const struct ring *ring, uint32_t position) {
    return ring->spec->order ? ring->spec->order[(size_t)ring->index * ring->n + position]
                             : position;
}

static bool staged_from(const struct ring *ring, uint32_t position) {
    return ring->spec->staged && ring->spec->staged[(size_t)ring->index * ring->n + position];
}

static bool in_place(const struct ring *ring, uint32_t rank) {
    return ring->spec->in_place && ring->spec->in_place[rank];
}

/* The part of one rank's data (of the whole, for all-reduce) that this ring carries. */
static struct index_range share(const struct ring *ring) {
    return index_part(ring->spec->count, ring->spec->rings, ring->index, ring->spec->granule);
}

/* Slice k of chunk c: its range in the whole (`whole`), and within the chunk's own rank's part. */
struct piece {
    uint64_t whole, part, count;
};

static struct piece slice_of(const struct ring *ring, uint32_t chunk, uint32_t slice) {
    const struct plan_spec *spec = ring->spec;
    struct index_range range = share(ring);
    struct piece piece;
    if (spec->collective == PLAN_ALL_REDUCE) {
        struct index_range within = index_part(range.count, ring->n, chunk, spec->granule);
        range.offset += within.offset;
        range.count = within.count;
    }
    struct index_range cut = index_part(range.count, ring->slices, slice, spec->granule);
    piece.part = piece.whole = range.offset + cut.offset;
    piece.count = cut.count;
    if (spec->collective == PLAN_REDUCE_SCATTER || spec->collective == PLAN_ALL_GATHER)
        piece.whole += spec->count * rank_at(ring, chunk);
    return piece;
}

static struct plan_ref ref(uint32_t rank, enum plan_buffer buffer, uint64_t offset) {
    struct plan_ref made = {offset, rank, (uint32_t)buffer};
    return made;
}

/* Copies to the right neighbour, through the sender's pinned memory where the edge is staged: two
 * halves that take turns, so that copying into one overlaps copying out of the other. */
static void move_right(struct ring *ring, uint32_t position, struct plan_ref dst,
                       struct plan_ref src, uint64_t count, struct plan_label label) {
    if (!staged_from(ring, position)) {
        plan_builder_copy(ring->builder, ring->out[position], dst, src, count, label);
        return;
    }
    uint32_t right = index_mod((int64_t)position + 1, ring->n);
    for (uint64_t done = 0; done < count; done += ring->piece_count) {
        uint64_t left = count - done;
        uint64_t now = left < ring->piece_count ? left : ring->piece_count;
        uint64_t half = ring->pieces[position]++ % 2 * ring->piece_count;
        struct plan_ref host = ref(rank_at(ring, position), PLAN_HOST, ring->host_first + half);
        struct plan_ref from = src, to = dst;
        from.offset += done;
        to.offset += done;
        plan_builder_copy(ring->builder, ring->out[position], host, from, now, label);
        plan_builder_copy(ring->builder, ring->in[right], to, host, now, label);
    }
}

static uint64_t slot_of(const struct ring *ring, uint32_t turn, uint32_t slice) {
    uint64_t batch = slice / ring->batch;
    uint64_t landing = (batch * (ring->n - 1) + turn) * ring->batch + slice % ring->batch;
    return ring->scratch_first + landing % ring->slots * ring->slot_count;
}

static int scatter_shift(const struct ring *ring) {
    return ring->spec->collective == PLAN_ALL_REDUCE ? 0 : -1;
}

/* Where what is received in a turn lands: in the receive buffer where the whole result belongs
 * there and it is not the send buffer as well, else in scratch. */
static struct plan_ref landing(const struct ring *ring, uint32_t position, uint32_t turn,
                               uint32_t slice, struct piece piece) {
    uint32_t rank = rank_at(ring, position);
    if (ring->spec->collective == PLAN_ALL_REDUCE && !in_place(ring, rank))
        return ref(rank, PLAN_RECV, piece.whole);
    return ref(rank, PLAN_SCRATCH, slot_of(ring, turn, slice));
}

/* Where the sum lies after the addition of a turn, until it is sent on. */
static struct plan_ref partial(const struct ring *ring, uint32_t position, uint32_t turn,
                               uint32_t slice, struct piece piece) {
    uint32_t rank = rank_at(ring, position);
    if (ring->spec->collective == PLAN_ALL_REDUCE)
        return ref(rank, PLAN_RECV, piece.whole);
    if (turn == ring->n - 2)
        return ref(rank, PLAN_RECV, piece.part);
    return ref(rank, PLAN_SCRATCH, slot_of(ring, turn, slice));
}

static void scatter_send(struct ring *ring, uint32_t position, uint32_t turn, uint32_t slice) {
    uint32_t chunk = index_ring_sent(position, turn, scatter_shift(ring), ring->n);
    uint32_t right = index_mod((int64_t)position + 1, ring->n);
    struct piece piece = slice_of(ring, chunk, slice);
    struct plan_label label = {PLAN_PHASE_REDUCE_SCATTER, turn, chunk, slice};
    struct plan_ref from = turn ? partial(ring, position, turn - 1, slice, piece)
                                : ref(rank_at(ring, position), PLAN_SEND, piece.whole);
    move_right(ring, position, landing(ring, right, turn, slice, piece), from, piece.count, label);
}

static void scatter_add(struct ring *ring, uint32_t position, uint32_t turn, uint32_t slice) {
    uint32_t chunk = index_ring_received(position, turn, scatter_shift(ring), ring->n);
    struct piece piece = slice_of(ring, chunk, slice);
    struct plan_label label = {PLAN_PHASE_REDUCE_SCATTER, turn, chunk, slice};
    const struct plan_ref operands[2] = {landing(ring, position, turn, slice, piece),
                                         ref(rank_at(ring, position), PLAN_SEND, piece.whole)};
    uint32_t flags = (turn == 0 ? PLAN_FIRST : 0) | (turn == ring->n - 2 ? PLAN_LAST : 0);
    plan_builder_reduce(ring->builder, ring->add[position],
                        partial(ring, position, turn, slice, piece), operands, 2, piece.count,
                        flags, label);
}

static void reduce_scatter(struct ring *ring) {
    for (uint32_t first = 0; first < ring->slices; first += ring->batch)
        for (uint32_t turn = 0; turn < ring->n - 1; turn++)
            for (uint32_t slice = first; slice < first + ring->batch && slice < ring->slices;
                 slice++) {
                for (uint32_t position = 0; position < ring->n; position++)
                    scatter_send(ring, position, turn, slice);
                for (uint32_t position = 0; position < ring->n; position++)
                    scatter_add(ring, position, turn, slice);
            }
}

/* turn_first: the all-gather's turns are numbered on from the reduce-scatter's. */
static void gather_send(struct ring *ring, uint32_t position, uint32_t turn, uint32_t slice) {
    bool alone = ring->spec->collective == PLAN_ALL_GATHER;
    uint32_t chunk = index_ring_sent(position, turn, alone ? 0 : 1, ring->n);
    uint32_t rank = rank_at(ring, position);
    uint32_t right = rank_at(ring, index_mod((int64_t)position + 1, ring->n));
    struct piece piece = slice_of(ring, chunk, slice);
    struct plan_label label = {PLAN_PHASE_ALL_GATHER, turn + (alone ? 0 : ring->n - 1), chunk,
                               slice};
    struct plan_ref from =
        alone && turn == 0 ? ref(rank, PLAN_SEND, piece.part) : ref(rank, PLAN_RECV, piece.whole);
    move_right(ring, position, ref(right, PLAN_RECV, piece.whole), from, piece.count, label);
}

static void all_gather(struct ring *ring) {
    for (uint32_t turn = 0; turn < ring->n - 1; turn++)
        for (uint32_t slice = 0; slice < ring->slices; slice++)
            for (uint32_t position = 0; position < ring->n; position++)
                gather_send(ring, position, turn, slice);
}

/* All-gather alone and broadcast, out of place: a rank's own part goes to its receive buffer. */
static void own_part(struct ring *ring, uint32_t rank) {
    struct index_range range = share(ring);
    struct plan_label label = {PLAN_PHASE_ALL_GATHER, 0, PLAN_NONE, PLAN_NONE};
    uint64_t first = ring->spec->collective == PLAN_ALL_GATHER ? ring->spec->count * rank : 0;
    if (!in_place(ring, rank))
        plan_builder_copy(ring->builder, rank, ref(rank, PLAN_RECV, first + range.offset),
                          ref(rank, PLAN_SEND, range.offset), range.count, label);
}

/* From the root round the ring to the rank before it, slice behind slice. */
static void broadcast(struct ring *ring) {
    uint32_t root = 0;
    while (rank_at(ring, root) != ring->spec->root)
        root++;
    for (uint32_t slice = 0; slice < ring->slices; slice++) {
        struct piece piece = slice_of(ring, 0, slice);
        struct plan_label label = {PLAN_PHASE_ALL_GATHER, 0, PLAN_NONE, slice};
        for (; label.turn < ring->n - 1; label.turn++) {
            uint32_t position = (root + label.turn) % ring->n;
            uint32_t right = rank_at(ring, (position + 1) % ring->n);
            enum plan_buffer from = label.turn ? PLAN_RECV : PLAN_SEND;
            move_right(ring, position, ref(right, PLAN_RECV, piece.whole),
                       ref(rank_at(ring, position), from, piece.whole), piece.count, label);
        }
    }
}

/* ---- how much scratch and how many slices ---- */

static uint64_t floor_to(uint64_t value, uint64_t granule) {
    return value / granule * granule;
}

/* The largest chunk of any ring: ring 0 has the largest share, chunk 0 the largest part of it. */
static uint64_t chunk_max(const struct plan_spec *spec) {
    uint64_t part = index_part_max(spec->count, spec->rings, spec->granule);
    return spec->collective == PLAN_ALL_REDUCE ? index_part_max(part, spec->ranks, spec->granule)
                                               : part;
}

static bool needs_scratch(const struct plan_spec *spec) {
    if (spec->collective != PLAN_ALL_REDUCE)
        return spec->collective == PLAN_REDUCE_SCATTER;
    for (uint32_t rank = 0; rank < spec->ranks; rank++)
        if (spec->in_place && spec->in_place[rank])
            return true;
    return false;
}

/* Slices of `limit` elements at most, at least `slices` of them. */
static uint64_t slices_within(uint64_t chunk, uint64_t limit, uint32_t slices, uint32_t granule) {
    uint64_t units = chunk / granule + (chunk % granule != 0), unit_limit = limit / granule;
    uint64_t needed = units / unit_limit + (units % unit_limit != 0);
    return needed > slices ? needed : slices;
}

struct sizes {
    uint64_t slices, slot_count;
    uint32_t batch, slots;
};

static ringlet_status too_small(const struct plan_spec *spec, uint64_t slots) {
    return status_fail(
        RINGLET_INVALID_ARGUMENT,
        "scratch of %llu bytes a rank is too small for %u ring(s): at least %llu bytes "
        "are needed",
        (unsigned long long)(spec->scratch_count * spec->element_bytes), spec->rings,
        (unsigned long long)(slots * spec->granule * spec->rings * spec->element_bytes));
}

static ringlet_status sizes_choose(const struct plan_spec *spec, struct sizes *sizes) {
    uint64_t chunk = chunk_max(spec), turns = spec->ranks - 1;
    uint64_t units = chunk / spec->granule + (chunk % spec->granule != 0);
    uint64_t scratch = floor_to(spec->scratch_count / spec->rings, spec->granule);
    uint32_t wanted = units < spec->slices ? (units ? (uint32_t)units : 1) : spec->slices;
    uint64_t slice = index_part_max(chunk, wanted, spec->granule);
    *sizes = (struct sizes){wanted, slice, wanted, 1};
    if (!chunk || !needs_scratch(spec))
        return RINGLET_OK;
    bool forwards = spec->collective == PLAN_REDUCE_SCATTER && turns > 1;
    if (forwards && slice > scratch / ((uint64_t)wanted + 1)) {
        uint32_t batch = wanted < SCATTER_BATCH_MAX ? wanted : SCATTER_BATCH_MAX;
        while (batch > 1 && scratch / (2 * batch) < spec->granule)
            batch--;
        if (scratch / (2 * batch) < spec->granule)
            return too_small(spec, 2 * batch);
        uint64_t limit = floor_to(scratch / (2 * batch), spec->granule);
        sizes->slices = slices_within(chunk, limit, wanted, spec->granule);
        sizes->batch = batch;
    } else if (!forwards) {
        uint64_t halves = turns * wanted > 1 ? 2 : 1; /* one to land in while one is added */
        uint64_t limit = floor_to(scratch / halves, spec->granule);
        if (slice > limit) {
            limit = floor_to(scratch / 2, spec->granule);
            if (!limit)
                return too_small(spec, 2);
            sizes->slices = slices_within(chunk, limit, wanted, spec->granule);
        }
        if (sizes->slices < STEPS_MAX)
            sizes->batch = (uint32_t)sizes->slices;
    }
    if (sizes->slices >= STEPS_MAX)
        return RINGLET_OK; /* refused by the caller */
    sizes->slot_count = index_part_max(chunk, (uint32_t)sizes->slices, spec->granule);
    uint64_t fit = scratch / sizes->slot_count, landings = turns * sizes->slices;
    fit = fit < landings ? fit : landings;
    sizes->slots = fit < UINT32_MAX ? (uint32_t)fit : UINT32_MAX;
    return RINGLET_OK;
}

static bool any_staged(const struct plan_spec *spec) {
    for (size_t i = 0; spec->staged && i < (size_t)spec->rings * spec->ranks; i++)
        if (spec->staged[i])
            return true;
    return false;
}

/* ---- lanes ---- */

/* With one slice every copy waits for an addition and the other way round, so lanes of their own
 * overlap nothing and cost a hop between streams each time: copies then go on MAIN too. (All-gather
 * and broadcast copy a rank's own part there meanwhile.) */
static bool one_lane(const struct ring *ring) {
    bool adds =
        ring->spec->collective == PLAN_ALL_REDUCE || ring->spec->collective == PLAN_REDUCE_SCATTER;
    return adds && ring->slices == 1 && ring->spec->rings == 1;
}

static bool lanes_make(struct ring *ring) {
    ring->out = memory_zeroed(ring->n, sizeof *ring->out);
    ring->in = memory_zeroed(ring->n, sizeof *ring->in);
    ring->add = memory_zeroed(ring->n, sizeof *ring->add);
    ring->pieces = memory_zeroed(ring->n, sizeof *ring->pieces);
    if (!ring->out || !ring->in || !ring->add || !ring->pieces)
        return false;
    for (uint32_t p = 0; p < ring->n; p++) {
        uint32_t rank = rank_at(ring, p);
        ring->out[p] = ring->add[p] = rank; /* MAIN */
        if (!one_lane(ring))
            ring->out[p] = plan_builder_lane(ring->builder, rank, PLAN_OUT, ring->index);
        bool adds = ring->spec->collective == PLAN_ALL_REDUCE ||
                    ring->spec->collective == PLAN_REDUCE_SCATTER;
        if (ring->spec->rings > 1 && adds)
            ring->add[p] = plan_builder_lane(ring->builder, rank, PLAN_ADD, ring->index);
        if (staged_from(ring, index_mod((int64_t)p - 1, ring->n)))
            ring->in[p] = plan_builder_lane(ring->builder, rank, PLAN_IN, ring->index);
    }
    return true;
}

static void ring_free(struct ring *ring) {
    memory_free(ring->out);
    memory_free(ring->in);
    memory_free(ring->add);
    memory_free(ring->pieces);
}

/* Tells the builder where the chunks begin, in ascending order (the steps go through them
 * descending). */
static void cut_chunks(struct ring *ring, enum plan_buffer buffer) {
    for (uint32_t rank = 0; rank < ring->n; rank++)
        for (uint32_t chunk = 0; chunk < ring->n; chunk++)
            plan_builder_cut(ring->builder, ref(rank, buffer, slice_of(ring, chunk, 0).whole));
}

static void ring_steps(struct ring *ring) {
    const struct plan_spec *spec = ring->spec;
    if (spec->collective == PLAN_BROADCAST) {
        own_part(ring, spec->root);
        broadcast(ring);
        return;
    }
    if (spec->collective != PLAN_ALL_GATHER)
        cut_chunks(ring, PLAN_SEND);
    if (spec->collective != PLAN_REDUCE_SCATTER)
        cut_chunks(ring, PLAN_RECV);
    if (spec->collective == PLAN_ALL_GATHER)
        for (uint32_t rank = 0; rank < ring->n; rank++)
            own_part(ring, rank);
    else
        reduce_scatter(ring);
    if (spec->collective != PLAN_REDUCE_SCATTER)
        all_gather(ring);
}

static ringlet_status limits(const struct plan_spec *spec, const struct sizes *sizes,
                             uint64_t piece_count) {
    if (any_staged(spec) && !piece_count)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "pinned host memory of %llu bytes a rank is too small for staged edges: at "
            "least %llu bytes are needed",
            (unsigned long long)(spec->host_count * spec->element_bytes),
            (unsigned long long)(2ull * spec->granule * spec->rings * spec->element_bytes));
    double pairs = (double)spec->ranks * (spec->ranks - 1); /* near enough for a limit */
    double steps = 3 * pairs * (double)sizes->slices * spec->rings;
    if (any_staged(spec))
        steps += 4 * pairs * (double)chunk_max(spec) * spec->rings / (double)piece_count;
    if (steps > STEPS_MAX)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "%u slices of %llu elements a rank with this little scratch or host memory "
            "make too many steps; allow more scratch or fewer slices",
            spec->slices, (unsigned long long)spec->count);
    return RINGLET_OK;
}

ringlet_status plan_ring_build(struct plan_builder *builder, const struct plan_spec *spec,
                               uint32_t *slices) {
    struct sizes sizes;
    ringlet_status status = sizes_choose(spec, &sizes);
    uint64_t scratch_share = floor_to(spec->scratch_count / spec->rings, spec->granule);
    uint64_t piece_count = floor_to(spec->host_count / spec->rings / 2, spec->granule);
    if (!status)
        status = limits(spec, &sizes, piece_count);
    if (status)
        return status;
    struct ring *rings = memory_zeroed(spec->rings, sizeof *rings);
    bool ok = rings != NULL;
    for (uint32_t i = 0; ok && i < spec->rings; i++) {
        rings[i] = (struct ring){.builder = builder, .spec = spec, .index = i, .n = spec->ranks};
        rings[i].slices = (uint32_t)sizes.slices;
        rings[i].batch = sizes.batch;
        rings[i].slots = sizes.slots;
        rings[i].slot_count = sizes.slot_count;
        rings[i].scratch_first = scratch_share * i;
        rings[i].piece_count = piece_count;
        rings[i].host_first = 2 * piece_count * i;
        ok = lanes_make(&rings[i]);
    }
    if (ok)
        plan_builder_enter(builder);
    for (uint32_t i = 0; rings && i < spec->rings; i++) {
        if (ok)
            ring_steps(&rings[i]);
        ring_free(&rings[i]);
    }
    memory_free(rings);
    *slices = (uint32_t)sizes.slices;
    return ok ? RINGLET_OK : status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory");
}
