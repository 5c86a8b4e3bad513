#include "verify.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Floats: bits of mantissa and exponent. Integers: whether signed. */
static const struct format {
    uint8_t size, mantissa, exponent;
    bool is_float, is_signed;
} formats[] = {
    [RINGLET_FLOAT16] = {2, 10, 5, true, true}, [RINGLET_BFLOAT16] = {2, 7, 8, true, true},
    [RINGLET_FLOAT32] = {4, 23, 8, true, true}, [RINGLET_FLOAT64] = {8, 52, 11, true, true},
    [RINGLET_INT8] = {1, 0, 0, false, true},    [RINGLET_INT32] = {4, 0, 0, false, true},
    [RINGLET_INT64] = {8, 0, 0, false, true},   [RINGLET_UINT8] = {1, 0, 0, false, false},
    [RINGLET_UINT32] = {4, 0, 0, false, false}, [RINGLET_UINT64] = {8, 0, 0, false, false},
};

/* Little-endian machines only. Sizes are spelt out, since a copy of a size that the compiler does
 * not know is a call. */
uint64_t verify_load(const void *from, ringlet_dtype type, uint64_t index) {
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (formats[type].size) {
    case 1:
        return ((const uint8_t *)from)[index];
    case 2:
        memcpy(&two, (const char *)from + index * sizeof two, sizeof two);
        return two;
    case 4:
        memcpy(&four, (const char *)from + index * sizeof four, sizeof four);
        return four;
    default:
        memcpy(&eight, (const char *)from + index * sizeof eight, sizeof eight);
        return eight;
    }
}

void verify_store(void *to, ringlet_dtype type, uint64_t index, uint64_t bits) {
    uint16_t two = (uint16_t)bits;
    uint32_t four = (uint32_t)bits;
    switch (formats[type].size) {
    case 1:
        ((uint8_t *)to)[index] = (uint8_t)bits;
        break;
    case 2:
        memcpy((char *)to + index * sizeof two, &two, sizeof two);
        break;
    case 4:
        memcpy((char *)to + index * sizeof four, &four, sizeof four);
        break;
    default:
        memcpy((char *)to + index * sizeof bits, &bits, sizeof bits);
        break;
    }
}

static uint64_t low_bits(uint64_t bits, unsigned count) {
    return count >= 64 ? bits : bits & ((UINT64_C(1) << count) - 1);
}

static int bias(const struct format *f) {
    return (1 << (f->exponent - 1)) - 1;
}

static double double_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double float_of(uint64_t bits) {
    uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return (double)value;
}

double verify_float(ringlet_dtype type, uint64_t bits) {
    if (type == RINGLET_FLOAT64)
        return double_of(bits);
    if (type == RINGLET_FLOAT32)
        return float_of(bits);
    if (type == RINGLET_BFLOAT16)
        return float_of(bits << 16);
    /* The exponent keeps its place in a float, whose bias is 112 more; subnormals come out too. */
    double magnitude = float_of((bits & 0x7fff) << 13) * 0x1p112;
    if ((bits & 0x7c00) == 0x7c00)
        magnitude = bits & 0x3ff ? (double)NAN : (double)INFINITY;
    return bits & 0x8000 ? -magnitude : magnitude;
}

uint64_t verify_round(ringlet_dtype type, long double value) {
    const struct format *f = &formats[type];
    uint64_t sign = (uint64_t)(signbit(value) != 0) << (f->mantissa + f->exponent);
    uint64_t infinite = low_bits(UINT64_MAX, f->exponent) << f->mantissa;
    if (isnan(value))
        return sign | infinite | UINT64_C(1) << (f->mantissa - 1);
    int exponent, least = 2 - bias(f); /* of 0.5 <= x < 1 times 2^exponent */
    long double magnitude = fabsl(value);
    if (magnitude == 0 || isinf(value))
        return sign | (magnitude == 0 ? 0 : infinite);
    frexpl(magnitude, &exponent);
    if (exponent < least)
        exponent = least; /* subnormal */
    uint64_t units = (uint64_t)rintl(ldexpl(magnitude, f->mantissa + 1 - exponent));
    /* A carry out of the mantissa goes into the exponent, as it should. */
    uint64_t word = ((uint64_t)(exponent - least) << f->mantissa) + units;
    return sign | (exponent - least >= (1 << f->exponent) - 2 || word > infinite ? infinite : word);
}

/* Data. */

/* splitmix64's finaliser: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* One rank's values, prepared. */
struct source {
    const struct verify *verify;
    const struct format *format;
    uint64_t stream;
    uint64_t mask;    /* EXACT sums: whole numbers up to it, of either sign; 2^k - 1; 0: zeros */
    bool ones;        /* products: only +1 and -1, lest the range of exponents be left */
    int low, spread;  /* RANDOM: exponents from low to low + spread - 1, a power of two */
    bool is_extremum; /* minimum or maximum */
};

