#include "verify.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* splitmix64's finaliser: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t stream_of(uint64_t seed, uint32_t rank) {
    return mix(mix(seed + UINT64_C(0x9e3779b97f4a7c15)) + rank);
}

static float exact_value(uint64_t bits) {
    return (float)((int)(bits >> 53) - 1024); /* -1024 to 1023 */
}

static float random_value(uint64_t bits) {
    /* exponents from 2^-7 to 2^0, any sign, any mantissa */
    uint32_t sign = (uint32_t)(bits >> 63) << 31, exponent = 120 + (uint32_t)(bits >> 32 & 7);
    uint32_t word = sign | exponent << 23 | (uint32_t)(bits & 0x7fffff);
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float value_of(enum verify_data data, uint64_t stream, uint64_t index) {
    uint64_t bits = mix(stream + index * UINT64_C(0x9e3779b97f4a7c15));
    return data == VERIFY_EXACT ? exact_value(bits) : random_value(bits);
}

float verify_value(enum verify_data data, uint64_t seed, uint32_t rank, uint64_t index) {
    return value_of(data, stream_of(seed, rank), index);
}

void verify_fill(float *out, enum verify_data data, uint64_t seed, uint32_t rank, uint64_t first,
                 uint64_t count) {
    uint64_t stream = stream_of(seed, rank);
    for (uint64_t i = 0; i < count; i++)
        out[i] = value_of(data, stream, first + i);
}

void verify_poison(float *out, uint64_t count) {
    uint32_t word = VERIFY_POISON_BITS;
    for (uint64_t i = 0; i < count; i++)
        memcpy(&out[i], &word, sizeof word);
}

void verify_reference(struct verify_sum *out, enum verify_data data, uint64_t seed, uint32_t ranks,
                      uint64_t first, uint64_t count) {
    /* |computed - exact| <= gamma(n-1) * sum|x| for n - 1 additions in any order (Higham, Accuracy
     * and Stability of Numerical Algorithms, 4.2); the float64 sum's own error comes on top. */
    double n = ranks - 1.0, unit = 0x1p-24, wide = 0x1p-53;
    double gamma = n * unit / (1 - n * unit) + n * wide / (1 - n * wide);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (struct verify_sum){0, 0};
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint64_t stream = stream_of(seed, rank);
        for (uint64_t i = 0; i < count; i++) {
            double value = value_of(data, stream, first + i);
            out[i].sum += value;
            out[i].bound += fabs(value);
        }
    }
    for (uint64_t i = 0; i < count; i++)
        out[i].bound = data == VERIFY_EXACT ? 0 : out[i].bound * gamma;
}

static bool same_bits(float a, float b) {
    return !memcmp(&a, &b, sizeof a);
}

static bool right(float got, struct verify_sum reference) {
    if (reference.bound == 0)
        return same_bits(got, (float)reference.sum);
    return fabs((double)got - reference.sum) <= reference.bound; /* false for a NaN */
}

uint64_t verify_against(const float *got, const struct verify_sum *reference, const float *same,
                        uint64_t count) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += !right(got[i], reference[i]) || (same && !same_bits(got[i], same[i]));
    return wrong;
}

uint64_t verify_input(const float *got, enum verify_data data, uint64_t seed, uint32_t rank,
                      uint64_t first, uint64_t count) {
    uint64_t stream = stream_of(seed, rank), wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += !same_bits(got[i], value_of(data, stream, first + i));
    return wrong;
}

uint64_t verify_poisoned(const float *got, uint64_t count) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &got[i], sizeof word);
        wrong += word != VERIFY_POISON_BITS;
    }
    return wrong;
}
