#include <stdio.h>

#include "plan/plan.h"
#include "plan_configs.h"
#include "slow.h"
#include "suite.h"

/*
 * Mistakes that a builder could make, as changes to a right plan: each is caught by a proof. The
 * plans are of every collective and both algorithms, of 2 to 6 ranks, with all that varies.
 */
enum { RANKS_MAX = SUITE_SLOW ? 4 : 6 };

enum proof { BY_RESULT = 1, BY_ORDER = 2, BY_STRUCTURE = 4, BY_ANY = 7 };

static bool caught(const struct plan *plan, int by) {
    struct plan_fault fault;
    return ((by & BY_RESULT) && plan_check_result(plan, &fault) == RINGLET_PARSE_ERROR) ||
           ((by & BY_ORDER) && plan_check_order(plan, PLAN_NONE, &fault) == RINGLET_PARSE_ERROR) ||
           ((by & BY_STRUCTURE) && plan_check_structure(plan, &fault) == RINGLET_PARSE_ERROR);
}

/* What a test changes: the plan, the spec's words, how many changes it made. */
struct subject {
    struct config config;
    struct plan *plan;
    uint32_t changes;
};

static void expect_caught(struct subject *s, int by, const char *change, uint32_t step) {
    char text[CONFIG_TEXT], words[160];
    s->changes++;
    if (caught(s->plan, by))
        return;
    plan_step_text(s->plan, step, words, sizeof words);
    ck_abort_msg("%s: %s of step %u (%s) was not caught", config_text(&s->config, text), change,
                 step, words);
}

typedef void change_all(struct subject *subject);

/* Makes a kind of change wherever it can be made in each of some plans; at least `least` in all. */
static void change_plans(change_all *change, uint32_t least) {
    uint32_t changes = 0, draw = 0;
    for (uint32_t n = 2; n <= RANKS_MAX; n++)
        for (int collective = PLAN_ALL_REDUCE; collective <= PLAN_BROADCAST; collective++)
            for (uint32_t k = 0; k < 6; k++) {
                struct subject s;
                static const enum plan_algorithm others[] = {PLAN_HOST_STAGED, PLAN_HOST_PIPELINED,
                                                             PLAN_DIRECT};
                enum plan_algorithm algorithm = k < 2 ? others[(n + k) % 3] : PLAN_RING;
                if (collective == PLAN_BROADCAST && algorithm == PLAN_DIRECT)
                    continue;
                draw = (draw + 29) % CONFIG_DRAWS;
                s.plan = config_draw(&s.config, algorithm, (enum plan_collective)collective, n,
                                     3 * n + 2 * k, 1 + k % 3, draw, draw * 17 + n);
                s.changes = 0;
                ck_assert(!caught(s.plan, BY_ANY));
                change(&s);
                ck_assert(!caught(s.plan, BY_ANY)); /* and put right again */
                changes += s.changes;
                plan_free(s.plan);
            }
    printf("# %u changes caught\n", changes);
    ck_assert_uint_ge(changes, SUITE_SLOW ? least / 10 : least);
}

static bool moves(const struct plan_step *step) {
    return step->op == PLAN_COPY || step->op == PLAN_REDUCE;
}

static void change_offsets(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        struct plan_step *step = &s->plan->steps[id], right = *step;
        if (!moves(step))
            continue;
        for (int by = -1; by <= 1; by += 2) {
            step->dst.offset += (uint64_t)(int64_t)by; /* -1 below 0 wraps: out of bounds */
            expect_caught(s, BY_RESULT, "an offset of dst off by one", id);
            *step = right;
            step->a.offset += (uint64_t)(int64_t)by;
            expect_caught(s, BY_RESULT, "an offset of a off by one", id);
            *step = right;
            step->b.offset += (uint64_t)(int64_t)by;
            if (step->op == PLAN_REDUCE)
                expect_caught(s, BY_RESULT, "an offset of b off by one", id);
            *step = right;
        }
    }
}

