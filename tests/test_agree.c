#include <pthread.h>
#include <string.h>

#include "base/status.h"
#include "run/agree.h"
#include "suite.h"

static bool go_on(void *context) {
    return context && *(bool *)context;
}

static const char *collective(uint32_t value) {
    return value ? "all-gather" : "all-reduce";
}

static const char *other(uint32_t value) {
    return value ? "one" : "zero";
}

static const struct agree_names names = {collective, other, other};

static uint32_t enter(struct agree *agree, uint32_t rank, struct agree_call call) {
    uint32_t number = 0;
    ck_assert_ok(agree_enter(agree, rank, &call, 1000, go_on, NULL, &number));
    return number;
}

START_TEST(test_waits_for_all) {
    struct agree *agree = agree_new(3);
    struct agree_call call = {.count = 5};
    uint32_t missing = 9, number = enter(agree, 0, call);
    ck_assert_status(agree_wait(agree, number, 20, go_on, NULL, &missing), RINGLET_TIMEOUT);
    ck_assert_uint_eq(missing, 1);
    enter(agree, 1, call);
    ck_assert_status(agree_wait(agree, number, 20, go_on, NULL, &missing), RINGLET_TIMEOUT);
    ck_assert_uint_eq(missing, 2);
    bool stop = true;
    ck_assert_status(agree_wait(agree, number, -1, go_on, &stop, &missing), RINGLET_ABORTED);
    enter(agree, 2, call);
    ck_assert_ok(agree_wait(agree, number, 0, go_on, NULL, &missing));
    ck_assert_ok(agree_compare(agree, number, &names));
    agree_free(agree);
}
END_TEST

START_TEST(test_names_ranks_and_values) {
    struct agree *agree = agree_new(4);
    struct agree_call call = {.count = 100};
    uint32_t number = enter(agree, 0, call);
    call.count = 200;
    enter(agree, 1, call);
    enter(agree, 3, call);
    call.count = 100;
    enter(agree, 2, call);
    ck_assert_status(agree_compare(agree, number, &names), RINGLET_MISMATCH);
    ck_assert_str_eq(status_message(),
                     "the ranks disagree about the count: 100 on ranks 0, 2; 200 on "
                     "ranks 1, 3");
    call.collective = 1;
    number = enter(agree, 0, call);
    call.collective = 0;
    for (uint32_t rank = 1; rank < 4; rank++)
        enter(agree, rank, call);
    ck_assert_status(agree_compare(agree, number, &names), RINGLET_MISMATCH);
    ck_assert_str_eq(status_message(),
                     "the ranks disagree about the collective: all-gather on rank 0; "
                     "all-reduce on ranks 1, 2, 3");
    agree_free(agree);
}
END_TEST

START_TEST(test_a_wrong_rank_is_told_to_all) {
    struct agree *agree = agree_new(2);
    struct agree_call good = {.count = 1}, bad = {.count = 7, .bad = RINGLET_INVALID_ARGUMENT};
    strcpy(bad.text, "rank 1: recv is NULL");
    uint32_t number = enter(agree, 0, good);
    enter(agree, 1, bad);
    ck_assert_status(agree_compare(agree, number, &names), RINGLET_INVALID_ARGUMENT);
    ck_assert_str_eq(status_message(), "rank 1: recv is NULL");
    number = enter(agree, 0, good); /* the next call is another one */
    enter(agree, 1, good);
    ck_assert_ok(agree_compare(agree, number, &names));
    agree_free(agree);
}
END_TEST

START_TEST(test_depth_holds_back_a_rank_that_runs_ahead) {
    struct agree *agree = agree_new(2);
    struct agree_call call = {.count = 1};
    uint32_t number = 0, missing;
    for (uint32_t i = 0; i < AGREE_DEPTH - 1; i++) {
        call.count = i;
        enter(agree, 0, call);
    }
    ck_assert_status(agree_enter(agree, 0, &call, 20, go_on, NULL, &number), RINGLET_TIMEOUT);
    for (uint32_t i = 0; i < AGREE_DEPTH - 1; i++) { /* everything it published is still there */
        call.count = i;
        number = enter(agree, 1, call);
        ck_assert_ok(agree_wait(agree, number, 0, go_on, NULL, &missing));
        ck_assert_ok(agree_compare(agree, number, &names));
    }
    enter(agree, 0, call);
    agree_free(agree);
}
END_TEST

START_TEST(test_one_thread_enters_for_all_from_any_state) {
    struct agree *agree = agree_new(3);
    struct agree_call call = {.count = 1}, calls[3] = {{.count = 2}, {.count = 2}, {.count = 2}};
    enter(agree, 1, call); /* failed alone, say */
    enter(agree, 1, call);
    uint32_t missing, number = agree_enter_all(agree, calls);
    ck_assert_ok(agree_wait(agree, number, 0, go_on, NULL, &missing));
    ck_assert_ok(agree_compare(agree, number, &names));
    number = enter(agree, 0, call);
    ck_assert_uint_eq(enter(agree, 1, call), number);
    ck_assert_uint_eq(enter(agree, 2, call), number);
    agree_free(agree);
}
END_TEST

/* Threads that enter as fast as they can: nobody ever sees another call's values. */
enum { RACERS = 4, LAPS = 3000 };
static struct agree *track;

static void *racer(void *argument) {
    uint32_t rank = (uint32_t)(uintptr_t)argument, missing, number;
    for (uint64_t lap = 0; lap < LAPS; lap++) {
        struct agree_call call = {.count = lap};
        if (agree_enter(track, rank, &call, 20000, go_on, NULL, &number) ||
            agree_wait(track, number, 20000, go_on, NULL, &missing) ||
            agree_compare(track, number, &names))
            return (void *)(uintptr_t)status_message();
        for (uint32_t r = 0; r < RACERS; r++)
            if (agree_peer(track, r, number)->count != lap)
                return (void *)(uintptr_t) "a value of another call";
    }
    return NULL;
}

START_TEST(test_many_calls_across_the_wrap) {
    pthread_t threads[RACERS];
    track = agree_new(RACERS);
    agree_start_at(track, UINT32_MAX - LAPS / 2);
    for (uintptr_t rank = 0; rank < RACERS; rank++)
        ck_assert_int_eq(pthread_create(&threads[rank], NULL, racer, (void *)rank), 0);
    for (int rank = 0; rank < RACERS; rank++) {
        void *wrong;
        pthread_join(threads[rank], &wrong);
        ck_assert_msg(!wrong, "%s", wrong ? (const char *)wrong : "");
    }
    agree_free(track);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("agree");
    TCase *tests = tcase_create("agree");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_waits_for_all);
    tcase_add_test(tests, test_names_ranks_and_values);
    tcase_add_test(tests, test_a_wrong_rank_is_told_to_all);
    tcase_add_test(tests, test_depth_holds_back_a_rank_that_runs_ahead);
    tcase_add_test(tests, test_one_thread_enters_for_all_from_any_state);
    tcase_add_test(tests, test_many_calls_across_the_wrap);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
