#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "plan_maker.h"
#include "suite.h"

/*
 * Hand-made plans with one fault each; every message of the three proofs is reached. The right
 * plan: two ranks swap their whole buffers and add on both sides.
 */
enum { COUNT = 4 };
enum { ENTER_0, ENTER_1, SEND_0, SEND_1, ADD_0, ADD_1, LEAVE_0, LEAVE_1 };
enum { MAIN_0, MAIN_1, OUT_0, OUT_1 };
enum { WAITS = 8 };

static void swap_steps(struct maker *m) {
    for (uint32_t rank = 0; rank < 2; rank++)
        maker_mark(m, PLAN_ENTER, rank);
    for (uint32_t rank = 0; rank < 2; rank++) {
        maker_copy(m, OUT_0 + rank, maker_ref(!rank, PLAN_SCRATCH, 0),
                   maker_ref(rank, PLAN_SEND, 0), COUNT);
        maker_wait(m, ENTER_0);
        maker_wait(m, ENTER_1);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        maker_step(m, PLAN_REDUCE, rank, maker_ref(rank, PLAN_RECV, 0),
                   maker_ref(rank, PLAN_SEND, 0), maker_ref(rank, PLAN_SCRATCH, 0), COUNT);
        maker_wait(m, SEND_1 - rank);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        maker_mark(m, PLAN_LEAVE, rank);
        maker_wait(m, SEND_0 + rank);
    }
    maker_end(m);
}

static void swap_plan(struct maker *m, enum plan_collective collective) {
    maker_begin(m, collective, 2, COUNT, COUNT);
    maker_lane(m, 0, PLAN_OUT);
    maker_lane(m, 1, PLAN_OUT);
    if (collective == PLAN_ALL_REDUCE)
        swap_steps(m);
}

enum proof { RESULT, ORDER, STRUCTURE };

static ringlet_status proof_of(const struct plan *plan, enum proof proof,
                               struct plan_fault *fault) {
    if (proof == RESULT)
        return plan_check_result(plan, fault);
    return proof == ORDER ? plan_check_order(plan, PLAN_NONE, fault)
                          : plan_check_structure(plan, fault);
}

static void expect_proved(const struct plan *plan) {
    for (int proof = RESULT; proof <= STRUCTURE; proof++) {
        struct plan_fault fault = {1, 2, "old"};
        ck_assert_ok(proof_of(plan, (enum proof)proof, &fault));
        ck_assert_uint_eq(fault.step, PLAN_NONE);
        ck_assert_uint_eq(fault.other, PLAN_NONE);
        ck_assert_str_eq(fault.text, "");
    }
}

static void expect_fault(struct maker *m, enum proof proof, uint32_t step, const char *words) {
    struct plan_fault fault;
    ck_assert_msg(proof_of(&m->plan, proof, &fault) == RINGLET_PARSE_ERROR, "not found: %s", words);
    ck_assert_msg(strstr(fault.text, words) != NULL, "'%s' lacks '%s'", fault.text, words);
    ck_assert_uint_eq(fault.step, step);
    ck_assert_str_eq(ringlet_error_message(), fault.text);
    ck_assert_int_eq(proof_of(&m->plan, proof, NULL), RINGLET_PARSE_ERROR);
    swap_plan(m, PLAN_ALL_REDUCE);
    expect_proved(&m->plan);
}

START_TEST(test_right_plans) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    expect_proved(&m.plan);
    for (uint32_t wait = 0; wait < WAITS; wait++)
        ck_assert_int_eq(plan_check_order(&m.plan, wait, NULL), RINGLET_PARSE_ERROR);
}
END_TEST

START_TEST(test_references) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    for (int proof = RESULT; proof <= STRUCTURE; proof++) {
        enum proof by = (enum proof)proof;
        m.steps[SEND_1].a.rank = 2;
        expect_fault(&m, by, SEND_1, "names rank 2 of 2");
        m.steps[SEND_1].dst.buffer = 4;
        expect_fault(&m, by, SEND_1, "names unknown buffer 4");
        m.steps[ADD_0].b.offset = 1;
        expect_fault(&m, by, ADD_0, "leaves SCRATCH of rank 0, which holds 4 elements");
        m.steps[ADD_0].a.offset = UINT64_MAX - 1;
        expect_fault(&m, by, ADD_0, "leaves SEND of rank 0");
        m.steps[ADD_0].count = UINT64_MAX;
        expect_fault(&m, by, ADD_0, "leaves RECV of rank 0");
        m.steps[SEND_0].lane = 4;
        expect_fault(&m, by, SEND_0, "is on a lane that is none");
        m.steps[SEND_0].op = 4;
        expect_fault(&m, by, SEND_0, "has no known operation");
        m.steps[LEAVE_1].wait_count = 2;
        expect_fault(&m, by, LEAVE_1, "has waits beyond the plan's");
        m.steps[LEAVE_1].wait_first = UINT32_MAX;
        expect_fault(&m, by, LEAVE_1, "has waits beyond the plan's");
    }
}
END_TEST

