/*
 * The proof of structure: a plan's tables agree with each other and with the rules of plan.h; and
 * what the three proofs share. Owns the meaning of "well formed". Never asks whether the plan
 * computes the right thing.
 */
#include "plan/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

void check_begin(struct check *check, const struct plan *plan, struct plan_fault *fault) {
    check->plan = plan;
    check->fault = fault ? fault : &check->own;
    *check->fault = (struct plan_fault){PLAN_NONE, PLAN_NONE, ""};
    for (uint32_t buffer = 0; buffer < PLAN_BUFFERS; buffer++)
        check->total[buffer] = plan_buffer_count(plan, (enum plan_buffer)buffer);
}

ringlet_status check_fail(struct check *check, uint32_t step, uint32_t other, const char *format,
                          ...) {
    struct plan_fault *fault = check->fault;
    char who[112];
    size_t used = 0;
    fault->step = step;
    fault->other = other;
    if (step != PLAN_NONE) {
        plan_step_text(check->plan, step, who, sizeof who);
        used =
            (size_t)snprintf(fault->text, sizeof fault->text, "step %" PRIu32 " (%s) ", step, who);
    }
    va_list list;
    va_start(list, format);
    vsnprintf(fault->text + used, sizeof fault->text - used, format, list);
    va_end(list);
    return status_fail(RINGLET_PARSE_ERROR, "%s", fault->text);
}

ringlet_status check_out_of_memory(void) {
    return status_fail(RINGLET_OUT_OF_MEMORY, "out of memory while proving a plan");
}

static ringlet_status check_place(struct check *check, uint32_t id, struct plan_ref ref) {
    uint64_t count = check->plan->steps[id].count;
    if (ref.rank >= check->plan->spec.ranks)
        return check_fail(check, id, PLAN_NONE, "names rank %" PRIu32 " of %" PRIu32, ref.rank,
                          check->plan->spec.ranks);
    if (ref.buffer >= PLAN_BUFFERS)
        return check_fail(check, id, PLAN_NONE, "names unknown buffer %" PRIu32, ref.buffer);
    uint64_t total = check->total[ref.buffer];
    if (count > total || ref.offset > total - count)
        return check_fail(check, id, PLAN_NONE,
                          "leaves %s of rank %" PRIu32 ", which holds %" PRIu64 " elements",
                          plan_buffer_name(ref.buffer), ref.rank, total);
    return RINGLET_OK;
}

ringlet_status check_step(struct check *check, uint32_t id) {
    const struct plan *plan = check->plan;
    const struct plan_step *step = &plan->steps[id];
    if (step->lane >= plan->lane_count || plan->lanes[step->lane].rank >= plan->spec.ranks)
        return check_fail(check, id, PLAN_NONE, "is on a lane that is none");
    if (step->op > PLAN_LEAVE)
        return check_fail(check, id, PLAN_NONE, "has no known operation");
    if (step->wait_count > plan->wait_count ||
        step->wait_first > plan->wait_count - step->wait_count)
        return check_fail(check, id, PLAN_NONE, "has waits beyond the plan's");
    if (step->op == PLAN_REDUCE && (step->more_count > plan->more_count ||
                                    step->more_first > plan->more_count - step->more_count))
        return check_fail(check, id, PLAN_NONE, "has operands beyond the plan's");
    ringlet_status status = RINGLET_OK;
    for (uint32_t i = 0; i < check_refs(step) && !status; i++)
        status = check_place(check, id, check_ref(plan, step, i));
    return status;
}

/* What the walk over the steps has seen. */
struct structure {
    struct check check;
    uint32_t *main_lane;    /* [ranks] PLAN_NONE: none yet */
    uint32_t *last_on_lane; /* [lane_count] PLAN_NONE: none yet */
    uint8_t *wait_used;     /* [wait_count] */
    uint8_t *waited_for;    /* [step_count] */
    uint8_t *event_used;    /* [step_count], rank r's from program_first[r] */
    uint32_t *position;     /* [rings * ranks] of each rank on each ring */
};

