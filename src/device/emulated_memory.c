/*
 * Memory of emulated devices and pinned host memory: allocations with known bounds.
 * Owns the table of allocations and what fills fresh and freed memory. Never moves data.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/emulated_private.h"

/* Index of the first allocation whose base lies behind the pointer. */
static uint32_t index_behind(const struct emulated *e, const void *pointer) {
    uint32_t low = 0, high = e->allocation_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)e->allocations[middle]->base <= (uintptr_t)pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct emulated_allocation *emulated_allocation_find(const struct emulated *e,
                                                     const void *pointer) {
    uint32_t behind = index_behind(e, pointer);
    if (behind == 0)
        return NULL;
    struct emulated_allocation *candidate = e->allocations[behind - 1];
    uintptr_t offset = (uintptr_t)pointer - (uintptr_t)candidate->base;
    return offset < candidate->bytes ? candidate : NULL;
}

static void allocation_free(struct emulated *e, struct emulated_allocation *allocation) {
    if (emulated_seeded(e))
        history_free(&allocation->history);
    memory_free(allocation->block);
    memory_free(allocation);
}

static struct emulated_allocation *allocation_new(struct emulated *e, int place, uint64_t bytes) {
    struct emulated_allocation *allocation = memory_zeroed(1, sizeof *allocation);
    if (!allocation)
        return NULL;
    allocation->bytes = bytes;
    allocation->place = place;
    allocation->block = memory_zeroed(allocation->bytes + EMULATED_ALIGNMENT, 1);
    if (!allocation->block || (emulated_seeded(e) && !history_init(&allocation->history))) {
        memory_free(allocation->block);
        memory_free(allocation);
        return NULL;
    }
    uintptr_t rest = (uintptr_t)allocation->block % EMULATED_ALIGNMENT;
    allocation->base = (char *)allocation->block + (rest ? EMULATED_ALIGNMENT - rest : 0);
    if (allocation->bytes <= EMULATED_FILL_MAX)
        memset(allocation->base, EMULATED_FRESH, allocation->bytes);
    return allocation;
}

/* Takes the allocation into the table, which is locked. */
static bool table_insert(struct emulated *e, struct emulated_allocation *allocation) {
    if (e->allocation_count == e->allocation_capacity) {
        uint32_t grown = e->allocation_capacity ? 2 * e->allocation_capacity : 16;
        if (!memory_resize(&e->allocations, grown, sizeof(void *)))
            return false;
        e->allocation_capacity = grown;
    }
    uint32_t at = index_behind(e, allocation->base);
    memmove(&e->allocations[at + 1], &e->allocations[at],
            (e->allocation_count - at) * sizeof(void *));
    e->allocations[at] = allocation;
    e->allocation_count++;
    e->live++;
    return true;
}

static ringlet_status alloc_locked(struct emulated *e, int place, uint64_t bytes, void **out) {
    char where[32];
    uint64_t used = place >= 0 ? e->used_bytes[place] : 0;
    bytes = bytes ? bytes : 1; /* so that every allocation has an address of its own */
    if (bytes > EMULATED_MEMORY_BYTES - used)
        return status_fail(RINGLET_OUT_OF_MEMORY,
                           "%s has no %" PRIu64 " bytes left: %" PRIu64 " of %" PRIu64
                           " are in use",
                           emulated_place_text(place, where), bytes, used, EMULATED_MEMORY_BYTES);
    struct emulated_allocation *allocation = allocation_new(e, place, bytes);
    if (!allocation || !table_insert(e, allocation)) {
        if (allocation)
            allocation_free(e, allocation);
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory to emulate %" PRIu64 " bytes of %s",
                           bytes, emulated_place_text(place, where));
    }
    if (place >= 0)
        e->used_bytes[place] += bytes;
    *out = allocation->base;
    return RINGLET_OK;
}

static ringlet_status allocate(struct emulated *e, int place, uint64_t bytes, void **out) {
    emulated_lock(e);
    pthread_rwlock_wrlock(&e->table);
    ringlet_status status = alloc_locked(e, place, bytes, out);
    pthread_rwlock_unlock(&e->table);
    emulated_unlock(e);
    return status;
}

/* Takes the allocation out of the table, so that no operation finds it any more. */
static struct emulated_allocation *table_remove(struct emulated *e, int place, const void *memory) {
    struct emulated_allocation *allocation = emulated_allocation_find(e, memory);
    if (!allocation || allocation->base != memory || allocation->place != place)
        return NULL;
    uint32_t at = index_behind(e, memory) - 1;
    memmove(&e->allocations[at], &e->allocations[at + 1],
            (e->allocation_count - at - 1) * sizeof(void *));
    e->allocation_count--;
    e->live--;
    if (place >= 0)
        e->used_bytes[place] -= allocation->bytes;
    return allocation;
}

