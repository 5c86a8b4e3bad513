/*
 * Operations of emulated devices: the calls that enqueue them, and what they do to memory.
 * Owns the checks of arguments and pointers. Never decides when an operation runs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "device/emulated_private.h"

enum { ACCESSES_MAX = DEVICE_INPUTS_MAX + 1 };

const char *emulated_kind_text(enum emulated_kind kind) {
    switch (kind) {
    case EMULATED_RECORD:
        return "record";
    case EMULATED_WAIT:
        return "wait";
    case EMULATED_GATE:
        return "gate";
    case EMULATED_COPY:
        return "copy";
    case EMULATED_REDUCE:
        return "reduction";
    case EMULATED_TRANSFER:
        return "transfer";
    case EMULATED_STOP:
        break;
    }
    return "stop";
}

static struct emulated_access access_of(const char *what, int place, const void *pointer,
                                        uint64_t bytes) {
    return (struct emulated_access){what, place, pointer, bytes, false, NULL};
}

/* What the operation touches; empty ranges touch nothing. */
static uint32_t list_accesses(const struct emulated_operation *op,
                              struct emulated_access out[ACCESSES_MAX]) {
    static const char *const names[] = {"source", "second source", "further source"};
    uint32_t count = 0;
    if (op->bytes == 0)
        return 0;
    if (op->kind != EMULATED_REDUCE)
        out[count++] = access_of(names[0], op->src_place, op->src, op->bytes);
    for (uint32_t k = 0; k < op->input_count; k++)
        out[count++] = access_of(names[k < 2 ? k : 2], op->src_place, op->inputs[k], op->bytes);
    out[count] = access_of("destination", op->dst_place, op->dst, op->bytes);
    out[count++].write = true;
    return count;
}

static void fail_over_pointer(struct emulated_queue *q, const struct emulated_operation *op,
                              const char *when, const char *text) {
    char queue[48];
    emulated_queue_fail(q, RINGLET_DEVICE_ERROR,
                        "illegal access, seen when %s: %s of call %" PRIu32 " rank %" PRIu32
                        " step %" PRIu32 " on %s: %s",
                        when, emulated_kind_text(op->kind), op->tag.call, op->tag.rank,
                        op->tag.step,
                        emulated_queue_text(q->device, q->number, q->is_default, queue), text);
}

/* Several threads for a reduction would be against the seeded scheduler's one. */
static void reduce(const struct emulated_queue *q, const struct emulated_operation *op) {
    uint64_t count = op->bytes / ringlet_dtype_size(op->how.dtype);
    if (op->dst_place == DEVICE_HOST && !emulated_seeded(q->system))
        device_cpu_reduce_beside(op->dst, op->inputs, op->input_count, count, &op->how);
    else
        device_cpu_reduce(op->dst, op->inputs, op->input_count, count, &op->how);
}

static void move(const struct emulated_queue *q, const struct emulated_operation *op) {
    if (op->kind == EMULATED_REDUCE)
        reduce(q, op);
    else
        memcpy(op->dst, op->src, op->bytes);
}

bool emulated_execute(struct emulated_queue *q, const struct emulated_operation *op) {
    struct emulated_access accesses[ACCESSES_MAX];
    char text[EMULATED_TEXT_MAX];
    uint32_t count = list_accesses(op, accesses);
    if (count == 0)
        return true;
    if (!emulated_pin(q->system, accesses, count, text)) {
        fail_over_pointer(q, op, "run", text);
        return false;
    }
    if (emulated_seeded(q->system))
        emulated_race_access(q, op, accesses, count);
    bool good = !emulated_queue_failed(q);
    if (good)
        move(q, op);
    emulated_unpin(accesses, count);
    return good;
}

void emulated_inherit_failure(struct emulated_queue *q, struct emulated_ticket *ticket) {
    char queue[48];
    const struct emulated_queue *from = ticket->queue;
    if (ticket->failed && from != q)
        emulated_queue_fail(
            q, from->status, "waited for %s, which failed: %s",
            emulated_queue_text(from->device, from->number, from->is_default, queue), from->text);
}

/* Whether the pointers are good at this moment; if not, the queue fails. */
static ringlet_status check_pointers(struct emulated_queue *q,
                                     const struct emulated_operation *op) {
    struct emulated_access accesses[ACCESSES_MAX];
    char text[EMULATED_TEXT_MAX];
    uint32_t count = list_accesses(op, accesses);
    if (emulated_pin(q->system, accesses, count, text))
        emulated_unpin(accesses, count);
    else
        fail_over_pointer(q, op, "enqueued", text);
    return emulated_queue_status(q);
}

static bool overlap(const char *a, const char *b, uint64_t bytes) {
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return x < y ? y - x < bytes : x - y < bytes;
}

static ringlet_status check_place(const struct emulated *e, int place) {
    return place == DEVICE_HOST ? RINGLET_OK : emulated_check_device(e, place);
}

/* The common part of all that enqueue data operations. */
static ringlet_status enqueue(struct emulated *e, struct device_queue at,
                              const struct emulated_operation *op) {
    emulated_lock(e);
    struct emulated_queue *q = emulated_queue_find(e, at);
    ringlet_status status = q ? emulated_queue_status(q) : RINGLET_INVALID_ARGUMENT;
    if (!status)
        status = check_pointers(q, op);
    if (!status)
        status = emulated_queue_push(q, op);
    emulated_queue_release(q);
    emulated_unlock(e);
    return status;
}

