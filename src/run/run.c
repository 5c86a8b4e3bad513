#include "run/run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

_Static_assert((int)PLAN_OPERANDS_MAX <= (int)DEVICE_INPUTS_MAX, "a step is one reduction");
enum { LANE_KINDS = 3 }; /* those with streams of ours: PLAN_OUT, PLAN_IN, PLAN_ADD */

struct run_rank {
    /* call number << 32 | steps of it enqueued; written by whoever drives this rank */
    _Alignas(64) _Atomic uint64_t progress;
    int device;
    /* NULL: not made yet. Set once, while another thread may be draining. */
    _Atomic(ringlet_stream) streams[LANE_KINDS][PLAN_RINGS_MAX];
    struct device_event **events;
    uint32_t event_count;
    struct device_event *left; /* behind the latest call's LEAVE, or what became of it */
    _Atomic bool has_left;
    ringlet_stream drain; /* to wait for `left` on */
    void *scratch;
    void *host;
};

struct run {
    struct device_system *system;
    uint32_t ranks;
    uint64_t scratch_bytes, host_bytes;
    struct run_rank *rank;
};

static const struct device_ops *ops_of(const struct run *run) {
    return run->system->ops;
}

/* ---- resources ---- */

static ringlet_status rank_start(struct run *run, struct run_rank *rank) {
    const struct device_ops *ops = ops_of(run);
    int saved;
    ringlet_status status = ops->bind(run->system, rank->device, &saved);
    if (status)
        return status;
    status = ops->event_create(run->system, rank->device, &rank->left);
    if (!status)
        status = ops->stream_create(run->system, rank->device, &rank->drain);
    if (!status && run->scratch_bytes)
        status = ops->memory_alloc(run->system, rank->device, run->scratch_bytes, &rank->scratch);
    ops->unbind(run->system, saved);
    return status;
}

ringlet_status run_create(struct run **out, struct device_system *system, const int *devices,
                          uint32_t ranks, uint64_t scratch_bytes, uint64_t host_bytes) {
    struct run *run = memory_zeroed(1, sizeof *run);
    struct run_rank *rank = memory_lines(ranks, sizeof *rank);
    if (!run || !rank) {
        memory_free(run);
        memory_free(rank);
        return status_fail(RINGLET_OUT_OF_MEMORY, "out of host memory for %u ranks", ranks);
    }
    *run = (struct run){system, ranks, scratch_bytes, host_bytes, rank};
    ringlet_status status = RINGLET_OK;
    for (uint32_t r = 0; r < ranks; r++)
        run->rank[r].device = devices[r];
    for (uint32_t r = 0; r < ranks && !status; r++)
        status = rank_start(run, &run->rank[r]);
    if (status)
        run_destroy(&run, 0);
    else
        *out = run;
    return status;
}

static ringlet_status events_grow(struct run *run, struct run_rank *rank, uint32_t count) {
    if (count <= rank->event_count)
        return RINGLET_OK;
    if (!memory_resize(&rank->events, count, sizeof *rank->events))
        return status_fail(RINGLET_OUT_OF_MEMORY, "out of host memory for %u events", count);
    ringlet_status status = RINGLET_OK;
    while (rank->event_count < count && !status) {
        status =
            ops_of(run)->event_create(run->system, rank->device, &rank->events[rank->event_count]);
        rank->event_count += !status;
    }
    return status;
}

static ringlet_status host_start(struct run *run, struct run_rank *rank) {
    return rank->host ? RINGLET_OK
                      : ops_of(run)->host_alloc(run->system, run->host_bytes, &rank->host);
}

ringlet_status run_host_start(struct run *run) {
    ringlet_status status = RINGLET_OK;
    for (uint32_t r = 0; r < run->ranks && !status; r++)
        status = host_start(run, &run->rank[r]);
    return status;
}

static bool uses_host(const struct plan *plan) {
    return plan->host_used > 0;
}

