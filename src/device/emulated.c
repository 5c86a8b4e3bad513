/*
 * Emulated devices: the system, its table of functions, peer access, planted faults and counters.
 * Owns opening and closing. Never runs an operation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/emulated_private.h"

static _Thread_local int current_device;

struct emulated *emulated_of(struct device_system *system) {
    return (struct emulated *)system;
}

void emulated_lock(struct emulated *e) {
    if (emulated_seeded(e))
        pthread_mutex_lock(&e->lock);
}

void emulated_unlock(struct emulated *e) {
    if (emulated_seeded(e))
        pthread_mutex_unlock(&e->lock);
}

ringlet_status emulated_fault(struct emulated *e, const char *call) {
    uint_fast64_t left = atomic_load_explicit(&e->fail_countdown, memory_order_relaxed);
    while (left)
        if (atomic_compare_exchange_weak_explicit(&e->fail_countdown, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return left > 1 ? RINGLET_OK
                            : status_fail((ringlet_status)atomic_load(&e->fail_status),
                                          "planted fault in %s", call);
    return RINGLET_OK;
}

ringlet_status emulated_check_device(const struct emulated *e, int device) {
    if (device >= 0 && (uint32_t)device < e->machine.gpus)
        return RINGLET_OK;
    return status_fail(RINGLET_NO_DEVICE, "no device %d: machine %s has devices 0 to %" PRIu32,
                       device, e->machine.name, e->machine.gpus - 1);
}

const char *emulated_place_text(int place, char buffer[32]) {
    if (place >= 0)
        snprintf(buffer, 32, "device %d", place);
    else
        snprintf(buffer, 32, "%s", place == DEVICE_HOST ? "pinned host memory" : "host memory");
    return buffer;
}

static int op_count(struct device_system *system) {
    return (int)emulated_of(system)->machine.gpus;
}

static ringlet_status op_describe(struct device_system *system, int device,
                                  struct device_info *out) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "describe");
    if (!status)
        status = emulated_check_device(e, device);
    if (status)
        return status;
    *out = (struct device_info){.memory_bytes = EMULATED_MEMORY_BYTES};
    snprintf(out->name, sizeof out->name, "emulated GPU %d of %s", device, e->machine.name);
    return RINGLET_OK;
}

static const char *op_machine(struct device_system *system) {
    return emulated_of(system)->machine.name;
}

static bool op_seeded(struct device_system *system) {
    return emulated_seeded(emulated_of(system));
}

static ringlet_status op_bind(struct device_system *system, int device, int *saved) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "bind");
    if (!status)
        status = emulated_check_device(e, device);
    if (status)
        return status;
    *saved = current_device;
    current_device = device;
    return RINGLET_OK;
}

static void op_unbind(struct device_system *system, int saved) {
    (void)system;
    current_device = saved;
}

/* Where machine.links says p2p, peer access is enabled: so the topology's time model tells both
 * cases. */
static struct topology_link *peer_link(struct emulated *e, int device, int peer) {
    return &e->machine.links[(size_t)device * e->machine.gpus + (size_t)peer];
}

static enum device_peer peer_enable_locked(struct emulated *e, int device, int peer) {
    size_t pair = (size_t)device * e->machine.gpus + (size_t)peer;
    enum device_peer answer = e->peer_answer[pair] ? (enum device_peer)(e->peer_answer[pair] - 1)
                              : e->peer_possible[pair] ? DEVICE_PEER_ON
                                                       : DEVICE_PEER_NOT_POSSIBLE;
    struct topology_link *link = peer_link(e, device, peer);
    if (answer == DEVICE_PEER_ON && link->p2p)
        answer = DEVICE_PEER_ALREADY_ON;
    if (answer == DEVICE_PEER_ON || answer == DEVICE_PEER_ALREADY_ON)
        link->p2p = true;
    if (answer == DEVICE_PEER_FAILED)
        status_fail(RINGLET_DEVICE_ERROR, "device %d cannot access device %d: as it was told",
                    device, peer);
    return answer;
}

