/*
 * Modelled time of a plan on a machine: discrete events, no data.
 * Owns the replay of a plan in time order. Never knows rates: how long a step takes and what it
 * occupies is the topology's to say.
 *
 * A step is ready when its lane's step before and all that it waits for have ended. Of the ready
 * steps the one that is ready first (of several, the earlier step) takes its resources: it starts
 * when they are free too. A heap holds the ready steps, at most one a lane.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "plan/plan.h"
#include "topology/topology.h"

struct ready {
    double at_ns;
    uint32_t step;
};

struct replay {
    const struct plan *plan;
    const struct topology *machine;
    double *end_ns;    /* [step_count]; before a step runs: when it is ready, as far as known */
    double *start_ns;  /* [step_count] or NULL */
    uint32_t *missing; /* [step_count] steps that it still waits for */
    uint32_t *next_on_lane;    /* [step_count] */
    uint32_t *waiter_first;    /* [step_count + 1] into waiters */
    uint32_t *waiters;         /* [wait_count] */
    struct ready *heap;        /* [lane_count] */
    double *free_ns, *busy_ns; /* [resources] */
    uint32_t heap_count;
    struct plan_cost cost;
};

static bool is_before(struct ready a, struct ready b) {
    return a.at_ns < b.at_ns || (a.at_ns == b.at_ns && a.step < b.step);
}