ringlet_status emulated_copy(struct device_system *system, struct device_queue at, int dst_place,
                             void *dst, int src_place, const void *src, uint64_t bytes,
                             struct device_tag tag) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "copy");
    if (!status)
        status = check_place(e, dst_place);
    if (!status)
        status = check_place(e, src_place);
    if (status)
        return status;
    if (overlap(dst, src, bytes))
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "a copy of %" PRIu64 " bytes from %p to %p overlaps itself", bytes, src,
                           dst);
    return enqueue(e, at,
                   &(struct emulated_operation){.kind = EMULATED_COPY,
                                                .tag = tag,
                                                .dst_place = dst_place,
                                                .src_place = src_place,
                                                .dst = dst,
                                                .src = src,
                                                .bytes = bytes});
}

static ringlet_status check_input(const void *dst, const void *input, uint64_t bytes,
                                  uint32_t size) {
    if (((uintptr_t)dst | (uintptr_t)input) % size)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%p or %p is not aligned to %" PRIu32 " bytes",
                           dst, input, size);
    if (dst != input && overlap(dst, input, bytes))
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "the destination %p of a reduction overlaps an input without being it",
                           dst);
    return RINGLET_OK;
}

static ringlet_status check_reduction(const void *dst, const void *const *inputs,
                                      uint32_t input_count, uint64_t count,
                                      const struct device_reduction *how) {
    ringlet_status status = device_reduction_check(how, input_count);
    uint32_t size = ringlet_dtype_size(how->dtype);
    if (!status && count > UINT64_MAX / size)
        status =
            status_fail(RINGLET_INVALID_ARGUMENT, "%" PRIu64 " elements are too many bytes", count);
    for (uint32_t k = 0; k < input_count && !status; k++)
        status = check_input(dst, inputs[k], count * size, size);
    return status;
}

ringlet_status emulated_reduce(struct device_system *system, struct device_queue at, int place,
                               void *dst, const void *const *inputs, uint32_t input_count,
                               uint64_t count, const struct device_reduction *how,
                               struct device_tag tag) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "reduce");
    if (!status)
        status = check_reduction(dst, inputs, input_count, count, how);
    if (!status && place != at.device && place != DEVICE_HOST)
        status =
            status_fail(RINGLET_INVALID_ARGUMENT,
                        "device %d cannot reduce in the memory of device %d", at.device, place);
    if (status)
        return status;
    return enqueue(e, at,
                   &(struct emulated_operation){.kind = EMULATED_REDUCE,
                                                .tag = tag,
                                                .dst_place = place,
                                                .src_place = place,
                                                .dst = dst,
                                                .inputs = inputs,
                                                .input_count = input_count,
                                                .how = *how,
                                                .bytes = count * ringlet_dtype_size(how->dtype)});
}

/* The caller's memory is used until the operation is done: so the call waits for it. */
static ringlet_status transfer_in(struct emulated_queue *q, struct emulated_operation *op) {
    ringlet_status status = check_pointers(q, op);
    if (status)
        return status;
    op->ticket = emulated_ticket_new(q);
    if (!op->ticket)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for a transfer");
    status = emulated_queue_push(q, op);
    if (!status && emulated_seeded(q->system))
        status = emulated_seeded_drain(q);
    if (!status)
        emulated_threads_await(op->ticket);
    if (!status && op->ticket->failed)
        status = emulated_queue_status(q);
    emulated_ticket_release(op->ticket);
    return status;
}

ringlet_status emulated_transfer(struct device_system *system, struct device_queue at, void *dst,
                                 const void *src, uint64_t bytes, bool to_device) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "transfer");
    if (status)
        return status;
    struct emulated_operation op = {.kind = EMULATED_TRANSFER,
                                    .dst_place = to_device ? at.device : EMULATED_OUTSIDE,
                                    .src_place = to_device ? EMULATED_OUTSIDE : at.device,
                                    .dst = dst,
                                    .src = src,
                                    .bytes = bytes};
    emulated_lock(e);
    struct emulated_queue *q = emulated_queue_find(e, at);
    status = !q ? RINGLET_INVALID_ARGUMENT : emulated_queue_status(q);
    if (!status)
        status = transfer_in(q, &op);
    emulated_queue_release(q);
    emulated_unlock(e);
    return status;
}

ringlet_status emulated_record(struct device_system *system, struct device_queue at,
                               struct device_event *event) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "record");
    if (status)
        return status;
    if (event->device != at.device)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "an event of device %d cannot be recorded in a stream of device %d",
                           event->device, at.device);
    emulated_lock(e);
    struct emulated_queue *q = emulated_queue_find(e, at);
    struct emulated_ticket *ticket = q ? emulated_ticket_new(q) : NULL;
    if (!q)
        status = RINGLET_INVALID_ARGUMENT;
    else if (!ticket)
        status = status_fail(RINGLET_OUT_OF_MEMORY, "no memory to record an event");
    else
        status = emulated_queue_push(
            q, &(struct emulated_operation){.kind = EMULATED_RECORD, .ticket = ticket});
    if (!status)
        emulated_event_set(event, ticket);
    emulated_ticket_release(ticket);
    emulated_queue_release(q);
    emulated_unlock(e);
    return status;
}

ringlet_status emulated_wait(struct device_system *system, struct device_queue at,
                             struct device_event *event) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "wait");
    if (status)
        return status;
    emulated_lock(e);
    struct emulated_queue *q = emulated_queue_find(e, at);
    struct emulated_ticket *ticket = emulated_event_latest(event);
    if (!q)
        status = RINGLET_INVALID_ARGUMENT;
    else if (ticket)
        status = emulated_queue_push(
            q, &(struct emulated_operation){.kind = EMULATED_WAIT, .ticket = ticket});
    emulated_ticket_release(ticket);
    emulated_queue_release(q);
    emulated_unlock(e);
    return status;
}
