/*
 * Data for checking a collective of any type and operation, and the check itself.
 * Owns the values (a pure function of kind, seed, rank and index) and what counts as wrong.
 * Never touches a device.
 */
#ifndef RINGLET_BENCH_VERIFY_H
#define RINGLET_BENCH_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "ringlet/ringlet.h"

/*
 * EXACT: values whose result is exact in any order, so it is known bit for bit: whole numbers for
 * sums, powers of two for products, anything (NaN, infinities) for minimum and maximum. An average
 * of floats over a number of ranks that is no power of two has a bound all the same.
 * RANDOM: all bits of the mantissa in use and exponents mixed, so that every operation rounds; the
 * result must be within the operation's error bound of a float64 (for float64: long double) one.
 * Integers have all their bits in use in both, and wrap around.
 * EXACT cannot show a loss of accuracy, RANDOM cannot show an error of an ulp: hence both.
 */
enum verify_data { VERIFY_EXACT, VERIFY_RANDOM, VERIFY_DATA_COUNT };

struct verify {
    ringlet_dtype type;
    ringlet_op op;
    enum verify_data data;
    uint64_t seed;
    uint32_t ranks;
};

void verify_fill(void *out, const struct verify *verify, uint32_t rank, uint64_t first,
                 uint64_t count);

/* What outputs hold before: bits that no result of floats has (a NaN of its own). */
void verify_poison(void *out, ringlet_dtype type, uint64_t count);

/* What elements [first, first + count) must be after the operation over all ranks. */
struct verify_result {
    long double value; /* of floats */
    double bound;      /* of floats; 0: exactly value */
    uint64_t bits;     /* of integers */
};
void verify_reference(struct verify_result *out, const struct verify *verify, uint64_t first,
                      uint64_t count);

/* How many of got's elements are wrong: outside the bound, or where `same` is not NULL not bit for
 * bit what another rank has. */
uint64_t verify_against(const void *got, const struct verify *verify,
                        const struct verify_result *reference, const void *same, uint64_t count);

/* How many are not bit for bit the input of that rank. */
uint64_t verify_input(const void *got, const struct verify *verify, uint32_t rank, uint64_t first,
                      uint64_t count);

/* How many are no longer poison. */
uint64_t verify_poisoned(const void *got, ringlet_dtype type, uint64_t count);

/* An element's bits (of little significance first), and a float's value by its bits and back, to
 * the nearest, ties to even. */
uint64_t verify_load(const void *from, ringlet_dtype type, uint64_t index);
void verify_store(void *to, ringlet_dtype type, uint64_t index, uint64_t bits);
double verify_float(ringlet_dtype type, uint64_t bits);
uint64_t verify_round(ringlet_dtype type, long double value);

#endif
