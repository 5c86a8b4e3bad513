#include "base/memory.h"
#include "suite.h"

START_TEST(test_zeroed_and_counted) {
    int64_t before = memory_live();
    unsigned char *bytes = memory_zeroed(1000, 1);
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(bytes[i], 0);
    ck_assert_int_eq(memory_live(), before + 1);
    ck_assert(memory_resize(&bytes, 2000, 1));
    ck_assert_int_eq(memory_live(), before + 1);
    memory_free(bytes);
    memory_free(NULL);
    ck_assert_int_eq(memory_live(), before);
}
END_TEST

START_TEST(test_lines) {
    int64_t before = memory_live();
    unsigned char *bytes = memory_lines(3, 64);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq((uintptr_t)bytes % 64, 0);
    for (int i = 0; i < 192; i++)
        ck_assert_int_eq(bytes[i], 0);
    ck_assert_int_eq(memory_live(), before + 1);
    memory_free(bytes);
    ck_assert_int_eq(memory_live(), before);
    memory_fail_at(1);
    ck_assert_ptr_null(memory_lines(1, 64));
    ck_assert_ptr_null(memory_lines(SIZE_MAX, 64));
}
END_TEST

START_TEST(test_overflow) {
    void *pointer = NULL;
    ck_assert_ptr_null(memory_zeroed(SIZE_MAX, 2));
    ck_assert(!memory_resize(&pointer, SIZE_MAX, 2));
    ck_assert_ptr_null(pointer);
}
END_TEST

START_TEST(test_planted_fault_hits_the_nth_once) {
    memory_fail_at(2);
    void *first = memory_zeroed(1, 1);
    ck_assert_ptr_nonnull(first);
    ck_assert(memory_fail_pending());
    ck_assert_ptr_null(memory_zeroed(1, 1));
    ck_assert(!memory_fail_pending());
    void *third = memory_zeroed(1, 1);
    ck_assert_ptr_nonnull(third);
    memory_fail_at(1);
    ck_assert(!memory_resize(&third, 10, 1));
    ck_assert_ptr_nonnull(third);
    memory_free(first);
    memory_free(third);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_add_test(tests, test_zeroed_and_counted);
    tcase_add_test(tests, test_lines);
    tcase_add_test(tests, test_overflow);
    tcase_add_test(tests, test_planted_fault_hits_the_nth_once);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