static ringlet_status rank_prepare(struct run *run, const struct plan *plan, uint32_t r) {
    struct run_rank *rank = &run->rank[r];
    const struct device_ops *ops = ops_of(run);
    int saved;
    ringlet_status status = ops->bind(run->system, rank->device, &saved);
    if (status)
        return status;
    status = events_grow(run, rank, plan->event_count[r]);
    for (uint32_t i = 0; i < plan->lane_count && !status; i++) {
        const struct plan_lane *lane = &plan->lanes[i];
        if (lane->rank != r || lane->kind == PLAN_MAIN)
            continue;
        _Atomic(ringlet_stream) *stream = &rank->streams[lane->kind - 1][lane->ring];
        ringlet_stream made;
        if (atomic_load(stream))
            continue;
        status = ops->stream_create(run->system, rank->device, &made);
        if (!status)
            atomic_store(stream, made);
    }
    if (!status && uses_host(plan))
        status = host_start(run, rank);
    ops->unbind(run->system, saved);
    return status;
}

ringlet_status run_prepare(struct run *run, const struct plan *plan) {
    ringlet_status status = RINGLET_OK;
    for (uint32_t r = 0; r < run->ranks && !status; r++)
        status = rank_prepare(run, plan, r);
    return status;
}

uint64_t run_host_bytes(const struct run *run) {
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < run->ranks; r++)
        bytes += run->rank[r].host ? run->host_bytes : 0;
    return bytes;
}

/* ---- the end ---- */

/* The first of two errors, except that something may still run: that must not be lost. */
static ringlet_status first_of(ringlet_status first, ringlet_status then) {
    return first && then != RINGLET_TIMEOUT ? first : then;
}

/* Waits for the rank's streams, and for what its latest call put on the caller's stream. Goes on
 * behind an error, so that as much as possible is at rest; the first error is reported. */
static ringlet_status rank_drain(struct run *run, struct run_rank *rank, int64_t timeout_ms) {
    struct device_queue queue = {rank->device, rank->drain};
    ringlet_status status = RINGLET_OK;
    if (atomic_load(&rank->has_left)) {
        status = ops_of(run)->wait(run->system, queue, rank->left);
        if (!status)
            status = device_wait(run->system, queue, timeout_ms, NULL, NULL);
    }
    for (int kind = 0; kind < LANE_KINDS; kind++)
        for (int ring = 0; ring < PLAN_RINGS_MAX; ring++) {
            queue.stream = rank->streams[kind][ring];
            if (queue.stream && status != RINGLET_TIMEOUT)
                status = first_of(status, device_wait(run->system, queue, timeout_ms, NULL, NULL));
        }
    return status;
}

ringlet_status run_drain(struct run *run, int64_t timeout_ms) {
    ringlet_status status = RINGLET_OK;
    for (uint32_t r = 0; r < run->ranks && status != RINGLET_TIMEOUT; r++) {
        ringlet_status drained = rank_drain(run, &run->rank[r], timeout_ms);
        if (drained == RINGLET_TIMEOUT)
            status = status_fail(drained, "rank %u (device %d) is still busy after %lld ms", r,
                                 run->rank[r].device, (long long)timeout_ms);
        else
            status = first_of(status, drained);
    }
    return status;
}

/* Frees what can be freed whatever happens; the first error is reported. */
static ringlet_status rank_stop(struct run *run, struct run_rank *rank) {
    const struct device_ops *ops = ops_of(run);
    struct device_system *system = run->system;
    int device = rank->device, saved;
    ringlet_status status = ops->bind(system, device, &saved);
    bool bound = !status;
    for (int kind = 0; kind < LANE_KINDS; kind++)
        for (int ring = 0; ring < PLAN_RINGS_MAX; ring++)
            if (rank->streams[kind][ring])
                status = first_of(status,
                                  ops->stream_destroy(system, device, rank->streams[kind][ring]));
    if (rank->drain)
        status = first_of(status, ops->stream_destroy(system, device, rank->drain));
    for (uint32_t i = 0; i < rank->event_count; i++)
        status = first_of(status, ops->event_destroy(system, device, rank->events[i]));
    if (rank->left)
        status = first_of(status, ops->event_destroy(system, device, rank->left));
    status = first_of(status, ops->memory_free(system, device, rank->scratch));
    status = first_of(status, ops->host_free(system, rank->host));
    if (bound)
        ops->unbind(system, saved);
    return status;
}

