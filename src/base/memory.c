#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t fail_countdown;
static atomic_int_fast64_t live;

static bool planted_fault(void) {
    uint_fast64_t left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);
    while (left)
        if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1))
            return left == 1;
    return false;
}

static void count(int_fast64_t change) {
    atomic_fetch_add_explicit(&live, change, memory_order_relaxed);
}

void *memory_zeroed(size_t elements, size_t size) {
    if (planted_fault())
        return NULL;
    void *pointer = calloc(elements ? elements : 1, size ? size : 1);
    if (pointer)
        count(1);
    return pointer;
}

void *memory_lines(size_t elements, size_t size) {
    size_t bytes;
    void *pointer;
    if (__builtin_mul_overflow(elements ? elements : 1, size, &bytes) || planted_fault() ||
        posix_memalign(&pointer, 64, bytes))
        return NULL;
    memset(pointer, 0, bytes);
    count(1);
    return pointer;
}

bool memory_resize(void *pointer_to_pointer, size_t elements, size_t size) {
    void *old, *grown;
    size_t bytes;
    memcpy(&old, pointer_to_pointer, sizeof old);
    if (__builtin_mul_overflow(elements ? elements : 1, size, &bytes) || planted_fault())
        return false;
    grown = realloc(old, bytes);
    if (!grown)
        return false;
    if (!old)
        count(1);
    memcpy(pointer_to_pointer, &grown, sizeof grown);
    return true;
}

void *memory_copy(const void *source, size_t elements, size_t size) {
    void *pointer = memory_zeroed(elements, size);
    if (pointer && elements)
        memcpy(pointer, source, elements * size);
    return pointer;
}

void memory_free(void *pointer) {
    if (pointer)
        count(-1);
    free(pointer);
}

void memory_fail_at(uint64_t nth) {
    atomic_store(&fail_countdown, nth);
}

bool memory_fail_pending(void) {
    return atomic_load(&fail_countdown) != 0;
}

int64_t memory_live(void) {
    return atomic_load(&live);
}
