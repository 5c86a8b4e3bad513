#include "names.h"

#include <stddef.h>

#define NAME_OF_TYPE(name, value, bytes, text) text,
#define NAME_OF_OP(name, value, text) text,

const char *const names_collectives[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                         NULL};
const char *const names_algorithms[] = {"auto",   "ring", "host", "host-pipelined",
                                        "direct", "all",  NULL};
const char *const names_types[] = {RINGLET_DTYPE_MAP(NAME_OF_TYPE) "all", "half", "float", "double",
                                   NULL};
const char *const names_ops[] = {RINGLET_OP_MAP(NAME_OF_OP) "all", NULL};

/* In the order of NCCL's names behind "all" above. */
static const ringlet_dtype nccl_names[] = {RINGLET_FLOAT16, RINGLET_FLOAT32, RINGLET_FLOAT64};

ringlet_dtype names_type(int index) {
    return index < NAMES_TYPES ? (ringlet_dtype)index : nccl_names[index - NAMES_TYPES - 1];
}

const char *names_nccl_type(ringlet_dtype type) {
    for (int i = 0; i < 3; i++)
        if (nccl_names[i] == type)
            return names_types[NAMES_TYPES + 1 + i];
    return names_types[type];
}

/* As nccl.h has them since 2.10. */
int names_nccl_type_number(ringlet_dtype type) {
    static const int numbers[NAMES_TYPES] = {
        [RINGLET_INT8] = 0,    [RINGLET_UINT8] = 1,    [RINGLET_INT32] = 2,   [RINGLET_UINT32] = 3,
        [RINGLET_INT64] = 4,   [RINGLET_UINT64] = 5,   [RINGLET_FLOAT16] = 6, [RINGLET_FLOAT32] = 7,
        [RINGLET_FLOAT64] = 8, [RINGLET_BFLOAT16] = 9,
    };
    return numbers[type];
}

int names_nccl_op_number(ringlet_op op) {
    static const int numbers[NAMES_OPS] = {[RINGLET_SUM] = 0,
                                           [RINGLET_PROD] = 1,
                                           [RINGLET_MAX] = 2,
                                           [RINGLET_MIN] = 3,
                                           [RINGLET_AVG] = 4};
    return numbers[op];
}
