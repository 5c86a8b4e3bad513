#include <stdio.h>
#include <string.h>

#include "plan_maker.h"
#include "suite.h"

/*
 * The proofs of result and order against the same without cleverness: random plans, element by
 * element and pair by pair. They must agree on the first step at fault.
 */
enum { RANKS = 3, COUNT = 6, SPARE = 9, STEPS = 40, ELEMENTS = 32, PLANS = 300 };

static uint32_t below(uint32_t limit) {
    return (uint32_t)rand() % limit;
}

/* Memory as plan_locate() sees it, an element a cell. */
struct cell {
    uint32_t logical, ranks; /* a bit a rank; 0: undefined */
    bool added;              /* a partial or a complete result, not a contribution */
};

struct model {
    struct cell cells[RANKS][PLAN_BUFFERS][ELEMENTS];
};

static struct cell *cell_at(struct model *model, const struct plan *plan, struct plan_ref ref,
                            uint64_t i) {
    struct plan_ref place = plan_locate(&plan->spec, ref);
    return &model->cells[place.rank][place.buffer][place.offset + i];
}

static void model_begin(struct model *model, const struct plan *plan) {
    memset(model, 0, sizeof *model);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < plan_buffer_count(plan, PLAN_SEND); i++)
            *cell_at(model, plan, maker_ref(rank, PLAN_SEND, 0), i) = (struct cell){
                plan->spec.collective == PLAN_ALL_GATHER ? rank * COUNT + i : i, 1u << rank, false};
}

static bool may_write(const struct plan *plan, const struct plan_step *step) {
    if (step->dst.buffer != PLAN_SEND)
        return true;
    if (!plan->spec.in_place[step->dst.rank])
        return false;
    struct plan_ref recv = plan_locate(&plan->spec, maker_ref(step->dst.rank, PLAN_RECV, 0));
    uint64_t at = plan_locate(&plan->spec, step->dst).offset;
    return at >= recv.offset &&
           at + step->count <= recv.offset + plan_buffer_count(plan, PLAN_RECV);
}

/* Runs a step if it is without fault. */
static bool model_step(struct model *model, const struct plan *plan, const struct plan_step *step) {
    struct cell result[ELEMENTS];
    bool adds = step->op == PLAN_REDUCE;
    struct cell *dst = cell_at(model, plan, step->dst, 0);
    if (!may_write(plan, step))
        return false;
    for (uint64_t i = 0; i < step->count; i++) {
        const struct cell *a = cell_at(model, plan, step->a, i);
        const struct cell *b = cell_at(model, plan, step->b, i);
        for (uint64_t j = 0; j < step->count; j++)
            if (i != j && (&dst[j] == a || (adds && &dst[j] == b)))
                return false;
        if (!a->ranks || (adds && (!b->ranks || a->logical != b->logical || a->ranks & b->ranks)))
            return false;
        bool first = step->flags & PLAN_FIRST, last = step->flags & PLAN_LAST;
        bool complete = (a->ranks | b->ranks) == (1u << RANKS) - 1;
        if (adds && (a->added == first || b->added || complete != last))
            return false;
        result[i] = *a;
        if (adds) {
            result[i].ranks |= b->ranks;
            result[i].added = true;
        }
    }
    memcpy(dst, result, step->count * sizeof *result);
    return true;
}

/* Rank and index of the first wrong element of RECV; false when all are right. */
static bool model_wrong(struct model *model, const struct plan *plan, char text[64]) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t i = 0; i < plan_buffer_count(plan, PLAN_RECV); i++) {
            const struct cell *got = cell_at(model, plan, maker_ref(rank, PLAN_RECV, 0), i);
            bool gather = plan->spec.collective == PLAN_ALL_GATHER;
            uint32_t base = plan->spec.collective == PLAN_REDUCE_SCATTER ? rank * COUNT : 0;
            uint32_t ranks = gather ? 1u << i / COUNT : (1u << RANKS) - 1;
            snprintf(text, 64, "RECV of rank %u [%u]", rank, i);
            if (got->logical != base + i || got->ranks != ranks)
                return true;
        }
    return false;
}

static struct plan_ref any_ref(const struct plan *plan, uint64_t count) {
    enum plan_buffer buffer = (enum plan_buffer)below(PLAN_BUFFERS);
    uint64_t total = plan_buffer_count(plan, buffer);
    uint32_t room = (uint32_t)(total > count ? total - count : 0);
    return maker_ref(below(RANKS), buffer, below(room + 1));
}

