/*
 * Small plans made by hand, for tests of what reads plans.
 * Owns the arrays of one plan and their bookkeeping. Never derives a wait: tests say what they
 * want.
 */
#ifndef RINGLET_TESTS_PLAN_MAKER_H
#define RINGLET_TESTS_PLAN_MAKER_H

#include <check.h>
#include <string.h>

#include "plan/plan.h"

enum { MAKER_RANKS = 4, MAKER_LANES = 16, MAKER_STEPS = 64, MAKER_WAITS = 128 };

struct maker {
    struct plan plan;
    struct plan_lane lanes[MAKER_LANES];
    struct plan_step steps[MAKER_STEPS];
    uint32_t waits[MAKER_WAITS];
    uint32_t program[MAKER_STEPS], program_first[MAKER_RANKS + 1], event_count[MAKER_RANKS];
    uint8_t in_place[MAKER_RANKS], staged[MAKER_RANKS];
};

/* A plan without steps; lane r is the main lane of rank r. SCRATCH and HOST hold `spare` elements.
 */
static inline void maker_begin(struct maker *m, enum plan_collective collective, uint32_t ranks,
                               uint64_t count, uint64_t spare) {
    memset(m, 0, sizeof *m);
    m->plan = (struct plan){.lanes = m->lanes,
                            .steps = m->steps,
                            .waits = m->waits,
                            .program = m->program,
                            .program_first = m->program_first,
                            .event_count = m->event_count,
                            .scratch_used = spare,
                            .host_used = spare,
                            .slices = 1,
                            .exact_waits = true};
    m->plan.spec = (struct plan_spec){.collective = collective,
                                      .algorithm = PLAN_RING,
                                      .ranks = ranks,
                                      .count = count,
                                      .element_bytes = 4,
                                      .rings = 1,
                                      .slices = 1,
                                      .granule = 1,
                                      .scratch_count = spare,
                                      .host_count = spare,
                                      .in_place = m->in_place,
                                      .staged = m->staged};
    for (uint32_t rank = 0; rank < ranks; rank++)
        m->lanes[m->plan.lane_count++] = (struct plan_lane){rank, PLAN_MAIN, 0};
}

static inline uint32_t maker_lane(struct maker *m, uint32_t rank, enum plan_lane_kind kind) {
    ck_assert_uint_lt(m->plan.lane_count, MAKER_LANES);
    m->lanes[m->plan.lane_count] = (struct plan_lane){rank, (uint16_t)kind, 0};
    return m->plan.lane_count++;
}

static inline struct plan_ref maker_ref(uint32_t rank, enum plan_buffer buffer, uint64_t offset) {
    return (struct plan_ref){offset, rank, (uint32_t)buffer};
}

/* Which ranks' contributions a place holds, and whether by addition, as far as its first element
 * tells. */
static inline uint32_t maker_trace(const struct maker *m, struct plan_ref ref, bool *added) {
    struct plan_ref at = plan_locate(&m->plan.spec, ref);
    for (uint32_t id = m->plan.step_count; id-- > 0;) {
        const struct plan_step *step = &m->steps[id];
        struct plan_ref dst = plan_locate(&m->plan.spec, step->dst);
        if (!plan_operands(step) || dst.rank != at.rank || dst.buffer != at.buffer ||
            at.offset < dst.offset || at.offset >= dst.offset + step->count)
            continue;
        struct maker before = *m;
        bool ignored;
        uint32_t ranks;
        before.plan.step_count = id;
        ranks = maker_trace(&before, step->a, step->op == PLAN_COPY ? added : &ignored);
        if (step->op == PLAN_COPY)
            return ranks;
        *added = true;
        return ranks | maker_trace(&before, step->b, &ignored);
    }
    *added = false;
    return ref.buffer == PLAN_SEND ? 1u << ref.rank : 0;
}

/* The flags that an addition should have. */
static inline uint16_t maker_flags(const struct maker *m, const struct plan_step *step) {
    bool added, ignored;
    if (step->op != PLAN_REDUCE)
        return 0;
    uint32_t ranks = maker_trace(m, step->a, &added) | maker_trace(m, step->b, &ignored);
    return (uint16_t)((added ? 0 : PLAN_FIRST) |
                      (ranks == (1u << m->plan.spec.ranks) - 1 ? PLAN_LAST : 0));
}

static inline uint32_t maker_step(struct maker *m, enum plan_op op, uint32_t lane,
                                  struct plan_ref dst, struct plan_ref a, struct plan_ref b,
                                  uint64_t count) {
    ck_assert_uint_lt(m->plan.step_count, MAKER_STEPS);
    m->steps[m->plan.step_count] = (struct plan_step){.dst = dst,
                                                      .a = a,
                                                      .b = b,
                                                      .count = count,
                                                      .lane = lane,
                                                      .wait_first = m->plan.wait_count,
                                                      .event = PLAN_NONE,
                                                      .op = (uint8_t)op};
    m->steps[m->plan.step_count].flags = maker_flags(m, &m->steps[m->plan.step_count]);
    return m->plan.step_count++;
}

static inline uint32_t maker_copy(struct maker *m, uint32_t lane, struct plan_ref dst,
                                  struct plan_ref src, uint64_t count) {
    return maker_step(m, PLAN_COPY, lane, dst, src, src, count);
}

static inline uint32_t maker_mark(struct maker *m, enum plan_op op, uint32_t lane) {
    struct plan_ref none = {0, 0, 0};
    return maker_step(m, op, lane, none, none, none, 0);
}

/* The step made last waits for `earlier`. */
static inline void maker_wait(struct maker *m, uint32_t earlier) {
    ck_assert_uint_lt(m->plan.wait_count, MAKER_WAITS);
    m->waits[m->plan.wait_count++] = earlier;
    m->steps[m->plan.step_count - 1].wait_count++;
}

/* Programs, positions and events. */
static inline void maker_end(struct maker *m) {
    struct plan *plan = &m->plan;
    uint32_t at = 0;
    for (uint32_t i = 0; i < plan->wait_count; i++)
        m->steps[m->waits[i]].event = 0;
    for (uint32_t rank = 0; rank < plan->spec.ranks; rank++) {
        m->program_first[rank] = at;
        for (uint32_t id = 0; id < plan->step_count; id++) {
            struct plan_step *step = &m->steps[id];
            if (m->lanes[step->lane].rank != rank)
                continue;
            step->position = at - m->program_first[rank];
            m->program[at++] = id;
            if (step->event != PLAN_NONE)
                step->event = m->event_count[rank]++;
        }
    }
    m->program_first[plan->spec.ranks] = at;
}

#endif