static ringlet_status check_lanes(struct structure *s) {
    const struct plan *plan = s->check.plan;
    memset(s->main_lane, 0xff, plan->spec.ranks * sizeof *s->main_lane);
    memset(s->last_on_lane, 0xff, plan->lane_count * sizeof *s->last_on_lane);
    for (uint32_t i = 0; i < plan->lane_count; i++) {
        const struct plan_lane *lane = &plan->lanes[i];
        if (lane->rank >= plan->spec.ranks || lane->kind > PLAN_ADD ||
            lane->ring >= plan->spec.rings)
            return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                              "lane %" PRIu32 " has a rank, kind or ring that is none", i);
        if (lane->kind != PLAN_MAIN)
            continue;
        if (s->main_lane[lane->rank] != PLAN_NONE)
            return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                              "rank %" PRIu32 " has two main lanes", lane->rank);
        s->main_lane[lane->rank] = i;
    }
    for (uint32_t rank = 0; rank < plan->spec.ranks; rank++)
        if (s->main_lane[rank] == PLAN_NONE)
            return check_fail(&s->check, PLAN_NONE, PLAN_NONE, "rank %" PRIu32 " has no main lane",
                              rank);
    return RINGLET_OK;
}

/* Programs hold each rank's steps, all of them, in order; so the rest may rely on them. */
static ringlet_status check_programs(struct structure *s) {
    const struct plan *plan = s->check.plan;
    const uint32_t *first = plan->program_first;
    if (first[0] != 0 || first[plan->spec.ranks] != plan->step_count)
        return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                          "the programs do not hold as many steps as the plan");
    for (uint32_t rank = 0; rank < plan->spec.ranks; rank++)
        if (first[rank] > first[rank + 1])
            return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                              "the program of rank %" PRIu32 " ends before it begins", rank);
    for (uint32_t rank = 0; rank < plan->spec.ranks; rank++) {
        for (uint32_t i = first[rank]; i < first[rank + 1]; i++) {
            uint32_t id = plan->program[i];
            if (id >= plan->step_count || plan->lanes[plan->steps[id].lane].rank != rank)
                return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                                  "the program of rank %" PRIu32 " holds step %" PRIu32
                                  ", which is not its own",
                                  rank, id);
            if (i > first[rank] && id <= plan->program[i - 1])
                return check_fail(&s->check, id, plan->program[i - 1],
                                  "is not in sequential order in its program");
            if (plan->steps[id].position != i - first[rank])
                return check_fail(&s->check, id, PLAN_NONE,
                                  "has position %" PRIu32 ", its program says %" PRIu32,
                                  plan->steps[id].position, i - first[rank]);
        }
    }
    return RINGLET_OK;
}

/* Enter is the first step of a rank's main lane, leave the last, and there are no others. */
static ringlet_status check_contract(struct structure *s, uint32_t id) {
    const struct plan *plan = s->check.plan;
    const struct plan_step *step = &plan->steps[id];
    uint32_t before = s->last_on_lane[step->lane];
    bool is_main = plan->lanes[step->lane].kind == PLAN_MAIN;
    s->last_on_lane[step->lane] = id;
    if ((step->op == PLAN_ENTER || step->op == PLAN_LEAVE) && !is_main)
        return check_fail(&s->check, id, PLAN_NONE, "is not on a main lane");
    if (step->op == PLAN_ENTER && before != PLAN_NONE)
        return check_fail(&s->check, id, before, "is not the first of its main lane");
    if (step->op != PLAN_ENTER && is_main && before == PLAN_NONE)
        return check_fail(&s->check, id, PLAN_NONE, "comes before its main lane has entered");
    if (before != PLAN_NONE && plan->steps[before].op == PLAN_LEAVE)
        return check_fail(&s->check, id, before, "comes after its main lane has left");
    return RINGLET_OK;
}

static ringlet_status check_left(struct structure *s) {
    const struct plan *plan = s->check.plan;
    for (uint32_t rank = 0; rank < plan->spec.ranks; rank++) {
        uint32_t last = s->last_on_lane[s->main_lane[rank]];
        if (last == PLAN_NONE || plan->steps[last].op != PLAN_LEAVE)
            return check_fail(&s->check, PLAN_NONE, PLAN_NONE, "rank %" PRIu32 " does not leave",
                              rank);
    }
    return RINGLET_OK;
}

