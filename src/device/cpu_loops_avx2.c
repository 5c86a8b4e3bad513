/*
 * The loops of the CPU's reductions for x86 with AVX2 and F16C.
 * Owns the table cpu_loops_avx2. Never runs where cpu_loops_list() does not list it.
 */
#if defined(__x86_64__)
#include <immintrin.h> /* before the target changes: it changes it by itself */

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif
#define CPU_LOOPS_TABLE cpu_loops_avx2
#define CPU_LOOPS_LEVEL 1
#define CPU_LOOPS_NAME "avx2"
#include "device/cpu_loops_body.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int cpu_loops_avx2_not_here; /* a file must not be empty */
#endif
