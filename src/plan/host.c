/*
 * Without peer-to-peer: copy to pinned host memory, add on the CPU, copy back.
 * Owns both forms. `host` is the textbook: whole buffers (in rounds where host memory is smaller),
 * one step after another on the rank's own stream. `host-pipelined` is the best that can be done
 * this way: slices on lanes of their own, so that copying out, adding and copying back of different
 * slices go on at once. Never orders anything: the builder does.
 *
 * A slice is staged in one of `slots` slots of every rank's HOST buffer, which take turns. Rank k %
 * n adds slice k, all ranks' at once in rank order, into its own.
 */
#include "base/memory.h"
#include "base/status.h"
#include "plan/builder.h"
#include "plan/index.h"

enum { PIPELINE_SLOTS = 4, STEPS_MAX = 1u << 26 };

struct staging {
    struct plan_builder *builder;
    const struct plan_spec *spec;
    uint32_t n, slots;
    uint64_t slot_count, slice_count; /* elements of a slot; of a slice of one block */
    uint32_t *out, *add, *in;         /* [n] lanes */
    struct plan_ref *operands;        /* [n] */
};

struct slice { /* elements [offset, offset + count) of every block */
    uint64_t offset, count;
    uint64_t host; /* its slot */
    uint32_t index;
};

static struct plan_ref ref(uint32_t rank, enum plan_buffer buffer, uint64_t offset) {
    struct plan_ref made = {offset, rank, (uint32_t)buffer};
    return made;
}

static struct plan_label label_of(const struct slice *slice, uint32_t chunk) {
    struct plan_label label = {PLAN_PHASE_HOST, 0, chunk, slice->index};
    return label;
}

static bool in_place(const struct staging *s, uint32_t rank) {
    return s->spec->in_place && s->spec->in_place[rank];
}

static void copy_out(struct staging *s, const struct slice *slice, uint32_t r, uint64_t at,
                     uint64_t from, uint32_t chunk) {
    plan_builder_copy(s->builder, s->out[r], ref(r, PLAN_HOST, slice->host + at),
                      ref(r, PLAN_SEND, from), slice->count, label_of(slice, chunk));
}

static void copy_back(struct staging *s, const struct slice *slice, uint32_t r, uint64_t to,
                      uint32_t owner, uint64_t at, uint32_t chunk) {
    plan_builder_copy(s->builder, s->in[r], ref(r, PLAN_RECV, to),
                      ref(owner, PLAN_HOST, slice->host + at), slice->count,
                      label_of(slice, chunk));
}

/* The owner adds what all ranks staged at `at` into its own. */
static void add(struct staging *s, const struct slice *slice, uint32_t owner, uint64_t at,
                uint32_t chunk) {
    /* In rank order as far as one step reaches; beyond, the owner's own must come first. */
    uint32_t first = s->n <= PLAN_OPERANDS_MAX ? 0 : owner;
    for (uint32_t i = 0; i < s->n; i++)
        s->operands[i] = ref((first + i) % s->n, PLAN_HOST, slice->host + at);
    plan_builder_reduce(s->builder, s->add[owner], ref(owner, PLAN_HOST, slice->host + at),
                        s->operands, s->n, slice->count, PLAN_FIRST | PLAN_LAST,
                        label_of(slice, chunk));
}

static void all_reduce(struct staging *s, const struct slice *slice) {
    uint32_t owner = slice->index % s->n;
    for (uint32_t r = 0; r < s->n; r++)
        copy_out(s, slice, r, 0, slice->offset, PLAN_NONE);
    add(s, slice, owner, 0, PLAN_NONE);
    for (uint32_t r = 0; r < s->n; r++)
        copy_back(s, slice, r, slice->offset, owner, 0, PLAN_NONE);
}

static void reduce_scatter(struct staging *s, const struct slice *slice) {
    for (uint32_t r = 0; r < s->n; r++)
        for (uint32_t c = 0; c < s->n; c++)
            copy_out(s, slice, r, slice->count * c, s->spec->count * c + slice->offset, c);
    for (uint32_t c = 0; c < s->n; c++) {
        add(s, slice, c, slice->count * c, c);
        copy_back(s, slice, c, slice->offset, c, slice->count * c, c);
    }
}

