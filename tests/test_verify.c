#include <math.h>
#include <string.h>

#include "../bench/verify.h"
#include "suite.h"

enum { COUNT = 4096, RANKS_MAX = 64 };

static float got[COUNT], term[COUNT];
static struct verify_sum reference[COUNT];

/* The sum as a ring makes it for one chunk: float32, ranks from `start` on. */
static void sum(enum verify_data data, uint64_t seed, uint32_t ranks, uint32_t start,
                uint64_t first) {
    for (uint32_t k = 0; k < ranks; k++) {
        verify_fill(term, data, seed, (start + k) % ranks, first, COUNT);
        for (int i = 0; i < COUNT; i++)
            got[i] = k ? got[i] + term[i] : term[i];
    }
}

START_TEST(test_right_sums_pass_in_any_order) {
    uint32_t ranks = (uint32_t[]){1, 2, 3, 8, RANKS_MAX}[_i];
    for (int data = 0; data < VERIFY_DATA_COUNT; data++)
        for (uint32_t start = 0; start < ranks; start += 1 + ranks / 4) {
            uint64_t first = (UINT64_C(1) << 33) - 5;
            sum((enum verify_data)data, 7, ranks, start, first);
            verify_reference(reference, (enum verify_data)data, 7, ranks, first, COUNT);
            ck_assert_uint_eq(verify_against(got, reference, NULL, COUNT), 0);
        }
}
END_TEST

START_TEST(test_one_ulp_is_caught) {
    sum(VERIFY_EXACT, 1, 8, 0, 0);
    verify_reference(reference, VERIFY_EXACT, 1, 8, 0, COUNT);
    for (int i = 0; i < COUNT; i += 97) {
        float kept = got[i];
        got[i] = nextafterf(kept, INFINITY);
        ck_assert_uint_eq(verify_against(got, reference, NULL, COUNT), 1);
        got[i] = kept;
    }
    ck_assert_uint_eq(verify_against(got, reference, NULL, COUNT), 0);
}
END_TEST

/* What really goes wrong: an element never written, an input left out or added twice, the
 * neighbour's element. In either kind of data, each is seen. */
START_TEST(test_wrong_elements_are_caught) {
    for (int data = 0; data < VERIFY_DATA_COUNT; data++) {
        enum verify_data kind = (enum verify_data)data;
        sum(kind, 3, 8, 0, 0);
        verify_reference(reference, kind, 3, 8, 0, COUNT);
        float kept = got[100], fifth = verify_value(kind, 3, 5, 100);
        float wrong[] = {kept - fifth, kept + fifth, got[101], 0.0f, INFINITY};
        for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
            got[100] = wrong[k];
            ck_assert_msg(verify_against(got, reference, NULL, COUNT) == 1, "data %d, error %zu",
                          data, k);
        }
        verify_poison(got + 100, 1);
        ck_assert_uint_eq(verify_against(got, reference, NULL, COUNT), 1);
        verify_poison(got, COUNT);
        ck_assert_uint_eq(verify_against(got, reference, NULL, COUNT), COUNT);
    }
}
END_TEST

/* Sixteen-bit partial sums pass on exact data of few ranks, but not here. */
START_TEST(test_lost_accuracy_is_caught) {
    sum(VERIFY_RANDOM, 3, 8, 0, 0);
    verify_reference(reference, VERIFY_RANDOM, 3, 8, 0, COUNT);
    for (int i = 0; i < COUNT; i++) {
        uint32_t word;
        memcpy(&word, &got[i], sizeof word);
        word = (word + 0x8000) & 0xffff0000; /* bfloat16 */
        memcpy(&got[i], &word, sizeof word);
    }
    ck_assert_uint_gt(verify_against(got, reference, NULL, COUNT), COUNT * 9 / 10);
}
END_TEST

START_TEST(test_ranks_must_agree_bit_for_bit) {
    static float other[COUNT];
    sum(VERIFY_RANDOM, 3, 8, 0, 0);
    memcpy(other, got, sizeof other);
    other[17] = nextafterf(other[17], 0);
    verify_reference(reference, VERIFY_RANDOM, 3, 8, 0, COUNT);
    ck_assert_uint_eq(verify_against(other, reference, NULL, COUNT), 0);
    ck_assert_uint_eq(verify_against(other, reference, got, COUNT), 1);
}
END_TEST

START_TEST(test_inputs_and_poison) {
    verify_fill(got, VERIFY_RANDOM, 5, 2, 1000, COUNT);
    ck_assert_uint_eq(verify_input(got, VERIFY_RANDOM, 5, 2, 1000, COUNT), 0);
    ck_assert_uint_eq(verify_input(got, VERIFY_RANDOM, 5, 3, 1000, COUNT), COUNT);
    ck_assert_uint_gt(verify_input(got, VERIFY_RANDOM, 5, 2, 1001, COUNT), COUNT * 9 / 10);
    ck_assert_uint_gt(verify_input(got, VERIFY_RANDOM, 6, 2, 1000, COUNT), COUNT * 9 / 10);
    got[9] = nextafterf(got[9], 0);
    ck_assert_uint_eq(verify_input(got, VERIFY_RANDOM, 5, 2, 1000, COUNT), 1);
    verify_poison(got, COUNT);
    ck_assert_uint_eq(verify_poisoned(got, COUNT), 0);
    got[COUNT - 1] = 0;
    ck_assert_uint_eq(verify_poisoned(got, COUNT), 1);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("verify");
    TCase *tests = tcase_create("verify");
    tcase_add_loop_test(tests, test_right_sums_pass_in_any_order, 0, 5);
    tcase_add_test(tests, test_one_ulp_is_caught);
    tcase_add_test(tests, test_wrong_elements_are_caught);
    tcase_add_test(tests, test_lost_accuracy_is_caught);
    tcase_add_test(tests, test_ranks_must_agree_bit_for_bit);
    tcase_add_test(tests, test_inputs_and_poison);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
