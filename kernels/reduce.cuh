/*
 * The reduction kernels as templates: type and operation, for two inputs and for any number.
 * Owns the arithmetic on the device and the walk over memory. Never reads through the read-only
 * cache: dst may be an input, and inputs arrive while earlier kernels run.
 *
 * Each family of types is instantiated in a file of its own, so that they compile side by side.
 */
#ifndef RINGLET_KERNELS_REDUCE_CUH
#define RINGLET_KERNELS_REDUCE_CUH

#include <cuda_runtime_api.h>
#include <string.h>

#include "family.cuh"

namespace ringlet {

/* ---- Elements: what a type is stored as and what it is computed in ---- */

/* Small integers compute in 32 bits; storing wraps. */
template <typename T, typename V = T> struct Number {
    using Stored = T;
    using Value = V;
    static __device__ __forceinline__ V widen(T stored) {
        return stored;
    }
    static __device__ __forceinline__ T narrow(V value) {
        return (T)value;
    }
};

/* ---- Operations ---- */

/* These are never merged into one rounding with a neighbouring addition. */
__device__ __forceinline__ float times(float a, float b) {
    return __fmul_rn(a, b);
}
__device__ __forceinline__ double times(double a, double b) {
    return __dmul_rn(a, b);
}

struct Sum {
    template <typename V> static __device__ __forceinline__ V combine(V a, V b) {
        return a + b;
    }
};
struct Product {
    template <typename V> static __device__ __forceinline__ V combine(V a, V b) {
        return a * b;
    }
};
/* A NaN wins: as a it is chosen, as b it makes the comparison false. Of zeros the later wins. */
struct Minimum {
    template <typename V> static __device__ __forceinline__ V combine(V a, V b) {
        return a < b || a != a ? a : b;
    }
};
struct Maximum {
    template <typename V> static __device__ __forceinline__ V combine(V a, V b) {
        return a > b || a != a ? a : b;
    }
};

/* A form says what happens to the first input, to the others and to the result. */
template <typename E, typename Op> struct Simple : Op {
    using Element = E;
    using Value = typename E::Value;
    template <typename A> static __device__ __forceinline__ Value first(Value value, const A &) {
        return value;
    }
    template <typename A> static __device__ __forceinline__ Value other(Value value, const A &) {
        return value;
    }
    template <typename A> static __device__ __forceinline__ Value result(Value value, const A &) {
        return value;
    }
};

/* AVG of floats: contributions are scaled before they are added. */
template <typename E> struct ScaledSum : Simple<E, Sum> {
    using Value = typename E::Value;
    template <typename A> static __device__ __forceinline__ Value first(Value value, const A &a) {
        return a.scale_first ? times(value, (Value)a.factor) : value;
    }
    template <typename A> static __device__ __forceinline__ Value other(Value value, const A &a) {
        return times(value, (Value)a.factor);
    }
};

/* AVG of integers: the sum, wrapped without sign, is then divided as the type that it is. */
template <typename E, typename T, typename Divisor> struct DividedSum : Simple<E, Sum> {
    using Value = typename E::Value;
    template <typename A> static __device__ __forceinline__ Value result(Value value, const A &a) {
        return (Value)((Divisor)(T)E::narrow(value) / (Divisor)a.ranks);
    }
};

/* ---- Packs: what is loaded and stored at once, 16 bytes or one element ---- */

template <typename T, int N> struct Raw {
    using Type = uint4;
    static_assert(N * sizeof(T) == VECTOR_BYTES, "a pack is 16 bytes or one element");
};
template <typename T> struct Raw<T, 1> { using Type = T; };

template <typename E, int N>
__device__ __forceinline__ void unpack(typename E::Value (&to)[N],
                                       const typename Raw<typename E::Stored, N>::Type &from) {
    typename E::Stored stored[N];
    memcpy(stored, &from, sizeof stored);
#pragma unroll
    for (int i = 0; i < N; i++)
        to[i] = E::widen(stored[i]);
}

template <typename E, int N>
__device__ __forceinline__ typename Raw<typename E::Stored, N>::Type
pack(const typename E::Value (&from)[N]) {
    typename E::Stored stored[N];
    typename Raw<typename E::Stored, N>::Type to;
#pragma unroll
    for (int i = 0; i < N; i++)
        stored[i] = E::narrow(from[i]);
    memcpy(&to, stored, sizeof stored);
    return to;
}

/* ---- The walk ---- */

/* UNROLL packs of each input, `stride` packs apart, beginning `at` packs behind element `begin`.
 * Nothing is stored before all is loaded, so the compiler has many loads under way. */
template <typename F, int INPUTS, int N, int UNROLL>
__device__ __forceinline__ void reduce_packs(const Arguments<INPUTS> &a, uint64_t begin,
                                             uint64_t at, uint32_t stride) {
    using E = typename F::Element;
    using P = typename Raw<typename E::Stored, N>::Type;
    auto pointer = [&](const void *base) {
        return reinterpret_cast<const P *>(static_cast<const typename E::Stored *>(base) + begin) +
               at;
    };
    auto load = [&](P(&to)[UNROLL], const void *base) {
        const P *from = pointer(base);
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            to[u] = from[(uint64_t)u * stride];
    };
    typename E::Value value[UNROLL][N];
    P loaded[UNROLL], second[UNROLL];
    load(loaded, a.inputs[0]);
    if constexpr (INPUTS == PAIR)
        load(second, a.inputs[1]);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        unpack<E, N>(value[u], loaded[u]);
#pragma unroll
        for (int i = 0; i < N; i++)
            value[u][i] = F::first(value[u][i], a);
    }
    auto combine = [&](const P(&from)[UNROLL]) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            typename E::Value other[N];
            unpack<E, N>(other, from[u]);
#pragma unroll
            for (int i = 0; i < N; i++)
                value[u][i] = F::combine(value[u][i], F::other(other[i], a));
        }
    };
    if constexpr (INPUTS == PAIR) {
        combine(second);
    } else {
#pragma unroll(UNROLL > 1 ? 4 : 1)
        for (uint32_t k = 1; k < a.input_count; k++) {
            load(second, a.inputs[k]);
            combine(second);
        }
    }
    P *to = const_cast<P *>(pointer(a.dst));
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
#pragma unroll
        for (int i = 0; i < N; i++)
            value[u][i] = F::result(value[u][i], a);
        to[(uint64_t)u * stride] = pack<E, N>(value[u]);
    }
}

