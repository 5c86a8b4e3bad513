/*
 * The SEEDED scheduler: one operation at a time, chosen among the queues whose head is ready;
 * virtual time. Owns the choice, the clock of the model and the digest. Never starts a thread.
 *
 * Time: an operation is ready when its queue's operation before and the records waited for have
 * ended, and not before the host, which issued it, had seen the end of what it waited for. A copy
 * then starts when the ways that it takes are free (topology.h).
 */
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/emulated_private.h"

enum { MOOD_MAX = 64, SLEEP_NS = 50000 };

static uint64_t random_next(struct emulated *e) { /* splitmix64 */
    uint64_t z = e->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t random_below(struct emulated *e, uint32_t limit) {
    return (uint32_t)(random_next(e) % limit);
}

static void refresh_mood(struct emulated *e) {
    static const uint32_t bursts[] = {1, 2, 4, 32};
    if (e->mood.left-- > 0)
        return;
    uint64_t bits = random_next(e);
    e->mood.left = (uint32_t)(bits % MOOD_MAX);
    e->mood.burst = bursts[bits >> 8 & 3];
    e->mood.sticky = bits >> 16 & 1;
    e->mood.slow_device = bits >> 24 & 1 ? (int)random_below(e, e->machine.gpus) : -1;
}

bool emulated_seeded_open(struct emulated *e) {
    e->mood = (struct emulated_mood){0, 1, false, -1};
    if (!emulated_seeded(e))
        return true;
    e->free_ns = memory_zeroed(topology_resource_count(&e->machine), sizeof *e->free_ns);
    return e->free_ns != NULL;
}

void emulated_seeded_close(struct emulated *e) {
    memory_free(e->free_ns);
    memory_free(e->busy);
}

static bool is_before(const struct emulated_queue *a, const struct emulated_queue *b) {
    return a->device != b->device ? a->device < b->device : a->number < b->number;
}

bool emulated_seeded_busy(struct emulated_queue *q) {
    struct emulated *e = q->system;
    if (e->busy_count == e->busy_capacity) {
        uint32_t grown = e->busy_capacity ? 2 * e->busy_capacity : 16;
        if (!memory_resize(&e->busy, grown, sizeof(void *)))
            return false;
        e->busy_capacity = grown;
    }
    uint32_t at = e->busy_count++;
    for (; at > 0 && is_before(q, e->busy[at - 1]); at--)
        e->busy[at] = e->busy[at - 1];
    e->busy[at] = q;
    return true;
}

static void not_busy(struct emulated_queue *q) {
    struct emulated *e = q->system;
    uint32_t at = 0;
    while (e->busy[at] != q)
        at++;
    memmove(&e->busy[at], &e->busy[at + 1], (e->busy_count - at - 1) * sizeof(void *));
    e->busy_count--;
}

static bool drained(struct emulated_queue *q) {
    return !emulated_queue_next(q);
}

static bool waits(const struct emulated_operation *op) {
    return op->kind == EMULATED_WAIT || op->kind == EMULATED_GATE;
}

static bool is_ready(struct emulated_queue *q) {
    const struct emulated_operation *op = emulated_queue_next(q);
    return !waits(op) || emulated_ticket_done(op->ticket) || emulated_queue_failed(q);
}

static double ready_ns(struct emulated_queue *q, const struct emulated_operation *op) {
    return q->end_ns > op->issued_ns ? q->end_ns : op->issued_ns;
}

/* Of operations that are ready at the same time the one of the earlier plan step goes first, as in
 * the plan's modelled cost; then the lower device, then the older stream (the order of `busy`). */
static bool goes_before(struct emulated_queue *a, struct emulated_queue *b) {
    const struct emulated_operation *x = emulated_queue_next(a), *y = emulated_queue_next(b);
    double x_ns = ready_ns(a, x), y_ns = ready_ns(b, y);
    if (x_ns != y_ns)
        return x_ns < y_ns;
    if (x->tag.call != y->tag.call)
        return x->tag.call < y->tag.call;
    return x->tag.step < y->tag.step;
}

/* What takes no time goes first: it occupies nothing and can only make others ready. */
static struct emulated_queue *choose_by_time(struct emulated *e) {
    struct emulated_queue *best = NULL;
    for (uint32_t i = 0; i < e->busy_count; i++) {
        struct emulated_queue *q = e->busy[i];
        if (!is_ready(q))
            continue;
        if (!emulated_moves_data(emulated_queue_next(q)->kind))
            return q;
        if (!best || goes_before(q, best))
            best = q;
    }
    return best;
}

static uint32_t count_ready(struct emulated *e, int without_device) {
    uint32_t ready = 0;
    for (uint32_t i = 0; i < e->busy_count; i++)
        ready += e->busy[i]->device != without_device && is_ready(e->busy[i]);
    return ready;
}

static struct emulated_queue *choose_by_chance(struct emulated *e) {
    refresh_mood(e);
    int without = e->mood.slow_device;
    uint32_t ready = count_ready(e, without);
    if (ready == 0) {
        without = -1;
        ready = count_ready(e, without);
    }
    if (ready == 0)
        return NULL;
    uint32_t skip = random_below(e, ready);
    for (uint32_t i = 0;; i++)
        if (e->busy[i]->device != without && is_ready(e->busy[i]) && skip-- == 0)
            return e->busy[i];
}

/* How long the operation takes and which ways it occupies. A copy goes directly where the device
 * that issues it has been given access to the other. */
static double duration_ns(struct emulated_queue *q, const struct emulated_operation *op,
                          uint32_t ways[TOPOLOGY_RESOURCES_MAX], uint32_t *way_count) {
    struct topology *machine = &q->system->machine;
    *way_count = 0;
    if (op->kind == EMULATED_REDUCE)
        return topology_sum_ns(machine, op->dst_place, op->bytes, op->input_count);
    int from = op->src_place < 0 ? TOPOLOGY_HOST : op->src_place;
    int to = op->dst_place < 0 ? TOPOLOGY_HOST : op->dst_place;
    struct topology_link *link = NULL;
    bool enabled = false;
    if (from >= 0 && to >= 0 && q->device == to) {
        link = &machine->links[(size_t)from * machine->gpus + (size_t)to];
        enabled = link->p2p;
        link->p2p = topology_link(machine, (uint32_t)to, (uint32_t)from)->p2p;
    }
    *way_count = topology_copy_resources(machine, from, to, ways);
    double duration = topology_copy_ns(machine, from, to, op->bytes);
    if (link)
        link->p2p = enabled;
    return duration;
}

static void take_time(struct emulated_queue *q, const struct emulated_operation *op) {
    struct emulated *e = q->system;
    uint32_t ways[TOPOLOGY_RESOURCES_MAX], way_count;
    double duration = duration_ns(q, op, ways, &way_count);
    double start_ns = ready_ns(q, op);
    for (uint32_t i = 0; i < way_count; i++)
        if (start_ns < e->free_ns[ways[i]])
            start_ns = e->free_ns[ways[i]];
    q->end_ns = start_ns + duration;
    for (uint32_t i = 0; i < way_count; i++)
        e->free_ns[ways[i]] = q->end_ns;
    if (e->now_ns < q->end_ns)
        e->now_ns = q->end_ns;
}

static void run_wait(struct emulated_queue *q, const struct emulated_operation *op) {
    emulated_inherit_failure(q, op->ticket);
    if (q->end_ns < op->ticket->end_ns)
        q->end_ns = op->ticket->end_ns;
    if (!emulated_race_join(q, op->ticket->clock))
        emulated_race_blind(q);
}

static void run_record(struct emulated_queue *q, const struct emulated_operation *op) {
    op->ticket->end_ns = ready_ns(q, op);
    if (!emulated_queue_failed(q)) {
        op->ticket->clock = emulated_race_snapshot(q);
        if (!op->ticket->clock)
            emulated_race_blind(q);
    }
    emulated_ticket_finish(op->ticket);
}

static void run(struct emulated_queue *q, const struct emulated_operation *op) {
    if (!emulated_queue_failed(q) && op->issued != q->joined) {
        if (!emulated_race_join(q, op->issued))
            emulated_race_blind(q);
        emulated_clock_release(q->joined);
        q->joined = emulated_clock_retain(op->issued);
    }
    if (emulated_moves_data(op->kind)) {
        if (!emulated_queue_failed(q) && emulated_execute(q, op))
            take_time(q, op);
        if (op->ticket)
            emulated_ticket_finish(op->ticket);
    } else if (op->kind == EMULATED_RECORD) {
        run_record(q, op);
    } else if (!emulated_queue_failed(q)) {
        run_wait(q, op);
    }
}

static void count(struct emulated_queue *q, const struct emulated_operation *op) {
    struct emulated *e = q->system;
    uint64_t words[3] = {q->number, op->kind, op->bytes};
    for (int i = 0; i < 3; i++)
        e->digest = ((e->digest ^ words[i]) + 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    e->digest ^= e->digest >> 32;
    atomic_fetch_add_explicit(&e->operations, 1, memory_order_relaxed);
}

/* Runs one operation; false when none is ready. */
static bool run_one(struct emulated *e) {
    struct emulated_queue *q = e->seed ? choose_by_chance(e) : choose_by_time(e);
    if (!q)
        return false;
    struct emulated_operation *op = emulated_queue_next(q);
    q->head = op;
    run(q, op);
    count(q, op);
    if (drained(q))
        not_busy(q);
    uint64_t done = atomic_fetch_add_explicit(&q->done, 1, memory_order_relaxed) + 1;
    emulated_queue_reclaim(q, done);
    return true;
}

/* A host thread is told that the queue is idle: what it issues from now on comes after. */
static ringlet_status saw_idle(struct emulated_queue *q) {
    if (q->system->host_ns < q->end_ns)
        q->system->host_ns = q->end_ns;
    return emulated_race_saw_idle(q)
               ? RINGLET_OK
               : status_fail(RINGLET_OUT_OF_MEMORY, "no memory to watch the order of operations");
}

ringlet_status emulated_seeded_poll(struct emulated_queue *q, bool *idle) {
    if (!drained(q))
        run_one(q->system);
    *idle = drained(q);
    /* A queue that has failed runs nothing more, so its end is seen as well. */
    ringlet_status seen = *idle || emulated_queue_failed(q) ? saw_idle(q) : RINGLET_OK;
    ringlet_status status = emulated_queue_status(q);
    return status ? status : seen;
}

ringlet_status emulated_seeded_drain(struct emulated_queue *q) {
    struct emulated *e = q->system;
    while (!drained(q) && !emulated_queue_failed(q)) {
        if (run_one(e))
            continue;
        emulated_unlock(e); /* another host thread is to open a gate */
        nanosleep(&(struct timespec){0, SLEEP_NS}, NULL);
        emulated_lock(e);
    }
    ringlet_status status = emulated_queue_status(q);
    return status ? status : saw_idle(q);
}

uint32_t emulated_seeded_turn(struct emulated *e, uint32_t candidates) {
    refresh_mood(e);
    for (uint32_t burst = random_below(e, e->mood.burst + 1); burst > 0 && run_one(e); burst--)
        ;
    if (!e->mood.sticky || e->last_turn >= candidates || random_below(e, 8) == 0)
        e->last_turn = random_below(e, candidates);
    return e->last_turn;
}
