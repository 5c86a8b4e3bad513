/*
 * The loops of cpu_loops.h, to be compiled once for each instruction set: the file that includes
 * this says by CPU_LOOPS_TABLE what its table is called and by CPU_LOOPS_LEVEL which instructions
 * are there (0: those of the baseline, 1: AVX2 and F16C, 2: AVX-512 too).
 * Owns the arithmetic. Never asks which CPU it runs on.
 *
 * Compilers turn the plain loops into vectors; only what they cannot is written out.
 */
#ifndef RINGLET_DEVICE_CPU_LOOPS_BODY_H
#define RINGLET_DEVICE_CPU_LOOPS_BODY_H

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <string.h>

#include "device/cpu_loops.h"

#ifndef CPU_LOOPS_TABLE
#define CPU_LOOPS_TABLE cpu_loops_baseline
#define CPU_LOOPS_LEVEL 0
#define CPU_LOOPS_NAME "baseline"
#endif

enum { LINE_BYTES = 64 };

/* No iteration depends on another, which compilers cannot know: their own overlap test would send
 * the in-place form to the scalar loop. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* ---- two inputs ---- */

#define BINARY(name, type, expression)                                                             \
    static void name(void *dst, const void *a, const void *b, uint64_t count) {                    \
        type *to = dst;                                                                            \
        const type *from = a, *other = b;                                                          \
        INDEPENDENT                                                                                \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            const type x = from[i], y = other[i];                                                  \
            to[i] = (type)(expression);                                                            \
        }                                                                                          \
    }