START_TEST(test_offset_off_by_one) {
    change_plans(change_offsets, 10000);
}
END_TEST

static void change_counts(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        struct plan_step *step = &s->plan->steps[id];
        if (!moves(step))
            continue;
        step->count--; /* to 0: the step is dropped */
        expect_caught(s, BY_RESULT, "a lost remainder", id);
        step->count++;
    }
}

START_TEST(test_lost_remainder) {
    change_plans(change_counts, 10000);
}
END_TEST

static void change_drops(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        struct plan_step *step = &s->plan->steps[id], right = *step;
        if (!moves(step))
            continue;
        step->count = 0;
        expect_caught(s, BY_RESULT, "dropping", id);
        expect_caught(s, BY_STRUCTURE, "dropping", id);
        *step = right;
        step->op = PLAN_COPY; /* what arrived is not added but taken for the sum */
        if (right.op == PLAN_REDUCE)
            expect_caught(s, BY_RESULT, "a sum without its second operand", id);
        *step = right;
    }
}

START_TEST(test_dropped_step) {
    change_plans(change_drops, 10000);
}
END_TEST

/* The next reduction of the same lane has another chunk or slice: take one of its operands. */
static void change_operands(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        struct plan_step *step = &s->plan->steps[id], right = *step;
        uint32_t next = id + 1;
        while (next < s->plan->step_count &&
               (s->plan->steps[next].lane != step->lane || s->plan->steps[next].op != PLAN_REDUCE))
            next++;
        if (step->op != PLAN_REDUCE || next == s->plan->step_count)
            continue;
        step->b = s->plan->steps[next].b;
        if (step->b.offset != right.b.offset || step->b.rank != right.b.rank)
            expect_caught(s, BY_RESULT | BY_ORDER, "another chunk's operand", id);
        *step = right;
        step->a = step->b;
        expect_caught(s, BY_RESULT, "one operand twice", id);
        *step = right;
    }
}

START_TEST(test_swapped_operand) {
    change_plans(change_operands, 1000);
}
END_TEST

static void scratch_fold(struct plan_ref *ref, uint64_t first, uint64_t period) {
    if (ref->buffer == PLAN_SCRATCH && ref->offset >= first && ref->offset < first + 2 * period)
        ref->offset = first + (ref->offset - first) % period;
}

/* Early reuse of scratch: of two slots side by side, the second's users take the first. */
static void change_slots(struct subject *s) {
    struct plan_step *steps = s->plan->steps;
    uint64_t slot = 0;
    if (s->plan->spec.rings > 1)
        return;
    for (uint32_t id = 0; id < s->plan->step_count; id++)
        if (moves(&steps[id]) && steps[id].dst.buffer == PLAN_SCRATCH && steps[id].count > slot)
            slot = steps[id].count;
    for (uint64_t first = 0; slot && first + 2 * slot <= s->plan->scratch_used; first += slot) {
        struct plan *right;
        ck_assert_ok(plan_clone(&right, s->plan));
        for (uint32_t id = 0; id < s->plan->step_count; id++) {
            scratch_fold(&steps[id].dst, first, slot);
            scratch_fold(&steps[id].a, first, slot);
            scratch_fold(&steps[id].b, first, slot);
        }
        expect_caught(s, BY_ORDER, "a slot that is still in use, instead", 0);
        memcpy(steps, right->steps, s->plan->step_count * sizeof *steps);
        plan_free(right);
    }
}

START_TEST(test_early_reuse) {
    change_plans(change_slots, 20);
}
END_TEST

/* Takes wait i away from a step, as if it had not been emitted; right puts it back. */
static void without_wait(struct subject *s, uint32_t id, uint32_t i, const char *change) {
    struct plan_step *step = &s->plan->steps[id];
    uint32_t *waits = s->plan->waits + step->wait_first, last = step->wait_count - 1;
    uint32_t wait = waits[i];
    waits[i] = waits[last];
    step->wait_count--;
    expect_caught(s, BY_ORDER, change, id);
    step->wait_count++;
    waits[last] = waits[i];
    waits[i] = wait;
}