static void any_plan(struct maker *m) {
    maker_begin(m, (enum plan_collective)below(3), RANKS, COUNT, SPARE);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        m->in_place[rank] = (uint8_t)below(2);
}

static uint32_t any_step(struct maker *m, uint32_t lane) {
    uint64_t count = 1 + below(COUNT);
    uint32_t step =
        maker_step(m, below(3) ? PLAN_REDUCE : PLAN_COPY, lane, any_ref(&m->plan, count),
                   any_ref(&m->plan, count), any_ref(&m->plan, count), count);
    if (m->steps[step].op == PLAN_REDUCE && below(20) == 0)
        m->steps[step].flags ^= below(2) ? PLAN_FIRST : PLAN_LAST;
    return step;
}

/* Steps are drawn until one is without fault, but for the last in some plans. */
static void check_one_result(void) {
    struct maker m;
    struct model model, before;
    uint32_t wrong = PLAN_NONE;
    char text[64];
    any_plan(&m);
    model_begin(&model, &m.plan);
    for (uint32_t step = 0; step < STEPS && wrong == PLAN_NONE; step++) {
        bool done = false;
        for (uint32_t tries = 0; tries < 200 && !done; tries++) {
            m.plan.step_count = step;
            any_step(&m, 0);
            before = model;
            done = model_step(&model, &m.plan, &m.steps[step]);
            if (!done)
                model = before;
            if (!done && below(400) == 0)
                break;
        }
        wrong = done ? PLAN_NONE : step;
    }
    struct plan_fault fault;
    ringlet_status status = plan_check_result(&m.plan, &fault);
    if (wrong == PLAN_NONE && !model_wrong(&model, &m.plan, text)) {
        ck_assert_ok(status);
        return;
    }
    ck_assert_int_eq(status, RINGLET_PARSE_ERROR);
    ck_assert_msg(fault.step == wrong, "step %u is at fault, not: %s", wrong, fault.text);
    if (wrong == PLAN_NONE)
        ck_assert_msg(strstr(fault.text, text) != NULL, "%s is wrong, not: %s", text, fault.text);
}

START_TEST(test_result) {
    srand((unsigned)_i + 1);
    for (uint32_t i = 0; i < PLANS; i++)
        check_one_result();
}
END_TEST

/* The way all ranks' elements are summed one by one: right, in pieces that meet nowhere. */
START_TEST(test_result_right) {
    srand((unsigned)_i + 1);
    struct maker m;
    maker_begin(&m, PLAN_ALL_REDUCE, RANKS, COUNT, SPARE);
    uint32_t cut = below(COUNT - 1) + 1, turn[2] = {1 + below(2), 1 + below(2)};
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct plan_ref sum = maker_ref(rank, PLAN_SEND, 0), recv = maker_ref(rank, PLAN_RECV, 0);
        struct plan_ref spare = maker_ref(rank, PLAN_SCRATCH, 0);
        for (uint32_t half = 0; half < 2; half++) { /* the two parts from the peers in turn */
            struct plan_ref part = spare;
            part.offset = cut;
            uint32_t left = (rank + turn[0] + half) % RANKS,
                     right = (rank + turn[1] + half) % RANKS;
            left = left == rank ? (rank + 1) % RANKS : left;
            right = right == rank ? (rank + 1) % RANKS : right;
            maker_copy(&m, rank, spare, maker_ref(left, PLAN_SEND, 0), cut);
            maker_copy(&m, rank, part, maker_ref(right, PLAN_SEND, cut), COUNT - cut);
            maker_step(&m, PLAN_REDUCE, rank, recv, half ? recv : sum, spare, COUNT);
        }
    }
    struct plan_fault fault;
    ringlet_status status = plan_check_result(&m.plan, &fault);
    struct model model;
    bool right = true;
    char text[64];
    model_begin(&model, &m.plan);
    for (uint32_t step = 0; step < m.plan.step_count && right; step++)
        right = model_step(&model, &m.plan, &m.steps[step]);
    right = right && !model_wrong(&model, &m.plan, text);
    ck_assert_msg((status == RINGLET_OK) == right, "%s", fault.text);
    if (turn[0] == 1 && turn[1] == 1)
        ck_assert(right);
}
END_TEST

