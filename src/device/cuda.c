/*
 * CUDA devices behind the device interface: the table, and every call that enqueues work.
 * Owns nothing but the enqueuing. Never leaves a trace on the caller's thread (see cuda_system.h).
 */
#include "device/cuda_system.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/cuda_codes.h"
#include "kernels.h"

/* ---- The system ---- */

static int count_devices(struct device_system *base) {
    return cuda_system_of(base)->count;
}

static ringlet_status describe(struct device_system *base, int device, struct device_info *out) {
    struct cuda_system *system = cuda_system_of(base);
    if (device < 0 || device >= system->count)
        return status_fail(RINGLET_NO_DEVICE, "device %d does not exist: there are %d", device,
                           system->count);
    *out = system->devices[device].info;
    return RINGLET_OK;
}

static const char *machine(struct device_system *base) {
    return cuda_system_of(base)->machine;
}

static bool never(struct device_system *base) {
    (void)base;
    return false;
}

/* *saved says whether a context was pushed; the driver's own stack keeps what was current. */
static ringlet_status bind(struct device_system *base, int device, int *saved) {
    struct cuda_scope scope;
    ringlet_status status = cuda_enter(cuda_system_of(base), device, &scope);
    *saved = scope.pushed;
    return status;
}

static void unbind(struct device_system *base, int saved) {
    struct cuda_scope scope = {.system = cuda_system_of(base), .pushed = saved != 0};
    cuda_leave(&scope);
}

/* ---- Memory, streams, events ---- */

static ringlet_status memory_alloc(struct device_system *base, int device, uint64_t bytes,
                                   void **out) {
    return cuda_resource_make(cuda_system_of(base), CUDA_MEMORY, device, bytes, out);
}

static ringlet_status memory_release(struct device_system *base, int device, void *memory) {
    return cuda_resource_release(cuda_system_of(base), CUDA_MEMORY, device, memory);
}

static ringlet_status host_alloc(struct device_system *base, uint64_t bytes, void **out) {
    return cuda_resource_make(cuda_system_of(base), CUDA_HOST_MEMORY, DEVICE_HOST, bytes, out);
}

static ringlet_status host_free(struct device_system *base, void *memory) {
    return cuda_resource_release(cuda_system_of(base), CUDA_HOST_MEMORY, DEVICE_HOST, memory);
}

static ringlet_status stream_create(struct device_system *base, int device, ringlet_stream *out) {
    void *handle = NULL;
    ringlet_status status =
        cuda_resource_make(cuda_system_of(base), CUDA_STREAM, device, 0, &handle);
    if (status == RINGLET_OK)
        *out = handle;
    return status;
}

static ringlet_status stream_destroy(struct device_system *base, int device,
                                     ringlet_stream stream) {
    return cuda_resource_release(cuda_system_of(base), CUDA_STREAM, device, stream);
}

/* A struct device_event is CUDA's event under another name. */
static ringlet_status event_create(struct device_system *base, int device,
                                   struct device_event **out) {
    void *handle = NULL;
    ringlet_status status =
        cuda_resource_make(cuda_system_of(base), CUDA_EVENT, device, 0, &handle);
    if (status == RINGLET_OK)
        *out = handle;
    return status;
}

static ringlet_status event_destroy(struct device_system *base, int device,
                                    struct device_event *event) {
    return cuda_resource_release(cuda_system_of(base), CUDA_EVENT, device, event);
}

/* ---- Questions: driver API alone, which keeps no last error ---- */

/* On a thread without a context, lends it one: some questions want any. */
static bool push_if_none(struct cuda_system *system) {
    CUcontext current = NULL;
    int device;
    if (system->driver.context_current(&current) == CUDA_SUCCESS && current)
        return false;
    return cuda_prepare_any(system, &device) == RINGLET_OK &&
           system->driver.context_push(system->devices[device].context) == CUDA_SUCCESS;
}

