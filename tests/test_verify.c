#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "../bench/names.h"
#include "../bench/verify.h"
#include "suite.h"

enum { COUNT = 512, RANKS_MAX = 130, ALL = NAMES_TYPES * NAMES_OPS };

static uint64_t got[COUNT], other[COUNT], input[COUNT];
static struct verify_result reference[COUNT];

static bool is_float(ringlet_dtype type) {
    return type == RINGLET_FLOAT16 || type == RINGLET_BFLOAT16 || type == RINGLET_FLOAT32 ||
           type == RINGLET_FLOAT64;
}

static bool is_signed(ringlet_dtype type) {
    return is_float(type) || type == RINGLET_INT8 || type == RINGLET_INT32 || type == RINGLET_INT64;
}

static struct verify verify_of(int index, enum verify_data data, uint32_t ranks) {
    return (struct verify){(ringlet_dtype)(index / NAMES_OPS), (ringlet_op)(index % NAMES_OPS),
                           data, 7, ranks};
}

/* As a careful library computes it: 16-bit floats in float32 and rounded at every hop, averages
 * scaled at the first addition. Written without the code under test, but for conversions. */
static uint64_t add_floats(const struct verify *v, uint64_t a, uint64_t b) {
    if (v->type == RINGLET_FLOAT64) {
        double x = verify_float(v->type, a), y = verify_float(v->type, b);
        return verify_round(v->type, v->op == RINGLET_PROD ? x * y : x + y);
    }
    float x = (float)verify_float(v->type, a), y = (float)verify_float(v->type, b);
    return verify_round(v->type, (long double)(v->op == RINGLET_PROD ? x * y : x + y));
}

static int64_t value_signed(ringlet_dtype type, uint64_t bits) {
    unsigned shift = 64 - 8 * ringlet_dtype_size(type);
    return (int64_t)(bits << shift) >> shift;
}

static uint64_t pick(const struct verify *v, uint64_t a, uint64_t b) {
    bool less = a < b;
    if (is_float(v->type)) {
        double x = verify_float(v->type, a), y = verify_float(v->type, b);
        if (isnan(x) || isnan(y))
            return isnan(x) ? a : b;
        less = x < y;
    } else if (is_signed(v->type)) {
        less = value_signed(v->type, a) < value_signed(v->type, b);
    }
    return (v->op == RINGLET_MIN) == less ? a : b;
}

static uint64_t cut(ringlet_dtype type, uint64_t bits) {
    uint32_t size = ringlet_dtype_size(type);
    return size == 8 ? bits : bits & ((UINT64_C(1) << 8 * size) - 1);
}

static uint64_t combine(const struct verify *v, uint64_t a, uint64_t b) {
    if (v->op == RINGLET_MIN || v->op == RINGLET_MAX)
        return pick(v, a, b);
    if (is_float(v->type))
        return add_floats(v, a, b);
    return cut(v->type, v->op == RINGLET_PROD ? a * b : a + b);
}

static uint64_t scaled(const struct verify *v, uint64_t bits) {
    if (v->type == RINGLET_FLOAT64)
        return verify_round(v->type, verify_float(v->type, bits) * (1.0 / v->ranks));
    float x = (float)verify_float(v->type, bits) * (1.0f / (float)v->ranks);
    return verify_round(v->type, (long double)x);
}

static uint64_t divided(const struct verify *v, uint64_t sum) {
    if (!is_signed(v->type))
        return sum / v->ranks;
    return cut(v->type, (uint64_t)(value_signed(v->type, sum) / (int64_t)v->ranks));
}

