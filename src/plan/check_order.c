/*
 * The proof of ordering: every two steps of a plan that conflict are ordered by lanes and waits.
 * Owns the vector clocks of that proof. Never knows how the builder came by its waits.
 *
 * One clock a lane: entry m of lane l's clock is one more than the latest step of lane m that is
 * ordered before whatever lane l does next (0: none). A step is ordered behind an earlier one
 * exactly if its lane's clock, joined with those of the steps it waits for, has reached the earlier
 * one's id.
 */
#include <inttypes.h>
#include <string.h>

#include "base/history.h"
#include "base/memory.h"
#include "plan/check.h"

struct order {
    struct check check;
    uint32_t ignore_wait;
    uint32_t *clocks;      /* [lane_count * lane_count] a row a lane */
    struct history *seen;  /* [ranks * PLAN_BUFFERS] */
    uint32_t *waiters;     /* [step_count] that are still to come */
    uint32_t *snapshot_of; /* [step_count] row of the step's clock while it has waiters to come */
    uint32_t *snapshots;   /* rows of lane_count */
    uint32_t *rows_free;   /* a stack */
    uint32_t row_count, free_count;
    uint32_t step, other; /* the step being judged; one that it is not ordered behind */
};

static uint32_t *clock_of(const struct order *o, uint32_t lane) {
    return o->clocks + (size_t)lane * o->check.plan->lane_count;
}

static uint32_t *snapshot_at(const struct order *o, uint32_t row) {
    return o->snapshots + (size_t)row * o->check.plan->lane_count;
}

static bool rows_grow(struct order *o) {
    uint32_t grown = o->row_count ? 2 * o->row_count : 32;
    if (!memory_resize(&o->snapshots, (size_t)grown * o->check.plan->lane_count,
                       sizeof *o->snapshots) ||
        !memory_resize(&o->rows_free, grown, sizeof *o->rows_free))
        return false;
    for (uint32_t row = grown; row > o->row_count; row--)
        o->rows_free[o->free_count++] = row - 1;
    o->row_count = grown;
    return true;
}

/* Keeps the clock of a step for those that wait for it. */
static bool snapshot_take(struct order *o, uint32_t id, const uint32_t *clock) {
    if (o->free_count == 0 && !rows_grow(o))
        return false;
    uint32_t row = o->rows_free[--o->free_count];
    o->snapshot_of[id] = row;
    memcpy(snapshot_at(o, row), clock, o->check.plan->lane_count * sizeof *clock);
    return true;
}

static void snapshot_join(struct order *o, uint32_t id, uint32_t *restrict clock) {
    const uint32_t *restrict from = snapshot_at(o, o->snapshot_of[id]);
    uint32_t lanes = o->check.plan->lane_count;
    for (uint32_t lane = 0; lane < lanes; lane++)
        clock[lane] = clock[lane] > from[lane] ? clock[lane] : from[lane];
    if (--o->waiters[id] == 0)
        o->rows_free[o->free_count++] = o->snapshot_of[id];
}

static ringlet_status count_waiters(struct order *o) {
    const struct plan *plan = o->check.plan;
    for (uint32_t id = 0; id < plan->step_count; id++) {
        const struct plan_step *step = &plan->steps[id];
        ringlet_status status = check_step(&o->check, id);
        if (status)
            return status;
        for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++) {
            if (plan->waits[i] >= id)
                return check_fail(&o->check, id, plan->waits[i],
                                  "waits for step %" PRIu32 ", which is not an earlier one",
                                  plan->waits[i]);
            if (i != o->ignore_wait)
                o->waiters[plan->waits[i]]++;
        }
    }
    return RINGLET_OK;
}

static bool is_ordered(void *context, struct history_access earlier, bool wrote, uint64_t begin,
                       uint64_t end) {
    struct order *o = context;
    (void)wrote, (void)begin, (void)end;
    uint32_t lane = o->check.plan->steps[o->step].lane;
    if (earlier.lane == lane || clock_of(o, lane)[earlier.lane] > earlier.id)
        return true;
    o->other = earlier.id;
    return false;
}

