#include "plan/plan.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/builder.h"

bool plan_spec_copy(struct plan_spec *to, const struct plan_spec *from) {
    size_t edges = (size_t)from->rings * from->ranks;
    *to = *from;
    to->in_place = from->in_place ? memory_copy(from->in_place, from->ranks, 1) : NULL;
    to->order = from->order ? memory_copy(from->order, edges, sizeof *from->order) : NULL;
    to->staged = from->staged ? memory_copy(from->staged, edges, 1) : NULL;
    if (!to->in_place == !from->in_place && !to->order == !from->order &&
        !to->staged == !from->staged)
        return true;
    plan_spec_free(to);
    return false;
}

void plan_spec_free(struct plan_spec *spec) {
    memory_free((void *)(uintptr_t)spec->in_place);
    memory_free((void *)(uintptr_t)spec->order);
    memory_free((void *)(uintptr_t)spec->staged);
    memset(spec, 0, sizeof *spec);
}

static bool bytes_equal(const uint8_t *a, const uint8_t *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if ((a ? a[i] : 0) != (b ? b[i] : 0))
            return false;
    return true;
}

static uint32_t order_at(const struct plan_spec *spec, size_t i) {
    return spec->order ? spec->order[i] : (uint32_t)(i % spec->ranks);
}

bool plan_spec_equal(const struct plan_spec *a, const struct plan_spec *b) {
    if (a->collective != b->collective || a->algorithm != b->algorithm || a->ranks != b->ranks ||
        a->count != b->count || a->element_bytes != b->element_bytes || a->rings != b->rings ||
        a->root != b->root || a->slices != b->slices || a->granule != b->granule ||
        a->scratch_count != b->scratch_count || a->host_count != b->host_count)
        return false;
    size_t edges = (size_t)a->rings * a->ranks;
    for (size_t i = 0; i < edges; i++)
        if (order_at(a, i) != order_at(b, i))
            return false;
    return bytes_equal(a->in_place, b->in_place, a->ranks) &&
           bytes_equal(a->staged, b->staged, edges);
}

static ringlet_status order_validate(const struct plan_spec *spec, uint32_t ring) {
    uint8_t *seen = memory_zeroed(spec->ranks, 1);
    if (!seen)
        return status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory");
    ringlet_status status = RINGLET_OK;
    for (uint32_t p = 0; p < spec->ranks && !status; p++) {
        uint32_t rank = spec->order[(size_t)ring * spec->ranks + p];
        if (rank >= spec->ranks || seen[rank])
            status =
                status_fail(RINGLET_INVALID_ARGUMENT,
                            "plan: order of ring %u names rank %u at position %u %s; it must name "
                            "every rank once",
                            ring, rank, p, rank < spec->ranks ? "again" : "out of range");
        else
            seen[rank] = 1;
    }
    memory_free(seen);
    return status;
}

static ringlet_status size_validate(const struct plan_spec *spec) {
    bool whole = spec->collective == PLAN_ALL_REDUCE || spec->collective == PLAN_BROADCAST;
    uint64_t parts = whole ? 1 : spec->ranks;
    uint64_t bytes;
    if (__builtin_mul_overflow(spec->count, parts, &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)spec->element_bytes, &bytes) || bytes > INT64_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "count %llu of %u bytes each for %llu ranks overflows 2^63 bytes",
                           (unsigned long long)spec->count, spec->element_bytes,
                           (unsigned long long)parts);
    return RINGLET_OK;
}

static ringlet_status spec_validate(const struct plan_spec *spec) {
    if (spec->collective > PLAN_BROADCAST || spec->algorithm > PLAN_DIRECT)
        return status_fail(RINGLET_INVALID_ARGUMENT, "plan: unknown collective or algorithm");
    if (spec->ranks < 1 || spec->ranks > PLAN_RANKS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT, "plan: %u ranks; there must be 1 to %u",
                           spec->ranks, PLAN_RANKS_MAX);
    if (spec->rings < 1 || spec->rings > PLAN_RINGS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT, "plan: %u rings; there must be 1 to %u",
                           spec->rings, PLAN_RINGS_MAX);
    if (spec->root >= spec->ranks)
        return status_fail(RINGLET_INVALID_ARGUMENT, "root %u is not one of the %u ranks",
                           spec->root, spec->ranks);
    if (spec->algorithm == PLAN_DIRECT && (spec->collective == PLAN_BROADCAST || spec->rings > 1))
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "plan: direct has no broadcast and no rings; use the ring");
    if (!spec->slices || !spec->granule || !spec->element_bytes)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "plan: slices, granule and element size must not be 0");
    ringlet_status status = size_validate(spec);
    for (uint32_t ring = 0; spec->order && ring < spec->rings && !status; ring++)
        status = order_validate(spec, ring);
    return status;
}