static ringlet_status check_waits(struct structure *s, uint32_t id) {
    const struct plan *plan = s->check.plan;
    const struct plan_step *step = &plan->steps[id];
    for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++) {
        uint32_t wait = plan->waits[i];
        if (s->wait_used[i])
            return check_fail(&s->check, id, PLAN_NONE, "shares wait %" PRIu32 " with another step",
                              i);
        s->wait_used[i] = 1;
        if (wait >= id)
            return check_fail(&s->check, id, wait,
                              "waits for step %" PRIu32 ", which is not an earlier one", wait);
        if (plan->steps[wait].lane == step->lane)
            return check_fail(&s->check, id, wait, "waits for step %" PRIu32 " of its own lane",
                              wait);
        if (plan->steps[wait].event == PLAN_NONE)
            return check_fail(&s->check, id, wait, "waits for step %" PRIu32 ", which has no event",
                              wait);
        s->waited_for[wait] = 1;
    }
    return RINGLET_OK;
}

/* Events are those of the steps waited for, numbered by rank without a gap. */
static ringlet_status check_events(struct structure *s) {
    const struct plan *plan = s->check.plan;
    for (uint32_t i = 0; i < plan->wait_count; i++)
        if (!s->wait_used[i])
            return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                              "wait %" PRIu32 " belongs to no step", i);
    for (uint32_t rank = 0; rank < plan->spec.ranks; rank++) {
        uint32_t first = plan->program_first[rank], events = 0;
        for (uint32_t i = first; i < plan->program_first[rank + 1]; i++) {
            uint32_t id = plan->program[i], event = plan->steps[id].event;
            if (event == PLAN_NONE)
                continue;
            if (!s->waited_for[id])
                return check_fail(&s->check, id, PLAN_NONE, "has an event that nobody waits for");
            if (event >= plan->event_count[rank])
                return check_fail(&s->check, id, PLAN_NONE,
                                  "has event %" PRIu32 ", its rank has %" PRIu32, event,
                                  plan->event_count[rank]);
            if (event >= plan->program_first[rank + 1] - first || s->event_used[first + event])
                return check_fail(&s->check, id, PLAN_NONE, "has event %" PRIu32 " of another step",
                                  event);
            s->event_used[first + event] = 1;
            events++;
        }
        if (events != plan->event_count[rank])
            return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                              "rank %" PRIu32 " has %" PRIu32 " events and uses %" PRIu32, rank,
                              plan->event_count[rank], events);
    }
    return RINGLET_OK;
}

static uint32_t rank_at(const struct plan_spec *spec, uint32_t ring, uint32_t position) {
    return spec->order ? spec->order[(size_t)ring * spec->ranks + position] : position;
}

static ringlet_status note_positions(struct structure *s) {
    const struct plan_spec *spec = &s->check.plan->spec;
    for (uint32_t ring = 0; ring < spec->rings; ring++) {
        for (uint32_t position = 0; position < spec->ranks; position++) {
            uint32_t rank = rank_at(spec, ring, position);
            if (rank >= spec->ranks)
                return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                                  "ring %" PRIu32 " names rank %" PRIu32, ring, rank);
            s->position[(size_t)ring * spec->ranks + rank] = position;
        }
    }
    return RINGLET_OK;
}

/* Whether some ring has an edge between two ranks that may be copied over directly. */
static bool has_direct_edge(const struct structure *s, uint32_t from, uint32_t to) {
    const struct plan_spec *spec = &s->check.plan->spec;
    if (spec->algorithm != PLAN_RING)
        return spec->algorithm == PLAN_DIRECT;
    for (uint32_t ring = 0; ring < spec->rings; ring++) {
        size_t row = (size_t)ring * spec->ranks;
        uint32_t position = s->position[row + from];
        bool staged = spec->staged && spec->staged[row + position];
        if (!staged && rank_at(spec, ring, (position + 1) % spec->ranks) == to)
            return true;
    }
    return false;
}

