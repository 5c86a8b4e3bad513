#include "base/dtype.h"
#include "suite.h"

START_TEST(test_types) {
    static const struct {
        ringlet_dtype value;
        uint32_t bytes;
        const char *name;
    } expected[] = {
        {RINGLET_FLOAT32, 4, "float32"},   {RINGLET_FLOAT16, 2, "float16"},
        {RINGLET_BFLOAT16, 2, "bfloat16"}, {RINGLET_FLOAT64, 8, "float64"},
        {RINGLET_INT8, 1, "int8"},         {RINGLET_INT32, 4, "int32"},
        {RINGLET_INT64, 8, "int64"},       {RINGLET_UINT8, 1, "uint8"},
        {RINGLET_UINT32, 4, "uint32"},     {RINGLET_UINT64, 8, "uint64"},
    };
    ck_assert_int_eq(DTYPE_COUNT, sizeof expected / sizeof expected[0]);
    ck_assert_int_eq(RINGLET_FLOAT32, 0);
    for (int i = 0; i < DTYPE_COUNT; i++) {
        ck_assert_str_eq(ringlet_dtype_name(expected[i].value), expected[i].name);
        ck_assert_uint_eq(ringlet_dtype_size(expected[i].value), expected[i].bytes);
        ck_assert(dtype_known((ringlet_dtype)i));
        ck_assert_int_eq(dtype_is_float(expected[i].value),
                         expected[i].name[0] == 'f' || expected[i].name[0] == 'b');
    }
}
END_TEST

START_TEST(test_operations) {
    static const char *const expected[] = {"sum", "prod", "min", "max", "avg"};
    static const ringlet_op values[] = {RINGLET_SUM, RINGLET_PROD, RINGLET_MIN, RINGLET_MAX,
                                        RINGLET_AVG};
    ck_assert_int_eq(RINGLET_SUM, 0);
    ck_assert_int_eq(DTYPE_OP_COUNT, sizeof expected / sizeof expected[0]);
    for (int i = 0; i < DTYPE_OP_COUNT; i++) {
        ck_assert_str_eq(ringlet_op_name(values[i]), expected[i]);
        ck_assert(dtype_op_known((ringlet_op)i));
    }
}
END_TEST

START_TEST(test_unknown) {
    static const int unknown[] = {-1, 99, DTYPE_COUNT, 1 << 30};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        ck_assert_str_eq(ringlet_dtype_name((ringlet_dtype)unknown[i]), "unknown");
        ck_assert_uint_eq(ringlet_dtype_size((ringlet_dtype)unknown[i]), 0);
        ck_assert_str_eq(ringlet_op_name((ringlet_op)unknown[i]), "unknown");
        ck_assert(!dtype_known((ringlet_dtype)unknown[i]));
        ck_assert(!dtype_op_known((ringlet_op)unknown[i]));
    }
    ck_assert(!dtype_op_known((ringlet_op)DTYPE_OP_COUNT));
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("dtype");
    TCase *tests = tcase_create("dtype");
    tcase_add_test(tests, test_types);
    tcase_add_test(tests, test_operations);
    tcase_add_test(tests, test_unknown);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
