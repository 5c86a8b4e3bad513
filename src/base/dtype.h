/*
 * Element types and operations beyond their public names.
 * Owns which values there are. Never computes with elements.
 */
#ifndef RINGLET_BASE_DTYPE_H
#define RINGLET_BASE_DTYPE_H

#include <stdbool.h>

#include "ringlet/ringlet.h"

enum {
#define DTYPE_ONE(...) +1
    DTYPE_COUNT = 0 RINGLET_DTYPE_MAP(DTYPE_ONE), /* values are 0 to DTYPE_COUNT - 1 */
    DTYPE_OP_COUNT = 0 RINGLET_OP_MAP(DTYPE_ONE),
#undef DTYPE_ONE
    DTYPE_BYTES_MAX = 8
};

/* Whether the value is one of the enumeration's: callers pass anything. */
bool dtype_known(ringlet_dtype dtype);
bool dtype_op_known(ringlet_op op);
bool dtype_is_float(ringlet_dtype dtype);

#endif