static void change_back_pressure(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        const struct plan_step *step = &s->plan->steps[id];
        if (step->op != PLAN_COPY ||
            (step->dst.buffer != PLAN_SCRATCH && step->dst.buffer != PLAN_HOST))
            continue;
        for (uint32_t i = 0; i < step->wait_count; i++)
            without_wait(s, id, i, "back-pressure taken away");
    }
}

START_TEST(test_no_back_pressure) {
    change_plans(change_back_pressure, 500);
}
END_TEST

static void change_exits(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        struct plan_step *step = &s->plan->steps[id];
        for (uint32_t i = 0; step->op == PLAN_LEAVE && i < step->wait_count; i++)
            without_wait(s, id, i, "a skipped exit");
        for (uint32_t i = 0; step->op != PLAN_LEAVE && i < step->wait_count; i++)
            if (s->plan->steps[s->plan->waits[step->wait_first + i]].op == PLAN_ENTER)
                without_wait(s, id, i, "a skipped entry");
    }
}

START_TEST(test_skipped_exit) {
    change_plans(change_exits, 500);
}
END_TEST

/* A wait for the step before the right one on its lane. */
static void change_waits(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        const struct plan_step *step = &s->plan->steps[id];
        for (uint32_t i = step->wait_first; i < step->wait_first + step->wait_count; i++) {
            uint32_t wait = s->plan->waits[i], before = wait;
            while (before-- > 0 && s->plan->steps[before].lane != s->plan->steps[wait].lane)
                ;
            if (before == PLAN_NONE)
                continue;
            s->plan->waits[i] = before;
            expect_caught(s, BY_ORDER, "a wait one step too early", id);
            s->plan->waits[i] = wait;
        }
    }
}

START_TEST(test_wait_too_early) {
    change_plans(change_waits, 5000);
}
END_TEST

/* Exchanges what two steps do and wait for; ids, programs and events stay. */
static void exchange(struct plan *plan, uint32_t i, uint32_t j) {
    struct plan_step *a = &plan->steps[i], *b = &plan->steps[j], was = *a;
    struct plan_step other = *b;
    *a = other;
    *b = was;
    a->event = was.event, a->position = was.position;
    b->event = other.event, b->position = other.position;
}

/* Steps of one lane one turn apart, exchanged. (Slices of one turn may do without their order.) */
static void change_lane_order(struct subject *s) {
    for (uint32_t id = 0; id < s->plan->step_count; id++) {
        const struct plan_step *step = &s->plan->steps[id];
        uint32_t next = id + 1;
        while (next < s->plan->step_count && s->plan->steps[next].lane != step->lane)
            next++;
        if (next == s->plan->step_count)
            continue;
        const struct plan_step *other = &s->plan->steps[next];
        bool marks = step->op == PLAN_ENTER || other->op == PLAN_LEAVE;
        bool turns = s->plan->spec.algorithm == PLAN_RING && step->turn < other->turn;
        if (!marks && !turns)
            continue;
        exchange(s->plan, id, next);
        expect_caught(s, marks ? BY_STRUCTURE : BY_RESULT | BY_ORDER, "the next one in place", id);
        exchange(s->plan, id, next);
    }
}

START_TEST(test_lane_order) {
    change_plans(change_lane_order, 1000);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("plan changes");
    TCase *tests = tcase_create("plan changes");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_offset_off_by_one);
    tcase_add_test(tests, test_lost_remainder);
    tcase_add_test(tests, test_dropped_step);
    tcase_add_test(tests, test_swapped_operand);
    tcase_add_test(tests, test_early_reuse);
    tcase_add_test(tests, test_no_back_pressure);
    tcase_add_test(tests, test_skipped_exit);
    tcase_add_test(tests, test_wait_too_early);
    tcase_add_test(tests, test_lane_order);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