ringlet_status run_destroy(struct run **pointer, int64_t timeout_ms) {
    struct run *run = *pointer;
    ringlet_status status = RINGLET_OK;
    if (!run)
        return RINGLET_OK;
    *pointer = NULL;
    status = run_drain(run, timeout_ms);
    if (status == RINGLET_TIMEOUT) {
        char text[160];
        snprintf(text, sizeof text, "%s", status_message());
        status_fail(
            status,
            "%s: scratch (%llu bytes a rank), streams and events of all ranks stay allocated", text,
            (unsigned long long)run->scratch_bytes);
    }
    for (uint32_t r = 0; r < run->ranks; r++) {
        if (status != RINGLET_TIMEOUT) {
            status = first_of(status, rank_stop(run, &run->rank[r]));
        }
        memory_free(run->rank[r].events);
    }
    memory_free(run->rank);
    memory_free(run);
    return status;
}

/* ---- enqueuing ---- */

static int place_of(const struct run *run, struct plan_ref ref) {
    return ref.buffer == PLAN_HOST ? DEVICE_HOST : run->rank[ref.rank].device;
}

static void *address_of(const struct run_part *part, struct plan_ref ref) {
    const struct run_rank *rank = &part->run->rank[ref.rank];
    const struct run_buffers *buffers = &part->buffers[ref.rank];
    void *base = NULL;
    switch ((enum plan_buffer)ref.buffer) {
    case PLAN_SEND:
        base = (void *)(uintptr_t)buffers->send; /* read, or in place and so the receive buffer */
        break;
    case PLAN_RECV:
        base = buffers->recv;
        break;
    case PLAN_SCRATCH:
        base = rank->scratch;
        break;
    case PLAN_HOST:
        base = rank->host;
        break;
    }
    return (unsigned char *)base + ref.offset * part->call.plan->spec.element_bytes;
}

static struct device_queue queue_of(const struct run_part *part, uint32_t lane_index) {
    const struct plan_lane *lane = &part->call.plan->lanes[lane_index];
    const struct run_rank *rank = &part->run->rank[lane->rank];
    struct device_queue queue = {rank->device, part->buffers[lane->rank].stream};
    if (lane->kind != PLAN_MAIN)
        queue.stream = rank->streams[lane->kind - 1][lane->ring];
    return queue;
}

static uint64_t progress_value(uint32_t call, uint32_t steps) {
    return (uint64_t)call << 32 | steps;
}

void run_start_at(struct run *run, uint32_t number) {
    for (uint32_t r = 0; r < run->ranks; r++)
        atomic_store(&run->rank[r].progress, progress_value(number, UINT32_MAX));
}

uint64_t run_progress(const struct run *run) {
    uint64_t sum = 0;
    for (uint32_t r = 0; r < run->ranks; r++)
        sum += atomic_load_explicit(&run->rank[r].progress, memory_order_relaxed);
    return sum;
}

/* Whether `step` has been enqueued and its event recorded. Values wrap with the call numbers, which
 * never lie more than one apart. */
static bool enqueued(const struct run_part *part, uint32_t step) {
    const struct plan *plan = part->call.plan;
    uint32_t owner = plan->lanes[plan->steps[step].lane].rank;
    uint64_t needed = progress_value(part->call.number, plan->steps[step].position + 1);
    uint64_t now = atomic_load_explicit(&part->run->rank[owner].progress, memory_order_acquire);
    return (int64_t)(now - needed) >= 0;
}

/* Issues the step's waits; false when a peer has not enqueued one yet, or on an error. */
static bool waits_issue(struct run_part *part, const struct plan_step *step,
                        struct device_queue queue, ringlet_status *status) {
    const struct plan *plan = part->call.plan;
    for (; part->waits_done < step->wait_count; part->waits_done++) {
        uint32_t other = plan->waits[step->wait_first + part->waits_done];
        if (!enqueued(part, other))
            return false;
        const struct run_rank *owner = &part->run->rank[plan->lanes[plan->steps[other].lane].rank];
        *status = ops_of(part->run)->wait(part->run->system, queue,
                                          owner->events[plan->steps[other].event]);
        if (*status)
            return false;
    }
    return true;
}