START_TEST(test_result_of_steps) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.steps[SEND_1].count = 3;
    expect_fault(&m, RESULT, ADD_0, "reads SCRATCH of rank 0 [3], which nothing wrote");
    m.steps[SEND_1].a = maker_ref(1, PLAN_HOST, 0);
    expect_fault(&m, RESULT, SEND_1, "reads HOST of rank 1 [0], which nothing wrote");
    m.steps[SEND_0].count = 2;
    m.steps[ADD_1].a.offset = 1, m.steps[ADD_1].count = 2;
    expect_fault(&m, RESULT, ADD_1, "adds element 0 to element 1");
    m.steps[SEND_1].a.rank = 0;
    expect_fault(&m, RESULT, ADD_0, "adds the contribution of rank 0 to element 0 twice");
    m.steps[ADD_0].dst = m.steps[ADD_0].a;
    expect_fault(&m, RESULT, ADD_0, "writes SEND of rank 0, the caller's input");
    m.steps[ADD_0].dst = maker_ref(0, PLAN_SCRATCH, 1);
    m.steps[ADD_0].count = 2;
    expect_fault(&m, RESULT, ADD_0, "writes across what it reads");
    m.in_place[0] = 1; /* RECV is SEND: an offset between them */
    m.steps[ADD_0].dst.offset = 2, m.steps[ADD_0].count = 2;
    m.steps[ADD_0].a.offset = 1, m.steps[ADD_0].b.offset = 1;
    expect_fault(&m, RESULT, ADD_0, "writes across what it reads");
}
END_TEST

START_TEST(test_result_at_the_end) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.steps[ADD_1].count = 3;
    expect_fault(&m, RESULT, PLAN_NONE, "at the end nothing has written RECV of rank 1 [3]");
    m.steps[ADD_1].op = PLAN_COPY;
    expect_fault(&m, RESULT, PLAN_NONE,
                 "at the end RECV of rank 1 [0] lacks the contribution of rank 0");
    m.steps[SEND_0].a.offset = 1, m.steps[SEND_0].count = 1;
    m.steps[ADD_1].a.offset = 1, m.steps[ADD_1].count = 1;
    expect_fault(&m, RESULT, PLAN_NONE, "at the end RECV of rank 1 [0] is element 1, not 0");
}
END_TEST

/* Reduce-scatter and all-gather of two ranks: what is right, and where elements belong. */
static void scatter_plan(struct maker *m, uint8_t in_place) {
    swap_plan(m, PLAN_REDUCE_SCATTER);
    m->in_place[0] = in_place;
    for (uint32_t rank = 0; rank < 2; rank++)
        maker_copy(m, OUT_0 + rank, maker_ref(!rank, PLAN_SCRATCH, 0),
                   maker_ref(rank, PLAN_SEND, rank ? 0 : COUNT), COUNT);
    for (uint32_t rank = 0; rank < 2; rank++)
        maker_step(m, PLAN_REDUCE, rank, maker_ref(rank, PLAN_RECV, 0),
                   maker_ref(rank, PLAN_SEND, rank * COUNT), maker_ref(rank, PLAN_SCRATCH, 0),
                   COUNT);
    maker_end(m);
}

static void gather_plan(struct maker *m) {
    swap_plan(m, PLAN_ALL_GATHER);
    for (uint32_t rank = 0; rank < 2; rank++)
        for (uint32_t to = 0; to < 2; to++)
            maker_copy(m, OUT_0 + rank, maker_ref(to, PLAN_RECV, rank * COUNT),
                       maker_ref(rank, PLAN_SEND, 0), COUNT);
    maker_end(m);
}

