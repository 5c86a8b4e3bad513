/*
 * Direct: each rank collects its chunk from all peers, adds all of it at once in rank order, and
 * hands the result out. The ring's bytes in two dependent phases, for machines where every pair is
 * equally near. Owns that program and its use of scratch. Never orders anything: the builder does.
 *
 * In each phase rank r sends to r + 1, r + 2, ... in this order, so that at any time every rank
 * sends to another one. What a rank collects of one slice lies side by side in one of `groups`
 * groups of n - 1 places, which take turns.
 */
#include "base/memory.h"
#include "base/status.h"
#include "plan/builder.h"
#include "plan/index.h"

enum { STEPS_MAX = 1u << 26 };

struct direct {
    struct plan_builder *builder;
    const struct plan_spec *spec;
    uint32_t n, slices, groups;
    uint64_t place_count;      /* elements of one landing place */
    uint32_t *out;             /* [n] lanes */
    struct plan_ref *operands; /* [n] */
};

static struct plan_ref ref(uint32_t rank, enum plan_buffer buffer, uint64_t offset) {
    struct plan_ref made = {offset, rank, (uint32_t)buffer};
    return made;
}

static bool in_place(const struct direct *d, uint32_t rank) {
    return d->spec->in_place && d->spec->in_place[rank];
}

/* A slice of a rank's chunk: where in the whole, where in the rank's own part, how many elements.
 */
struct piece {
    uint64_t whole, part, count;
};

static struct piece slice_of(const struct direct *d, uint32_t rank, uint32_t slice) {
    const struct plan_spec *spec = d->spec;
    struct index_range chunk = {spec->count * rank, spec->count};
    if (spec->collective == PLAN_ALL_REDUCE)
        chunk = index_part(spec->count, d->n, rank, spec->granule);
    struct index_range cut = index_part(chunk.count, d->slices, slice, spec->granule);
    struct piece piece = {chunk.offset + cut.offset, cut.offset, cut.count};
    return piece;
}

/* Where what `from` sends to `to` lands: its place in the group of the slice. */
static struct plan_ref landing(const struct direct *d, uint32_t from, uint32_t to, uint32_t slice) {
    uint64_t place = (uint64_t)(slice % d->groups) * (d->n - 1) + (from < to ? from : from - 1);
    return ref(to, PLAN_SCRATCH, place * d->place_count);
}

static void collect(struct direct *d, uint32_t slice) {
    for (uint32_t step = 1; step < d->n; step++)
        for (uint32_t r = 0; r < d->n; r++) {
            uint32_t to = (r + step) % d->n;
            struct piece piece = slice_of(d, to, slice);
            struct plan_label label = {PLAN_PHASE_REDUCE_SCATTER, step - 1, to, slice};
            plan_builder_copy(d->builder, d->out[r], landing(d, r, to, slice),
                              ref(r, PLAN_SEND, piece.whole), piece.count, label);
        }
}

static void add(struct direct *d, uint32_t slice) {
    for (uint32_t r = 0; r < d->n; r++) {
        struct piece piece = slice_of(d, r, slice);
        struct plan_label label = {PLAN_PHASE_REDUCE_SCATTER, d->n - 2, r, slice};
        bool whole = d->spec->collective == PLAN_ALL_REDUCE;
        /* In rank order as far as one step reaches; beyond, the rank's own must come first. */
        uint32_t first = d->n <= PLAN_OPERANDS_MAX ? 0 : r;
        for (uint32_t i = 0; i < d->n; i++) {
            uint32_t from = (first + i) % d->n;
            d->operands[i] =
                from == r ? ref(r, PLAN_SEND, piece.whole) : landing(d, from, r, slice);
        }
        plan_builder_reduce(d->builder, r, ref(r, PLAN_RECV, whole ? piece.whole : piece.part),
                            d->operands, d->n, piece.count, PLAN_FIRST | PLAN_LAST, label);
    }
}

