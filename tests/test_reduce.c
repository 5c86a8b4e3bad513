#include <inttypes.h>
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "device/cpu_loops.h"
#include "device/device.h"
#include "reduce_values.h"
#include "slow.h"
#include "suite.h"

enum {
    INPUTS_MOST = 9,
    PAD = 70,
    COUNT_MOST = 3 * CPU_LOOPS_RUN + 100,
    TRIES = SUITE_SLOW ? 2 : 6
};

__extension__ typedef __int128 wide;

/* ---- The reference: one element after another, in double or 128 bits ---- */

static double decode(ringlet_dtype dtype, uint64_t bits) {
    struct values_format f = values_format(dtype);
    uint64_t fraction = bits & ((UINT64_C(1) << f.fraction_bits) - 1);
    int exponent = (int)(bits >> f.fraction_bits & ((1u << f.exponent_bits) - 1));
    int bias = (1 << (f.exponent_bits - 1)) - 1, last = (1 << f.exponent_bits) - 1;
    double sign = bits >> (f.fraction_bits + f.exponent_bits) & 1 ? -1 : 1;
    if (exponent == last)
        return fraction ? NAN : sign * INFINITY;
    if (exponent)
        fraction |= UINT64_C(1) << f.fraction_bits;
    else
        exponent = 1;
    return sign * ldexp((double)fraction, exponent - bias - (int)f.fraction_bits);
}

/* To nearest, ties to even, by the definition. */
static uint64_t encode(ringlet_dtype dtype, double value) {
    struct values_format f = values_format(dtype);
    int bias = (1 << (f.exponent_bits - 1)) - 1, fraction_bits = (int)f.fraction_bits, exponent;
    uint64_t infinity = ((UINT64_C(1) << f.exponent_bits) - 1) << f.fraction_bits;
    uint64_t sign = (uint64_t)(signbit(value) != 0) << (f.fraction_bits + f.exponent_bits);
    if (isnan(value))
        return infinity + 1;
    if (isinf(value))
        return sign | infinity;
    frexp(value, &exponent); /* value < 2^exponent */
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    double units = rint(ldexp(fabs(value), fraction_bits - exponent)); /* of the last place */
    if (units >= ldexp(2, fraction_bits)) {
        units /= 2;
        exponent++;
    }
    if (exponent > bias)
        return sign | infinity;
    if (units < ldexp(1, fraction_bits))
        return sign | (uint64_t)units; /* subnormal */
    return sign | (uint64_t)(exponent + bias) << fraction_bits |
           ((uint64_t)units - (UINT64_C(1) << fraction_bits));
}

/* Rounds to the type that the inputs are added in. */
static double rounded(ringlet_dtype dtype, double value) {
    return dtype == RINGLET_FLOAT64 ? value : (double)(float)value;
}

static double combine_double(ringlet_dtype dtype, ringlet_op op, double a, double b) {
    switch (op) {
    case RINGLET_SUM:
    case RINGLET_AVG:
        return rounded(dtype, a + b);
    case RINGLET_PROD:
        return rounded(dtype, a * b);
    case RINGLET_MIN:
        return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    case RINGLET_MAX:
        return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    }
    return 0;
}

static double contribution(const struct device_reduction *how, double value, bool own) {
    if (how->op != RINGLET_AVG || !own)
        return value;
    double factor = rounded(how->dtype, 1.0 / how->ranks);
    return rounded(how->dtype, value * factor);
}

static uint64_t expected_float(const struct device_reduction *how, const void *const *inputs,
                               uint32_t input_count, uint64_t i) {
    double sum =
        contribution(how, decode(how->dtype, values_bits(how->dtype, inputs[0], i)), how->first);
    for (uint32_t k = 1; k < input_count; k++) {
        double next = decode(how->dtype, values_bits(how->dtype, inputs[k], i));
        sum = combine_double(how->dtype, how->op, sum, contribution(how, next, true));
    }
    return encode(how->dtype, sum);
}

/* The type's value that is equal modulo 2^bits. */
static wide wrap(ringlet_dtype dtype, wide value) {
    uint32_t bits = 8 * ringlet_dtype_size(dtype);
    bool is_signed = dtype == RINGLET_INT8 || dtype == RINGLET_INT32 || dtype == RINGLET_INT64;
    wide modulus = (wide)1 << bits;
    value %= modulus;
    value += value < 0 ? modulus : 0;
    return is_signed && value >= modulus / 2 ? value - modulus : value;
}