static void inspect(struct device_system *base, const void *pointer, struct device_pointer *out) {
    struct cuda_system *system = cuda_system_of(base);
    unsigned type = 0;
    int managed = 0, device = DEVICE_HOST;
    CUdeviceptr start = 0, address = (CUdeviceptr)(uintptr_t)pointer;
    size_t size = 0;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&type, &managed, &device, &start, &size};
    *out = (struct device_pointer){DEVICE_POINTER_UNKNOWN, DEVICE_HOST, UINT64_MAX};
    if (!pointer)
        return;
    bool pushed = push_if_none(system);
    CUresult error = system->driver.pointer_attributes(5, names, values, address);
    cuda_leave(&(struct cuda_scope){.system = system, .pushed = pushed});
    if (error != CUDA_SUCCESS)
        return;
    out->kind = cuda_codes_pointer((int)type, managed != 0);
    if (out->kind == DEVICE_POINTER_DEVICE || out->kind == DEVICE_POINTER_MANAGED)
        out->device = device;
    if (type != 0 && address >= start && address - start < size)
        out->bytes = size - (address - start);
}

/* With the queue's context current. Capture is asked first: other questions about a stream that is
 * being captured break the capture, and so they do while any thread captures in global mode, unless
 * this thread is in relaxed mode. */
static enum device_stream_state check_entered(struct cuda_system *system,
                                              struct device_queue queue) {
    bool legacy = !queue.stream || queue.stream == cudaStreamLegacy;
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult error = system->driver.stream_capturing(queue.stream, &capturing);
    if (error != CUDA_SUCCESS)
        return cuda_codes_stream((int)error);
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE)
        return DEVICE_STREAM_CAPTURING;
    if (queue.stream == cudaStreamPerThread)
        return DEVICE_STREAM_PER_THREAD;
    if (legacy)
        return DEVICE_STREAM_OK;
    CUcontext context = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    system->driver.capture_mode(&mode);
    error = system->driver.stream_context(queue.stream, &context);
    system->driver.capture_mode(&mode);
    if (error != CUDA_SUCCESS)
        return cuda_codes_stream((int)error);
    /* A stream of another context of the same device cannot be used with our events either. */
    return context == system->devices[queue.device].context ? DEVICE_STREAM_OK
                                                            : DEVICE_STREAM_OTHER_DEVICE;
}

static enum device_stream_state stream_check(struct device_system *base,
                                             struct device_queue queue) {
    struct cuda_system *system = cuda_system_of(base);
    struct cuda_scope scope;
    enum device_stream_state state = DEVICE_STREAM_UNKNOWN;
    if (cuda_enter(system, queue.device, &scope) == RINGLET_OK)
        state = check_entered(system, queue);
    cuda_leave(&scope);
    return state;
}

static ringlet_status poll_queue(struct device_system *base, struct device_queue queue,
                                 bool *idle) {
    struct cuda_system *system = cuda_system_of(base);
    struct cuda_scope scope;
    ringlet_status status = cuda_enter(system, queue.device, &scope);
    if (status != RINGLET_OK)
        return status;
    /* Asking is refused, and breaks the capture, while any thread captures in global mode. */
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    system->driver.capture_mode(&mode);
    CUresult error = system->driver.stream_query(queue.stream);
    system->driver.capture_mode(&mode);
    cuda_leave(&scope);
    if (error != CUDA_SUCCESS && error != CUDA_ERROR_NOT_READY)
        return cuda_fail_elsewhere((int)error, "a stream of device %d", queue.device);
    *idle = error == CUDA_SUCCESS;
    return RINGLET_OK;
}

/* ---- Peer access ---- */

struct peering {
    int device, peer, can;
    cudaError_t can_error, enable_error;
};

static void peer_task(void *context) {
    struct peering *peering = context;
    peering->can_error = cudaSetDevice(peering->device);
    if (peering->can_error == cudaSuccess)
        peering->can_error = cudaDeviceCanAccessPeer(&peering->can, peering->device, peering->peer);
    if (peering->can_error == cudaSuccess && peering->can)
        peering->enable_error = cudaDeviceEnablePeerAccess(peering->peer, 0);
}

static enum device_peer peer_enable(struct device_system *base, int device, int peer) {
    struct cuda_system *system = cuda_system_of(base);
    struct peering peering = {.device = device, .peer = peer};
    if (device < 0 || device >= system->count || peer < 0 || peer >= system->count)
        return DEVICE_PEER_NO_DEVICE;
    if (device == peer)
        return DEVICE_PEER_ALREADY_ON;
    if (cuda_prepare(system, device) != RINGLET_OK || cuda_prepare(system, peer) != RINGLET_OK ||
        cuda_aside(peer_task, &peering) != RINGLET_OK)
        return DEVICE_PEER_FAILED;
    enum device_peer result =
        cuda_codes_peer((int)peering.can_error, peering.can, (int)peering.enable_error);
    if (result == DEVICE_PEER_FAILED)
        cuda_fail_elsewhere((int)(peering.can_error ? peering.can_error : peering.enable_error),
                            "%s from device %d to device %d",
                            peering.can_error ? "cudaDeviceCanAccessPeer"
                                              : "cudaDeviceEnablePeerAccess",
                            device, peer);
    return result;
}