START_TEST(test_result_of_halves) {
    struct maker m;
    scatter_plan(&m, 0);
    ck_assert_ok(plan_check_result(&m.plan, NULL));
    scatter_plan(&m, 1);
    ck_assert_ok(plan_check_result(&m.plan, NULL));
    m.steps[1].dst = maker_ref(0, PLAN_SEND, COUNT); /* beside the part that is RECV too */
    expect_fault(&m, RESULT, 1, "writes SEND of rank 0, the caller's input");
    scatter_plan(&m, 1);
    m.steps[2].dst = maker_ref(0, PLAN_SEND, 0); /* that part, by its other name */
    ck_assert_ok(plan_check_result(&m.plan, NULL));
    scatter_plan(&m, 0);
    m.steps[1].a.offset = COUNT;
    m.steps[2].a.offset = COUNT; /* the other's part: right sums, wrong place */
    expect_fault(&m, RESULT, PLAN_NONE, "at the end RECV of rank 0 [0] is element 4, not 0");
    gather_plan(&m);
    ck_assert_ok(plan_check_result(&m.plan, NULL));
    m.in_place[1] = 1;
    ck_assert_ok(plan_check_result(&m.plan, NULL));
    m.steps[2].a.rank = 0;
    expect_fault(&m, RESULT, PLAN_NONE, "at the end RECV of rank 0 [4] is element 0, not 4");
}
END_TEST

START_TEST(test_order) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.waits[0] = SEND_1;
    expect_fault(&m, ORDER, SEND_0, "waits for step 3, which is not an earlier one");
    m.waits[4] = ENTER_1; /* instead of SEND_1 */
    expect_fault(&m, ORDER, ADD_0,
                 "reads SCRATCH of rank 0, not ordered behind step 3 (rank 1 out: copy");
    m.steps[LEAVE_1].wait_count = 0;
    expect_fault(&m, ORDER, LEAVE_1, "writes SEND of rank 1, not ordered behind step 3");
    m.steps[SEND_1].wait_first++,
        m.steps[SEND_1].wait_count = 1; /* the peer's memory, not its own */
    m.waits[m.steps[SEND_1].wait_first] = ENTER_1;
    expect_fault(&m, ORDER, SEND_1, "writes SCRATCH of rank 0, not ordered behind step 0");
    m.in_place[1] = 1; /* what is sent is overwritten by the sum */
    ck_assert_ok(plan_check_result(&m.plan, NULL));
    expect_fault(&m, ORDER, ADD_1, "writes SEND of rank 1, not ordered behind step 3");
    struct plan_fault fault;
    ck_assert_int_eq(plan_check_order(&m.plan, 7, &fault), RINGLET_PARSE_ERROR);
    ck_assert_uint_eq(fault.step, LEAVE_1);
    ck_assert_uint_eq(fault.other, SEND_1);
}
END_TEST

START_TEST(test_structure_of_lanes) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.lanes[OUT_1].kind = PLAN_ADD + 1;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "lane 3 has a rank, kind or ring that is none");
    m.lanes[OUT_1].ring = 1;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "lane 3 has a rank, kind or ring that is none");
    m.lanes[OUT_1].kind = PLAN_MAIN;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "rank 1 has two main lanes");
    m.lanes[MAIN_1].kind = PLAN_ADD;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "rank 1 has no main lane");
    m.plan.spec.scratch_count = 3;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "scratch in use is beyond the bound: 4 of 3");
    m.plan.spec.host_count = 2;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "in host memory 4 of 2");
    const uint32_t order[] = {0, 2};
    m.plan.spec.order = order;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "ring 0 names rank 2");
}
END_TEST

START_TEST(test_structure_of_programs) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.program_first[2] = 7;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "the programs do not hold as many steps as the plan");
    m.plan.spec.ranks = 2, m.program_first[1] = 9;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "the program of rank 1 ends before it begins");
    m.program_first[1] = 3;
    expect_fault(&m, STRUCTURE, PLAN_NONE,
                 "the program of rank 1 holds step 6, which is not its own");
    m.program[1] = 8;
    expect_fault(&m, STRUCTURE, PLAN_NONE,
                 "the program of rank 0 holds step 8, which is not its own");
    m.program[1] = ADD_0, m.program[2] = SEND_0;
    m.steps[ADD_0].position = 1, m.steps[SEND_0].position = 2;
    expect_fault(&m, STRUCTURE, SEND_0, "is not in sequential order in its program");
    m.steps[ADD_1].position = 3;
    expect_fault(&m, STRUCTURE, ADD_1, "has position 3, its program says 2");
}
END_TEST