static wide combine_wide(ringlet_dtype dtype, ringlet_op op, wide a, wide b) {
    switch (op) {
    case RINGLET_SUM:
    case RINGLET_AVG:
        return wrap(dtype, a + b);
    case RINGLET_PROD: /* of two unsigned 64-bit numbers the product does not fit */
        return wrap(dtype, wrap(RINGLET_INT64, a) * wrap(RINGLET_INT64, b));
    case RINGLET_MIN:
        return a < b ? a : b;
    case RINGLET_MAX:
        return a > b ? a : b;
    }
    return 0;
}

static uint64_t expected_integer(const struct device_reduction *how, const void *const *inputs,
                                 uint32_t input_count, uint64_t i) {
    uint32_t bits = 8 * ringlet_dtype_size(how->dtype);
    wide sum = wrap(how->dtype, (wide)values_bits(how->dtype, inputs[0], i));
    for (uint32_t k = 1; k < input_count; k++)
        sum = combine_wide(how->dtype, how->op, sum,
                           wrap(how->dtype, (wide)values_bits(how->dtype, inputs[k], i)));
    if (how->op == RINGLET_AVG && how->last)
        sum /= how->ranks;
    return (uint64_t)sum & (UINT64_MAX >> (64 - bits));
}

static void expect(const struct device_reduction *how, void *out, const void *const *inputs,
                   uint32_t input_count, uint64_t count) {
    uint32_t size = ringlet_dtype_size(how->dtype);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = dtype_is_float(how->dtype) ? expected_float(how, inputs, input_count, i)
                                                   : expected_integer(how, inputs, input_count, i);
        memcpy((char *)out + i * size, &bits, size);
    }
}

/* ---- One reduction and its reference ---- */

static uint64_t state = 1;

static uint64_t random_below(uint64_t limit) {
    return values_random(&state) % limit;
}

struct trial {
    struct device_reduction how;
    uint32_t input_count;
    uint64_t count;
    uint64_t offset[INPUTS_MOST + 1]; /* in elements; the last is dst's */
    uint32_t in_place;                /* dst is this input; input_count: none */
};

/* Memory of all inputs and dst, filled; their places in it. */
struct ground {
    _Alignas(64) char memory[INPUTS_MOST + 1][(COUNT_MOST + 2 * PAD) * DTYPE_BYTES_MAX];
};

static struct ground ground, before;
static char wanted[COUNT_MOST * DTYPE_BYTES_MAX];

static void check_trial(const struct cpu_loops *loops, const struct trial *t) {
    const void *inputs[INPUTS_MOST], *untouched[INPUTS_MOST];
    uint32_t size = ringlet_dtype_size(t->how.dtype), target = t->in_place;
    for (uint32_t k = 0; k < t->input_count; k++) {
        uint64_t seed = values_random(&state);
        values_fill(t->how.dtype, ground.memory[k], t->count + 2 * PAD, seed);
        inputs[k] = ground.memory[k] + t->offset[k] * size;
        untouched[k] = before.memory[k] + t->offset[k] * size;
    }
    if (target == t->input_count)
        target = INPUTS_MOST;
    uint64_t begin = t->offset[target] * size, bytes = t->count * size;
    memcpy(&before, &ground, sizeof before);
    expect(&t->how, wanted, untouched, t->input_count, t->count);
    cpu_loops_reduce(loops, ground.memory[target] + begin, inputs, t->input_count, t->count,
                     &t->how);
    uint64_t at = values_differ(t->how.dtype, ground.memory[target] + begin, wanted, t->count);
    ck_assert_msg(at == t->count,
                  "%s %s of %s, %u inputs, in place %u, ranks %u first %d last %d: element %" PRIu64
                  " of %" PRIu64 " is %" PRIx64 " and not %" PRIx64,
                  loops->name, ringlet_op_name(t->how.op), ringlet_dtype_name(t->how.dtype),
                  t->input_count, t->in_place, t->how.ranks, t->how.first, t->how.last, at,
                  t->count, values_bits(t->how.dtype, ground.memory[target] + begin, at),
                  values_bits(t->how.dtype, wanted, at));
    memcpy(before.memory[target] + begin, ground.memory[target] + begin, bytes);
    ck_assert_msg(!memcmp(&before, &ground, sizeof before), "%s of %s wrote beside its destination",
                  ringlet_op_name(t->how.op), ringlet_dtype_name(t->how.dtype));
}

