/*
 * Queues of emulated devices: streams and each device's default stream, with their lists of
 * operations. Owns the life of queues and operations, and a queue's failure. Never runs an
 * operation.
 *
 * The list begins with an operation that is done already (at first a dummy), behind which the one
 * who runs the queue finds the next. So he touches `head` alone and those who push touch `tail`
 * alone.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/emulated_private.h"

const char *emulated_queue_text(int device, uint32_t number, bool is_default, char buffer[48]) {
    if (is_default)
        snprintf(buffer, 48, "device %d default stream", device);
    else
        snprintf(buffer, 48, "device %d stream %" PRIu32, device, number);
    return buffer;
}

static ringlet_stream handle_of(struct emulated_queue *q) {
    return (ringlet_stream)(void *)q;
}

static struct emulated_queue *queue_new(struct emulated *e, int device, bool is_default) {
    struct emulated_queue *q = memory_zeroed(1, sizeof *q);
    if (!q)
        return NULL;
    q->system = e;
    q->device = device;
    q->number = e->next_number++;
    q->is_default = is_default;
    q->actor = EMULATED_NO_ACTOR;
    q->head = q->tail = q->oldest = &q->dummy;
    atomic_init(&q->references, 1);
    pthread_mutex_init(&q->push, NULL);
    return q;
}

void emulated_queue_release(struct emulated_queue *q) {
    if (!q || atomic_fetch_sub(&q->references, 1) != 1)
        return;
    pthread_mutex_destroy(&q->push);
    memory_free(q);
}

static void operation_free(struct emulated_queue *q, struct emulated_operation *op) {
    emulated_ticket_release(op->ticket);
    emulated_clock_release(op->issued);
    if (op != &q->dummy && op != &q->stop)
        memory_free(op);
}

void emulated_queue_reclaim(struct emulated_queue *q, uint64_t done) {
    while (q->reclaimed < done) {
        struct emulated_operation *op = q->oldest;
        q->oldest = atomic_load_explicit(&op->next, memory_order_relaxed);
        q->reclaimed++;
        operation_free(q, op);
    }
}

/* Ends a queue that nobody runs any more, with all that it still holds. */
static void queue_end(struct emulated_queue *q) {
    if (q->has_worker)
        emulated_threads_join(q);
    for (struct emulated_operation *op = q->oldest, *next; op; op = next) {
        next = atomic_load_explicit(&op->next, memory_order_relaxed);
        operation_free(q, op);
    }
    q->oldest = NULL;
    emulated_race_leave(q);
    emulated_queue_release(q);
}

/* Of a destroyed queue only: others may be getting their worker at this moment. */
static bool queue_finished(const struct emulated_queue *q) {
    return q->has_worker ? atomic_load_explicit(&q->finished, memory_order_acquire)
                         : atomic_load(&q->done) == atomic_load(&q->issued);
}

void emulated_queue_reap(struct emulated *e) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->queue_count; i++) {
        struct emulated_queue *q = e->queues[i];
        if (q->destroyed && queue_finished(q))
            queue_end(q);
        else
            e->queues[kept++] = q;
    }
    e->queue_count = kept;
}

bool emulated_queue_open(struct emulated *e) {
    e->defaults = memory_zeroed(e->machine.gpus, sizeof(void *));
    if (!e->defaults)
        return false;
    for (uint32_t i = 0; i < e->machine.gpus; i++) {
        e->defaults[i] = queue_new(e, (int)i, true);
        if (!e->defaults[i])
            return false;
    }
    return true;
}

/* The system is stopping: workers skip what is left, so every ticket gets done and none waits for
 * ever. */
void emulated_queue_close(struct emulated *e) {
    uint32_t defaults = e->defaults ? e->machine.gpus : 0;
    for (uint32_t i = 0; i < defaults; i++)
        if (e->defaults[i])
            emulated_threads_stop(e->defaults[i]);
    for (uint32_t i = 0; i < e->queue_count; i++)
        if (!e->queues[i]->destroyed)
            emulated_threads_stop(e->queues[i]);
    for (uint32_t i = 0; i < e->queue_count; i++)
        queue_end(e->queues[i]);
    for (uint32_t i = 0; i < defaults; i++)
        if (e->defaults[i])
            queue_end(e->defaults[i]);
    memory_free(e->queues);
    memory_free(e->defaults);
}

static bool queues_grow(struct emulated *e) {
    if (e->queue_count < e->queue_capacity)
        return true;
    uint32_t grown = e->queue_capacity ? 2 * e->queue_capacity : 16;
    if (!memory_resize(&e->queues, grown, sizeof(void *)))
        return false;
    e->queue_capacity = grown;
    return true;
}

ringlet_status emulated_stream_create(struct device_system *system, int device,
                                      ringlet_stream *out) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "stream_create");
    if (!status)
        status = emulated_check_device(e, device);
    if (status)
        return status;
    emulated_lock(e);
    pthread_rwlock_wrlock(&e->table);
    emulated_queue_reap(e);
    struct emulated_queue *q = queues_grow(e) ? queue_new(e, device, false) : NULL;
    if (q) {
        e->queues[e->queue_count++] = q;
        e->live++;
        *out = handle_of(q);
    }
    pthread_rwlock_unlock(&e->table);
    emulated_unlock(e);
    return q ? RINGLET_OK
             : status_fail(RINGLET_OUT_OF_MEMORY, "no memory for a stream of device %d", device);
}

/* The queue of a live stream, or NULL; the table's lock is held. */
static struct emulated_queue *lookup(const struct emulated *e, struct device_queue at) {
    if (!at.stream)
        return e->defaults[at.device];
    for (uint32_t i = 0; i < e->queue_count; i++)
        if (handle_of(e->queues[i]) == at.stream && !e->queues[i]->destroyed)
            return e->queues[i];
    return NULL;
}