/* ---- Work ---- */

static cudaEvent_t event_of(struct device_event *event) {
    return (cudaEvent_t)event;
}

static ringlet_status record(struct device_system *base, struct device_queue queue,
                             struct device_event *event) {
    struct cuda_scope scope;
    ringlet_status status = cuda_enter(cuda_system_of(base), queue.device, &scope);
    if (status != RINGLET_OK)
        return status;
    cudaError_t error = cudaEventRecord(event_of(event), queue.stream);
    if (error != cudaSuccess)
        status = cuda_fail(&scope, (int)error, "cudaEventRecord on device %d", queue.device);
    cuda_leave(&scope);
    return status;
}

static ringlet_status wait_event(struct device_system *base, struct device_queue queue,
                                 struct device_event *event) {
    struct cuda_scope scope;
    ringlet_status status = cuda_enter(cuda_system_of(base), queue.device, &scope);
    if (status != RINGLET_OK)
        return status;
    cudaError_t error = cudaStreamWaitEvent(queue.stream, event_of(event), 0);
    if (error != cudaSuccess)
        status = cuda_fail(&scope, (int)error, "cudaStreamWaitEvent on device %d", queue.device);
    cuda_leave(&scope);
    return status;
}

static enum cudaMemcpyKind copy_kind(int dst_place, int src_place) {
    if (dst_place == DEVICE_HOST)
        return src_place == DEVICE_HOST ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
    return src_place == DEVICE_HOST ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

struct place_name {
    char text[24];
};

static struct place_name place_name(int place) {
    struct place_name name = {"host memory"};
    if (place != DEVICE_HOST)
        snprintf(name.text, sizeof name.text, "device %d", place);
    return name;
}

static ringlet_status copy(struct device_system *base, struct device_queue queue, int dst_place,
                           void *dst, int src_place, const void *src, uint64_t bytes,
                           struct device_tag tag) {
    struct cuda_scope scope;
    (void)tag;
    if (bytes == 0)
        return RINGLET_OK;
    ringlet_status status = cuda_enter(cuda_system_of(base), queue.device, &scope);
    if (status != RINGLET_OK)
        return status;
    bool peer = dst_place != src_place && dst_place != DEVICE_HOST && src_place != DEVICE_HOST;
    cudaError_t error =
        peer ? cudaMemcpyPeerAsync(dst, dst_place, src, src_place, bytes, queue.stream)
             : cudaMemcpyAsync(dst, src, bytes, copy_kind(dst_place, src_place), queue.stream);
    if (error != cudaSuccess)
        status =
            cuda_fail(&scope, (int)error, "%s from %s to %s (%llu bytes)",
                      peer ? "cudaMemcpyPeerAsync" : "cudaMemcpyAsync", place_name(src_place).text,
                      place_name(dst_place).text, (unsigned long long)bytes);
    cuda_leave(&scope);
    return status;
}

/* Blocks of 256 threads a multiprocessor: enough loads in flight to saturate its share of memory,
 * half of its threads at most. */
enum { BLOCKS_A_PROCESSOR = 4 };
_Static_assert((int)DEVICE_INPUTS_MAX == (int)KERNELS_INPUTS_MAX, "kernels take as many inputs");

/* One reduction, and in memory of its own the inputs of one that waits for the CPU. */
struct reduction {
    void *dst;
    const void *const *inputs;
    uint32_t input_count;
    uint64_t count;
    struct device_reduction how;
};

static ringlet_status reduce_device(struct cuda_system *system, struct device_queue queue,
                                    const struct reduction *work) {
    struct cuda_scope scope;
    const struct device_reduction *how = &work->how;
    struct kernels_reduction kernel = {how->dtype, how->op, how->ranks, how->first, how->last};
    ringlet_status status = cuda_enter(system, queue.device, &scope);
    if (status != RINGLET_OK)
        return status;
    uint32_t blocks = system->devices[queue.device].processors * BLOCKS_A_PROCESSOR;
    int error = kernels_reduce(queue.stream, blocks, work->dst, work->inputs, work->input_count,
                               work->count, &kernel);
    if (error != cudaSuccess)
        status = cuda_fail(&scope, error, "the %s kernel of %s on device %d (%llu elements)",
                           ringlet_op_name(how->op), ringlet_dtype_name(how->dtype), queue.device,
                           (unsigned long long)work->count);
    cuda_leave(&scope);
    return status;
}

/* On CUDA's callback thread. It is not called once the context has failed: then its block is lost.
 */
static void CUDART_CB host_reduce(void *context) {
    struct reduction *work = context;
    device_cpu_reduce_beside(work->dst, work->inputs, work->input_count, work->count, &work->how);
    memory_free(work);
}

static struct reduction *reduction_copy(const struct reduction *work) {
    size_t inputs = work->input_count * sizeof(void *);
    struct reduction *block = memory_zeroed(1, sizeof *block + inputs);
    if (!block)
        return NULL;
    *block = *work;
    block->inputs = memcpy(block + 1, work->inputs, inputs);
    return block;
}

static ringlet_status reduce_host(struct cuda_system *system, struct device_queue queue,
                                  const struct reduction *work) {
    struct cuda_scope scope;
    struct reduction *block = reduction_copy(work);
    if (!block)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory to enqueue a reduction on the CPU");
    ringlet_status status = cuda_enter(system, queue.device, &scope);
    if (status == RINGLET_OK) {
        cudaError_t error = cudaLaunchHostFunc(queue.stream, host_reduce, block);
        if (error != cudaSuccess)
            status =
                cuda_fail(&scope, (int)error, "cudaLaunchHostFunc on device %d (%llu elements)",
                          queue.device, (unsigned long long)work->count);
    }
    cuda_leave(&scope);
    if (status != RINGLET_OK)
        memory_free(block);
    return status;
}

static ringlet_status reduce(struct device_system *base, struct device_queue queue, int place,
                             void *dst, const void *const *inputs, uint32_t input_count,
                             uint64_t count, const struct device_reduction *how,
                             struct device_tag tag) {
    struct reduction work = {dst, inputs, input_count, count, *how};
    (void)tag;
    ringlet_status status = device_reduction_check(how, input_count);
    if (status != RINGLET_OK || count == 0)
        return status;
    if (place == DEVICE_HOST)
        return reduce_host(cuda_system_of(base), queue, &work);
    if (place != queue.device)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "a queue of device %d cannot reduce in memory of device %d",
                           queue.device, place);
    return reduce_device(cuda_system_of(base), queue, &work);
}