/* One rank: its result is its own contribution. */
static void alone_build(struct plan_builder *b, const struct plan_spec *spec) {
    struct plan_ref send = {.buffer = PLAN_SEND}, recv = {.buffer = PLAN_RECV};
    struct plan_label label = {PLAN_PHASE_NONE, 0, 0, 0};
    plan_builder_enter(b);
    if (!spec->in_place || !spec->in_place[0])
        plan_builder_copy(b, 0, recv, send, spec->count, label);
}

ringlet_status plan_build(struct plan **out, const struct plan_spec *spec) {
    ringlet_status status = spec_validate(spec);
    if (status)
        return status;
    struct plan_builder *builder = plan_builder_new(spec);
    if (!builder)
        return status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory");
    uint32_t slices = 1;
    if (spec->ranks == 1)
        alone_build(builder, spec);
    else if (spec->algorithm == PLAN_RING)
        status = plan_ring_build(builder, spec, &slices);
    else if (spec->algorithm == PLAN_DIRECT)
        status = plan_direct_build(builder, spec, &slices);
    else
        status = plan_host_build(builder, spec, &slices);
    if (!status)
        return plan_builder_finish(builder, slices, out);
    plan_builder_drop(builder);
    return status;
}

void plan_free(struct plan *plan) {
    if (!plan)
        return;
    plan_spec_free(&plan->spec);
    memory_free(plan->lanes);
    memory_free(plan->steps);
    memory_free(plan->waits);
    memory_free(plan->more);
    memory_free(plan->program);
    memory_free(plan->program_first);
    memory_free(plan->event_count);
    memory_free(plan);
}

uint64_t plan_buffer_count(const struct plan *plan, enum plan_buffer buffer) {
    const struct plan_spec *spec = &plan->spec;
    switch (buffer) {
    case PLAN_SEND:
        return spec->collective == PLAN_REDUCE_SCATTER ? spec->count * spec->ranks : spec->count;
    case PLAN_RECV:
        return spec->collective == PLAN_ALL_GATHER ? spec->count * spec->ranks : spec->count;
    case PLAN_SCRATCH:
        return plan->scratch_used;
    case PLAN_HOST:
        return plan->host_used;
    }
    return 0;
}

struct plan_ref plan_locate(const struct plan_spec *spec, struct plan_ref ref) {
    if (!spec->in_place || !spec->in_place[ref.rank])
        return ref;
    if (spec->collective == PLAN_ALL_GATHER && ref.buffer == PLAN_SEND) {
        ref.buffer = PLAN_RECV;
        ref.offset += spec->count * ref.rank;
    } else if (spec->collective != PLAN_ALL_GATHER && ref.buffer == PLAN_RECV) {
        ref.buffer = PLAN_SEND;
        if (spec->collective == PLAN_REDUCE_SCATTER)
            ref.offset += spec->count * ref.rank;
    }
    return ref;
}

ringlet_status plan_clone(struct plan **out, const struct plan *plan) {
    struct plan *copy = memory_zeroed(1, sizeof *copy);
    if (!copy)
        return status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory");
    *copy = *plan;
    bool ok = plan_spec_copy(&copy->spec, &plan->spec);
    copy->lanes = memory_copy(plan->lanes, plan->lane_count, sizeof *plan->lanes);
    copy->steps = memory_copy(plan->steps, plan->step_count, sizeof *plan->steps);
    copy->waits = memory_copy(plan->waits, plan->wait_count, sizeof *plan->waits);
    copy->more = memory_copy(plan->more, plan->more_count, sizeof *plan->more);
    copy->program = memory_copy(plan->program, plan->step_count, sizeof *plan->program);
    copy->program_first =
        memory_copy(plan->program_first, (size_t)plan->spec.ranks + 1, sizeof *plan->program_first);
    copy->event_count = memory_copy(plan->event_count, plan->spec.ranks, sizeof *plan->event_count);
    if (!ok || !copy->lanes || !copy->steps || !copy->waits || !copy->more || !copy->program ||
        !copy->program_first || !copy->event_count) {
        plan_free(copy);
        return status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory");
    }
    *out = copy;
    return RINGLET_OK;
}
