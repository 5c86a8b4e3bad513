/*
 * What the files of kernels share: which kernels a type has.
 * Owns the shape of a launch. Never computes.
 */
#ifndef RINGLET_KERNELS_FAMILY_CUH
#define RINGLET_KERNELS_FAMILY_CUH

#include <stdint.h>

#include "kernels.h"

namespace ringlet {

/* Two inputs have kernels of their own. 256 threads; four such blocks a processor, so that loads
 * enough are under way to keep its memory busy. */
enum { PAIR = 2, THREADS = 256, BLOCKS_A_PROCESSOR = 4, VECTOR_BYTES = 16 };

struct Kernel {
    const void *function; /* for cudaLaunchKernel(), with one Arguments<INPUTS> */
    uint32_t vectors;     /* 16-byte accesses that a thread has under way for each input */
    uint32_t singles;     /* or elements, where addresses allow no more */
};

struct Kernels {
    Kernel pair, many;
};

/* The kernels' arguments; INPUTS is PAIR or KERNELS_INPUTS_MAX. */
template <int INPUTS> struct Arguments {
    void *dst;
    const void *inputs[INPUTS];
    uint64_t count;
    double factor; /* AVG of floats: of contributions */
    uint32_t input_count, ranks;
    uint32_t head;    /* elements before dst's first 16-byte boundary */
    bool vectors;     /* the inputs are as far from such a boundary as dst is */
    bool scale_first; /* inputs[0] is a contribution */
};

Kernels kernels_float16(ringlet_op op);
Kernels kernels_bfloat16(ringlet_op op);
Kernels kernels_float32(ringlet_op op);
Kernels kernels_float64(ringlet_op op);
Kernels kernels_int8(ringlet_op op);
Kernels kernels_int32(ringlet_op op);
Kernels kernels_int64(ringlet_op op);
Kernels kernels_uint8(ringlet_op op);
Kernels kernels_uint32(ringlet_op op);
Kernels kernels_uint64(ringlet_op op);

} // namespace ringlet

#endif