/* The result of ranks from `start` on, without `left_out` (v->ranks: nobody). */
static void compute(void *out, const struct verify *v, uint32_t start, uint32_t left_out,
                    uint64_t first) {
    bool average = v->op == RINGLET_AVG, begun = false;
    for (uint32_t k = 0; k < v->ranks; k++) {
        uint32_t rank = (start + k) % v->ranks;
        if (rank == left_out)
            continue;
        verify_fill(input, v, rank, first, COUNT);
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t bits = verify_load(input, v->type, i);
            if (average && is_float(v->type))
                bits = scaled(v, bits);
            verify_store(out, v->type, i,
                         begun ? combine(v, verify_load(out, v->type, i), bits) : bits);
        }
        begun = true;
    }
    for (uint64_t i = 0; i < COUNT && average && !is_float(v->type); i++)
        verify_store(out, v->type, i, divided(v, verify_load(out, v->type, i)));
}

static uint64_t count_wrong(const struct verify *v, uint64_t first) {
    verify_reference(reference, v, first, COUNT);
    return verify_against(got, v, reference, NULL, COUNT);
}

#define ck_assert_about(v, condition)                                                              \
    ck_assert_msg(condition, "%s %s, data %d, %u ranks: not %s", ringlet_dtype_name((v)->type),    \
                  ringlet_op_name((v)->op), (int)(v)->data, (v)->ranks, #condition)

START_TEST(test_right_results_pass_in_any_order) {
    static const uint32_t counts[] = {1, 2, 3, 8, 20, RANKS_MAX};
    uint64_t first = (UINT64_C(1) << 33) - 5;
    for (int data = 0; data < VERIFY_DATA_COUNT; data++)
        for (int c = 0; c < 6; c++)
            for (uint32_t turn = 0; turn < 3; turn++) {
                struct verify v = verify_of(_i, (enum verify_data)data, counts[c]);
                compute(got, &v, turn * counts[c] / 3, counts[c], first);
                uint64_t wrong = count_wrong(&v, first);
                ck_assert_about(&v, wrong == 0);
            }
}
END_TEST

/* A missing contribution shows in most elements, in a minimum of five in a fifth of them. */
START_TEST(test_a_missing_rank_is_caught) {
    struct verify v = verify_of(_i, VERIFY_EXACT, 5);
    for (uint32_t rank = 0; rank < v.ranks; rank++) {
        compute(got, &v, 0, rank, 0);
        uint64_t wrong = count_wrong(&v, 0);
        ck_assert_about(&v, wrong > COUNT / 10);
    }
}
END_TEST

START_TEST(test_one_bit_is_caught_in_exact_data) {
    struct verify v = verify_of(_i, VERIFY_EXACT, 8);
    compute(got, &v, 0, v.ranks, 0);
    ck_assert_uint_eq(count_wrong(&v, 0), 0);
    for (uint64_t i = 0; i < COUNT; i += 7) {
        uint64_t kept = verify_load(got, v.type, i);
        if (is_float(v.type) && isnan(verify_float(v.type, kept)))
            continue; /* which NaN is left open */
        verify_store(got, v.type, i, kept ^ 1);
        uint64_t wrong = verify_against(got, &v, reference, NULL, COUNT);
        ck_assert_about(&v, wrong == 1);
        verify_store(got, v.type, i, kept);
    }
}
END_TEST

/* What really goes wrong: elements never written, the neighbour's element. */
START_TEST(test_unwritten_and_moved_elements_are_caught) {
    for (int data = 0; data < VERIFY_DATA_COUNT; data++) {
        struct verify v = verify_of(_i, (enum verify_data)data, 3);
        uint32_t size = ringlet_dtype_size(v.type);
        compute(got, &v, 0, v.ranks, 0);
        verify_reference(reference, &v, 0, COUNT);
        memcpy(other, got, sizeof other);
        verify_poison(got, v.type, COUNT);
        uint64_t wrong = verify_against(got, &v, reference, NULL, COUNT);
        ck_assert_about(&v, wrong >= (is_float(v.type) ? COUNT : COUNT * 7 / 8));
        memcpy(got, (char *)other + size, (COUNT - 1) * (size_t)size);
        wrong = verify_against(got, &v, reference, NULL, COUNT - 1);
        ck_assert_about(&v, wrong > COUNT / 2);
    }
}
END_TEST

/* Results that were cut to fewer bits on the way. */
START_TEST(test_lost_accuracy_is_caught) {
    static const struct {
        ringlet_dtype type, lower;
    } cases[] = {{RINGLET_FLOAT64, RINGLET_FLOAT32},
                 {RINGLET_FLOAT32, RINGLET_BFLOAT16},
                 {RINGLET_FLOAT16, RINGLET_BFLOAT16}};
    static const ringlet_op ops[] = {RINGLET_SUM, RINGLET_PROD, RINGLET_AVG};
    for (int o = 0; o < 3; o++) {
        ringlet_dtype type = cases[_i].type, lower = cases[_i].lower;
        struct verify v = {type, ops[o], VERIFY_RANDOM, 3, 3};
        compute(got, &v, 0, v.ranks, 0);
        ck_assert_uint_eq(count_wrong(&v, 0), 0);
        for (uint64_t i = 0; i < COUNT; i++) {
            double value = verify_float(type, verify_load(got, type, i));
            double less = verify_float(lower, verify_round(lower, value));
            verify_store(got, type, i, verify_round(type, less));
        }
        uint64_t wrong = verify_against(got, &v, reference, NULL, COUNT);
        ck_assert_about(&v, wrong > COUNT / 10);
    }
}
END_TEST

START_TEST(test_ranks_must_agree_bit_for_bit) {
    struct verify v = {RINGLET_FLOAT32, RINGLET_SUM, VERIFY_RANDOM, 3, 8};
    compute(got, &v, 0, v.ranks, 0);
    memcpy(other, got, sizeof other);
    verify_store(other, v.type, 17, verify_load(other, v.type, 17) ^ 1);
    verify_reference(reference, &v, 0, COUNT);
    ck_assert_uint_eq(verify_against(other, &v, reference, NULL, COUNT), 0);
    ck_assert_uint_eq(verify_against(other, &v, reference, got, COUNT), 1);
}
END_TEST

START_TEST(test_inputs_and_poison) {
    struct verify v = {(ringlet_dtype)_i, RINGLET_SUM, VERIFY_RANDOM, 5, 3}, later = v;
    later.seed++;
    verify_fill(got, &v, 2, 1000, COUNT);
    ck_assert_uint_eq(verify_input(got, &v, 2, 1000, COUNT), 0);
    ck_assert_uint_gt(verify_input(got, &v, 1, 1000, COUNT), COUNT * 9 / 10);
    ck_assert_uint_gt(verify_input(got, &v, 2, 1001, COUNT), COUNT * 9 / 10);
    ck_assert_uint_gt(verify_input(got, &later, 2, 1000, COUNT), COUNT * 9 / 10);
    verify_store(got, v.type, 9, verify_load(got, v.type, 9) ^ 1);
    ck_assert_uint_eq(verify_input(got, &v, 2, 1000, COUNT), 1);
    verify_poison(got, v.type, COUNT);
    ck_assert_uint_eq(verify_poisoned(got, v.type, COUNT), 0);
    ck_assert(!is_float(v.type) || isnan(verify_float(v.type, verify_load(got, v.type, 3))));
    verify_store(got, v.type, COUNT - 1, 0);
    ck_assert_uint_eq(verify_poisoned(got, v.type, COUNT), 1);
}
END_TEST

/* Every 16-bit float has a value that rounds back to it; what lies between two rounds to the nearer
 * one, and halfway to the even one. */
START_TEST(test_conversions_of_16_bits) {
    ringlet_dtype type = _i ? RINGLET_BFLOAT16 : RINGLET_FLOAT16;
    uint64_t infinite = _i ? 0x7f80 : 0x7c00;
    for (uint64_t bits = 0; bits < infinite; bits++) {
        double value = verify_float(type, bits), next = verify_float(type, bits + 1);
        ck_assert_uint_eq(verify_round(type, value), bits);
        ck_assert_uint_eq(verify_round(type, -value), bits | 0x8000);
        if (bits + 1 == infinite)
            break;
        double middle = value / 2 + next / 2;
        ck_assert_uint_eq(verify_round(type, middle), bits & 1 ? bits + 1 : bits);
        ck_assert_uint_eq(verify_round(type, nextafter(middle, 0)), bits);
        ck_assert_uint_eq(verify_round(type, nextafter(middle, INFINITY)), bits + 1);
    }
    ck_assert_uint_eq(verify_round(type, INFINITY), infinite);
    ck_assert_uint_eq(verify_round(type, 1e300), infinite);
    ck_assert(isnan(verify_float(type, verify_round(type, NAN))));
}
END_TEST

START_TEST(test_conversions) {
    static const float values[] = {0.0f, -0.0f, 1.0f, -3.1415927f, 0x1p-149f, 0x1.fffffep127f};
    for (int i = 0; i < 6; i++) {
        uint32_t word;
        memcpy(&word, &values[i], sizeof word);
        ck_assert_uint_eq(verify_round(RINGLET_FLOAT32, (long double)values[i]), word);
        ck_assert(verify_float(RINGLET_FLOAT32, word) == (double)values[i]);
    }
    ck_assert_uint_eq(verify_round(RINGLET_FLOAT16, 65519.99L), 0x7bff);
    ck_assert_uint_eq(verify_round(RINGLET_FLOAT16, 65520), 0x7c00);
    ck_assert_uint_eq(verify_round(RINGLET_FLOAT64, 1), 0x3ff0000000000000);
}
END_TEST

/* Results known without any reference. */
START_TEST(test_known_results) {
    struct verify v = {RINGLET_INT8, RINGLET_AVG, VERIFY_EXACT, 11, 7};
    verify_reference(reference, &v, 0, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        int8_t sum = 0;
        for (uint32_t rank = 0; rank < v.ranks; rank++) {
            verify_fill(input, &v, rank, i, 1);
            sum = (int8_t)(sum + (int8_t)verify_load(input, v.type, 0));
        }
        int8_t average = (int8_t)(sum / 7);
        ck_assert_uint_eq(reference[i].bits, (uint8_t)average);
    }
}
END_TEST

START_TEST(test_a_nan_wins) {
    struct verify v = {RINGLET_FLOAT16, _i ? RINGLET_MIN : RINGLET_MAX, VERIFY_EXACT, 11, 7};
    int nans = 0;
    verify_reference(reference, &v, 0, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) {
        bool any = false;
        for (uint32_t rank = 0; rank < v.ranks; rank++) {
            verify_fill(input, &v, rank, i, 1);
            any |= isnan(verify_float(v.type, verify_load(input, v.type, 0)));
        }
        nans += any;
        ck_assert(any == isnan(reference[i].value));
    }
    ck_assert_int_gt(nans, COUNT / 50);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("verify");
    TCase *tests = tcase_create("verify");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_right_results_pass_in_any_order, 0, ALL);
    tcase_add_loop_test(tests, test_a_missing_rank_is_caught, 0, ALL);
    tcase_add_loop_test(tests, test_one_bit_is_caught_in_exact_data, 0, ALL);
    tcase_add_loop_test(tests, test_unwritten_and_moved_elements_are_caught, 0, ALL);
    tcase_add_loop_test(tests, test_lost_accuracy_is_caught, 0, 3);
    tcase_add_test(tests, test_ranks_must_agree_bit_for_bit);
    tcase_add_loop_test(tests, test_inputs_and_poison, 0, NAMES_TYPES);
    tcase_add_loop_test(tests, test_conversions_of_16_bits, 0, 2);
    tcase_add_test(tests, test_conversions);
    tcase_add_test(tests, test_known_results);
    tcase_add_loop_test(tests, test_a_nan_wins, 0, 2);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
