#include "plan/builder.h"

#include <string.h>

#include "base/history.h"
#include "base/memory.h"
#include "base/status.h"

enum { CLOCK_BLOCK_STEPS = 256, KNOWN_MAX = 8 };

/* Beyond PLAN_EXACT_RANKS_MAX: what a lane has waited for itself, the latest of a few other lanes.
 * Losing an entry costs a wait too many, never one too few. */
struct known {
    struct {
        uint32_t lane, length;
    } entries[KNOWN_MAX];
    uint32_t used, next;
};

struct candidates { /* what the step being added conflicts with, the latest of each lane */
    uint32_t *steps;
    uint32_t count, capacity;
    uint32_t lane; /* of the step */
};

struct plan_builder {
    struct plan *plan;
    uint32_t ranks;
    uint32_t lane_capacity, step_capacity, wait_capacity, more_capacity;
    struct history *histories; /* [ranks * PLAN_BUFFERS] */
    uint32_t *lane_last;       /* [lanes] latest step, PLAN_NONE before the first */
    uint32_t *lane_length;     /* [lanes] */
    uint32_t *place;           /* [steps] index in its lane */
    uint32_t **clocks; /* exact: blocks of snapshots; clock of a step: how many steps of each lane
                          come before its end, itself included */
    uint32_t clock_blocks;
    uint32_t *clock_now; /* [lanes] of the step being added */
    struct known *known; /* [lanes] not exact */
    struct candidates found;
    bool failed;
};

static struct history *history_of(struct plan_builder *b, uint32_t rank, uint32_t buffer) {
    return &b->histories[(size_t)rank * PLAN_BUFFERS + buffer];
}

struct plan_builder *plan_builder_new(const struct plan_spec *spec) {
    struct plan_builder *b = memory_zeroed(1, sizeof *b);
    if (!b)
        return NULL;
    b->ranks = spec->ranks;
    size_t histories = (size_t)spec->ranks * PLAN_BUFFERS;
    b->histories = memory_zeroed(histories, sizeof *b->histories);
    b->plan = memory_zeroed(1, sizeof *b->plan);
    b->failed = !b->histories || !b->plan || !plan_spec_copy(&b->plan->spec, spec);
    for (size_t i = 0; i < histories && !b->failed; i++)
        b->failed = !history_init(&b->histories[i]);
    if (b->failed) {
        plan_builder_drop(b);
        return NULL;
    }
    b->plan->exact_waits = spec->ranks <= PLAN_EXACT_RANKS_MAX;
    for (uint32_t rank = 0; rank < spec->ranks; rank++)
        plan_builder_lane(b, rank, PLAN_MAIN, 0);
    return b;
}

void plan_builder_drop(struct plan_builder *b) {
    if (!b)
        return;
    for (size_t i = 0; b->histories && i < (size_t)b->ranks * PLAN_BUFFERS; i++)
        history_free(&b->histories[i]);
    for (uint32_t i = 0; i < b->clock_blocks; i++)
        memory_free(b->clocks[i]);
    memory_free(b->histories);
    memory_free(b->lane_last);
    memory_free(b->lane_length);
    memory_free(b->place);
    memory_free(b->clocks);
    memory_free(b->clock_now);
    memory_free(b->known);
    memory_free(b->found.steps);
    plan_free(b->plan);
    memory_free(b);
}

uint32_t plan_builder_lane(struct plan_builder *b, uint32_t rank, enum plan_lane_kind kind,
                           uint32_t ring) {
    struct plan *plan = b->plan;
    if (plan->lane_count == b->lane_capacity) {
        uint32_t grown = b->lane_capacity ? 2 * b->lane_capacity : 16;
        if (!memory_resize(&plan->lanes, grown, sizeof *plan->lanes)) {
            b->failed = true;
            return 0;
        }
        b->lane_capacity = grown;
    }
    plan->lanes[plan->lane_count] = (struct plan_lane){rank, (uint16_t)kind, (uint16_t)ring};
    return plan->lane_count++;
}

/* Room for one more step and its clock. */
static bool step_room(struct plan_builder *b) {
    struct plan *plan = b->plan;
    if (plan->step_count == PLAN_NONE - 1)
        return false;
    if (plan->step_count == b->step_capacity) {
        size_t grown = b->step_capacity ? 2 * (size_t)b->step_capacity : 64;
        grown = grown < PLAN_NONE ? grown : PLAN_NONE - 1;
        if (!memory_resize(&plan->steps, grown, sizeof *plan->steps) ||
            !memory_resize(&b->place, grown, sizeof *b->place))
            return false;
        b->step_capacity = (uint32_t)grown;
    }
    if (plan->exact_waits && plan->step_count / CLOCK_BLOCK_STEPS == b->clock_blocks) {
        size_t entries = (size_t)CLOCK_BLOCK_STEPS * plan->lane_count;
        uint32_t *block = NULL;
        if (!memory_resize(&b->clocks, b->clock_blocks + 1, sizeof *b->clocks) ||
            !memory_resize(&block, entries, sizeof *block))
            return false;
        b->clocks[b->clock_blocks++] = block;
    }
    return true;
}