static struct trial trial_make(ringlet_dtype dtype, ringlet_op op, uint32_t input_count) {
    static const uint64_t counts[] = {0,  1,  2,  3,   7,    15,   16,   17,   31,
                                      33, 63, 65, 127, 1000, 1023, 1024, 1025, COUNT_MOST};
    static const uint32_t ranks[] = {1, 2, 3, 7, 8, 64, 129, 1000, INT32_MAX};
    struct trial t = {.how = {.dtype = dtype, .op = op}, .input_count = input_count};
    t.count = counts[random_below(sizeof counts / sizeof counts[0])];
    t.how.ranks = ranks[random_below(sizeof ranks / sizeof ranks[0])];
    t.how.first = random_below(2);
    t.how.last = random_below(2);
    t.in_place = (uint32_t)random_below(input_count + 1);
    for (int k = 0; k <= INPUTS_MOST; k++)
        t.offset[k] = random_below(PAD);
    return t;
}

START_TEST(test_against_reference) {
    const struct cpu_loops *loops[CPU_LOOPS_MAX];
    uint32_t levels = cpu_loops_list(loops);
    ringlet_dtype dtype = (ringlet_dtype)(_i / DTYPE_OP_COUNT);
    ringlet_op op = (ringlet_op)(_i % DTYPE_OP_COUNT);
    state = (uint64_t)_i;
    for (uint32_t level = 0; level < levels; level++)
        for (uint32_t inputs = 1; inputs <= INPUTS_MOST; inputs++)
            for (int i = 0; i < TRIES; i++) {
                struct trial trial = trial_make(dtype, op, inputs);
                check_trial(loops[level], &trial);
            }
}
END_TEST

/* ---- The reference itself, by values known from elsewhere ---- */

START_TEST(test_reference) {
    ck_assert_uint_eq(encode(RINGLET_FLOAT16, 65504), 0x7bff);
    ck_assert_uint_eq(encode(RINGLET_FLOAT16, 65520), 0x7c00);
    ck_assert_uint_eq(encode(RINGLET_FLOAT16, -0x1p-24), 0x8001);
    ck_assert_uint_eq(encode(RINGLET_FLOAT16, 0x1p-25), 0);
    ck_assert_uint_eq(encode(RINGLET_FLOAT16, 1 + 0x1p-11), 0x3c00);
    ck_assert_uint_eq(encode(RINGLET_BFLOAT16, 1 + 3 * 0x1p-8), 0x3f82);
    ck_assert(decode(RINGLET_BFLOAT16, 0xc049) == -3.140625);
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t bits = values_random(&state);
        float single;
        double number;
        memcpy(&single, &bits, sizeof single);
        memcpy(&number, &bits, sizeof number);
        if (!isnan(single)) {
            ck_assert(decode(RINGLET_FLOAT32, bits & UINT32_MAX) == (double)single);
            ck_assert_uint_eq(encode(RINGLET_FLOAT32, (double)single), bits & UINT32_MAX);
        }
        if (!isnan(number)) {
            ck_assert(decode(RINGLET_FLOAT64, bits) == number);
            ck_assert_uint_eq(encode(RINGLET_FLOAT64, number), bits);
        }
    }
}
END_TEST

/* Every 16-bit pattern there and back, and as sums with zero: each conversion of each level. */
START_TEST(test_every_16_bit_value) {
    enum { ALL = 1 << 16 };
    static uint16_t values[ALL], zeros[ALL], got[ALL];
    static const ringlet_dtype types[] = {RINGLET_FLOAT16, RINGLET_BFLOAT16};
    const struct cpu_loops *loops[CPU_LOOPS_MAX];
    uint32_t levels = cpu_loops_list(loops);
    for (int i = 0; i < ALL; i++) {
        values[i] = (uint16_t)i;
        zeros[i] = 0x8000; /* minus zero changes nothing */
    }
    for (uint32_t level = 0; level < levels; level++)
        for (int t = 0; t < 2; t++) {
            struct device_reduction how = {.dtype = types[t], .op = RINGLET_SUM};
            cpu_loops_reduce(loops[level], got, (const void *[]){values, zeros}, 2, ALL, &how);
            ck_assert_uint_eq(values_differ(types[t], got, values, ALL), ALL);
        }
}
END_TEST