static void hand_out(struct direct *d, uint32_t slice) {
    bool alone = d->spec->collective == PLAN_ALL_GATHER;
    for (uint32_t step = 1; step < d->n; step++)
        for (uint32_t r = 0; r < d->n; r++) {
            uint32_t to = (r + step) % d->n;
            struct piece piece = slice_of(d, r, slice);
            struct plan_label label = {PLAN_PHASE_ALL_GATHER, step - 1 + (alone ? 0 : d->n - 1), r,
                                       slice};
            struct plan_ref from =
                alone ? ref(r, PLAN_SEND, piece.part) : ref(r, PLAN_RECV, piece.whole);
            plan_builder_copy(d->builder, d->out[r], ref(to, PLAN_RECV, piece.whole), from,
                              piece.count, label);
        }
}

static void own_parts(struct direct *d) {
    struct plan_label label = {PLAN_PHASE_ALL_GATHER, 0, PLAN_NONE, PLAN_NONE};
    for (uint32_t r = 0; r < d->n; r++)
        if (!in_place(d, r))
            plan_builder_copy(d->builder, r, ref(r, PLAN_RECV, d->spec->count * r),
                              ref(r, PLAN_SEND, 0), d->spec->count, label);
}

/* Slices small enough that two groups (one, for a single slice) fit into scratch. */
static ringlet_status sizes_choose(struct direct *d) {
    const struct plan_spec *spec = d->spec;
    uint64_t chunk = spec->count;
    if (spec->collective == PLAN_ALL_REDUCE)
        chunk = index_part_max(spec->count, d->n, spec->granule);
    uint64_t units = chunk / spec->granule + (chunk % spec->granule != 0);
    uint64_t wanted = units < spec->slices ? (units ? units : 1) : spec->slices;
    d->slices = (uint32_t)wanted;
    d->groups = 1;
    if (!units || spec->collective == PLAN_ALL_GATHER)
        return RINGLET_OK;
    uint64_t room = spec->scratch_count / spec->granule / (d->n - 1); /* units, of all groups */
    uint64_t unit_max = wanted > 1 ? room / 2 : room;
    if (units > unit_max * wanted)
        unit_max = room / 2;
    if (!unit_max)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "scratch of %llu bytes a rank is too small for direct: at least %llu bytes "
            "are needed",
            (unsigned long long)(spec->scratch_count * spec->element_bytes),
            (unsigned long long)(2ull * (d->n - 1) * spec->granule * spec->element_bytes));
    uint64_t needed = (units - 1) / unit_max + 1;
    uint64_t slices = needed > wanted ? needed : wanted;
    if (slices > STEPS_MAX / 2 / d->n / d->n)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "%llu elements with this little scratch make too many steps; allow more "
                           "scratch",
                           (unsigned long long)spec->count);
    d->slices = (uint32_t)slices;
    d->place_count = index_part_max(chunk, d->slices, spec->granule);
    uint64_t groups = spec->scratch_count / (d->n - 1) / d->place_count;
    d->groups = groups < d->slices ? (uint32_t)groups : d->slices;
    return RINGLET_OK;
}

static void steps_make(struct direct *d) {
    plan_builder_enter(d->builder);
    if (d->spec->collective == PLAN_ALL_GATHER)
        own_parts(d);
    for (uint32_t slice = 0; slice < d->slices && d->spec->collective != PLAN_ALL_GATHER; slice++) {
        collect(d, slice);
        add(d, slice);
    }
    for (uint32_t slice = 0; slice < d->slices && d->spec->collective != PLAN_REDUCE_SCATTER;
         slice++)
        hand_out(d, slice);
}

ringlet_status plan_direct_build(struct plan_builder *builder, const struct plan_spec *spec,
                                 uint32_t *slices) {
    struct direct d = {.builder = builder, .spec = spec, .n = spec->ranks};
    ringlet_status status = sizes_choose(&d);
    if (status)
        return status;
    d.out = memory_zeroed(d.n, sizeof *d.out);
    d.operands = memory_zeroed(d.n, sizeof *d.operands);
    if (d.out && d.operands) {
        /* With one slice nothing overlaps: copies then go on MAIN, which saves hops between
         * streams. */
        bool one_lane = d.slices == 1 && spec->collective != PLAN_ALL_GATHER;
        for (uint32_t r = 0; r < d.n; r++)
            d.out[r] = one_lane ? r : plan_builder_lane(builder, r, PLAN_OUT, 0);
        steps_make(&d);
    } else {
        status = status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory");
    }
    memory_free(d.out);
    memory_free(d.operands);
    *slices = d.slices;
    return status;
}