static uint32_t *clock_of(const struct plan_builder *b, uint32_t step) {
    return b->clocks[step / CLOCK_BLOCK_STEPS] +
           (size_t)(step % CLOCK_BLOCK_STEPS) * b->plan->lane_count;
}

static bool collect(void *context, struct history_access earlier, bool wrote, uint64_t begin,
                    uint64_t end) {
    (void)wrote, (void)begin, (void)end;
    struct plan_builder *b = context;
    struct candidates *found = &b->found;
    if (earlier.lane == found->lane)
        return true;
    for (uint32_t i = 0; i < found->count; i++) {
        if (b->plan->steps[found->steps[i]].lane != earlier.lane)
            continue;
        if (found->steps[i] < earlier.id)
            found->steps[i] = earlier.id;
        return true;
    }
    if (found->count == found->capacity) {
        uint32_t grown = found->capacity ? 2 * found->capacity : 16;
        if (!memory_resize(&found->steps, grown, sizeof *found->steps))
            return false;
        found->capacity = grown;
    }
    found->steps[found->count++] = earlier.id;
    return true;
}

static void touch(struct plan_builder *b, struct plan_ref ref, uint64_t count, bool write) {
    struct plan_ref at = plan_locate(&b->plan->spec, ref);
    struct history_access access = {b->plan->step_count, b->found.lane};
    if (history_access(history_of(b, at.rank, at.buffer), at.offset, at.offset + count, access,
                       write, collect, b) != HISTORY_OK)
        b->failed = true;
}

/* ENTER and LEAVE stand for work that may write all of a rank's memory. */
static void touch_all(struct plan_builder *b, uint32_t rank) {
    for (uint32_t buffer = 0; buffer < PLAN_BUFFERS; buffer++) {
        struct history_access access = {b->plan->step_count, b->found.lane};
        if (history_access(history_of(b, rank, buffer), 0, UINT64_MAX, access, true, collect, b) !=
            HISTORY_OK)
            b->failed = true;
    }
}

static void sort_latest_first(uint32_t *steps, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint32_t step = steps[i], at = i;
        for (; at > 0 && steps[at - 1] < step; at--)
            steps[at] = steps[at - 1];
        steps[at] = step;
    }
}

static void wait_emit(struct plan_builder *b, uint32_t earlier) {
    struct plan *plan = b->plan;
    if (plan->wait_count == b->wait_capacity) {
        size_t grown = b->wait_capacity ? 2 * (size_t)b->wait_capacity : 64;
        if (grown >= PLAN_NONE || !memory_resize(&plan->waits, grown, sizeof *plan->waits)) {
            b->failed = true;
            return;
        }
        b->wait_capacity = (uint32_t)grown;
    }
    plan->waits[plan->wait_count++] = earlier;
    plan->steps[plan->step_count].wait_count++;
}

static void join(uint32_t *clock, const uint32_t *other, uint32_t lanes) {
    for (uint32_t i = 0; i < lanes; i++)
        clock[i] = clock[i] > other[i] ? clock[i] : other[i];
}

static void waits_exact(struct plan_builder *b, uint32_t lane) {
    uint32_t lanes = b->plan->lane_count;
    uint32_t *now = b->clock_now;
    if (b->lane_last[lane] == PLAN_NONE)
        memset(now, 0, lanes * sizeof *now);
    else
        memcpy(now, clock_of(b, b->lane_last[lane]), lanes * sizeof *now);
    for (uint32_t i = 0; i < b->found.count; i++) {
        uint32_t earlier = b->found.steps[i];
        if (now[b->plan->steps[earlier].lane] > b->place[earlier])
            continue;
        wait_emit(b, earlier);
        join(now, clock_of(b, earlier), lanes);
    }
    now[lane] = b->lane_length[lane] + 1;
    memcpy(clock_of(b, b->plan->step_count), now, lanes * sizeof *now);
}

static bool known_has(const struct known *known, uint32_t lane, uint32_t place) {
    for (uint32_t i = 0; i < known->used; i++)
        if (known->entries[i].lane == lane)
            return known->entries[i].length > place;
    return false;
}

