/*
 * The small helpers that work on either kind of device: buffers, streams, waiting, time.
 * Owns nothing. Never touches a collective.
 */
#include "comm.h"

#include "base/clock.h"
#include "base/status.h"

/* The calling thread, bound to a rank's device for the length of one helper. */
struct visit {
    struct device_system *system;
    int device, saved;
};

/* On a communicator that has failed too: only the arguments are checked. */
static ringlet_status visit_failed(struct visit *visit, ringlet_comm *comm, int rank) {
    ringlet_status status = ringlet_comm_device(comm, rank, &visit->device);
    if (status)
        return status;
    visit->system = comm->system;
    return visit->system->ops->bind(visit->system, visit->device, &visit->saved);
}

static ringlet_status visit_begin(struct visit *visit, ringlet_comm *comm, int rank) {
    ringlet_status status = comm_rank_usable(comm, rank);
    return status ? status : visit_failed(visit, comm, rank);
}

static void visit_end(const struct visit *visit) {
    visit->system->ops->unbind(visit->system, visit->saved);
}

ringlet_status ringlet_buffer_alloc(ringlet_comm *comm, int rank, uint64_t bytes, void **out) {
    struct visit visit;
    void *memory = NULL;
    if (!out)
        return status_fail(RINGLET_INVALID_ARGUMENT, "out is NULL");
    ringlet_status status = visit_begin(&visit, comm, rank);
    if (status)
        return status;
    status =
        visit.system->ops->memory_alloc(visit.system, visit.device, bytes ? bytes : 1, &memory);
    visit_end(&visit);
    if (!status)
        *out = memory;
    return status;
}

/* Waits for what peers may still be copying to or from a buffer. Behind a failure, ranks may still
 * be inside their calls and enqueue: their waits end by themselves, so they come out. */
static ringlet_status comm_drain(ringlet_comm *comm) {
    struct patience patience = patience_start(comm->timeout_ms);
    for (uint32_t r = 0; comm_stopped(comm) && r < comm->ranks; r++)
        while (atomic_load(&comm->rank[r].busy))
            if (!patience_pause(&patience))
                return status_fail(RINGLET_TIMEOUT,
                                   "rank %u is still inside its call after %lld ms", r,
                                   (long long)comm->timeout_ms);
    return run_drain(comm->run, comm->timeout_ms);
}

ringlet_status ringlet_buffer_free(ringlet_comm *comm, int rank, void *buffer) {
    struct visit visit;
    ringlet_status status = visit_failed(&visit, comm, rank);
    if (status)
        return status;
    status = buffer ? comm_drain(comm) : RINGLET_OK;
    if (status != RINGLET_TIMEOUT)
        status = visit.system->ops->memory_free(visit.system, visit.device, buffer);
    visit_end(&visit);
    return status;
}

static ringlet_status stream_validate(const struct visit *visit, int rank, ringlet_stream stream) {
    struct device_queue queue = {visit->device, stream};
    switch (visit->system->ops->stream_check(visit->system, queue)) {
    case DEVICE_STREAM_OK:
    case DEVICE_STREAM_PER_THREAD:
        return RINGLET_OK;
    case DEVICE_STREAM_OTHER_DEVICE:
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "rank %d: the stream belongs to another device than the rank's (device %d)", rank,
            visit->device);
    case DEVICE_STREAM_CAPTURING:
        return status_fail(
            RINGLET_UNSUPPORTED,
            "rank %d: the stream is being captured into a graph; end the capture first", rank);
    case DEVICE_STREAM_UNKNOWN:
        break;
    }
    return status_fail(RINGLET_INVALID_ARGUMENT, "rank %d: %p is not a stream of device %d", rank,
                       (void *)stream, visit->device);
}

/* A slip here must not reach the device, where it would end the communicator. */
static ringlet_status pointers_validate(const struct visit *visit, int rank, const void *buffer,
                                        const void *host, uint64_t bytes) {
    struct device_pointer found;
    if (!buffer || !host)
        return status_fail(RINGLET_INVALID_ARGUMENT, "rank %d: %s is NULL", rank,
                           buffer ? "host" : "buffer");
    visit->system->ops->inspect(visit->system, buffer, &found);
    if (found.kind != DEVICE_POINTER_DEVICE && found.kind != DEVICE_POINTER_MANAGED)
        return status_fail(RINGLET_INVALID_ARGUMENT, "rank %d: buffer (%p) is not device memory",
                           rank, buffer);
    if (found.kind == DEVICE_POINTER_DEVICE && found.device != visit->device)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "rank %d: buffer (%p) is memory of device %d, but the rank's is device %d", rank,
            buffer, found.device, visit->device);
    if (found.bytes < bytes)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "rank %d: buffer (%p) has %llu bytes to the end of its allocation, but "
                           "%llu are to be copied",
                           rank, buffer, (unsigned long long)found.bytes,
                           (unsigned long long)bytes);
    visit->system->ops->inspect(visit->system, host, &found);
    if (found.kind == DEVICE_POINTER_DEVICE)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "rank %d: host (%p) is memory of device %d, not host memory", rank, host,
                           found.device);
    return RINGLET_OK;
}

