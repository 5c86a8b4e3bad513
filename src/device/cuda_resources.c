/*
 * What the CUDA system has allocated: memory, pinned memory, streams and events.
 * Owns the list of what is not yet freed. Never enqueues work.
 */
#include "base/memory.h"
#include "base/status.h"
#include "device/cuda_system.h"

static const char *const make_calls[] = {"cudaMalloc", "cudaHostAlloc", "cudaStreamCreateWithFlags",
                                         "cudaEventCreateWithFlags"};
static const char *const release_calls[] = {"cudaFree", "cudaFreeHost", "cudaStreamDestroy",
                                            "cudaEventDestroy"};
static const char *const kind_names[] = {"device memory", "pinned host memory", "stream", "event"};

/* A make or release on its way through a thread aside. */
struct work {
    enum cuda_kind kind;
    int device; /* the one to be current: for host memory, any */
    uint64_t bytes;
    void *handle;
    cudaError_t error;
};

static cudaError_t make(struct work *work) {
    cudaStream_t stream = NULL;
    cudaEvent_t event = NULL;
    cudaError_t error;
    switch (work->kind) {
    case CUDA_MEMORY:
        return cudaMalloc(&work->handle, work->bytes);
    case CUDA_HOST_MEMORY:
        return cudaHostAlloc(&work->handle, work->bytes, cudaHostAllocPortable);
    case CUDA_STREAM:
        error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        work->handle = stream;
        return error;
    case CUDA_EVENT:
        error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
        work->handle = event;
        return error;
    }
    return cudaErrorInvalidValue;
}

static cudaError_t release(const struct work *work) {
    switch (work->kind) {
    case CUDA_MEMORY:
        return cudaFree(work->handle);
    case CUDA_HOST_MEMORY:
        return cudaFreeHost(work->handle);
    case CUDA_STREAM:
        return cudaStreamDestroy(work->handle);
    case CUDA_EVENT:
        return cudaEventDestroy(work->handle);
    }
    return cudaErrorInvalidValue;
}

static void make_task(void *context) {
    struct work *work = context;
    work->error = cudaSetDevice(work->device);
    if (work->error == cudaSuccess)
        work->error = make(work);
}

static void release_task(void *context) {
    struct work *work = context;
    work->error = cudaSetDevice(work->device);
    if (work->error == cudaSuccess)
        work->error = release(work);
}

static bool memory_kind(enum cuda_kind kind) {
    return kind == CUDA_MEMORY || kind == CUDA_HOST_MEMORY;
}

static ringlet_status current_for(struct cuda_system *system, enum cuda_kind kind, int device,
                                  int *out) {
    if (kind == CUDA_HOST_MEMORY)
        return cuda_prepare_any(system, out);
    *out = device;
    return cuda_prepare(system, device);
}

static ringlet_status make_failed(const struct work *work) {
    const char *call = make_calls[work->kind];
    unsigned long long bytes = work->bytes;
    if (work->kind == CUDA_HOST_MEMORY)
        return cuda_fail_elsewhere((int)work->error, "%s (%llu bytes)", call, bytes);
    if (work->kind == CUDA_MEMORY)
        return cuda_fail_elsewhere((int)work->error, "%s on device %d (%llu bytes)", call,
                                   work->device, bytes);
    return cuda_fail_elsewhere((int)work->error, "%s on device %d", call, work->device);
}

ringlet_status cuda_resource_make(struct cuda_system *system, enum cuda_kind kind, int device,
                                  uint64_t bytes, void **out) {
    /* No bytes are still an address of their own. */
    struct work work = {.kind = kind, .bytes = memory_kind(kind) && !bytes ? 1 : bytes};
    ringlet_status status = current_for(system, kind, device, &work.device);
    if (status != RINGLET_OK)
        return status;
    /* The note comes first, so that nothing has to be given back for want of one. */
    struct cuda_resource *note = memory_zeroed(1, sizeof *note);
    if (!note)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory to note a %s", kind_names[kind]);
    status = cuda_aside(make_task, &work);
    if (status == RINGLET_OK && work.error != cudaSuccess)
        status = make_failed(&work);
    if (status != RINGLET_OK) {
        memory_free(note);
        return status;
    }
    pthread_mutex_lock(&system->resource_lock);
    *note = (struct cuda_resource){kind, device, work.handle, system->resources};
    system->resources = note;
    pthread_mutex_unlock(&system->resource_lock);
    *out = work.handle;
    return RINGLET_OK;
}

/* Takes the note out of the list; NULL if there is none. */
static struct cuda_resource *take(struct cuda_system *system, enum cuda_kind kind, int device,
                                  const void *handle) {
    struct cuda_resource *note = NULL;
    pthread_mutex_lock(&system->resource_lock);
    for (struct cuda_resource **at = &system->resources; *at; at = &(*at)->next) {
        if ((*at)->kind != kind || (*at)->device != device || (*at)->handle != handle)
            continue;
        note = *at;
        *at = note->next;
        break;
    }
    pthread_mutex_unlock(&system->resource_lock);
    return note;
}

ringlet_status cuda_resource_release(struct cuda_system *system, enum cuda_kind kind, int device,
                                     void *handle) {
    struct work work = {.kind = kind, .handle = handle};
    if (!handle)
        return RINGLET_OK;
    struct cuda_resource *note = take(system, kind, device, handle);
    if (!note)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "%p is no %s made by this library for place %d (or is freed already)",
                           handle, kind_names[kind], device);
    memory_free(note);
    ringlet_status status = current_for(system, kind, device, &work.device);
    if (status == RINGLET_OK)
        status = cuda_aside(release_task, &work);
    if (status == RINGLET_OK && work.error != cudaSuccess)
        status = cuda_fail_elsewhere((int)work.error, "%s on device %d", release_calls[kind],
                                     work.device);
    return status;
}

static void release_all_task(void *context) {
    struct cuda_system *system = context;
    int host_device = 0;
    for (int i = 0; i < system->count; i++)
        if (atomic_load_explicit(&system->devices[i].ready, memory_order_acquire))
            host_device = i;
    while (system->resources) {
        struct cuda_resource *note = system->resources;
        struct work work = {.kind = note->kind, .handle = note->handle, .device = note->device};
        if (note->kind == CUDA_HOST_MEMORY)
            work.device = host_device;
        system->resources = note->next;
        release_task(&work); /* errors have nobody to go to */
        memory_free(note);
    }
}

void cuda_resource_release_all(struct cuda_system *system) {
    if (system->resources)
        cuda_aside(release_all_task, system);
}