static void heap_push(struct replay *r, struct ready entry) {
    uint32_t i = r->heap_count++;
    for (; i > 0 && is_before(entry, r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = entry;
}

static struct ready heap_pop(struct replay *r) {
    struct ready first = r->heap[0], last = r->heap[--r->heap_count];
    uint32_t i = 0, child = 1;
    for (; child < r->heap_count; child = 2 * i + 1) {
        if (child + 1 < r->heap_count && is_before(r->heap[child + 1], r->heap[child]))
            child++;
        if (!is_before(r->heap[child], last))
            break;
        r->heap[i] = r->heap[child];
        i = child;
    }
    r->heap[i] = last;
    return first;
}

static ringlet_status out_of_memory(void) {
    return status_fail(RINGLET_OUT_OF_MEMORY, "out of memory for the modelled time of a plan");
}

static ringlet_status check_steps(const struct plan *plan) {
    for (uint32_t id = 0; id < plan->step_count; id++) {
        const struct plan_step *step = &plan->steps[id];
        uint32_t ranks = plan->spec.ranks;
        bool moves = step->op == PLAN_COPY || step->op == PLAN_REDUCE;
        if (step->lane >= plan->lane_count ||
            (moves && (step->dst.rank >= ranks || step->a.rank >= ranks)))
            return status_fail(RINGLET_PARSE_ERROR,
                               "step %" PRIu32 " names a lane or rank that is none", id);
    }
    return RINGLET_OK;
}

/* Who waits for whom, turned round: by counting, then filling from the back. */
static ringlet_status link_waiters(struct replay *r) {
    const struct plan *plan = r->plan;
    for (uint32_t id = 0; id < plan->step_count; id++) {
        const struct plan_step *step = &plan->steps[id];
        r->missing[id] = step->wait_count;
        for (uint32_t i = 0; i < step->wait_count; i++) {
            uint64_t index = (uint64_t)step->wait_first + i;
            if (index >= plan->wait_count || plan->waits[index] >= id)
                return status_fail(RINGLET_PARSE_ERROR,
                                   "step %" PRIu32 " waits for something that is no earlier step",
                                   id);
            r->waiter_first[plan->waits[index]]++;
        }
    }
    for (uint32_t id = 0, sum = 0; id <= plan->step_count; id++)
        r->waiter_first[id] = sum += id < plan->step_count ? r->waiter_first[id] : 0;
    for (uint32_t id = plan->step_count; id-- > 0;) {
        const struct plan_step *step = &plan->steps[id];
        for (uint32_t i = 0; i < step->wait_count; i++)
            r->waiters[--r->waiter_first[plan->waits[step->wait_first + i]]] = id;
    }
    return RINGLET_OK;
}

/* Lanes run in order: each step also waits for the one before it. */
static ringlet_status link_lanes(struct replay *r) {
    const struct plan *plan = r->plan;
    uint32_t *last = memory_zeroed(plan->lane_count, sizeof *last);
    if (!last)
        return out_of_memory();
    memset(last, 0xff, plan->lane_count * sizeof *last);
    for (uint32_t id = 0; id < plan->step_count; id++) {
        uint32_t lane = plan->steps[id].lane;
        r->next_on_lane[id] = PLAN_NONE;
        if (last[lane] != PLAN_NONE) {
            r->next_on_lane[last[lane]] = id;
            r->missing[id]++;
        }
        last[lane] = id;
    }
    memory_free(last);
    return RINGLET_OK;
}

static int place_of(struct plan_ref ref) {
    return ref.buffer == PLAN_HOST ? TOPOLOGY_HOST : (int)ref.rank;
}

/* Starts and ends a copy that is ready at at_ns; gives its end. */
static double run_copy(struct replay *r, const struct plan_step *step, double *start_ns) {
    int from = place_of(step->a), to = place_of(step->dst);
    uint64_t bytes = step->count * r->plan->spec.element_bytes;
    uint32_t resources[TOPOLOGY_RESOURCES_MAX];
    uint32_t count = topology_copy_resources(r->machine, from, to, resources);
    double duration = topology_copy_ns(r->machine, from, to, bytes);
    for (uint32_t i = 0; i < count; i++)
        if (*start_ns < r->free_ns[resources[i]])
            *start_ns = r->free_ns[resources[i]];
    for (uint32_t i = 0; i < count; i++) {
        r->free_ns[resources[i]] = *start_ns + duration;
        r->busy_ns[resources[i]] += duration;
    }
    if (from != to)
        r->cost.link_bytes += bytes;
    return *start_ns + duration;
}

/* Tells step `id` that one of those it waits for ended at end_ns. */
static void tell(struct replay *r, uint32_t id, double end_ns) {
    if (r->end_ns[id] < end_ns)
        r->end_ns[id] = end_ns;
    if (--r->missing[id] == 0)
        heap_push(r, (struct ready){r->end_ns[id], id});
}

static void run_step(struct replay *r, struct ready next) {
    const struct plan_step *step = &r->plan->steps[next.step];
    double start_ns = next.at_ns, end_ns = start_ns;
    if (step->op == PLAN_COPY)
        end_ns = run_copy(r, step, &start_ns);
    else if (step->op == PLAN_REDUCE)
        end_ns = start_ns + topology_sum_ns(r->machine, place_of(step->dst),
                                            step->count * r->plan->spec.element_bytes,
                                            plan_operands(step));
    r->end_ns[next.step] = end_ns;
    if (r->start_ns)
        r->start_ns[next.step] = start_ns;
    if (step->op == PLAN_LEAVE && r->cost.total_ns < end_ns)
        r->cost.total_ns = end_ns;
    if (r->next_on_lane[next.step] != PLAN_NONE)
        tell(r, r->next_on_lane[next.step], end_ns);
    for (uint32_t i = r->waiter_first[next.step]; i < r->waiter_first[next.step + 1]; i++)
        tell(r, r->waiters[i], end_ns);
}

static ringlet_status run_all(struct replay *r) {
    ringlet_status status = check_steps(r->plan);
    if (!status)
        status = link_waiters(r);
    if (!status)
        status = link_lanes(r);
    if (status)
        return status;
    for (uint32_t id = 0; id < r->plan->step_count; id++)
        r->end_ns[id] = 0;
    for (uint32_t id = 0; id < r->plan->step_count; id++)
        if (r->missing[id] == 0)
            heap_push(r, (struct ready){0, id});
    while (r->heap_count > 0)
        run_step(r, heap_pop(r));
    for (uint32_t i = 0; i < topology_resource_count(r->machine); i++)
        if (r->cost.link_busy_ns < r->busy_ns[i])
            r->cost.link_busy_ns = r->busy_ns[i];
    return RINGLET_OK;
}

static bool replay_allocate(struct replay *r, double *end_ns) {
    size_t steps = r->plan->step_count, resources = topology_resource_count(r->machine);
    r->end_ns = end_ns ? end_ns : memory_zeroed(steps, sizeof *r->end_ns);
    r->missing = memory_zeroed(steps, sizeof *r->missing);
    r->next_on_lane = memory_zeroed(steps, sizeof *r->next_on_lane);
    r->waiter_first = memory_zeroed(steps + 1, sizeof *r->waiter_first);
    r->waiters = memory_zeroed(r->plan->wait_count, sizeof *r->waiters);
    r->heap = memory_zeroed(r->plan->lane_count, sizeof *r->heap);
    r->free_ns = memory_zeroed(resources, sizeof *r->free_ns);
    r->busy_ns = memory_zeroed(resources, sizeof *r->busy_ns);
    return r->end_ns && r->missing && r->next_on_lane && r->waiter_first && r->waiters && r->heap &&
           r->free_ns && r->busy_ns;
}

static void replay_free(struct replay *r, const double *callers_end_ns) {
    if (r->end_ns != callers_end_ns)
        memory_free(r->end_ns);
    memory_free(r->missing);
    memory_free(r->next_on_lane);
    memory_free(r->waiter_first);
    memory_free(r->waiters);
    memory_free(r->heap);
    memory_free(r->free_ns);
    memory_free(r->busy_ns);
}

ringlet_status plan_cost(const struct plan *plan, const struct topology *machine,
                         struct plan_cost *out, double *start_ns, double *end_ns) {
    if (machine->gpus < plan->spec.ranks)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "machine %s has %" PRIu32 " GPUs, the plan %" PRIu32
                           " ranks; name a machine with at least as many",
                           machine->name, machine->gpus, plan->spec.ranks);
    struct replay replay = {.plan = plan, .machine = machine, .start_ns = start_ns};
    ringlet_status status = replay_allocate(&replay, end_ns) ? run_all(&replay) : out_of_memory();
    if (!status)
        *out = replay.cost;
    replay_free(&replay, end_ns);
    return status;
}