static ringlet_status transfer(ringlet_comm *comm, int rank, void *dst, const void *src,
                               uint64_t bytes, ringlet_stream stream, bool to_device) {
    struct visit visit;
    ringlet_status status = visit_begin(&visit, comm, rank);
    if (status)
        return status;
    struct device_queue queue = {visit.device, stream};
    if (bytes)
        status =
            pointers_validate(&visit, rank, to_device ? dst : src, to_device ? src : dst, bytes);
    if (!status)
        status = stream_validate(&visit, rank, stream);
    if (!status && bytes) {
        /* What the stream holds may last, and a wait for it can end early; the copy itself cannot.
         */
        status = device_wait(visit.system, queue, comm->timeout_ms, comm_stopped, comm);
        if (!status)
            status = visit.system->ops->transfer(visit.system, queue, dst, src, bytes, to_device);
        if (status == RINGLET_TIMEOUT)
            status_fail(status, "rank %d: a transfer of %llu bytes did not begin within %lld ms",
                        rank, (unsigned long long)bytes, (long long)comm->timeout_ms);
        else if (status == RINGLET_ABORTED)
            status = comm_usable(comm);
        else if (status == RINGLET_DEVICE_ERROR)
            status = comm_fail(comm, status);
    }
    visit_end(&visit);
    return status;
}

ringlet_status ringlet_buffer_write(ringlet_comm *comm, int rank, void *buffer, const void *host,
                                    uint64_t bytes, ringlet_stream stream) {
    return transfer(comm, rank, buffer, host, bytes, stream, true);
}

ringlet_status ringlet_buffer_read(ringlet_comm *comm, int rank, void *host, const void *buffer,
                                   uint64_t bytes, ringlet_stream stream) {
    return transfer(comm, rank, host, buffer, bytes, stream, false);
}

ringlet_status ringlet_stream_create(ringlet_comm *comm, int rank, ringlet_stream *out) {
    struct visit visit;
    ringlet_stream stream = NULL;
    if (!out)
        return status_fail(RINGLET_INVALID_ARGUMENT, "out is NULL");
    ringlet_status status = visit_begin(&visit, comm, rank);
    if (status)
        return status;
    status = visit.system->ops->stream_create(visit.system, visit.device, &stream);
    visit_end(&visit);
    if (!status)
        *out = stream;
    return status;
}

ringlet_status ringlet_stream_destroy(ringlet_comm *comm, int rank, ringlet_stream stream) {
    struct visit visit;
    ringlet_status status = visit_failed(&visit, comm, rank);
    if (status)
        return status;
    if (stream)
        status = visit.system->ops->stream_destroy(visit.system, visit.device, stream);
    visit_end(&visit);
    return status;
}

ringlet_status ringlet_stream_wait(ringlet_comm *comm, int rank, ringlet_stream stream,
                                   int64_t timeout_ms) {
    struct visit visit;
    ringlet_status status = visit_failed(&visit, comm, rank);
    if (status)
        return status;
    struct device_queue queue = {visit.device, stream};
    bool failed = comm_stopped(comm);
    status = stream_validate(&visit, rank, stream);
    if (!status) {
        status = device_wait(visit.system, queue, timeout_ms, failed ? NULL : comm_stopped, comm);
        if (status == RINGLET_TIMEOUT)
            status_fail(status, "rank %d: the stream was still busy after %lld ms", rank,
                        (long long)timeout_ms);
        else if (status == RINGLET_ABORTED)
            status = comm_usable(comm);
        else if (status)
            status = comm_fail(comm, status);
        else if (failed)
            status = comm_usable(comm);
    }
    visit_end(&visit);
    return status;
}

ringlet_status ringlet_clock_ns(ringlet_comm *comm, uint64_t *ns) {
    if (!comm || !ns)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s is NULL", comm ? "ns" : "comm");
    *ns = comm->system->ops->now_ns(comm->system);
    return RINGLET_OK;
}