static ringlet_status release(struct emulated *e, int place, void *memory) {
    char where[32];
    ringlet_status status = RINGLET_OK;
    if (!memory)
        return RINGLET_OK;
    emulated_lock(e);
    pthread_rwlock_wrlock(&e->table);
    struct emulated_allocation *allocation = table_remove(e, place, memory);
    pthread_rwlock_unlock(&e->table);
    if (!allocation) {
        status = status_fail(RINGLET_INVALID_ARGUMENT, "%p is not an allocation of %s", memory,
                             emulated_place_text(place, where));
    } else {
        if (emulated_seeded(e))
            status = emulated_race_free(e, allocation);
        /* Poisoned before the pins are waited for: who still uses it races with this, visibly. */
        memset(allocation->base, EMULATED_FREED,
               allocation->bytes < EMULATED_FILL_MAX ? allocation->bytes : EMULATED_FILL_MAX);
        while (atomic_load_explicit(&allocation->pins, memory_order_acquire))
            sched_yield();
        allocation_free(e, allocation);
    }
    emulated_unlock(e);
    return status;
}

ringlet_status emulated_memory_alloc(struct device_system *system, int device, uint64_t bytes,
                                     void **out) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "memory_alloc");
    if (!status)
        status = emulated_check_device(e, device);
    return status ? status : allocate(e, device, bytes, out);
}

ringlet_status emulated_host_alloc(struct device_system *system, uint64_t bytes, void **out) {
    ringlet_status status = emulated_fault(emulated_of(system), "host_alloc");
    return status ? status : allocate(emulated_of(system), DEVICE_HOST, bytes, out);
}

/* A planted fault in what frees is reported when the work is done, as CUDA reports earlier errors:
 * the caller has no second try. */
ringlet_status emulated_memory_free(struct device_system *system, int device, void *memory) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_check_device(e, device);
    if (!status)
        status = release(e, device, memory);
    return status ? status : emulated_fault(e, "memory_free");
}

ringlet_status emulated_host_free(struct device_system *system, void *memory) {
    ringlet_status status = release(emulated_of(system), DEVICE_HOST, memory);
    return status ? status : emulated_fault(emulated_of(system), "host_free");
}

void emulated_inspect(struct device_system *system, const void *pointer,
                      struct device_pointer *out) {
    struct emulated *e = emulated_of(system);
    *out = (struct device_pointer){pointer ? DEVICE_POINTER_HOST : DEVICE_POINTER_UNKNOWN,
                                   DEVICE_HOST, UINT64_MAX};
    pthread_rwlock_rdlock(&e->table);
    const struct emulated_allocation *allocation = emulated_allocation_find(e, pointer);
    if (allocation) {
        out->kind = allocation->place >= 0 ? DEVICE_POINTER_DEVICE : DEVICE_POINTER_HOST;
        out->device = allocation->place;
        out->bytes = allocation->bytes - (uint64_t)((const char *)pointer - allocation->base);
    }
    pthread_rwlock_unlock(&e->table);
}

/* Whether an access lies in one live allocation of its place; if not, says why. */
static bool resolve(struct emulated *e, struct emulated_access *access, char *text) {
    char expected[32], found[32];
    struct emulated_allocation *in = emulated_allocation_find(e, access->pointer);
    bool outside = access->place == EMULATED_OUTSIDE;
    int place = outside ? DEVICE_HOST : access->place;
    access->in = in;
    if (!in && outside && access->pointer)
        return true;
    emulated_place_text(access->place, expected);
    if (!in) {
        snprintf(text, EMULATED_TEXT_MAX, "%s %p is no live memory of %s", access->what,
                 (const void *)access->pointer, expected);
        return false;
    }
    if (in->place != place) {
        snprintf(text, EMULATED_TEXT_MAX, "%s %p is memory of %s, not of %s", access->what,
                 (const void *)access->pointer, emulated_place_text(in->place, found), expected);
        return false;
    }
    uint64_t offset = (uint64_t)(access->pointer - in->base);
    if (access->bytes > in->bytes - offset) {
        snprintf(text, EMULATED_TEXT_MAX,
                 "%s of %" PRIu64 " bytes at offset %" PRIu64
                 " ends behind its allocation of %" PRIu64 " bytes on %s",
                 access->what, access->bytes, offset, in->bytes, expected);
        return false;
    }
    return true;
}

bool emulated_pin(struct emulated *e, struct emulated_access *accesses, uint32_t count,
                  char text[EMULATED_TEXT_MAX]) {
    pthread_rwlock_rdlock(&e->table);
    uint32_t pinned = 0;
    while (pinned < count && resolve(e, &accesses[pinned], text)) {
        if (accesses[pinned].in)
            atomic_fetch_add_explicit(&accesses[pinned].in->pins, 1, memory_order_relaxed);
        pinned++;
    }
    pthread_rwlock_unlock(&e->table);
    if (pinned == count)
        return true;
    emulated_unpin(accesses, pinned);
    return false;
}

void emulated_unpin(struct emulated_access *accesses, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (accesses[i].in)
            atomic_fetch_sub_explicit(&accesses[i].in->pins, 1, memory_order_release);
}

void emulated_memory_close(struct emulated *e) {
    for (uint32_t i = 0; i < e->allocation_count; i++)
        allocation_free(e, e->allocations[i]);
    memory_free(e->allocations);
}