/* Ordinary memory must stay until the copy has ended, so this waits for the queue. */
static ringlet_status transfer(struct device_system *base, struct device_queue queue, void *dst,
                               const void *src, uint64_t bytes, bool to_device) {
    struct cuda_scope scope;
    if (bytes == 0)
        return RINGLET_OK;
    ringlet_status status = cuda_enter(cuda_system_of(base), queue.device, &scope);
    if (status != RINGLET_OK)
        return status;
    cudaError_t error = cudaMemcpyAsync(
        dst, src, bytes, to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, queue.stream);
    if (error != cudaSuccess)
        status = cuda_fail(&scope, (int)error, "cudaMemcpyAsync %s device %d (%llu bytes)",
                           to_device ? "to" : "from", queue.device, (unsigned long long)bytes);
    cuda_leave(&scope);
    return status == RINGLET_OK ? device_wait(base, queue, -1, NULL, NULL) : status;
}

static uint64_t now_ns(struct device_system *base) {
    struct timespec now;
    (void)base;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t turn(struct device_system *base, uint32_t candidates) {
    unsigned next = atomic_fetch_add_explicit(&cuda_system_of(base)->turn, 1, memory_order_relaxed);
    return next % candidates;
}

const struct device_ops cuda_ops = {
    .backend = "cuda",
    .close_ends_work = false,
    .close = cuda_close,
    .retain = cuda_retain,
    .count = count_devices,
    .describe = describe,
    .machine = machine,
    .modelled = never,
    .single_threaded = never,
    .bind = bind,
    .unbind = unbind,
    .memory_alloc = memory_alloc,
    .memory_free = memory_release,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .inspect = inspect,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_check = stream_check,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .peer_enable = peer_enable,
    .record = record,
    .wait = wait_event,
    .copy = copy,
    .reduce = reduce,
    .transfer = transfer,
    .poll = poll_queue,
    .now_ns = now_ns,
    .turn = turn,
};