/* The instruction sets round the same: floats of every exponent, halfway cases and beside them. */
START_TEST(test_narrowing_agrees) {
    enum { COUNT = CPU_LOOPS_RUN };
    static float values[COUNT];
    static uint16_t got[COUNT], wanted_bits[COUNT];
    static const ringlet_dtype types[] = {RINGLET_FLOAT16, RINGLET_BFLOAT16};
    const struct cpu_loops *loops[CPU_LOOPS_MAX];
    uint32_t levels = cpu_loops_list(loops), rounds = SUITE_SLOW ? 20 : 400;
    state = (uint64_t)_i;
    for (uint32_t round = 0; round < rounds; round++)
        for (int t = 0; t < 2; t++) {
            uint32_t dropped = 23 - values_format(types[t]).fraction_bits;
            for (int i = 0; i < COUNT; i++) {
                uint64_t random = values_random(&state);
                uint32_t bits = (uint32_t)random, half = 1u << (dropped - 1);
                if (random >> 40 & 1) /* a tie or next to it */
                    bits = (bits & ~(2 * half - 1)) + half + (uint32_t)(random >> 41 & 3) - 1;
                memcpy(&values[i], &bits, sizeof bits);
                uint64_t encoded = encode(types[t], (double)values[i]);
                wanted_bits[i] = (uint16_t)encoded;
            }
            for (uint32_t level = 0; level < levels; level++) {
                loops[level]->narrow[types[t]](got, values, COUNT);
                uint64_t at = values_differ(types[t], got, wanted_bits, COUNT);
                ck_assert_msg(at == COUNT, "%s: %a to %s gives %x, not %x", loops[level]->name,
                              (double)values[at], ringlet_dtype_name(types[t]), got[at],
                              wanted_bits[at]);
            }
        }
}
END_TEST

/* ---- Large ones: past the caches, and on several threads ---- */

enum { LARGE_BYTES = 5 << 20 };

static char *large(ringlet_dtype dtype, uint64_t seed) {
    char *memory = NULL;
    ck_assert_int_eq(posix_memalign((void **)&memory, 64, LARGE_BYTES + 1024), 0);
    values_fill(dtype, memory, (LARGE_BYTES + 1024) / ringlet_dtype_size(dtype), seed);
    return memory;
}

START_TEST(test_large) {
    ringlet_dtype dtype = (ringlet_dtype)_i;
    struct device_reduction how = {.dtype = dtype, .op = RINGLET_SUM};
    uint32_t size = ringlet_dtype_size(dtype);
    uint64_t count = LARGE_BYTES / size + 3;
    char *a = large(dtype, 1), *b = large(dtype, 2), *small = large(dtype, 3);
    char *got = large(dtype, 4), *untouched = large(dtype, 4);
    const void *inputs[] = {a + 3 * size, b + size, a + size};
    for (uint64_t i = 0; i < count; i += 1000) { /* too short to stream or to share */
        const void *at[3];
        for (int k = 0; k < 3; k++)
            at[k] = (const char *)inputs[k] + i * size;
        device_cpu_reduce(small + i * size, at, 3, count - i < 1000 ? count - i : 1000, &how);
    }
    for (uint32_t form = 0; form < 6; form++) {
        uint64_t begin = form % 2 ? 5 * size : 0; /* aligned to a line or not */
        memcpy(got, untouched, LARGE_BYTES + 1024);
        if (form / 2 == 1)
            device_cpu_reduce_parallel(got + begin, inputs, 3, count, &how);
        else if (form / 2 == 2)
            device_cpu_reduce_beside(got + begin, inputs, 3, count, &how);
        else
            device_cpu_reduce(got + begin, inputs, 3, count, &how);
        ck_assert_uint_eq(values_differ(dtype, got + begin, small, count), count);
        ck_assert(!memcmp(got, untouched, begin));
        uint64_t end = begin + count * size;
        ck_assert(!memcmp(got + end, untouched + end, LARGE_BYTES + 1024 - end));
    }
    device_cpu_reduce_parallel(b + size, inputs, 3, count, &how);
    ck_assert_uint_eq(values_differ(dtype, b + size, small, count), count);
    free(a);
    free(b);
    free(small);
    free(got);
    free(untouched);
}
END_TEST