static struct source source_of(const struct verify *v, uint32_t rank) {
    const struct format *f = &formats[v->type];
    struct source s = {.verify = v, .format = f};
    enum { MASK_MAX = 1023, EXPONENT_ROOM = 3 };
    s.stream = mix(mix(v->seed + UINT64_C(0x9e3779b97f4a7c15)) + rank);
    s.is_extremum = v->op == RINGLET_MIN || v->op == RINGLET_MAX;
    if (!f->is_float)
        return s;
    uint64_t whole = UINT64_C(1) << (f->mantissa + 1); /* exact up to here */
    while (s.mask < MASK_MAX && (2 * s.mask + 1) * v->ranks <= whole)
        s.mask = 2 * s.mask + 1;
    if (!s.mask && rank < whole)
        s.mask = 1;
    s.ones = rank + EXPONENT_ROOM >= (uint32_t)bias(f);
    s.low = v->op == RINGLET_PROD ? -1 : -7;
    s.spread = v->op == RINGLET_PROD ? 2 : 8;
    return s;
}

static uint64_t power_of_two(const struct format *f, uint64_t sign, int exponent) {
    return sign << (f->mantissa + f->exponent) | (uint64_t)(exponent + bias(f)) << f->mantissa;
}

/* Any exponent; now and then an infinity or a NaN; no zeros, whose signs have no order. */
static uint64_t extreme_bits(const struct format *f, uint64_t bits) {
    enum { RARE = 64 };
    uint64_t word = low_bits(bits, f->size * 8u), infinite = power_of_two(f, 0, bias(f) + 1);
    if (bits >> 58 == RARE - 1)
        return infinite | UINT64_C(1) << (f->mantissa - 1);
    if (bits >> 58 == RARE - 2)
        return power_of_two(f, bits & 1, bias(f) + 1);
    if ((word & infinite) == infinite || (word & infinite) == 0)
        word ^= UINT64_C(1) << f->mantissa; /* neither infinite nor subnormal */
    return word;
}

static uint64_t exact_float(const struct source *s, uint64_t bits) {
    const struct format *f = s->format;
    if (s->is_extremum)
        return extreme_bits(f, bits);
    if (s->verify->op == RINGLET_PROD)
        return power_of_two(f, bits >> 63, s->ones ? 0 : (int)(bits % 3) - 1);
    uint64_t magnitude = bits >> 8 & s->mask;
    if (!magnitude)
        return 0;
    int top = 63 - __builtin_clzll(magnitude);
    return power_of_two(f, bits >> 63, top) |
           low_bits(magnitude << (f->mantissa - top), f->mantissa);
}

static uint64_t random_float(const struct source *s, uint64_t bits) {
    const struct format *f = s->format;
    if (s->is_extremum)
        return extreme_bits(f, bits);
    if (s->ones && s->verify->op == RINGLET_PROD)
        return power_of_two(f, bits >> 63, 0);
    int exponent = s->low + (int)(bits >> 58 & (uint64_t)(s->spread - 1));
    return power_of_two(f, bits >> 63, exponent) | low_bits(bits, f->mantissa);
}

static inline uint64_t value_of(const struct source *s, uint64_t index) {
    uint64_t bits = mix(s->stream + index * UINT64_C(0x9e3779b97f4a7c15));
    if (!s->format->is_float) /* odd factors: a product shows each, even ones soon make it zero */
        return low_bits(bits, s->format->size * 8u) |
               (s->verify->op == RINGLET_PROD && s->verify->data == VERIFY_EXACT);
    return s->verify->data == VERIFY_EXACT ? exact_float(s, bits) : random_float(s, bits);
}

void verify_fill(void *out, const struct verify *v, uint32_t rank, uint64_t first, uint64_t count) {
    struct source source = source_of(v, rank);
    for (uint64_t i = 0; i < count; i++)
        verify_store(out, v->type, i, value_of(&source, first + i));
}

static uint64_t poison_of(ringlet_dtype type) {
    /* cut to any size of float it is a NaN, and its bits are none that an operation makes */
    return low_bits(formats[type].size == 4 ? UINT64_C(0xffa5c3d2) : UINT64_C(0xfff5a5c3d2e1ffd2),
                    formats[type].size * 8u);
}

void verify_poison(void *out, ringlet_dtype type, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        verify_store(out, type, i, poison_of(type));
}

/* The reference. */

static int64_t as_signed(const struct format *f, uint64_t bits) {
    unsigned shift = 64 - f->size * 8u;
    return (int64_t)(bits << shift) >> shift;
}

static bool integer_less(const struct format *f, uint64_t a, uint64_t b) {
    return f->is_signed ? as_signed(f, a) < as_signed(f, b) : a < b;
}

static uint64_t combine_integers(const struct verify *v, uint64_t a, uint64_t b) {
    const struct format *f = &formats[v->type];
    switch (v->op) {
    case RINGLET_PROD:
        return low_bits(a * b, f->size * 8u);
    case RINGLET_MIN:
        return integer_less(f, b, a) ? b : a;
    case RINGLET_MAX:
        return integer_less(f, a, b) ? b : a;
    case RINGLET_SUM:
    case RINGLET_AVG:
        break;
    }
    return low_bits(a + b, f->size * 8u);
}