START_TEST(test_structure_of_the_contract) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.steps[ENTER_0].lane = OUT_0;
    expect_fault(&m, STRUCTURE, ENTER_0, "is not on a main lane");
    m.steps[ENTER_0].op = PLAN_LEAVE;
    expect_fault(&m, STRUCTURE, ENTER_0, "comes before its main lane has entered");
    m.steps[LEAVE_0].op = PLAN_ENTER;
    expect_fault(&m, STRUCTURE, LEAVE_0, "is not the first of its main lane");
    m.steps[ADD_0].op = PLAN_LEAVE, m.steps[ADD_0].count = 0;
    expect_fault(&m, STRUCTURE, LEAVE_0, "comes after its main lane has left");
    m.steps[LEAVE_1] = m.steps[ADD_1];
    m.steps[LEAVE_1].wait_first = 7, m.steps[LEAVE_1].position = 3;
    m.waits[7] = SEND_0;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "rank 1 does not leave");
}
END_TEST

START_TEST(test_structure_of_waits) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.waits[6] = LEAVE_1;
    expect_fault(&m, STRUCTURE, LEAVE_0, "waits for step 7, which is not an earlier one");
    m.waits[6] = ADD_0;
    expect_fault(&m, STRUCTURE, LEAVE_0, "waits for step 4 of its own lane");
    m.waits[6] = ADD_1;
    expect_fault(&m, STRUCTURE, LEAVE_0, "waits for step 5, which has no event");
    m.steps[LEAVE_1].wait_first--;
    expect_fault(&m, STRUCTURE, LEAVE_1, "shares wait 6 with another step");
    m.steps[LEAVE_1].wait_count--;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "wait 7 belongs to no step");
    m.steps[ADD_0].event = 2;
    expect_fault(&m, STRUCTURE, ADD_0, "has an event that nobody waits for");
    m.steps[SEND_0].event = 2;
    expect_fault(&m, STRUCTURE, SEND_0, "has event 2, its rank has 2");
    m.steps[SEND_0].event = 0;
    expect_fault(&m, STRUCTURE, SEND_0, "has event 0 of another step");
    m.event_count[1] = 3;
    expect_fault(&m, STRUCTURE, PLAN_NONE, "rank 1 has 3 events and uses 2");
}
END_TEST

START_TEST(test_structure_of_reach) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.steps[LEAVE_0].count = 1;
    expect_fault(&m, STRUCTURE, LEAVE_0, "moves something");
    m.steps[ADD_0].count = 0;
    expect_fault(&m, STRUCTURE, ADD_0, "moves nothing");
    m.steps[SEND_0].a.rank = 1;
    expect_fault(&m, STRUCTURE, SEND_0, "copies between two other ranks");
    m.staged[1] = 1;
    expect_fault(&m, STRUCTURE, SEND_1, "copies between devices where no ring has a direct edge");
    m.plan.spec.algorithm = PLAN_HOST_STAGED;
    expect_fault(&m, STRUCTURE, SEND_0, "copies between devices where no ring has a direct edge");
    m.steps[ADD_0].a.rank = 1;
    expect_fault(&m, STRUCTURE, ADD_0, "adds what is not in one memory");
    m.steps[ADD_0].b.buffer = PLAN_HOST;
    expect_fault(&m, STRUCTURE, ADD_0, "adds what is not in one memory");
    m.steps[ADD_0].dst.buffer = PLAN_HOST;
    expect_fault(&m, STRUCTURE, ADD_0, "adds what is not in one memory");
}
END_TEST

/* Every allocation of each proof fails once: an error each time, nothing leaked. */
START_TEST(test_out_of_memory) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    int64_t live = memory_live();
    uint64_t nth = 0;
    ringlet_status status;
    do {
        memory_fail_at(++nth);
        status = proof_of(&m.plan, (enum proof)_i, NULL);
        ck_assert(status == RINGLET_OK || status == RINGLET_OUT_OF_MEMORY);
        ck_assert_int_eq(memory_live(), live);
    } while (status != RINGLET_OK);
    ck_assert(memory_fail_pending());
    memory_fail_at(0);
    ck_assert_uint_gt(nth, 6);
}
END_TEST

static void expect_words(const struct plan *plan, uint32_t step, const char *words) {
    char text[200], brief[8];
    plan_step_text(plan, step, text, sizeof text);
    ck_assert_str_eq(text, words);
    plan_step_text(plan, step, brief, sizeof brief);
    ck_assert_uint_eq(strlen(brief), strlen(words) < 7 ? strlen(words) : 7);
}