static ringlet_status reduce_issue(const struct run_part *part, const struct plan_step *step,
                                   struct device_queue queue, struct device_tag tag) {
    const struct run_call *call = &part->call;
    const void *inputs[DEVICE_INPUTS_MAX] = {address_of(part, step->a), address_of(part, step->b)};
    struct device_reduction how = {.dtype = call->dtype,
                                   .op = call->op,
                                   .ranks = call->plan->spec.ranks,
                                   .first = step->flags & PLAN_FIRST,
                                   .last = step->flags & PLAN_LAST};
    for (uint32_t i = 0; i < step->more_count; i++)
        inputs[2 + i] = address_of(part, call->plan->more[step->more_first + i]);
    return ops_of(part->run)->reduce(part->run->system, queue, place_of(part->run, step->dst),
                                     address_of(part, step->dst), inputs, plan_operands(step),
                                     step->count, &how, tag);
}

static ringlet_status step_issue(struct run_part *part, uint32_t id, struct device_queue queue) {
    struct run *run = part->run;
    const struct plan_step *step = &part->call.plan->steps[id];
    struct run_rank *rank = &run->rank[part->rank];
    struct device_tag tag = {part->call.number, part->rank, id};
    ringlet_status status = RINGLET_OK;
    switch ((enum plan_op)step->op) {
    case PLAN_ENTER: /* behind the call before, whose stream may have been another */
        return atomic_load_explicit(&rank->has_left, memory_order_relaxed)
                   ? ops_of(run)->wait(run->system, queue, rank->left)
                   : RINGLET_OK;
    case PLAN_COPY:
        return ops_of(run)->copy(run->system, queue, place_of(run, step->dst),
                                 address_of(part, step->dst), place_of(run, step->a),
                                 address_of(part, step->a),
                                 step->count * part->call.plan->spec.element_bytes, tag);
    case PLAN_REDUCE:
        return reduce_issue(part, step, queue, tag);
    case PLAN_LEAVE:
        status = ops_of(run)->record(run->system, queue, rank->left);
        if (!status)
            atomic_store_explicit(&rank->has_left, true, memory_order_relaxed);
        return status;
    }
    return status;
}

enum run_state run_advance(struct run_part *part, uint32_t steps, ringlet_status *status) {
    struct run *run = part->run;
    const struct plan *plan = part->call.plan;
    struct run_rank *rank = &run->rank[part->rank];
    uint32_t first = plan->program_first[part->rank];
    uint32_t length = plan->program_first[part->rank + 1] - first;
    *status = RINGLET_OK;
    for (; part->next < length; part->next++, steps--) {
        if (!steps)
            return RUN_READY;
        uint32_t id = plan->program[first + part->next];
        const struct plan_step *step = &plan->steps[id];
        struct device_queue queue = queue_of(part, step->lane);
        if (!waits_issue(part, step, queue, status))
            return *status ? RUN_FAILED : RUN_BLOCKED;
        *status = step_issue(part, id, queue);
        if (!*status && step->event != PLAN_NONE)
            *status = ops_of(run)->record(run->system, queue, rank->events[step->event]);
        if (*status)
            return RUN_FAILED;
        part->waits_done = 0;
        atomic_store_explicit(&rank->progress, progress_value(part->call.number, part->next + 1),
                              memory_order_release);
    }
    return RUN_DONE;
}

uint32_t run_blocker(const struct run_part *part) {
    const struct plan *plan = part->call.plan;
    uint32_t id = plan->program[plan->program_first[part->rank] + part->next];
    uint32_t other = plan->waits[plan->steps[id].wait_first + part->waits_done];
    return plan->lanes[plan->steps[other].lane].rank;
}

void run_give_up(struct run_part *part) {
    struct run_rank *rank = &part->run->rank[part->rank];
    struct device_queue queue = {rank->device, part->buffers[part->rank].stream};
    if (part->next && !ops_of(part->run)->record(part->run->system, queue, rank->left))
        atomic_store_explicit(&rank->has_left, true, memory_order_relaxed);
}