/* Operands are where the step can reach them: a copy between devices keeps to the rings' edges that
 * are not staged, a kernel to its own device, the CPU to host memory. */
static ringlet_status check_reach(struct structure *s, uint32_t id) {
    const struct plan *plan = s->check.plan;
    const struct plan_step *step = &plan->steps[id];
    uint32_t home = plan->lanes[step->lane].rank, refs = check_refs(step);
    bool host = step->dst.buffer == PLAN_HOST;
    if (refs == 0)
        return step->count == 0 ? RINGLET_OK
                                : check_fail(&s->check, id, PLAN_NONE, "moves something");
    if (step->count == 0)
        return check_fail(&s->check, id, PLAN_NONE, "moves nothing");
    if (step->op == PLAN_COPY) {
        if (step->a.rank != home && step->dst.rank != home)
            return check_fail(&s->check, id, PLAN_NONE, "copies between two other ranks");
        bool direct = !host && step->a.buffer != PLAN_HOST && step->a.rank != step->dst.rank;
        if (direct && !has_direct_edge(s, step->a.rank, step->dst.rank))
            return check_fail(&s->check, id, PLAN_NONE,
                              "copies between devices where no ring has a direct edge");
        return RINGLET_OK;
    }
    for (uint32_t i = 0; i < refs; i++) {
        struct plan_ref ref = check_ref(plan, step, i);
        if ((ref.buffer == PLAN_HOST) != host || (!host && ref.rank != home))
            return check_fail(&s->check, id, PLAN_NONE, "adds what is not in one memory");
    }
    return RINGLET_OK;
}

static ringlet_status check_bounds(struct structure *s) {
    const struct plan *plan = s->check.plan;
    if (plan->scratch_used > plan->spec.scratch_count || plan->host_used > plan->spec.host_count)
        return check_fail(&s->check, PLAN_NONE, PLAN_NONE,
                          "scratch in use is beyond the bound: %" PRIu64 " of %" PRIu64
                          ", in host memory %" PRIu64 " of %" PRIu64,
                          plan->scratch_used, plan->spec.scratch_count, plan->host_used,
                          plan->spec.host_count);
    return RINGLET_OK;
}

static ringlet_status check_structure(struct structure *s) {
    const struct plan *plan = s->check.plan;
    ringlet_status status = check_bounds(s);
    if (!status)
        status = note_positions(s);
    if (!status)
        status = check_lanes(s);
    for (uint32_t id = 0; id < plan->step_count && !status; id++)
        status = check_step(&s->check, id);
    if (!status)
        status = check_programs(s);
    for (uint32_t id = 0; id < plan->step_count && !status; id++) {
        status = check_contract(s, id);
        if (!status)
            status = check_waits(s, id);
        if (!status)
            status = check_reach(s, id);
    }
    if (!status)
        status = check_left(s);
    return status ? status : check_events(s);
}

static void structure_free(struct structure *s) {
    memory_free(s->main_lane);
    memory_free(s->last_on_lane);
    memory_free(s->wait_used);
    memory_free(s->waited_for);
    memory_free(s->event_used);
    memory_free(s->position);
}

ringlet_status plan_check_structure(const struct plan *plan, struct plan_fault *fault) {
    struct structure s = {0};
    check_begin(&s.check, plan, fault);
    s.main_lane = memory_zeroed(plan->spec.ranks, sizeof *s.main_lane);
    s.last_on_lane = memory_zeroed(plan->lane_count, sizeof *s.last_on_lane);
    s.wait_used = memory_zeroed(plan->wait_count, 1);
    s.waited_for = memory_zeroed(plan->step_count, 1);
    s.event_used = memory_zeroed(plan->step_count, 1);
    s.position = memory_zeroed((size_t)plan->spec.rings * plan->spec.ranks, sizeof *s.position);
    bool complete =
        s.main_lane && s.last_on_lane && s.wait_used && s.waited_for && s.event_used && s.position;
    ringlet_status status = complete ? check_structure(&s) : check_out_of_memory();
    structure_free(&s);
    return status;
}
