/*
 * What the command can be asked for by name: collectives, algorithms, element types, operations.
 * Owns the lists, in the order of the library's enumerations, and NCCL's names and numbers for the
 * same things. Never calls the library.
 */
#ifndef RINGLET_BENCH_NAMES_H
#define RINGLET_BENCH_NAMES_H

#include "ringlet/ringlet.h"

#define NAMES_ONE(...) +1
enum {
    NAMES_TYPES = 0 RINGLET_DTYPE_MAP(NAMES_ONE),
    NAMES_OPS = 0 RINGLET_OP_MAP(NAMES_ONE),
    NAMES_ALGORITHMS = 5
};
#undef NAMES_ONE

/* Each list ends with NULL. Index: session_collective. */
extern const char *const names_collectives[];
extern const char *const names_algorithms[]; /* ringlet_algorithm; then "all" */
extern const char *const names_types[];      /* ringlet_dtype; then "all"; then NCCL's names */
extern const char *const names_ops[];        /* ringlet_op; then "all" */

/* The type that an index in names_types stands for, "all" left aside. */
ringlet_dtype names_type(int index);

const char *names_nccl_type(ringlet_dtype type); /* "float" */
int names_nccl_type_number(ringlet_dtype type);
int names_nccl_op_number(ringlet_op op);

#endif