struct emulated_queue *emulated_queue_find(struct emulated *e, struct device_queue at) {
    if (emulated_check_device(e, at.device))
        return NULL;
    pthread_rwlock_rdlock(&e->table);
    struct emulated_queue *q = lookup(e, at);
    if (q && q->device == at.device)
        atomic_fetch_add_explicit(&q->references, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&e->table);
    if (!q)
        status_fail(RINGLET_INVALID_ARGUMENT, "%p is not a stream of machine %s", (void *)at.stream,
                    e->machine.name);
    else if (q->device != at.device)
        status_fail(RINGLET_INVALID_ARGUMENT, "stream %p is of another device than device %d",
                    (void *)at.stream, at.device);
    return q && q->device == at.device ? q : NULL;
}

ringlet_status emulated_stream_destroy(struct device_system *system, int device,
                                       ringlet_stream stream) {
    struct emulated *e = emulated_of(system);
    if (!stream)
        return RINGLET_OK;
    emulated_lock(e);
    struct emulated_queue *q = emulated_queue_find(e, (struct device_queue){device, stream});
    if (q) {
        pthread_rwlock_wrlock(&e->table);
        q->destroyed = true;
        emulated_threads_stop(q);
        emulated_queue_release(q);
        emulated_queue_reap(e);
        e->live--;
        pthread_rwlock_unlock(&e->table);
    }
    emulated_unlock(e);
    return q ? emulated_fault(e, "stream_destroy") /* see emulated_memory_free() */
             : RINGLET_INVALID_ARGUMENT;
}

enum device_stream_state emulated_stream_check(struct device_system *system,
                                               struct device_queue at) {
    struct emulated *e = emulated_of(system);
    enum device_stream_state state = DEVICE_STREAM_OK;
    if (at.device < 0 || (uint32_t)at.device >= e->machine.gpus)
        return DEVICE_STREAM_UNKNOWN;
    pthread_rwlock_rdlock(&e->table);
    const struct emulated_queue *q = lookup(e, at);
    if (!q)
        state = DEVICE_STREAM_UNKNOWN;
    else if (q->device != at.device)
        state = DEVICE_STREAM_OTHER_DEVICE;
    pthread_rwlock_unlock(&e->table);
    return state;
}

void emulated_queue_fail(struct emulated_queue *q, ringlet_status status, const char *format, ...) {
    int none = 0;
    va_list arguments;
    if (!atomic_compare_exchange_strong_explicit(&q->failure, &none, 1, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    va_start(arguments, format);
    vsnprintf(q->text, sizeof q->text, format, arguments);
    va_end(arguments);
    q->status = status;
    atomic_store_explicit(&q->failure, 2, memory_order_release);
}

bool emulated_queue_failed(struct emulated_queue *q) {
    return atomic_load_explicit(&q->failure, memory_order_relaxed) == 2 &&
           atomic_load_explicit(&q->failure, memory_order_acquire) == 2;
}

ringlet_status emulated_queue_status(struct emulated_queue *q) {
    return emulated_queue_failed(q) ? status_fail(q->status, "%s", q->text) : RINGLET_OK;
}

static struct emulated_operation *operation_new(struct emulated_queue *q,
                                                const struct emulated_operation *model) {
    size_t inputs = model->input_count * sizeof(void *);
    struct emulated_operation *op = memory_zeroed(1, sizeof *model + inputs);
    if (!op)
        return NULL;
    *op = *model;
    if (inputs)
        op->inputs = memcpy(op + 1, model->inputs, inputs);
    atomic_init(&op->next, NULL);
    emulated_ticket_retain(op->ticket);
    op->issued = emulated_clock_retain(q->system->race.host);
    op->issued_ns = q->system->host_ns;
    return op;
}

/* What must be there before the queue can take work; the push lock is held. */
static ringlet_status make_ready(struct emulated_queue *q) {
    uint64_t done = atomic_load_explicit(&q->done, memory_order_relaxed);
    uint64_t issued = atomic_load_explicit(&q->issued, memory_order_relaxed);
    if (emulated_seeded(q->system)) {
        if (done == issued && !emulated_seeded_busy(q))
            return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for an operation");
        return RINGLET_OK;
    }
    if (done - q->reclaimed > EMULATED_BACKLOG_MAX) {
        done = atomic_load_explicit(&q->done, memory_order_acquire);
        emulated_queue_reclaim(q, done);
    }
    if (!q->has_worker && !emulated_threads_start(q))
        return status_fail(RINGLET_SYSTEM_ERROR, "no thread can be made for a stream of device %d",
                           q->device);
    return RINGLET_OK;
}

ringlet_status emulated_queue_push(struct emulated_queue *q,
                                   const struct emulated_operation *model) {
    ringlet_status status = emulated_queue_status(q);
    if (status)
        return status;
    struct emulated_operation *op = operation_new(q, model);
    if (!op)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for an operation");
    pthread_mutex_lock(&q->push);
    status = make_ready(q);
    if (!status) {
        atomic_fetch_add_explicit(&q->issued, 1, memory_order_relaxed);
        atomic_store_explicit(&q->tail->next, op, memory_order_release);
        q->tail = op;
    }
    pthread_mutex_unlock(&q->push);
    if (status)
        operation_free(q, op);
    else
        emulated_threads_wake(q);
    return status;
}

struct emulated_operation *emulated_queue_next(struct emulated_queue *q) {
    return atomic_load_explicit(&q->head->next, memory_order_acquire);
}