/* Which steps come before a step's end, by the letter: lanes, waits and what follows. */
static void close_order(const struct plan *plan, bool before[STEPS][STEPS]) {
    memset(before, 0, STEPS * sizeof *before);
    for (uint32_t j = 0; j < plan->step_count; j++) {
        const struct plan_step *step = &plan->steps[j];
        for (uint32_t i = 0; i < j; i++) {
            bool direct = plan->steps[i].lane == step->lane;
            for (uint32_t w = 0; w < step->wait_count; w++)
                direct = direct || plan->waits[step->wait_first + w] == i;
            if (!direct)
                continue;
            before[j][i] = true;
            for (uint32_t k = 0; k < i; k++)
                before[j][k] = before[j][k] || before[i][k];
        }
    }
}

/* What a step does to a cell: 0 nothing, 1 reads, 2 writes. */
static int touches(const struct plan *plan, const struct plan_step *step, uint32_t rank,
                   uint32_t buffer, uint32_t cell) {
    if (step->op == PLAN_ENTER || step->op == PLAN_LEAVE)
        return plan->lanes[step->lane].rank == rank ? 2 : 0;
    const struct plan_ref refs[] = {step->dst, step->a, step->b};
    for (int i = 0; i < (step->op == PLAN_REDUCE ? 3 : 2); i++) {
        struct plan_ref place = plan_locate(&plan->spec, refs[i]);
        if (place.rank == rank && place.buffer == buffer && cell >= place.offset &&
            cell < place.offset + step->count)
            return i == 0 ? 2 : 1;
    }
    return 0;
}

static bool conflict(const struct plan *plan, const struct plan_step *a,
                     const struct plan_step *b) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (uint32_t buffer = 0; buffer < PLAN_BUFFERS; buffer++) {
            struct plan_ref whole = plan_locate(&plan->spec, maker_ref(rank, buffer, 0));
            if (whole.buffer != buffer)
                continue;
            for (uint32_t cell = 0; cell < plan_buffer_count(plan, (enum plan_buffer)buffer);
                 cell++)
                if (touches(plan, a, rank, buffer, cell) + touches(plan, b, rank, buffer, cell) > 2)
                    return true;
        }
    return false;
}

/* The first step that is not ordered behind an earlier one it conflicts with. */
static uint32_t first_unordered(const struct plan *plan) {
    bool before[STEPS][STEPS];
    close_order(plan, before);
    for (uint32_t j = 0; j < plan->step_count; j++)
        for (uint32_t i = 0; i < j; i++)
            if (!before[j][i] && conflict(plan, &plan->steps[i], &plan->steps[j]))
                return j;
    return PLAN_NONE;
}

/* The last step made waits for what it conflicts with, now and then for too little. */
static void any_waits(struct maker *m, uint32_t careless) {
    uint32_t step = m->plan.step_count - 1;
    for (uint32_t earlier = step; earlier-- > 0;) {
        if (below(careless) == 0)
            continue;
        uint32_t count = m->steps[step].wait_count;
        maker_wait(m, earlier);
        m->steps[step].wait_count = 0; /* try without */
        bool needed = first_unordered(&m->plan) == step &&
                      conflict(&m->plan, &m->steps[earlier], &m->steps[step]);
        m->steps[step].wait_count = count;
        if (needed && m->plan.wait_count < MAKER_WAITS - 1 && count < 4)
            m->steps[step].wait_count = count + 1;
        else
            m->plan.wait_count--;
    }
}

static void check_one_order(uint32_t careless) {
    struct maker m;
    any_plan(&m);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        maker_lane(&m, rank, PLAN_OUT);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        maker_mark(&m, PLAN_ENTER, rank);
    for (uint32_t step = 0; step < 14; step++) {
        any_step(&m, below(2 * RANKS));
        any_waits(&m, careless);
    }
    maker_mark(&m, PLAN_LEAVE, 0);
    any_waits(&m, careless);
    uint32_t wrong = first_unordered(&m.plan);
    struct plan_fault fault;
    ringlet_status status = plan_check_order(&m.plan, PLAN_NONE, &fault);
    ck_assert_int_eq(status, wrong == PLAN_NONE ? RINGLET_OK : RINGLET_PARSE_ERROR);
    ck_assert_msg(fault.step == wrong, "step %u is at fault, not: %s", wrong, fault.text);
}

START_TEST(test_order) {
    srand((unsigned)_i + 1);
    for (uint32_t i = 0; i < 12; i++)
        check_one_order(i % 2 ? 400 : 40);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("plan reference");
    TCase *tests = tcase_create("plan reference");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_result, 0, 10);
    tcase_add_loop_test(tests, test_result_right, 0, 20);
    tcase_add_loop_test(tests, test_order, 0, 10);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
