/*
 * What the three proofs share: the fault in words, and the least that a step must keep for it to be
 * looked at at all.
 * Owns the wording of a fault. Never knows what is proved; used by check*.c alone.
 */
#ifndef RINGLET_PLAN_CHECK_H
#define RINGLET_PLAN_CHECK_H

#include "plan/plan.h"

struct check {
    const struct plan *plan;
    struct plan_fault *fault; /* the caller's, or `own` where it gave none */
    struct plan_fault own;
    uint64_t total[PLAN_BUFFERS]; /* plan_buffer_count() of each */
};

void check_begin(struct check *check, const struct plan *plan, struct plan_fault *fault);

/* Fills in the fault and the thread's message: PARSE_ERROR. The words are those of `step` (where
 * there is one) and then the format's. */
ringlet_status check_fail(struct check *check, uint32_t step, uint32_t other, const char *format,
                          ...) __attribute__((format(printf, 4, 5)));

ringlet_status check_out_of_memory(void);

/* Lane, operation, references and waits of a step lie within the plan, its ranges within the
 * buffers. */
ringlet_status check_step(struct check *check, uint32_t step);

/* How many references a step has: dst, then its operands. */
static inline uint32_t check_refs(const struct plan_step *step) {
    uint32_t operands = plan_operands(step);
    return operands ? operands + 1 : 0;
}

static inline struct plan_ref check_ref(const struct plan *plan, const struct plan_step *step,
                                        uint32_t i) {
    return i == 0 ? step->dst : plan_operand(plan, step, i - 1);
}

#endif
