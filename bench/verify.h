/*
 * Data for checking a sum of floats, and the check itself.
 * Owns the values (a pure function of data kind, seed, rank and index) and what counts as wrong.
 * Never touches a device.
 */
#ifndef RINGLET_BENCH_VERIFY_H
#define RINGLET_BENCH_VERIFY_H

#include <stdint.h>

/* EXACT: whole numbers whose sums are exact in any order, so the result is known bit for bit.
 * RANDOM: all mantissa bits in use and exponents mixed, so that every addition rounds; the result
 * must be within the error bound of n - 1 float additions of a float64 sum. EXACT cannot show a
 * loss of accuracy, RANDOM cannot show an error of an ulp: hence both. */
enum verify_data { VERIFY_EXACT, VERIFY_RANDOM, VERIFY_DATA_COUNT };

enum { VERIFY_RANKS_MAX = 8192 }; /* EXACT sums stay below 2^24 */

/* A NaN that no operation on this data makes: what outputs hold before. */
#define VERIFY_POISON_BITS UINT32_C(0xffa5c3d2)

float verify_value(enum verify_data data, uint64_t seed, uint32_t rank, uint64_t index);
void verify_fill(float *out, enum verify_data data, uint64_t seed, uint32_t rank, uint64_t first,
                 uint64_t count);
void verify_poison(float *out, uint64_t count);

/* What elements [first, first + count) must be after a sum over all ranks. */
struct verify_sum {
    double sum, bound; /* bound 0: exactly sum */
};
void verify_reference(struct verify_sum *out, enum verify_data data, uint64_t seed, uint32_t ranks,
                      uint64_t first, uint64_t count);

/* How many of got's elements are wrong: outside the bound, or where `same` is not NULL not bit for
 * bit what another rank has. */
uint64_t verify_against(const float *got, const struct verify_sum *reference, const float *same,
                        uint64_t count);

/* How many are not bit for bit the input of that rank. */
uint64_t verify_input(const float *got, enum verify_data data, uint64_t seed, uint32_t rank,
                      uint64_t first, uint64_t count);

/* How many are no longer poison. */
uint64_t verify_poisoned(const float *got, uint64_t count);

#endif