static ringlet_status fail_unordered(struct order *o, struct plan_ref place, bool write) {
    char other[80];
    plan_step_text(o->check.plan, o->other, other, sizeof other);
    return check_fail(&o->check, o->step, o->other,
                      "%s %s of rank %" PRIu32 ", not ordered behind step %" PRIu32 " (%s)",
                      write ? "writes" : "reads", plan_buffer_name(place.buffer), place.rank,
                      o->other, other);
}

/* `place` is where plan_locate() says. */
static ringlet_status touch(struct order *o, struct plan_ref place, uint64_t count, bool write) {
    struct history *seen = &o->seen[(size_t)place.rank * PLAN_BUFFERS + place.buffer];
    struct history_access access = {o->step, o->check.plan->steps[o->step].lane};
    if (count == 0)
        return RINGLET_OK;
    if (!seen->intervals && !history_init(seen))
        return check_out_of_memory();
    switch (
        history_access(seen, place.offset, place.offset + count, access, write, is_ordered, o)) {
    case HISTORY_OK:
        return RINGLET_OK;
    case HISTORY_STOPPED:
        return fail_unordered(o, place, write);
    case HISTORY_OUT_OF_MEMORY:
        break;
    }
    return check_out_of_memory();
}

/* Entry and exit: all that a rank has is written by what comes before and after the call. */
static ringlet_status touch_everything(struct order *o, uint32_t rank) {
    const struct plan *plan = o->check.plan;
    ringlet_status status = RINGLET_OK;
    for (uint32_t buffer = 0; buffer < PLAN_BUFFERS && !status; buffer++) {
        struct plan_ref whole = {0, rank, buffer};
        status = touch(o, plan_locate(&plan->spec, whole), o->check.total[buffer], true);
    }
    return status;
}

static ringlet_status touch_step(struct order *o, const struct plan_step *step) {
    const struct plan *plan = o->check.plan;
    ringlet_status status = RINGLET_OK;
    if (check_refs(step) == 0)
        return touch_everything(o, plan->lanes[step->lane].rank);
    for (uint32_t i = check_refs(step); i > 0 && !status; i--) /* reads, then the write */
        status =
            touch(o, plan_locate(&plan->spec, check_ref(plan, step, i - 1)), step->count, i == 1);
    return status;
}

static ringlet_status check_order(struct order *o) {
    const struct plan *plan = o->check.plan;
    for (uint32_t id = 0; id < plan->step_count; id++) {
        const struct plan_step *step = &plan->steps[id];
        uint32_t *clock = clock_of(o, step->lane);
        for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++)
            if (i != o->ignore_wait)
                snapshot_join(o, plan->waits[i], clock);
        o->step = id;
        ringlet_status status = touch_step(o, step);
        if (status)
            return status;
        clock[step->lane] = id + 1;
        if (o->waiters[id] && !snapshot_take(o, id, clock))
            return check_out_of_memory();
    }
    return RINGLET_OK;
}

static void order_free(struct order *o) {
    for (size_t i = 0; o->seen && i < (size_t)o->check.plan->spec.ranks * PLAN_BUFFERS; i++)
        if (o->seen[i].intervals)
            history_free(&o->seen[i]);
    memory_free(o->seen);
    memory_free(o->clocks);
    memory_free(o->waiters);
    memory_free(o->snapshot_of);
    memory_free(o->snapshots);
    memory_free(o->rows_free);
}

ringlet_status plan_check_order(const struct plan *plan, uint32_t ignore_wait,
                                struct plan_fault *fault) {
    struct order o = {.ignore_wait = ignore_wait};
    check_begin(&o.check, plan, fault);
    o.clocks = memory_zeroed((size_t)plan->lane_count * plan->lane_count, sizeof *o.clocks);
    o.seen = memory_zeroed((size_t)plan->spec.ranks * PLAN_BUFFERS, sizeof *o.seen);
    o.waiters = memory_zeroed(plan->step_count, sizeof *o.waiters);
    o.snapshot_of = memory_zeroed(plan->step_count, sizeof *o.snapshot_of);
    bool complete = o.clocks && o.seen && o.waiters && o.snapshot_of;
    ringlet_status status = complete ? count_waiters(&o) : check_out_of_memory();
    if (!status)
        status = check_order(&o);
    order_free(&o);
    return status;
}
