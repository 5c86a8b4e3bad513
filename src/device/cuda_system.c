/*
 * The CUDA system: what devices there are, their contexts, and how a call is entered and left.
 * Owns the one system of the process and its reference count. Never enqueues work.
 */
#include "device/cuda_system.h"

#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/cuda_backend.h"
#include "device/cuda_codes.h"
#include "kernels.h"

/* ---- Errors ---- */

static ringlet_status report(int error, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static ringlet_status report(int error, const char *format, va_list arguments) {
    char what[256];
    vsnprintf(what, sizeof what, format, arguments);
    return status_fail(cuda_codes_status(error), "%s: %s (%s)", what,
                       cudaGetErrorName((cudaError_t)error),
                       cudaGetErrorString((cudaError_t)error));
}

ringlet_status cuda_fail(const struct cuda_scope *scope, int error, const char *format, ...) {
    va_list arguments;
    if (scope->before == cudaSuccess)
        cudaGetLastError();
    va_start(arguments, format);
    ringlet_status status = report(error, format, arguments);
    va_end(arguments);
    return status;
}

ringlet_status cuda_fail_elsewhere(int error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    ringlet_status status = report(error, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- A thread aside ---- */

struct aside {
    void (*task)(void *);
    void *context;
};

static void *aside_main(void *argument) {
    struct aside *aside = argument;
    /* Another thread's capture in global mode must neither refuse these calls nor be broken by
     * them. */
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    aside->task(aside->context);
    return NULL;
}

ringlet_status cuda_aside(void (*task)(void *), void *context) {
    struct aside aside = {task, context};
    pthread_t thread;
    sigset_t all, old;
    /* The program's signals are not for this thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&thread, NULL, aside_main, &aside);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return status_fail(RINGLET_SYSTEM_ERROR, "cannot start a thread to call CUDA: error %d",
                           error);
    pthread_join(thread, NULL);
    return RINGLET_OK;
}

/* ---- Is CUDA there at all? ---- */

static struct {
    int error, count, driver, runtime;
    char text[200];
} presence = {.error = cudaErrorUnknown};
static pthread_once_t presence_once = PTHREAD_ONCE_INIT;

static void presence_task(void *context) {
    (void)context;
    if (cudaDriverGetVersion(&presence.driver) != cudaSuccess)
        presence.driver = 0;
    if (cudaRuntimeGetVersion(&presence.runtime) != cudaSuccess)
        presence.runtime = CUDART_VERSION;
    presence.error = (int)cudaGetDeviceCount(&presence.count);
    if (presence.error == cudaSuccess && presence.count == 0)
        presence.error = cudaErrorNoDevice;
    if (presence.error != cudaSuccess)
        presence.count = 0;
}

static void presence_find(void) {
    cuda_aside(presence_task, NULL);
    int major = presence.runtime / 1000, minor = presence.runtime % 1000 / 10;
    if (presence.error != cudaSuccess)
        snprintf(presence.text, sizeof presence.text, "CUDA runtime %d.%d; no device: %s (%s)",
                 major, minor,
                 cuda_codes_absence(presence.error, presence.driver, presence.runtime),
                 cudaGetErrorName((cudaError_t)presence.error));
    else
        snprintf(presence.text, sizeof presence.text,
                 "CUDA runtime %d.%d, driver for CUDA %d.%d, %d device%s", major, minor,
                 presence.driver / 1000, presence.driver % 1000 / 10, presence.count,
                 presence.count == 1 ? "" : "s");
}

int cuda_count(void) {
    pthread_once(&presence_once, presence_find);
    return presence.count;
}

const char *cuda_text(void) {
    pthread_once(&presence_once, presence_find);
    return presence.text;
}

/* ---- Opening ---- */

static const struct {
    const char *name;
    size_t offset;
} entry_points[] = {
    {"cuCtxPushCurrent", offsetof(struct cuda_driver, context_push)},
    {"cuCtxPopCurrent", offsetof(struct cuda_driver, context_pop)},
    {"cuCtxGetCurrent", offsetof(struct cuda_driver, context_current)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct cuda_driver, capture_mode)},
    {"cuPointerGetAttributes", offsetof(struct cuda_driver, pointer_attributes)},
    {"cuStreamIsCapturing", offsetof(struct cuda_driver, stream_capturing)},
    {"cuStreamGetCtx", offsetof(struct cuda_driver, stream_context)},
    {"cuStreamQuery", offsetof(struct cuda_driver, stream_query)},
};

/* With the signature that it has in CUDA 12.0, as in struct cuda_driver. */
static cudaError_t entry_point(const char *name, void **out) {
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    return cudaGetDriverEntryPointByVersion(name, out, 12000, cudaEnableLegacyStream, &found);
#else
    /* These toolkits ask for their own version, whose signatures are those of 12.0. */
    return cudaGetDriverEntryPoint(name, out, cudaEnableLegacyStream, &found);
#endif
}

struct opening {
    struct cuda_system *system;
    cudaError_t error;
    const char *what; /* the call that failed, or the entry point that is missing */
};

static void open_driver(struct opening *opening) {
    for (size_t i = 0; i < sizeof entry_points / sizeof entry_points[0]; i++) {
        void *function = NULL;
        opening->what = entry_points[i].name;
        opening->error = entry_point(entry_points[i].name, &function);
        if (opening->error == cudaSuccess && !function)
            opening->error = cudaErrorSymbolNotFound;
        if (opening->error != cudaSuccess)
            return;
        memcpy((char *)&opening->system->driver + entry_points[i].offset, &function,
               sizeof function);
    }
}

static void fill_info(struct device_info *info, const struct cudaDeviceProp *properties) {
    snprintf(info->name, sizeof info->name, "%.*s", DEVICE_NAME_MAX, properties->name);
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.0", (unsigned)properties->pciDomainID,
             (unsigned)properties->pciBusID, (unsigned)properties->pciDeviceID);
    memcpy(info->uuid, properties->uuid.bytes, sizeof info->uuid);
    info->memory_bytes = properties->totalGlobalMem;
    info->compute_major = properties->major;
    info->compute_minor = properties->minor;
}

static void open_task(void *context) {
    struct opening *opening = context;
    struct cuda_system *system = opening->system;
    for (int i = 0; i < system->count; i++) {
        struct cudaDeviceProp properties;
        opening->what = "cudaGetDeviceProperties";
        opening->error = cudaGetDeviceProperties(&properties, i);
        if (opening->error != cudaSuccess)
            return;
        fill_info(&system->devices[i].info, &properties);
        system->devices[i].processors = (uint32_t)properties.multiProcessorCount;
    }
    open_driver(opening);
}

/* "2 x NVIDIA H200", and a part for each run of equal devices where they differ. */
static void name_machine(struct cuda_system *system) {
    size_t used = 0;
    for (int i = 0, run; i < system->count && used < sizeof system->machine; i += run) {
        const char *name = system->devices[i].info.name;
        for (run = 1; i + run < system->count; run++)
            if (strcmp(name, system->devices[i + run].info.name))
                break;
        used += (size_t)snprintf(system->machine + used, sizeof system->machine - used, "%s%d x %s",
                                 i ? ", " : "", run, name);
    }
}

static void system_free(struct cuda_system *system) {
    if (!system)
        return;
    pthread_mutex_destroy(&system->prepare_lock);
    pthread_mutex_destroy(&system->resource_lock);
    memory_free(system->devices);
    memory_free(system);
}

static ringlet_status system_create(struct cuda_system **out) {
    struct cuda_system *system = memory_zeroed(1, sizeof *system);
    if (!system)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for the CUDA devices");
    system->base.ops = &cuda_ops;
    system->count = presence.count;
    pthread_mutex_init(&system->prepare_lock, NULL);
    pthread_mutex_init(&system->resource_lock, NULL);
    system->devices = memory_zeroed((size_t)system->count, sizeof *system->devices);
    struct opening opening = {system, cudaSuccess, ""};
    ringlet_status status =
        system->devices ? cuda_aside(open_task, &opening)
                        : status_fail(RINGLET_OUT_OF_MEMORY, "no memory for the CUDA devices");
    if (status == RINGLET_OK && opening.error != cudaSuccess)
        status = cuda_fail_elsewhere((int)opening.error, "%s", opening.what);
    if (status != RINGLET_OK) {
        system_free(system);
        return status;
    }
    name_machine(system);
    *out = system;
    return RINGLET_OK;
}

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_system *opened; /* guarded by open_lock, as is its count of references */
static uint64_t references;

ringlet_status cuda_open(struct device_system **out) {
    ringlet_status status = RINGLET_OK;
    if (cuda_count() == 0) {
        status = cuda_codes_status(presence.error);
        return status_fail(status, "no CUDA device: %s (%s)",
                           cuda_codes_absence(presence.error, presence.driver, presence.runtime),
                           cudaGetErrorName((cudaError_t)presence.error));
    }
    pthread_mutex_lock(&open_lock);
    if (!opened)
        status = system_create(&opened);
    if (status == RINGLET_OK) {
        references++;
        *out = &opened->base;
    }
    pthread_mutex_unlock(&open_lock);
    return status;
}

void cuda_retain(struct device_system *base) {
    (void)base;
    pthread_mutex_lock(&open_lock);
    references++;
    pthread_mutex_unlock(&open_lock);
}

void cuda_close(struct device_system *base) {
    struct cuda_system *last = NULL;
    if (!base)
        return;
    pthread_mutex_lock(&open_lock);
    if (--references == 0) {
        last = opened;
        opened = NULL;
    }
    pthread_mutex_unlock(&open_lock);
    if (!last)
        return;
    cuda_resource_release_all(last);
    system_free(last);
}

struct cuda_system *cuda_system_of(struct device_system *system) {
    return (struct cuda_system *)system;
}

/* ---- Making a device ready, entering and leaving ---- */

struct preparing {
    struct cuda_system *system;
    int device, error;
    const char *what;
    CUcontext context;
};

static void prepare_task(void *context) {
    struct preparing *preparing = context;
    preparing->what = "cudaSetDevice";
    preparing->error = (int)cudaSetDevice(preparing->device);
    if (preparing->error)
        return;
    preparing->what = "initialising its context";
    preparing->error = (int)cudaFree(NULL);
    if (preparing->error)
        return;
    preparing->what = "loading the kernels";
    preparing->error = kernels_load();
    if (preparing->error)
        return;
    preparing->what = "cuCtxGetCurrent";
    preparing->error = (int)preparing->system->driver.context_current(&preparing->context);
    if (!preparing->error && !preparing->context)
        preparing->error = CUDA_ERROR_INVALID_CONTEXT;
}

static ringlet_status prepare_now(struct cuda_system *system, int device) {
    struct cuda_device *entry = &system->devices[device];
    struct preparing preparing = {.system = system, .device = device, .what = ""};
    ringlet_status status = RINGLET_OK;
    pthread_mutex_lock(&system->prepare_lock);
    if (!atomic_load_explicit(&entry->ready, memory_order_acquire)) {
        status = cuda_aside(prepare_task, &preparing);
        if (status == RINGLET_OK && preparing.error)
            status = cuda_fail_elsewhere(preparing.error, "device %d, %s", device, preparing.what);
        if (status == RINGLET_OK) {
            entry->context = preparing.context;
            atomic_store_explicit(&entry->ready, true, memory_order_release);
        }
    }
    pthread_mutex_unlock(&system->prepare_lock);
    return status;
}

ringlet_status cuda_prepare(struct cuda_system *system, int device) {
    if (device < 0 || device >= system->count)
        return status_fail(RINGLET_NO_DEVICE, "device %d does not exist: there are %d", device,
                           system->count);
    if (atomic_load_explicit(&system->devices[device].ready, memory_order_acquire))
        return RINGLET_OK;
    return prepare_now(system, device);
}

ringlet_status cuda_prepare_any(struct cuda_system *system, int *device) {
    for (*device = 0; *device < system->count; ++*device)
        if (atomic_load_explicit(&system->devices[*device].ready, memory_order_acquire))
            return RINGLET_OK;
    *device = 0;
    return cuda_prepare(system, 0);
}

ringlet_status cuda_enter(struct cuda_system *system, int device, struct cuda_scope *scope) {
    *scope = (struct cuda_scope){.system = system};
    ringlet_status status = cuda_prepare(system, device);
    if (status != RINGLET_OK)
        return status;
    CUcontext wanted = system->devices[device].context, current = NULL;
    if (system->driver.context_current(&current) != CUDA_SUCCESS || current != wanted) {
        CUresult error = system->driver.context_push(wanted);
        if (error != CUDA_SUCCESS)
            return cuda_fail_elsewhere((int)error, "cuCtxPushCurrent for device %d", device);
        scope->pushed = true;
    }
    scope->before = cudaPeekAtLastError();
    return RINGLET_OK;
}

void cuda_leave(const struct cuda_scope *scope) {
    CUcontext context;
    if (scope->pushed)
        scope->system->driver.context_pop(&context);
}
