/*
 * Events of emulated devices, what their records leave behind (tickets), and gates.
 * Owns tickets and their references. Never runs an operation.
 *
 * Each record makes a ticket; a wait takes the event's latest ticket when it is issued. That alone
 * gives CUDA's semantics: recording again changes no earlier wait, and a ticket outlives its event.
 */
#include "base/memory.h"
#include "base/status.h"
#include "device/emulated_private.h"

struct emulated_ticket *emulated_ticket_new(struct emulated_queue *q) {
    struct emulated_ticket *ticket = memory_zeroed(1, sizeof *ticket);
    if (!ticket)
        return NULL;
    atomic_init(&ticket->references, 1);
    if (q)
        atomic_fetch_add(&q->references, 1);
    ticket->queue = q;
    return ticket;
}

struct emulated_ticket *emulated_ticket_retain(struct emulated_ticket *ticket) {
    if (ticket)
        atomic_fetch_add(&ticket->references, 1);
    return ticket;
}

void emulated_ticket_release(struct emulated_ticket *ticket) {
    if (!ticket || atomic_fetch_sub(&ticket->references, 1) != 1)
        return;
    emulated_queue_release(ticket->queue);
    emulated_clock_release(ticket->clock);
    memory_free(ticket);
}

bool emulated_ticket_done(struct emulated_ticket *ticket) {
    return atomic_load_explicit(&ticket->done, memory_order_acquire) != 0;
}

void emulated_ticket_finish(struct emulated_ticket *ticket) {
    ticket->failed = ticket->queue && emulated_queue_failed(ticket->queue);
    atomic_store_explicit(&ticket->done, 1, memory_order_release);
    if (!ticket->queue || !emulated_seeded(ticket->queue->system))
        emulated_threads_wake_waiters(ticket);
}

void emulated_event_set(struct device_event *event, struct emulated_ticket *ticket) {
    pthread_mutex_lock(&event->lock);
    struct emulated_ticket *before = event->latest;
    event->latest = emulated_ticket_retain(ticket);
    pthread_mutex_unlock(&event->lock);
    emulated_ticket_release(before);
}

struct emulated_ticket *emulated_event_latest(struct device_event *event) {
    pthread_mutex_lock(&event->lock);
    struct emulated_ticket *ticket = emulated_ticket_retain(event->latest);
    pthread_mutex_unlock(&event->lock);
    return ticket;
}

ringlet_status emulated_event_create(struct device_system *system, int device,
                                     struct device_event **out) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "event_create");
    if (!status)
        status = emulated_check_device(e, device);
    if (status)
        return status;
    struct device_event *event = memory_zeroed(1, sizeof *event);
    if (!event)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for an event of device %d", device);
    event->device = device;
    pthread_mutex_init(&event->lock, NULL);
    pthread_rwlock_wrlock(&e->table);
    event->after = e->events;
    if (event->after)
        event->after->before = event;
    e->events = event;
    e->live++;
    pthread_rwlock_unlock(&e->table);
    *out = event;
    return RINGLET_OK;
}

static void event_free(struct device_event *event) {
    emulated_ticket_release(event->latest);
    pthread_mutex_destroy(&event->lock);
    memory_free(event);
}

ringlet_status emulated_event_destroy(struct device_system *system, int device,
                                      struct device_event *event) {
    struct emulated *e = emulated_of(system);
    if (!event)
        return RINGLET_OK;
    if (event->device != device)
        return status_fail(RINGLET_INVALID_ARGUMENT, "the event is of device %d, not of device %d",
                           event->device, device);
    emulated_lock(e);
    pthread_rwlock_wrlock(&e->table);
    if (event->before)
        event->before->after = event->after;
    else
        e->events = event->after;
    if (event->after)
        event->after->before = event->before;
    e->live--;
    pthread_rwlock_unlock(&e->table);
    event_free(event);
    emulated_unlock(e);
    return emulated_fault(e, "event_destroy"); /* see emulated_memory_free() */
}

void emulated_event_close(struct emulated *e) {
    while (e->events) {
        struct device_event *event = e->events;
        e->events = event->after;
        event_free(event);
    }
}

ringlet_status emulated_hold(struct device_system *system, struct device_queue at) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = RINGLET_INVALID_ARGUMENT;
    emulated_lock(e);
    struct emulated_queue *q = emulated_queue_find(e, at);
    struct emulated_ticket *gate = emulated_ticket_new(NULL);
    if (!gate)
        status = status_fail(RINGLET_OUT_OF_MEMORY, "no memory for a gate");
    else if (q)
        status = emulated_queue_push(
            q, &(struct emulated_operation){.kind = EMULATED_GATE, .ticket = gate});
    if (!status) {
        pthread_rwlock_wrlock(&e->table);
        gate->next = e->gates;
        e->gates = emulated_ticket_retain(gate);
        pthread_rwlock_unlock(&e->table);
    }
    emulated_ticket_release(gate);
    emulated_queue_release(q);
    emulated_unlock(e);
    return status;
}

void emulated_open_gates(struct emulated *e) {
    pthread_rwlock_wrlock(&e->table);
    struct emulated_ticket *gate = e->gates;
    e->gates = NULL;
    pthread_rwlock_unlock(&e->table);
    while (gate) {
        struct emulated_ticket *next = gate->next;
        emulated_ticket_finish(gate);
        emulated_ticket_release(gate);
        gate = next;
    }
}

void emulated_release(struct device_system *system) {
    struct emulated *e = emulated_of(system);
    emulated_lock(e);
    emulated_open_gates(e);
    emulated_unlock(e);
}
