#include <stdio.h>
#include <string.h>

#include "base/history.h"
#include "suite.h"

/* The same, element by element and without cleverness: every access of every element is kept. */
enum { ELEMENTS = 40, LANES = 4, STEPS = 300 };

struct reference {
    struct history_access writer[ELEMENTS];
    struct history_access readers[ELEMENTS][LANES]; /* the latest of each lane since the write */
};

struct seen {
    bool hit[STEPS];
};

static bool note(void *context, struct history_access earlier, bool wrote, uint64_t begin,
                 uint64_t end) {
    (void)wrote;
    ck_assert_uint_lt(begin, end);
    ((struct seen *)context)->hit[earlier.id] = true;
    return true;
}

static void reference_access(struct reference *r, uint32_t begin, uint32_t end,
                             struct history_access access, bool write, struct seen *seen) {
    for (uint32_t i = begin; i < end; i++) {
        bool read = false;
        for (int lane = 0; lane < LANES; lane++) {
            if (r->readers[i][lane].id == HISTORY_NONE)
                continue;
            read = true;
            if (write)
                seen->hit[r->readers[i][lane].id] = true;
        }
        if (r->writer[i].id != HISTORY_NONE && !(write && read))
            seen->hit[r->writer[i].id] = true;
        if (write) {
            r->writer[i] = access;
            memset(r->readers[i], 0xff, sizeof r->readers[i]);
        } else {
            r->readers[i][access.lane] = access;
        }
    }
}

START_TEST(test_equals_reference) {
    srand(_i + 1);
    struct history history;
    struct reference reference;
    memset(&reference, 0xff, sizeof reference);
    ck_assert(history_init(&history));
    if (_i % 2)
        for (uint32_t at = 0; at < ELEMENTS; at += 5)
            ck_assert(history_cut(&history, at));
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t a = (uint32_t)rand() % (ELEMENTS + 1), b = (uint32_t)rand() % (ELEMENTS + 1);
        uint32_t begin = a < b ? a : b, end = a < b ? b : a;
        bool write = rand() % 3 == 0;
        struct history_access access = {step, (uint32_t)rand() % LANES};
        struct seen expected = {{0}}, got = {{0}};
        reference_access(&reference, begin, end, access, write, &expected);
        ck_assert_int_eq(history_access(&history, begin, end, access, write, note, &got),
                         HISTORY_OK);
        ck_assert_msg(!memcmp(&expected, &got, sizeof got), "seed %d step %u", _i + 1, step);
    }
    history_free(&history);
}
END_TEST

static bool stop(void *context, struct history_access earlier, bool wrote, uint64_t begin,
                 uint64_t end) {
    (void)earlier, (void)wrote, (void)begin, (void)end;
    ++*(int *)context;
    return false;
}

START_TEST(test_stop_records_nothing) {
    struct history history;
    int stops = 0;
    struct seen got = {{0}};
    ck_assert(history_init(&history));
    struct history_access one = {1, 0}, two = {2, 1}, three = {3, 2};
    ck_assert_int_eq(history_access(&history, 0, 8, one, true, stop, &stops), HISTORY_OK);
    ck_assert_int_eq(history_access(&history, 4, 9, two, true, stop, &stops), HISTORY_STOPPED);
    ck_assert_int_eq(stops, 1);
    ck_assert_int_eq(history_access(&history, 0, 9, three, false, note, &got), HISTORY_OK);
    ck_assert(got.hit[1]);
    ck_assert(!got.hit[2]);
    history_free(&history);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("history");
    TCase *tests = tcase_create("history");
    tcase_add_loop_test(tests, test_equals_reference, 0, 200);
    tcase_add_test(tests, test_stop_records_nothing);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