static enum device_peer op_peer_enable(struct device_system *system, int device, int peer) {
    struct emulated *e = emulated_of(system);
    if (emulated_fault(e, "peer_enable"))
        return DEVICE_PEER_FAILED;
    if (device == peer || emulated_check_device(e, device) || emulated_check_device(e, peer))
        return DEVICE_PEER_NO_DEVICE;
    emulated_lock(e);
    pthread_rwlock_wrlock(&e->table);
    enum device_peer answer = peer_enable_locked(e, device, peer);
    pthread_rwlock_unlock(&e->table);
    emulated_unlock(e);
    return answer;
}

void emulated_set_peer(struct device_system *system, int device, int peer,
                       enum device_peer result) {
    struct emulated *e = emulated_of(system);
    if (device == peer || emulated_check_device(e, device) || emulated_check_device(e, peer))
        return;
    emulated_lock(e);
    pthread_rwlock_wrlock(&e->table);
    e->peer_answer[(size_t)device * e->machine.gpus + (size_t)peer] = (uint8_t)(result + 1);
    if (result == DEVICE_PEER_ALREADY_ON)
        peer_link(e, device, peer)->p2p = true;
    else if (result != DEVICE_PEER_ON)
        peer_link(e, device, peer)->p2p = false;
    pthread_rwlock_unlock(&e->table);
    emulated_unlock(e);
}

static ringlet_status op_poll(struct device_system *system, struct device_queue at, bool *idle) {
    struct emulated *e = emulated_of(system);
    ringlet_status status = emulated_fault(e, "poll");
    if (status)
        return status;
    emulated_lock(e);
    struct emulated_queue *q = emulated_queue_find(e, at);
    status = !q                   ? RINGLET_INVALID_ARGUMENT
             : emulated_seeded(e) ? emulated_seeded_poll(q, idle)
                                  : emulated_threads_poll(q, idle);
    emulated_queue_release(q);
    emulated_unlock(e);
    return status;
}