/* An integer average is the wrapped sum divided by the number of ranks, truncated. */
static uint64_t average_integer(const struct format *f, uint64_t sum, uint32_t ranks) {
    return low_bits(f->is_signed ? (uint64_t)(as_signed(f, sum) / (int64_t)ranks) : sum / ranks,
                    f->size * 8u);
}

static void combine_floats(const struct verify *v, struct verify_result *r, long double x) {
    switch (v->op) {
    case RINGLET_PROD:
        r->value *= x;
        return;
    case RINGLET_MIN:
        r->value = isnan(x) || x < r->value ? x : r->value; /* a NaN stays: it is never greater */
        return;
    case RINGLET_MAX:
        r->value = isnan(x) || x > r->value ? x : r->value;
        return;
    case RINGLET_SUM:
    case RINGLET_AVG:
        break;
    }
    r->value += x;
    r->bound += (double)fabsl(x);
}

/*
 * The error of n - 1 roundings to a type of unit roundoff u, in any order:
 *   sum      (n - 1) u sum|x|            Rump, Error estimation of floating-point summation and dot
 *                                        product, BIT 52 (2012): for any n, subnormals included
 *   product  ((1 + u)^(n - 1) - 1) |p|
 *   average  as the sum of x / n, with 1 / n and its product with x rounded too (to 16 bits once)
 * Sums made in float32 and rounded once stay below that, but for float32's own roundings, which are
 * allowed for; so is the reference's.
 */
static double error_bound(const struct verify *v, const struct verify_result *r) {
    const struct format *f = &formats[v->type];
    double n = v->ranks, hops = n - 1, u = ldexp(1, -f->mantissa - 1);
    double unit = u + (f->size == 2 ? 0x1p-22 : 0) + 0x1p-62;
    bool power_of_two = !(v->ranks & (v->ranks - 1));
    if (v->op == RINGLET_PROD)
        return v->data == VERIFY_EXACT ? 0 : (double)fabsl(r->value) * expm1(hops * unit);
    if (v->op == RINGLET_SUM)
        return v->data == VERIFY_EXACT ? 0 : r->bound * hops * unit;
    if (v->op != RINGLET_AVG || (v->data == VERIFY_EXACT && power_of_two))
        return 0;
    double tiny = v->type == RINGLET_FLOAT16 ? n * 0x1p-24 : 0; /* x / n may be subnormal */
    double scaling = f->size == 2 ? 1 + unit : (1 + unit) * (1 + unit);
    return r->bound / n * (scaling * (1 + hops * unit) - 1) + tiny;
}

static void finish(const struct verify *v, struct verify_result *r) {
    const struct format *f = &formats[v->type];
    if (f->is_float) {
        r->bound = error_bound(v, r);
        if (v->op == RINGLET_AVG)
            r->value /= v->ranks;
    } else if (v->op == RINGLET_AVG) {
        r->bits = average_integer(f, r->bits, v->ranks);
    }
}

void verify_reference(struct verify_result *out, const struct verify *v, uint64_t first,
                      uint64_t count) {
    bool is_float = formats[v->type].is_float;
    for (uint32_t rank = 0; rank < v->ranks; rank++) {
        struct source source = source_of(v, rank);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t bits = value_of(&source, first + i);
            long double value = is_float ? verify_float(v->type, bits) : 0;
            if (rank == 0)
                out[i] = (struct verify_result){value, (double)fabsl(value), bits};
            else if (is_float)
                combine_floats(v, &out[i], value);
            else
                out[i].bits = combine_integers(v, out[i].bits, bits);
        }
    }
    for (uint64_t i = 0; i < count; i++)
        finish(v, &out[i]);
}

/* The comparison. */

static bool right(const struct verify *v, uint64_t got, const struct verify_result *r) {
    if (!formats[v->type].is_float)
        return got == r->bits;
    if (isnan(r->value))
        return isnan(verify_float(v->type, got)) && got != poison_of(v->type);
    long double value = verify_float(v->type, got);
    if (r->bound == 0) /* bit for bit: an exact zero is a positive one */
        return value == r->value && (value != 0 || got == 0);
    return fabsl(value - r->value) <= r->bound; /* false for a NaN */
}

/* Which NaN of several survives is left open, so any two are the same. */
static bool agree(const struct verify *v, uint64_t a, uint64_t b) {
    return a == b || (formats[v->type].is_float && isnan(verify_float(v->type, a)) &&
                      isnan(verify_float(v->type, b)));
}

uint64_t verify_against(const void *got, const struct verify *v,
                        const struct verify_result *reference, const void *same, uint64_t count) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = verify_load(got, v->type, i);
        wrong += !right(v, bits, &reference[i]) ||
                 (same && !agree(v, bits, verify_load(same, v->type, i)));
    }
    return wrong;
}

uint64_t verify_input(const void *got, const struct verify *v, uint32_t rank, uint64_t first,
                      uint64_t count) {
    struct source source = source_of(v, rank);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += verify_load(got, v->type, i) != value_of(&source, first + i);
    return wrong;
}

uint64_t verify_poisoned(const void *got, ringlet_dtype type, uint64_t count) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += verify_load(got, type, i) != poison_of(type);
    return wrong;
}
