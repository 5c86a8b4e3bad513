/*
 * The THREADS scheduler: a worker thread for each stream that was given work.
 * Owns workers and how they sleep. Never takes a mutex in a worker; emulated_private.h says why.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/emulated_private.h"

static void futex_wait(atomic_uint *word, unsigned expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int sleepers) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}

void emulated_threads_await(struct emulated_ticket *ticket) {
    while (!emulated_ticket_done(ticket))
        futex_wait(&ticket->done, 0);
}

void emulated_threads_wake_waiters(struct emulated_ticket *ticket) {
    futex_wake(&ticket->done, INT_MAX);
}

/* Operations of a failed queue, or of a system that closes, are passed over; what others wait for
 * is still done, so that nobody waits for ever. */
static void run(struct emulated_queue *q, const struct emulated_operation *op) {
    bool skip = emulated_queue_failed(q) ||
                atomic_load_explicit(&q->system->stopping, memory_order_acquire);
    if (op->kind == EMULATED_WAIT || op->kind == EMULATED_GATE) {
        emulated_threads_await(op->ticket);
        emulated_inherit_failure(q, op->ticket);
    } else if (emulated_moves_data(op->kind) && !skip) {
        emulated_execute(q, op);
    }
    if (op->kind == EMULATED_RECORD || op->kind == EMULATED_TRANSFER)
        emulated_ticket_finish(op->ticket);
    atomic_fetch_add_explicit(&q->system->operations, 1, memory_order_relaxed);
}

static void *work(void *context) {
    struct emulated_queue *q = context;
    for (;;) {
        unsigned pushed = atomic_load_explicit(&q->pushed, memory_order_acquire);
        struct emulated_operation *op = emulated_queue_next(q);
        if (!op) {
            futex_wait(&q->pushed, pushed);
            continue;
        }
        q->head = op;
        if (op->kind == EMULATED_STOP)
            break;
        run(q, op);
        atomic_fetch_add_explicit(&q->done, 1, memory_order_release);
    }
    atomic_store_explicit(&q->finished, true, memory_order_release);
    return NULL;
}

bool emulated_threads_start(struct emulated_queue *q) {
    q->has_worker = pthread_create(&q->worker, NULL, work, q) == 0;
    return q->has_worker;
}

void emulated_threads_wake(struct emulated_queue *q) {
    if (emulated_seeded(q->system))
        return;
    atomic_fetch_add_explicit(&q->pushed, 1, memory_order_release);
    futex_wake(&q->pushed, 1);
}

void emulated_threads_stop(struct emulated_queue *q) {
    pthread_mutex_lock(&q->push);
    if (q->has_worker) {
        q->stop.kind = EMULATED_STOP;
        atomic_store_explicit(&q->tail->next, &q->stop, memory_order_release);
        q->tail = &q->stop;
    }
    pthread_mutex_unlock(&q->push);
    emulated_threads_wake(q);
}

void emulated_threads_join(struct emulated_queue *q) {
    pthread_join(q->worker, NULL);
}

/* `done` is acquired only when the queue is idle: a look that finds it busy must order nothing. */
ringlet_status emulated_threads_poll(struct emulated_queue *q, bool *idle) {
    uint64_t issued = atomic_load_explicit(&q->issued, memory_order_relaxed);
    *idle = atomic_load_explicit(&q->done, memory_order_relaxed) == issued;
    if (*idle) {
        pthread_mutex_lock(&q->push);
        emulated_queue_reclaim(q, atomic_load_explicit(&q->done, memory_order_acquire));
        pthread_mutex_unlock(&q->push);
    }
    return emulated_queue_status(q);
}