static uint64_t op_now_ns(struct device_system *system) {
    struct emulated *e = emulated_of(system);
    struct timespec now;
    if (emulated_seeded(e)) {
        emulated_lock(e);
        uint64_t modelled = (uint64_t)(e->now_ns + 0.5);
        emulated_unlock(e);
        return modelled;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t op_turn(struct device_system *system, uint32_t candidates) {
    struct emulated *e = emulated_of(system);
    if (!emulated_seeded(e) || e->seed == 0)
        return (uint32_t)(atomic_fetch_add_explicit(&e->turns, 1, memory_order_relaxed) %
                          candidates);
    emulated_lock(e);
    uint32_t turn = emulated_seeded_turn(e, candidates);
    emulated_unlock(e);
    return turn;
}

static void op_retain(struct device_system *system) {
    atomic_fetch_add(&emulated_of(system)->references, 1);
}

static void destroy(struct emulated *e) {
    atomic_store(&e->stopping, true);
    emulated_open_gates(e);
    emulated_queue_close(e);
    emulated_event_close(e);
    emulated_race_close(e);
    emulated_seeded_close(e);
    emulated_memory_close(e);
    memory_free(e->peer_answer);
    memory_free(e->peer_possible);
    memory_free(e->used_bytes);
    topology_free(&e->machine);
    pthread_rwlock_destroy(&e->table);
    pthread_mutex_destroy(&e->lock);
    memory_free(e);
}

static void op_close(struct device_system *system) {
    if (system && atomic_fetch_sub(&emulated_of(system)->references, 1) == 1)
        destroy(emulated_of(system));
}

static const struct device_ops emulated_ops = {
    .backend = "emulated",
    .close_ends_work = true,
    .close = op_close,
    .retain = op_retain,
    .count = op_count,
    .describe = op_describe,
    .machine = op_machine,
    .modelled = op_seeded,
    .single_threaded = op_seeded,
    .bind = op_bind,
    .unbind = op_unbind,
    .memory_alloc = emulated_memory_alloc,
    .memory_free = emulated_memory_free,
    .host_alloc = emulated_host_alloc,
    .host_free = emulated_host_free,
    .inspect = emulated_inspect,
    .stream_create = emulated_stream_create,
    .stream_destroy = emulated_stream_destroy,
    .stream_check = emulated_stream_check,
    .event_create = emulated_event_create,
    .event_destroy = emulated_event_destroy,
    .peer_enable = op_peer_enable,
    .record = emulated_record,
    .wait = emulated_wait,
    .copy = emulated_copy,
    .reduce = emulated_reduce,
    .transfer = emulated_transfer,
    .poll = op_poll,
    .now_ns = op_now_ns,
    .turn = op_turn,
};

/* Peer access is nowhere enabled at first. */
static bool open_peers(struct emulated *e) {
    size_t gpus = e->machine.gpus;
    e->peer_answer = memory_zeroed(gpus * gpus, sizeof *e->peer_answer);
    e->peer_possible = memory_zeroed(gpus * gpus, sizeof *e->peer_possible);
    if (!e->peer_answer || !e->peer_possible)
        return false;
    for (size_t pair = 0; pair < gpus * gpus; pair++) {
        e->peer_possible[pair] = e->machine.links[pair].p2p;
        e->machine.links[pair].p2p = false;
    }
    return true;
}

ringlet_status emulated_open(struct device_system **out, const struct emulated_config *config) {
    if (!config->machine || config->machine->gpus < 1 || config->machine->gpus > TOPOLOGY_GPUS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "emulated devices need a machine of 1 to %d GPUs", TOPOLOGY_GPUS_MAX);
    if (config->scheduler != RINGLET_SCHEDULER_THREADS &&
        config->scheduler != RINGLET_SCHEDULER_SEEDED)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%d is no scheduler", (int)config->scheduler);
    struct emulated *e = memory_zeroed(1, sizeof *e);
    if (!e)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for emulated devices");
    e->base.ops = &emulated_ops;
    e->scheduler = config->scheduler;
    e->seed = e->random = config->seed;
    e->keep_going = config->keep_going;
    atomic_init(&e->references, 1);
    pthread_mutex_init(&e->lock, NULL);
    pthread_rwlock_init(&e->table, NULL);
    ringlet_status status = topology_copy(&e->machine, config->machine);
    if (!status) {
        e->used_bytes = memory_zeroed(e->machine.gpus, sizeof *e->used_bytes);
        if (!e->used_bytes || !open_peers(e) || !emulated_queue_open(e) || !emulated_seeded_open(e))
            status = status_fail(RINGLET_OUT_OF_MEMORY,
                                 "no memory for %" PRIu32 " emulated devices", e->machine.gpus);
    }
    if (status)
        destroy(e);
    else
        *out = &e->base;
    return status;
}

uint64_t emulated_races(struct device_system *system) {
    struct emulated *e = emulated_of(system);
    emulated_lock(e);
    uint64_t found = e->race.found;
    emulated_unlock(e);
    return found;
}

const char *emulated_race_text(struct device_system *system) {
    return emulated_of(system)->race.text;
}

uint64_t emulated_digest(struct device_system *system) {
    struct emulated *e = emulated_of(system);
    emulated_lock(e);
    uint64_t digest = e->digest;
    emulated_unlock(e);
    return digest;
}

uint64_t emulated_operations(struct device_system *system) {
    return atomic_load_explicit(&emulated_of(system)->operations, memory_order_relaxed);
}

void emulated_fail_at(struct device_system *system, uint64_t nth, ringlet_status status) {
    struct emulated *e = emulated_of(system);
    atomic_store(&e->fail_status, (int)status);
    atomic_store(&e->fail_countdown, nth);
}

bool emulated_fail_pending(struct device_system *system) {
    return atomic_load(&emulated_of(system)->fail_countdown) != 0;
}

int64_t emulated_live(struct device_system *system) {
    struct emulated *e = emulated_of(system);
    pthread_rwlock_rdlock(&e->table);
    int64_t live = e->live;
    pthread_rwlock_unlock(&e->table);
    return live;
}