/* A NaN wins: as x it is chosen, as y it makes the comparison false. Of zeros the later wins. */
#define FLOATS(suffix, type)                                                                       \
    BINARY(sum_##suffix, type, x + y)                                                              \
    BINARY(prod_##suffix, type, x *y)                                                              \
    BINARY(min_##suffix, type, x < y || x != x ? x : y)                                            \
    BINARY(max_##suffix, type, x > y || x != x ? x : y)

/* Sum and product modulo 2^bits, which is the same for signed types. */
#define UNSIGNED(suffix, type)                                                                     \
    BINARY(sum_##suffix, type, x + y)                                                              \
    BINARY(prod_##suffix, type, x *y)                                                              \
    BINARY(min_##suffix, type, x < y ? x : y)                                                      \
    BINARY(max_##suffix, type, x > y ? x : y)

#define SIGNED(suffix, type)                                                                       \
    BINARY(min_##suffix, type, x < y ? x : y)                                                      \
    BINARY(max_##suffix, type, x > y ? x : y)

FLOATS(float32, float)
FLOATS(float64, double)
UNSIGNED(uint8, uint8_t)
UNSIGNED(uint32, uint32_t)
UNSIGNED(uint64, uint64_t)
SIGNED(int8, int8_t)
SIGNED(int32, int32_t)
SIGNED(int64, int64_t)

/* ---- scaling ---- */

#define SCALING(suffix, type)                                                                      \
    static void scale_##suffix(void *dst, const void *a, double factor, uint64_t count) {          \
        type *to = dst;                                                                            \
        const type *from = a, by = (type)factor;                                                   \
        INDEPENDENT                                                                                \
        for (uint64_t i = 0; i < count; i++)                                                       \
            to[i] = from[i] * by;                                                                  \
    }                                                                                              \
    static void add_scaled_##suffix(void *dst, const void *a, const void *b, double factor,        \
                                    uint64_t count) {                                              \
        type *to = dst;                                                                            \
        const type *from = a, *other = b, by = (type)factor;                                       \
        INDEPENDENT                                                                                \
        for (uint64_t i = 0; i < count; i++)                                                       \
            to[i] = from[i] + other[i] * by;                                                       \
    }

SCALING(float32, float)
SCALING(float64, double)

/* ---- 16-bit floats ---- */

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Exponent and fraction in float32's places, then the difference of the exponents' biases put right
 * by a multiplication, which is exact and makes subnormals normal. */
static inline float float_of_half(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t bits = bits_of_float(float_of_bits(magnitude) * 0x1p112f);
    bits |= magnitude >= 0x0f800000u ? 0x7f800000u : 0; /* infinity, NaN */
    return float_of_bits(bits | (uint32_t)(half & 0x8000) << 16);
}

/* Adding a power of two that puts the half's last bit into the float's last bit makes the addition
 * round as wanted (M. Dukhan, FP16: fp16_ieee_from_fp32_value). What is too large became infinite
 * by the first multiplication. */
static inline uint16_t half_of_float(float value) {
    uint32_t bits = bits_of_float(value), twice = bits + bits;
    float magnitude = float_of_bits(bits & 0x7fffffffu) * 0x1p112f * 0x1p-110f;
    uint32_t bias = twice & 0xff000000u;
    bias = bias < 0x71000000u ? 0x71000000u : bias;
    uint32_t sum = bits_of_float(float_of_bits((bias >> 1) + 0x07800000u) + magnitude);
    uint32_t rounded = ((sum >> 13) & 0x7c00u) + (sum & 0x0fffu);
    return (uint16_t)((bits >> 16 & 0x8000u) | (twice > 0xff000000u ? 0x7e00u : rounded));
}

static inline uint16_t bfloat_of_float(float value) {
    uint32_t bits = bits_of_float(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(value != value ? bits >> 16 | 0x40 : rounded);
}

static inline void widen_bfloat16(float *dst, const void *src, uint64_t count) {
    const uint16_t *from = src;
    INDEPENDENT
    for (uint64_t i = 0; i < count; i++)
        dst[i] = float_of_bits((uint32_t)from[i] << 16);
}

static inline void narrow_bfloat16(void *dst, const float *src, uint64_t count) {
    uint16_t *to = dst;
    INDEPENDENT
    for (uint64_t i = 0; i < count; i++)
        to[i] = bfloat_of_float(src[i]);
}

/* With F16C the conversions have instructions, which no compiler finds by itself. */
static inline void widen_float16(float *dst, const void *src, uint64_t count) {
    const uint16_t *from = src;
    uint64_t i = 0;
#if CPU_LOOPS_LEVEL >= 2
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
#elif CPU_LOOPS_LEVEL >= 1
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + i))));
#endif
    INDEPENDENT
    for (; i < count; i++)
        dst[i] = float_of_half(from[i]);
}

static inline void narrow_float16(void *dst, const float *src, uint64_t count) {
    uint16_t *to = dst;
    uint64_t i = 0;
#if CPU_LOOPS_LEVEL >= 2
    for (; i + 16 <= count; i += 16)
        _mm256_storeu_si256((void *)(to + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#elif CPU_LOOPS_LEVEL >= 1
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    INDEPENDENT
    for (; i < count; i++)
        to[i] = half_of_float(src[i]);
}

/* ---- past the caches ---- */

#if CPU_LOOPS_LEVEL >= 2
#define STREAM_TYPE __m512i
#define STREAM_STORE(to, value) _mm512_stream_si512(to, value)
#elif CPU_LOOPS_LEVEL >= 1
#define STREAM_TYPE __m256i
#define STREAM_STORE(to, value) _mm256_stream_si256(to, value)
#elif defined(__x86_64__)
#define STREAM_TYPE __m128i
#define STREAM_STORE(to, value) _mm_stream_si128(to, value)
#endif

static inline void stream_bytes(void *dst, const void *src, uint64_t bytes) {
#ifdef STREAM_TYPE
    if ((uintptr_t)dst % sizeof(STREAM_TYPE) == 0) {
        STREAM_TYPE *to = dst;
        const STREAM_TYPE *from = src;
        uint64_t vectors = bytes / sizeof(STREAM_TYPE), done = vectors * sizeof(STREAM_TYPE);
        for (uint64_t i = 0; i < vectors; i++)
            STREAM_STORE(to + i, from[i]);
        dst = (char *)dst + done;
        src = (const char *)src + done;
        bytes -= done;
    }
#endif
    memcpy(dst, src, bytes);
}

/* Two inputs, a cache line of results at a time, so that loads and stores take turns: in longer
 * runs the memory would be idle in one way while it is busy in the other. The parts are inlined
 * with the number of elements as a constant. */
#define PAST_NUMBERS(suffix, sums, type)                                                           \
    PAST_NUMBER(sum_##suffix, sum_##sums, type)                                                    \
    PAST_NUMBER(prod_##suffix, prod_##sums, type)                                                  \
    PAST_NUMBER(min_##suffix, min_##suffix, type)                                                  \
    PAST_NUMBER(max_##suffix, max_##suffix, type)

#define PAST_NUMBER(name, combine, type)                                                           \
    static void past_##name(void *dst, const void *a, const void *b, uint64_t count) {             \
        enum { LINE = LINE_BYTES / sizeof(type) };                                                 \
        CPU_LOOPS_ALIGNED type line[LINE];                                                         \
        for (uint64_t i = 0; i < count; i += LINE) {                                               \
            combine(line, (const type *)a + i, (const type *)b + i, LINE);                         \
            stream_bytes((type *)dst + i, line, LINE_BYTES);                                       \
        }                                                                                          \
    }

#define PAST_16_BITS(suffix)                                                                       \
    PAST_16_BIT(sum, suffix)                                                                       \
    PAST_16_BIT(prod, suffix)                                                                      \
    PAST_16_BIT(min, suffix)                                                                       \
    PAST_16_BIT(max, suffix)

#define PAST_16_BIT(op, suffix)                                                                    \
    static void past_##op##_##suffix(void *dst, const void *a, const void *b, uint64_t count) {    \
        enum { LINE = LINE_BYTES / sizeof(uint16_t) };                                             \
        CPU_LOOPS_ALIGNED uint16_t line[LINE];                                                     \
        CPU_LOOPS_ALIGNED float x[LINE];                                                           \
        CPU_LOOPS_ALIGNED float y[LINE];                                                           \
        for (uint64_t i = 0; i < count; i += LINE) {                                               \
            widen_##suffix(x, (const uint16_t *)a + i, LINE);                                      \
            widen_##suffix(y, (const uint16_t *)b + i, LINE);                                      \
            op##_float32(x, x, y, LINE);                                                           \
            narrow_##suffix(line, x, LINE);                                                        \
            stream_bytes((uint16_t *)dst + i, line, LINE_BYTES);                                   \
        }                                                                                          \
    }

PAST_16_BITS(float16)
PAST_16_BITS(bfloat16)
PAST_NUMBERS(float32, float32, float)
PAST_NUMBERS(float64, float64, double)
PAST_NUMBERS(int8, uint8, uint8_t)
PAST_NUMBERS(int32, uint32, uint32_t)
PAST_NUMBERS(int64, uint64, uint64_t)
PAST_NUMBERS(uint8, uint8, uint8_t)
PAST_NUMBERS(uint32, uint32, uint32_t)
PAST_NUMBERS(uint64, uint64, uint64_t)

/* ---- the table ---- */

#define OF_SUFFIX(sums, minima)                                                                    \
    { sum_##sums, prod_##sums, min_##minima, max_##minima }
#define PAST(suffix)                                                                               \
    { past_sum_##suffix, past_prod_##suffix, past_min_##suffix, past_max_##suffix }

const struct cpu_loops CPU_LOOPS_TABLE = {
    .name = CPU_LOOPS_NAME,
    .binary =
        {
            [RINGLET_FLOAT32] = OF_SUFFIX(float32, float32),
            [RINGLET_FLOAT16] = OF_SUFFIX(float32, float32),
            [RINGLET_BFLOAT16] = OF_SUFFIX(float32, float32),
            [RINGLET_FLOAT64] = OF_SUFFIX(float64, float64),
            [RINGLET_INT8] = OF_SUFFIX(uint8, int8),
            [RINGLET_INT32] = OF_SUFFIX(uint32, int32),
            [RINGLET_INT64] = OF_SUFFIX(uint64, int64),
            [RINGLET_UINT8] = OF_SUFFIX(uint8, uint8),
            [RINGLET_UINT32] = OF_SUFFIX(uint32, uint32),
            [RINGLET_UINT64] = OF_SUFFIX(uint64, uint64),
        },
    .past =
        {
            [RINGLET_FLOAT32] = PAST(float32),
            [RINGLET_FLOAT16] = PAST(float16),
            [RINGLET_BFLOAT16] = PAST(bfloat16),
            [RINGLET_FLOAT64] = PAST(float64),
            [RINGLET_INT8] = PAST(int8),
            [RINGLET_INT32] = PAST(int32),
            [RINGLET_INT64] = PAST(int64),
            [RINGLET_UINT8] = PAST(uint8),
            [RINGLET_UINT32] = PAST(uint32),
            [RINGLET_UINT64] = PAST(uint64),
        },
    .scale = {[RINGLET_FLOAT32] = scale_float32,
              [RINGLET_FLOAT16] = scale_float32,
              [RINGLET_BFLOAT16] = scale_float32,
              [RINGLET_FLOAT64] = scale_float64},
    .add_scaled = {[RINGLET_FLOAT32] = add_scaled_float32,
                   [RINGLET_FLOAT16] = add_scaled_float32,
                   [RINGLET_BFLOAT16] = add_scaled_float32,
                   [RINGLET_FLOAT64] = add_scaled_float64},
    .widen = {[RINGLET_FLOAT16] = widen_float16, [RINGLET_BFLOAT16] = widen_bfloat16},
    .narrow = {[RINGLET_FLOAT16] = narrow_float16, [RINGLET_BFLOAT16] = narrow_bfloat16},
    .stream = stream_bytes,
};

#endif