static void known_note(struct known *known, uint32_t lane, uint32_t place) {
    uint32_t i = 0;
    while (i < known->used && known->entries[i].lane != lane)
        i++;
    if (i == known->used) {
        i = known->used < KNOWN_MAX ? known->used++ : known->next++ % KNOWN_MAX;
        known->entries[i].length = 0;
    }
    known->entries[i].lane = lane;
    if (known->entries[i].length <= place)
        known->entries[i].length = place + 1;
}

/* Whether one of the step's waits emitted so far waits itself for `earlier`, or for something later
 * on its lane. */
static bool waited_by_waits(const struct plan_builder *b, uint32_t earlier) {
    const struct plan *plan = b->plan;
    const struct plan_step *step = &plan->steps[plan->step_count];
    for (uint32_t i = 0; i < step->wait_count; i++) {
        const struct plan_step *by = &plan->steps[plan->waits[step->wait_first + i]];
        for (uint32_t j = 0; j < by->wait_count; j++) {
            uint32_t other = plan->waits[by->wait_first + j];
            if (plan->steps[other].lane == plan->steps[earlier].lane && other >= earlier)
                return true;
        }
    }
    return false;
}

static void waits_near(struct plan_builder *b, uint32_t lane) {
    for (uint32_t i = 0; i < b->found.count; i++) {
        uint32_t earlier = b->found.steps[i];
        uint32_t other = b->plan->steps[earlier].lane;
        if (known_has(&b->known[lane], other, b->place[earlier]) || waited_by_waits(b, earlier))
            continue;
        wait_emit(b, earlier);
        known_note(&b->known[lane], other, b->place[earlier]);
    }
}

static void step_add(struct plan_builder *b, struct plan_step step, struct plan_label label) {
    if (b->failed || !step_room(b)) {
        b->failed = true;
        return;
    }
    struct plan *plan = b->plan;
    uint32_t id = plan->step_count, lane = step.lane;
    step.wait_first = plan->wait_count;
    step.event = PLAN_NONE;
    step.phase = (uint8_t)label.phase;
    step.turn = (uint16_t)label.turn;
    step.chunk = label.chunk;
    step.slice = label.slice;
    plan->steps[id] = step;
    b->found.count = 0;
    b->found.lane = lane;
    if (step.op == PLAN_ENTER || step.op == PLAN_LEAVE) {
        touch_all(b, plan->lanes[lane].rank);
    } else {
        for (uint32_t i = 0; i < plan_operands(&step); i++)
            touch(b, plan_operand(plan, &step, i), step.count, false);
        touch(b, step.dst, step.count, true);
    }
    sort_latest_first(b->found.steps, b->found.count);
    if (plan->exact_waits)
        waits_exact(b, lane);
    else
        waits_near(b, lane);
    b->place[id] = b->lane_length[lane]++;
    b->lane_last[lane] = id;
    plan->step_count++;
}

static const struct plan_label nothing = {PLAN_PHASE_NONE, 0, PLAN_NONE, PLAN_NONE};

static void step_on_all(struct plan_builder *b, enum plan_op op) {
    for (uint32_t rank = 0; rank < b->ranks; rank++) {
        struct plan_step step = {.op = (uint8_t)op, .lane = rank};
        step.dst.rank = step.a.rank = step.b.rank = rank;
        step_add(b, step, nothing);
    }
}

void plan_builder_enter(struct plan_builder *b) {
    uint32_t lanes = b->plan->lane_count;
    b->lane_last = memory_zeroed(lanes, sizeof *b->lane_last);
    b->lane_length = memory_zeroed(lanes, sizeof *b->lane_length);
    b->clock_now = memory_zeroed(lanes, sizeof *b->clock_now);
    b->known = memory_zeroed(b->plan->exact_waits ? 1 : lanes, sizeof *b->known);
    if (!b->lane_last || !b->lane_length || !b->clock_now || !b->known) {
        b->failed = true;
        return;
    }
    memset(b->lane_last, 0xff, lanes * sizeof *b->lane_last);
    step_on_all(b, PLAN_ENTER);
}

void plan_builder_cut(struct plan_builder *b, struct plan_ref at) {
    at = plan_locate(&b->plan->spec, at);
    if (!history_cut(history_of(b, at.rank, at.buffer), at.offset))
        b->failed = true;
}

static void buffer_used(struct plan_builder *b, struct plan_ref ref, uint64_t count) {
    uint64_t end = ref.offset + count;
    if (ref.buffer == PLAN_SCRATCH && end > b->plan->scratch_used)
        b->plan->scratch_used = end;
    if (ref.buffer == PLAN_HOST && end > b->plan->host_used)
        b->plan->host_used = end;
}

void plan_builder_copy(struct plan_builder *b, uint32_t lane, struct plan_ref dst,
                       struct plan_ref src, uint64_t count, struct plan_label label) {
    struct plan_step step = {
        .dst = dst, .a = src, .b = src, .count = count, .lane = lane, .op = PLAN_COPY};
    if (!count)
        return;
    buffer_used(b, dst, count);
    step_add(b, step, label);
}

