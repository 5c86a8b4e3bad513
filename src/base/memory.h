/*
 * Host memory: checked allocation with a fault that tests can plant.
 * Owns the fault counter. Never aborts: it returns NULL and the caller reports.
 */
#ifndef RINGLET_BASE_MEMORY_H
#define RINGLET_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed memory for count elements of size bytes; NULL when it cannot be had or the product
 * overflows. count 0 gives a pointer that can be freed. Free with memory_free(). */
void *memory_zeroed(size_t count, size_t size);

/* The same, the first element at a multiple of 64, where elements are a multiple of 64 bytes: one
 * cache line is never shared by two. */
void *memory_lines(size_t count, size_t size);

/* Like realloc for count elements: *pointer is changed only on success, returns false otherwise.
 * The new part is not zeroed. */
bool memory_resize(void *pointer_to_pointer, size_t count, size_t size);

/* A copy of count elements, or NULL. */
void *memory_copy(const void *source, size_t count, size_t size);

void memory_free(void *pointer);

/* The nth allocation from now (1 is the next) fails, once; 0 plants nothing. */
void memory_fail_at(uint64_t nth);
/* Whether a planted fault is still waiting, and how many allocations live (for leak tests). */
bool memory_fail_pending(void);
int64_t memory_live(void);

#endif
