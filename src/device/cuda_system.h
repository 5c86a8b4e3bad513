/*
 * What the files of the CUDA backend share: the system, its devices, and how a call is entered.
 * Owns no state of its own. Never included outside the backend: it needs CUDA's headers.
 *
 * The caller's thread is left as it was. Three means:
 * - a device is made current by pushing its primary context (driver API) and popping it again,
 * which also brings back a context of the caller's own, and creates none where the thread had none;
 * - what may fail in ordinary use runs on a short-lived thread, since the runtime keeps its last
 * error per thread, or uses the driver API, which keeps none;
 * - an unexpected failure of a runtime call is cleared from the last error unless one was there
 * before (that one is overwritten and lost, so an error is left for the caller to see).
 */
#ifndef RINGLET_DEVICE_CUDA_SYSTEM_H
#define RINGLET_DEVICE_CUDA_SYSTEM_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"

/* Entry points of the driver API, with the legacy default stream. */
struct cuda_driver {
    CUresult (*context_push)(CUcontext);
    CUresult (*context_pop)(CUcontext *);
    CUresult (*context_current)(CUcontext *);
    CUresult (*capture_mode)(CUstreamCaptureMode *);
    CUresult (*pointer_attributes)(unsigned, CUpointer_attribute *, void **, CUdeviceptr);
    CUresult (*stream_capturing)(CUstream, CUstreamCaptureStatus *);
    CUresult (*stream_context)(CUstream, CUcontext *);
    CUresult (*stream_query)(CUstream);
};

struct cuda_device {
    struct device_info info;
    uint32_t processors;
    /* Set with release once the primary context is there and holds every kernel. */
    atomic_bool ready;
    CUcontext context;
};

enum cuda_kind { CUDA_MEMORY, CUDA_HOST_MEMORY, CUDA_STREAM, CUDA_EVENT };

/* Something allocated and not yet freed. */
struct cuda_resource {
    enum cuda_kind kind;
    int device; /* DEVICE_HOST for host memory */
    void *handle;
    struct cuda_resource *next;
};

struct cuda_system {
    struct device_system base;
    struct cuda_driver driver;
    int count;
    struct cuda_device *devices;
    char machine[256];
    pthread_mutex_t prepare_lock;  /* taken while a device is made ready */
    pthread_mutex_t resource_lock; /* guards resources */
    struct cuda_resource *resources;
    atomic_uint turn;
};

struct cuda_system *cuda_system_of(struct device_system *system);

/* An enqueuing call on a device: from cuda_enter() to cuda_leave() its context is current. */
struct cuda_scope {
    const struct cuda_system *system;
    bool pushed;
    cudaError_t before; /* the thread's last error at entry */
};
ringlet_status cuda_enter(struct cuda_system *system, int device, struct cuda_scope *scope);
void cuda_leave(const struct cuda_scope *scope);
/* NO_DEVICE with words if there is no such device; makes the device ready if it is not. */
ringlet_status cuda_prepare(struct cuda_system *system, int device);
/* A device that is ready; the first one is made ready if none is. */
ringlet_status cuda_prepare_any(struct cuda_system *system, int *device);

/* Reports a runtime call that failed on this thread: "what it was: cudaErrorName (text)". */
ringlet_status cuda_fail(const struct cuda_scope *scope, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for the driver API and for another thread's call: no last error of this one is touched.
 */
ringlet_status cuda_fail_elsewhere(int error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs task(context) on a thread of its own, in relaxed capture mode, and waits for it. */
ringlet_status cuda_aside(void (*task)(void *), void *context);

/* Makes a resource (bytes: of the two kinds of memory) and notes it; gives one back,
 * INVALID_ARGUMENT if there is no such one; gives all back. */
ringlet_status cuda_resource_make(struct cuda_system *system, enum cuda_kind kind, int device,
                                  uint64_t bytes, void **out);
ringlet_status cuda_resource_release(struct cuda_system *system, enum cuda_kind kind, int device,
                                     void *handle);
void cuda_resource_release_all(struct cuda_system *system);

/* Members of the table that cuda_system.c defines. */
void cuda_close(struct device_system *base);
void cuda_retain(struct device_system *base);

extern const struct device_ops cuda_ops;

#endif
