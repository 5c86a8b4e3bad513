/*
 * The textbook baseline without peer-to-peer: copy whole buffers to pinned host memory, add on the
 * CPU, copy back, one step after another on every rank's own stream. Owns that program, in rounds
 * where host memory is smaller than the message. Never orders anything.
 *
 * Each rank stages in its own HOST buffer; rank c adds part c of all of them into its own.
 */
#include "base/status.h"
#include "plan/builder.h"
#include "plan/index.h"

static struct plan_ref ref(uint32_t rank, enum plan_buffer buffer, uint64_t offset) {
    struct plan_ref made = {offset, rank, (uint32_t)buffer};
    return made;
}

struct round { /* elements [offset, offset + count) of everything */
    struct plan_builder *builder;
    const struct plan_spec *spec;
    uint64_t offset, count;
    uint32_t index;
};

static struct plan_label label_of(const struct round *round, uint32_t chunk) {
    struct plan_label label = {PLAN_PHASE_HOST, 0, chunk, round->index};
    return label;
}

/* Rank c adds HOST[at ... at + count) of all ranks into its own. */
static void add_all(const struct round *round, uint32_t c, uint64_t at, uint64_t count) {
    for (uint32_t r = 0; r < round->spec->ranks; r++)
        if (r != c)
            plan_builder_reduce(round->builder, c, ref(c, PLAN_HOST, at), ref(c, PLAN_HOST, at),
                                ref(r, PLAN_HOST, at), count, label_of(round, c));
}

static void all_reduce(const struct round *round) {
    uint32_t n = round->spec->ranks;
    for (uint32_t r = 0; r < n; r++)
        plan_builder_copy(round->builder, r, ref(r, PLAN_HOST, 0), ref(r, PLAN_SEND, round->offset),
                          round->count, label_of(round, PLAN_NONE));
    for (uint32_t c = 0; c < n; c++) {
        struct index_range part = index_part(round->count, n, c, round->spec->granule);
        add_all(round, c, part.offset, part.count);
    }
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < n; c++) {
            struct index_range part = index_part(round->count, n, c, round->spec->granule);
            plan_builder_copy(round->builder, r, ref(r, PLAN_RECV, round->offset + part.offset),
                              ref(c, PLAN_HOST, part.offset), part.count, label_of(round, c));
        }
}

static void reduce_scatter(const struct round *round) {
    uint32_t n = round->spec->ranks;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t c = 0; c < n; c++)
            plan_builder_copy(round->builder, r, ref(r, PLAN_HOST, round->count * c),
                              ref(r, PLAN_SEND, round->spec->count * c + round->offset),
                              round->count, label_of(round, c));
    for (uint32_t c = 0; c < n; c++) {
        add_all(round, c, round->count * c, round->count);
        plan_builder_copy(round->builder, c, ref(c, PLAN_RECV, round->offset),
                          ref(c, PLAN_HOST, round->count * c), round->count, label_of(round, c));
    }
}

static void all_gather(const struct round *round) {
    const struct plan_spec *spec = round->spec;
    for (uint32_t r = 0; r < spec->ranks; r++)
        plan_builder_copy(round->builder, r, ref(r, PLAN_HOST, 0), ref(r, PLAN_SEND, round->offset),
                          round->count, label_of(round, r));
    for (uint32_t r = 0; r < spec->ranks; r++)
        for (uint32_t c = 0; c < spec->ranks; c++)
            if (r != c || !spec->in_place || !spec->in_place[r])
                plan_builder_copy(round->builder, r,
                                  ref(r, PLAN_RECV, spec->count * c + round->offset),
                                  ref(c, PLAN_HOST, 0), round->count, label_of(round, c));
}

ringlet_status plan_host_build(struct plan_builder *builder, const struct plan_spec *spec,
                               uint32_t *slices) {
    uint64_t blocks = spec->collective == PLAN_REDUCE_SCATTER ? spec->ranks : 1;
    uint64_t room = spec->host_count / blocks / spec->granule * spec->granule;
    if (spec->count && !room)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "pinned host memory of %llu bytes a rank is too small: at least %llu bytes are "
            "needed",
            (unsigned long long)(spec->host_count * spec->element_bytes),
            (unsigned long long)(blocks * spec->granule * spec->element_bytes));
    uint64_t rounds = spec->count ? (spec->count - 1) / room + 1 : 0;
    if (rounds * spec->ranks > (1u << 30) / (3 * (uint64_t)spec->ranks))
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "%llu elements a rank with this little pinned host memory make too many steps; "
            "allow more",
            (unsigned long long)spec->count);
    plan_builder_enter(builder);
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t offset = i * room, left = spec->count - offset;
        struct round round = {builder, spec, offset, left < room ? left : room, i};
        if (spec->collective == PLAN_ALL_REDUCE)
            all_reduce(&round);
        else if (spec->collective == PLAN_REDUCE_SCATTER)
            reduce_scatter(&round);
        else
            all_gather(&round);
    }
    *slices = (uint32_t)rounds;
    return RINGLET_OK;
}
