#include "base/dtype.h"

struct dtype_entry {
    const char *name;
    uint32_t bytes;
};

static const struct dtype_entry types[DTYPE_COUNT] = {
#define DTYPE_ENTRY(name, value, bytes, text) [value] = {text, bytes},
    RINGLET_DTYPE_MAP(DTYPE_ENTRY)
#undef DTYPE_ENTRY
};

static const char *const operations[DTYPE_OP_COUNT] = {
#define DTYPE_ENTRY(name, value, text) [value] = text,
    RINGLET_OP_MAP(DTYPE_ENTRY)
#undef DTYPE_ENTRY
};

/* As unsigned, a negative value is a large one, whatever the enumeration's own type is. */
bool dtype_known(ringlet_dtype dtype) {
    return (unsigned)dtype < DTYPE_COUNT;
}

bool dtype_op_known(ringlet_op op) {
    return (unsigned)op < DTYPE_OP_COUNT;
}

bool dtype_is_float(ringlet_dtype dtype) {
    return dtype == RINGLET_FLOAT32 || dtype == RINGLET_FLOAT16 || dtype == RINGLET_BFLOAT16 ||
           dtype == RINGLET_FLOAT64;
}

const char *ringlet_dtype_name(ringlet_dtype dtype) {
    return dtype_known(dtype) ? types[dtype].name : "unknown";
}

uint32_t ringlet_dtype_size(ringlet_dtype dtype) {
    return dtype_known(dtype) ? types[dtype].bytes : 0;
}

const char *ringlet_op_name(ringlet_op op) {
    return dtype_op_known(op) ? operations[op] : "unknown";
}