START_TEST(test_most_inputs) {
    enum { COUNT = 1500 };
    static float values[DEVICE_INPUTS_MAX][COUNT], got[COUNT];
    const void *inputs[DEVICE_INPUTS_MAX];
    struct device_reduction how = {.dtype = RINGLET_FLOAT32, .op = RINGLET_SUM};
    for (int k = 0; k < DEVICE_INPUTS_MAX; k++) {
        inputs[k] = values[k];
        for (int i = 0; i < COUNT; i++)
            values[k][i] = (float)(random_below(1u << 24)) / 7;
    }
    device_cpu_reduce(got, inputs, DEVICE_INPUTS_MAX, COUNT, &how);
    for (int i = 0; i < COUNT; i++) {
        float sum = values[0][i];
        for (int k = 1; k < DEVICE_INPUTS_MAX; k++)
            sum += values[k][i];
        ck_assert(got[i] == sum);
    }
}
END_TEST

/* ---- What the caller's thread has set ---- */

#if defined(__x86_64__)
START_TEST(test_floating_point_mode) {
    enum { FLUSH = 0x8040, UPWARD = 0x4000, FLAGS = 0x3f };
    float tiny[] = {0x1p-140f, 1, 3}, small[] = {0x1p-141f, 0x1p-30f, -1}, got[3];
    uint32_t before_mode = _mm_getcsr(), modes[] = {FLUSH, UPWARD, FLUSH | UPWARD};
    struct device_reduction how = {.dtype = RINGLET_FLOAT32, .op = RINGLET_SUM};
    for (int i = 0; i < 3; i++) {
        _mm_setcsr(before_mode | modes[i]);
        device_cpu_reduce(got, (const void *[]){tiny, small}, 2, 3, &how);
        uint32_t after = _mm_getcsr();
        _mm_setcsr(before_mode);
        ck_assert_uint_eq(after & ~(uint32_t)FLAGS, (before_mode | modes[i]) & ~(uint32_t)FLAGS);
        ck_assert(got[0] == 0x1.8p-140f);
        ck_assert(got[1] == 1);
        ck_assert(got[2] == 2);
    }
}
END_TEST
#endif

START_TEST(test_checks) {
    struct device_reduction how = {.dtype = RINGLET_FLOAT32, .op = RINGLET_SUM};
    ck_assert_ok(device_reduction_check(&how, 1));
    ck_assert_ok(device_reduction_check(&how, DEVICE_INPUTS_MAX));
    ck_assert_status(device_reduction_check(&how, 0), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(device_reduction_check(&how, DEVICE_INPUTS_MAX + 1), RINGLET_INVALID_ARGUMENT);
    how.op = RINGLET_AVG;
    ck_assert_status(device_reduction_check(&how, 2), RINGLET_INVALID_ARGUMENT);
    how.ranks = INT32_MAX;
    ck_assert_ok(device_reduction_check(&how, 2));
    how.ranks++;
    ck_assert_status(device_reduction_check(&how, 2), RINGLET_INVALID_ARGUMENT);
    how.op = (ringlet_op)DTYPE_OP_COUNT;
    ck_assert_status(device_reduction_check(&how, 2), RINGLET_UNSUPPORTED);
    how.op = RINGLET_SUM;
    how.dtype = (ringlet_dtype)-1;
    ck_assert_status(device_reduction_check(&how, 2), RINGLET_UNSUPPORTED);
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("reduce");
    TCase *tests = tcase_create("reduce");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, test_reference);
    tcase_add_loop_test(tests, test_against_reference, 0, DTYPE_COUNT * DTYPE_OP_COUNT);
    tcase_add_test(tests, test_every_16_bit_value);
    tcase_add_loop_test(tests, test_narrowing_agrees, 0, 2);
    tcase_add_loop_test(tests, test_large, 0, DTYPE_COUNT);
    tcase_add_test(tests, test_most_inputs);
#if defined(__x86_64__)
    tcase_add_test(tests, test_floating_point_mode);
#endif
    tcase_add_test(tests, test_checks);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