static void all_gather(struct staging *s, const struct slice *slice) {
    for (uint32_t r = 0; r < s->n; r++)
        copy_out(s, slice, r, 0, slice->offset, r);
    for (uint32_t r = 0; r < s->n; r++)
        for (uint32_t c = 0; c < s->n; c++)
            if (r != c || !in_place(s, r))
                copy_back(s, slice, r, s->spec->count * c + slice->offset, c, 0, c);
}

static void broadcast(struct staging *s, const struct slice *slice) {
    uint32_t root = s->spec->root;
    copy_out(s, slice, root, 0, slice->offset, PLAN_NONE);
    for (uint32_t r = 0; r < s->n; r++)
        if (r != root || !in_place(s, r))
            copy_back(s, slice, r, slice->offset, root, 0, PLAN_NONE);
}

static void slice_steps(struct staging *s, const struct slice *slice) {
    switch (s->spec->collective) {
    case PLAN_ALL_REDUCE:
        all_reduce(s, slice);
        break;
    case PLAN_REDUCE_SCATTER:
        reduce_scatter(s, slice);
        break;
    case PLAN_ALL_GATHER:
        all_gather(s, slice);
        break;
    case PLAN_BROADCAST:
        broadcast(s, slice);
        break;
    }
}

static ringlet_status sizes_choose(struct staging *s) {
    const struct plan_spec *spec = s->spec;
    bool pipelined = spec->algorithm == PLAN_HOST_PIPELINED;
    uint64_t blocks = spec->collective == PLAN_REDUCE_SCATTER ? spec->ranks : 1;
    s->slots = pipelined && spec->host_count / PIPELINE_SLOTS / blocks >= spec->granule
                   ? PIPELINE_SLOTS
                   : 1;
    uint64_t room = spec->host_count / s->slots / blocks / spec->granule * spec->granule;
    if (!room && spec->count)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "pinned host memory of %llu bytes a rank is too small: at least %llu bytes "
            "are needed",
            (unsigned long long)(spec->host_count * spec->element_bytes),
            (unsigned long long)(blocks * spec->granule * spec->element_bytes));
    s->slice_count = room;
    if (pipelined && index_part_max(spec->count, spec->slices, spec->granule) < room)
        s->slice_count = index_part_max(spec->count, spec->slices, spec->granule);
    s->slot_count = s->slice_count * blocks;
    double slices = spec->count ? (double)spec->count / (double)s->slice_count : 0;
    if (3 * (slices + 1) * spec->ranks * spec->ranks > STEPS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "%llu elements a rank with this little pinned host memory make too many "
                           "steps; allow more",
                           (unsigned long long)spec->count);
    return RINGLET_OK;
}

static bool lanes_make(struct staging *s) {
    bool pipelined = s->spec->algorithm == PLAN_HOST_PIPELINED;
    s->out = memory_zeroed(s->n, sizeof *s->out);
    s->add = memory_zeroed(s->n, sizeof *s->add);
    s->in = memory_zeroed(s->n, sizeof *s->in);
    s->operands = memory_zeroed(s->n, sizeof *s->operands);
    if (!s->out || !s->add || !s->in || !s->operands)
        return false;
    for (uint32_t r = 0; r < s->n; r++) {
        s->out[r] = pipelined ? plan_builder_lane(s->builder, r, PLAN_OUT, 0) : r;
        s->add[r] = pipelined ? plan_builder_lane(s->builder, r, PLAN_ADD, 0) : r;
        s->in[r] = pipelined ? plan_builder_lane(s->builder, r, PLAN_IN, 0) : r;
    }
    return true;
}

ringlet_status plan_host_build(struct plan_builder *builder, const struct plan_spec *spec,
                               uint32_t *slices) {
    struct staging s = {.builder = builder, .spec = spec, .n = spec->ranks};
    ringlet_status status = sizes_choose(&s);
    if (status)
        return status;
    if (!lanes_make(&s)) {
        status = status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory");
    } else {
        uint32_t index = 0;
        plan_builder_enter(builder);
        for (uint64_t offset = 0; offset < spec->count; offset += s.slice_count, index++) {
            uint64_t left = spec->count - offset;
            struct slice slice = {offset, left < s.slice_count ? left : s.slice_count,
                                  s.slot_count * (index % s.slots), index};
            slice_steps(&s, &slice);
        }
        *slices = index ? index : 1;
    }
    memory_free(s.out);
    memory_free(s.add);
    memory_free(s.in);
    memory_free(s.operands);
    return status;
}