/* Keeps the operands beyond the second; false when out of memory. */
static bool more_keep(struct plan_builder *b, struct plan_step *step,
                      const struct plan_ref *operands, uint32_t operand_count) {
    struct plan *plan = b->plan;
    step->more_first = plan->more_count;
    step->more_count = (uint16_t)(operand_count - 2);
    while (b->more_capacity < plan->more_count + step->more_count) {
        size_t grown = b->more_capacity ? 2 * (size_t)b->more_capacity : 64;
        if (grown >= PLAN_NONE || !memory_resize(&plan->more, grown, sizeof *plan->more))
            return false;
        b->more_capacity = (uint32_t)grown;
    }
    for (uint32_t i = 2; i < operand_count; i++)
        plan->more[plan->more_count++] = operands[i];
    return true;
}

static void reduce_some(struct plan_builder *b, uint32_t lane, struct plan_ref dst,
                        const struct plan_ref *operands, uint32_t operand_count, uint64_t count,
                        uint32_t flags, struct plan_label label) {
    struct plan_step step = {.dst = dst,
                             .a = operands[0],
                             .b = operands[1],
                             .count = count,
                             .lane = lane,
                             .flags = (uint16_t)flags,
                             .op = PLAN_REDUCE};
    if (!more_keep(b, &step, operands, operand_count))
        b->failed = true;
    buffer_used(b, dst, count);
    step_add(b, step, label);
}

void plan_builder_reduce(struct plan_builder *b, uint32_t lane, struct plan_ref dst,
                         const struct plan_ref *operands, uint32_t operand_count, uint64_t count,
                         uint32_t flags, struct plan_label label) {
    struct plan_ref group[PLAN_OPERANDS_MAX];
    uint32_t done = 0;
    while (count && done < operand_count) {
        uint32_t held = done ? 1 : 0, left = operand_count - done;
        uint32_t now = left < PLAN_OPERANDS_MAX - held ? left : PLAN_OPERANDS_MAX - held;
        group[0] = dst; /* the partial result so far */
        for (uint32_t i = 0; i < now; i++)
            group[held + i] = operands[done + i];
        done += now;
        uint32_t kept =
            flags & ((held ? 0u : PLAN_FIRST) | (done == operand_count ? PLAN_LAST : 0u));
        reduce_some(b, lane, dst, group, held + now, count, kept, label);
    }
}

/* Gives every step its position in its rank's program and, where it is waited for, an event. */
static bool programs_make(struct plan *plan) {
    uint32_t ranks = plan->spec.ranks;
    plan->program = memory_zeroed(plan->step_count, sizeof *plan->program);
    plan->program_first = memory_zeroed((size_t)ranks + 1, sizeof *plan->program_first);
    plan->event_count = memory_zeroed(ranks, sizeof *plan->event_count);
    if (!plan->program || !plan->program_first || !plan->event_count)
        return false;
    for (uint32_t i = 0; i < plan->wait_count; i++)
        plan->steps[plan->waits[i]].event = 0; /* numbered below */
    uint32_t *first = plan->program_first;
    for (uint32_t i = 0; i < plan->step_count; i++)
        first[plan->lanes[plan->steps[i].lane].rank + 1]++;
    for (uint32_t rank = 0; rank < ranks; rank++)
        first[rank + 1] += first[rank];
    for (uint32_t i = 0; i < plan->step_count; i++) {
        struct plan_step *step = &plan->steps[i];
        uint32_t rank = plan->lanes[step->lane].rank;
        step->position = first[rank]++;
        plan->program[step->position] = i;
        if (step->event != PLAN_NONE)
            step->event = plan->event_count[rank]++;
    }
    for (uint32_t rank = ranks; rank > 0; rank--) /* each had moved to the next one's start */
        first[rank] = first[rank - 1];
    first[0] = 0;
    for (uint32_t i = 0; i < plan->step_count; i++)
        plan->steps[i].position -= first[plan->lanes[plan->steps[i].lane].rank];
    return true;
}

ringlet_status plan_builder_finish(struct plan_builder *b, uint32_t slices, struct plan **out) {
    step_on_all(b, PLAN_LEAVE);
    if (b->failed || !programs_make(b->plan)) {
        uint32_t steps = b->plan->step_count;
        plan_builder_drop(b);
        return status_fail(RINGLET_OUT_OF_MEMORY, "plan: out of host memory after %u steps", steps);
    }
    b->plan->slices = slices;
    *out = b->plan;
    b->plan = NULL;
    plan_builder_drop(b);
    return RINGLET_OK;
}
