/*
 * Elements of every type for tests of reductions: special values among ordinary ones, and whether
 * two results are the same. Owns nothing. Never computes a reduction.
 */
#ifndef RINGLET_TESTS_REDUCE_VALUES_H
#define RINGLET_TESTS_REDUCE_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

/* Fraction and exponent of a float type's bits. */
struct values_format {
    uint32_t fraction_bits, exponent_bits;
};

static inline struct values_format values_format(ringlet_dtype dtype) {
    switch (ringlet_dtype_size(dtype)) {
    case 2:
        return dtype == RINGLET_FLOAT16 ? (struct values_format){10, 5}
                                        : (struct values_format){7, 8};
    case 4:
        return (struct values_format){23, 8};
    default:
        return (struct values_format){52, 11};
    }
}

static inline uint64_t values_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Zeros, subnormals, one and its neighbours, the largest, infinities, NaN, of both signs. */
static inline uint64_t values_special_float(ringlet_dtype dtype, uint64_t random) {
    struct values_format f = values_format(dtype);
    uint64_t one = ((UINT64_C(1) << (f.exponent_bits - 1)) - 1) << f.fraction_bits;
    uint64_t infinity = ((UINT64_C(1) << f.exponent_bits) - 1) << f.fraction_bits;
    uint64_t least = UINT64_C(1) << f.fraction_bits; /* normal number */
    const uint64_t magnitudes[] = {0,
                                   1,
                                   least - 1,
                                   least,
                                   one,
                                   one + 1,
                                   one - 1,
                                   infinity - 1,
                                   infinity,
                                   infinity + (least >> 1),
                                   least / 2 + 1,
                                   one + least};
    uint64_t sign = (random >> 32 & 1) << (f.fraction_bits + f.exponent_bits);
    return magnitudes[random % (sizeof magnitudes / sizeof magnitudes[0])] | sign;
}

/* Of an ordinary size, so that sums of several stay finite and round. */
static inline uint64_t values_plain_float(ringlet_dtype dtype, uint64_t random) {
    struct values_format f = values_format(dtype);
    uint64_t bias = (UINT64_C(1) << (f.exponent_bits - 1)) - 1;
    uint64_t exponent = bias - 3 + (random >> 56 & 7);
    uint64_t fraction = random & ((UINT64_C(1) << f.fraction_bits) - 1);
    return (random >> 55 & 1) << (f.fraction_bits + f.exponent_bits) | exponent << f.fraction_bits |
           fraction;
}

static inline uint64_t values_special_integer(ringlet_dtype dtype, uint64_t random) {
    uint64_t top = UINT64_C(1) << (8 * ringlet_dtype_size(dtype) - 1);
    const uint64_t values[] = {0, 1, 2, UINT64_MAX, UINT64_MAX - 1, top, top - 1, top + 1};
    return values[random % (sizeof values / sizeof values[0])];
}

/* The bits of one element. */
static inline uint64_t values_one(ringlet_dtype dtype, uint64_t random, uint64_t choice) {
    bool special = choice % 8 < 2, any = choice % 8 == 2; /* any bits: subnormals, NaNs */
    if (!dtype_is_float(dtype))
        return special ? values_special_integer(dtype, random) : random;
    return special ? values_special_float(dtype, random)
           : any   ? random
                   : values_plain_float(dtype, random);
}

static inline void values_fill(ringlet_dtype dtype, void *memory, uint64_t count, uint64_t seed) {
    uint64_t state = seed;
    uint32_t size = ringlet_dtype_size(dtype);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t random = values_random(&state);
        uint64_t bits = values_one(dtype, random, random >> 40);
        memcpy((char *)memory + i * size, &bits, size); /* the low bytes: little-endian */
    }
}

static inline uint64_t values_bits(ringlet_dtype dtype, const void *memory, uint64_t index) {
    uint64_t bits = 0;
    uint32_t size = ringlet_dtype_size(dtype);
    memcpy(&bits, (const char *)memory + index * size, size);
    return bits;
}

static inline bool values_is_nan(ringlet_dtype dtype, uint64_t bits) {
    if (!dtype_is_float(dtype))
        return false;
    struct values_format f = values_format(dtype);
    uint64_t infinity = ((UINT64_C(1) << f.exponent_bits) - 1) << f.fraction_bits;
    return (bits & ((UINT64_C(1) << (f.fraction_bits + f.exponent_bits)) - 1)) > infinity;
}

/* The index of the first element that differs, `count` if none does; NaNs are all the same. */
static inline uint64_t values_differ(ringlet_dtype dtype, const void *a, const void *b,
                                     uint64_t count) {
    if (!memcmp(a, b, count * ringlet_dtype_size(dtype)))
        return count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t x = values_bits(dtype, a, i), y = values_bits(dtype, b, i);
        if (x != y && !(values_is_nan(dtype, x) && values_is_nan(dtype, y)))
            return i;
    }
    return count;
}

#endif
