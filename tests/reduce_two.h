/*
 * Reductions of two inputs, as most tests want them.
 * Owns nothing. Never checks anything itself.
 */
#ifndef RINGLET_TESTS_REDUCE_TWO_H
#define RINGLET_TESTS_REDUCE_TWO_H

#include "device/device.h"

static inline ringlet_status reduce_two(struct device_system *system, struct device_queue queue,
                                        int place, void *dst, const void *a, const void *b,
                                        uint64_t count, ringlet_dtype dtype, ringlet_op op,
                                        struct device_tag tag) {
    struct device_reduction how = {.dtype = dtype, .op = op};
    return system->ops->reduce(system, queue, place, dst, (const void *[]){a, b}, 2, count, &how,
                               tag);
}

static inline void cpu_reduce_two(void *dst, const void *a, const void *b, uint64_t count,
                                  ringlet_dtype dtype, ringlet_op op) {
    struct device_reduction how = {.dtype = dtype, .op = op};
    device_cpu_reduce(dst, (const void *[]){a, b}, 2, count, &how);
}

#endif