/* A block takes tiles of UNROLL packs a thread, neighbours in a warp adjacent. */
template <typename F, int INPUTS, int N, int UNROLL>
__device__ __forceinline__ void reduce_tiles(const Arguments<INPUTS> &a, uint64_t begin,
                                             uint64_t packs) {
    const uint64_t tile = (uint64_t)UNROLL * THREADS;
    for (uint64_t start = blockIdx.x * tile; start < packs; start += gridDim.x * tile) {
        uint64_t at = start + threadIdx.x;
        if (packs - start < tile) {
#pragma unroll 1
            for (; at < packs; at += THREADS)
                reduce_packs<F, INPUTS, N, 1>(a, begin, at, 0);
            return;
        }
        reduce_packs<F, INPUTS, N, UNROLL>(a, begin, at, THREADS);
    }
}

/* How many packs are under way: their values are to fit into half of a thread's registers. */
template <typename F, int INPUTS> struct Unroll {
    enum {
        VALUES = VECTOR_BYTES / sizeof(typename F::Element::Stored), /* of a pack */
        FITTING = 128 / (VALUES * sizeof(typename F::Value)),
        MOST = INPUTS == PAIR ? 4 : 2,
        VECTORS = (int)FITTING < (int)MOST ? (int)FITTING : (int)MOST,
        SINGLES = INPUTS == PAIR ? 8 : 4
    };
};

template <typename F, int INPUTS>
__global__ void __launch_bounds__(THREADS, BLOCKS_A_PROCESSOR)
    reduce(const __grid_constant__ Arguments<INPUTS> a) {
    using U = Unroll<F, INPUTS>;
    if (!a.vectors) {
        reduce_tiles<F, INPUTS, 1, U::SINGLES>(a, 0, a.count);
        return;
    }
    uint64_t packs = (a.count - a.head) / U::VALUES;
    uint64_t tail = a.head + packs * U::VALUES; /* less than a pack is left from here */
    uint64_t rest = a.head + (a.count - tail);  /* before and behind the packs */
    if (blockIdx.x == 0 && threadIdx.x < rest) {
        uint64_t at = threadIdx.x < a.head ? threadIdx.x : tail + (threadIdx.x - a.head);
        reduce_packs<F, INPUTS, 1, 1>(a, 0, at, 0);
    }
    reduce_tiles<F, INPUTS, U::VALUES, U::VECTORS>(a, a.head, packs);
}

/* ---- A type's kernels ---- */

template <typename F, int INPUTS> Kernel kernel_of() {
    return {reinterpret_cast<const void *>(reduce<F, INPUTS>), Unroll<F, INPUTS>::VECTORS,
            Unroll<F, INPUTS>::SINGLES};
}

template <typename F> Kernels kernels_of() {
    return {kernel_of<F, PAIR>(), kernel_of<F, KERNELS_INPUTS_MAX>()};
}

template <typename E> Kernels kernels_of_float(ringlet_op op) {
    switch (op) {
    case RINGLET_SUM:
        return kernels_of<Simple<E, Sum>>();
    case RINGLET_PROD:
        return kernels_of<Simple<E, Product>>();
    case RINGLET_MIN:
        return kernels_of<Simple<E, Minimum>>();
    case RINGLET_MAX:
        return kernels_of<Simple<E, Maximum>>();
    case RINGLET_AVG:
        break;
    }
    return kernels_of<ScaledSum<E>>();
}

/* `Unsigned` is the type without sign: sum and product wrap, and are the same kernels for both. AVG
 * is the form that divides; before the end an average is a sum. */
template <typename E, typename Unsigned, typename Divisor>
Kernels kernels_of_integer(ringlet_op op) {
    switch (op) {
    case RINGLET_SUM:
        return kernels_of<Simple<Unsigned, Sum>>();
    case RINGLET_PROD:
        return kernels_of<Simple<Unsigned, Product>>();
    case RINGLET_MIN:
        return kernels_of<Simple<E, Minimum>>();
    case RINGLET_MAX:
        return kernels_of<Simple<E, Maximum>>();
    case RINGLET_AVG:
        break;
    }
    return kernels_of<DividedSum<Unsigned, typename E::Stored, Divisor>>();
}

} // namespace ringlet

#endif