START_TEST(test_words) {
    struct maker m;
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.steps[SEND_1].slice = 2;
    expect_words(&m.plan, ENTER_0, "rank 0 main: enter");
    expect_words(&m.plan, SEND_1,
                 "rank 1 out: copy chunk 0 slice 2, SEND[0..4) to rank 0 SCRATCH[0..4)");
    expect_words(&m.plan, ADD_0,
                 "rank 0 main: add chunk 0 slice 0, SEND[0..4) + SCRATCH[0..4) to RECV[0..4)");
    expect_words(&m.plan, LEAVE_1, "rank 1 main: leave");
    expect_words(&m.plan, 8, "no step 8");
    m.plan.spec.rings = 2, m.lanes[OUT_1].ring = 1, m.steps[SEND_1].chunk = PLAN_NONE;
    expect_words(&m.plan, SEND_1,
                 "rank 1 out of ring 1: copy slice 2, SEND[0..4) to rank 0 SCRATCH[0..4)");
    m.steps[SEND_1].slice = PLAN_NONE, m.steps[SEND_1].lane = 4;
    expect_words(&m.plan, SEND_1, "lane 4: copy all, rank 1 SEND[0..4) to rank 0 SCRATCH[0..4)");
    m.steps[SEND_1].op = 9;
    expect_words(&m.plan, SEND_1, "lane 4: unknown operation 9");
    ck_assert_str_eq(plan_collective_name(PLAN_ALL_REDUCE), "all-reduce");
    ck_assert_str_eq(plan_collective_name(PLAN_REDUCE_SCATTER), "reduce-scatter");
    ck_assert_str_eq(plan_collective_name(PLAN_ALL_GATHER), "all-gather");
    ck_assert_str_eq(plan_algorithm_name(PLAN_RING), "ring");
    ck_assert_str_eq(plan_algorithm_name(PLAN_HOST_STAGED), "host");
    ck_assert_str_eq(plan_buffer_name(PLAN_HOST), "HOST");
    ck_assert_str_eq(plan_buffer_name(4), "?");
}
END_TEST

static void print_to(const struct plan *plan, uint32_t rank, char *text, size_t size) {
    memset(text, 0, size);
    FILE *to = fmemopen(text, size, "w");
    ck_assert_ptr_nonnull(to);
    plan_print(plan, to, rank);
    fclose(to);
}

START_TEST(test_print) {
    struct maker m;
    char all[4096], one[4096];
    swap_plan(&m, PLAN_ALL_REDUCE);
    m.steps[SEND_0].phase = PLAN_PHASE_REDUCE_SCATTER;
    print_to(&m.plan, PLAN_NONE, all, sizeof all);
    print_to(&m.plan, 1, one, sizeof one);
    ck_assert_ptr_nonnull(
        strstr(all, "all-reduce by ring: 2 ranks, 4 elements of 4 bytes, 1 ring, "));
    ck_assert_ptr_nonnull(strstr(all, "8 steps, 8 waits, 4 lanes"));
    ck_assert_ptr_nonnull(strstr(
        all, "     2  rank 0 out           0 reduce-scatter    copy chunk 0 slice 0, "
             "SEND[0..4) to rank 1 SCRATCH[0..4); waits for 0 (rank 0 main), 1 (rank 1 main)\n"));
    ck_assert_ptr_nonnull(strstr(one, "\n     7  rank 1 main                              leave; "
                                      "waits for 3 (rank 1 out)\n"));
    ck_assert_ptr_null(strstr(one, "\n     6  "));
    ck_assert_ptr_null(strstr(one, "\n     2  "));
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("plan check");
    TCase *tests = tcase_create("plan check");
    tcase_add_test(tests, test_right_plans);
    tcase_add_test(tests, test_references);
    tcase_add_test(tests, test_result_of_steps);
    tcase_add_test(tests, test_result_at_the_end);
    tcase_add_test(tests, test_result_of_halves);
    tcase_add_test(tests, test_order);
    tcase_add_test(tests, test_structure_of_lanes);
    tcase_add_test(tests, test_structure_of_programs);
    tcase_add_test(tests, test_structure_of_the_contract);
    tcase_add_test(tests, test_structure_of_waits);
    tcase_add_test(tests, test_structure_of_reach);
    tcase_add_loop_test(tests, test_out_of_memory, RESULT, STRUCTURE + 1);
    tcase_add_test(tests, test_words);
    tcase_add_test(tests, test_print);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
