/*
 * The collectives: validate, agree, choose, plan, run; in both call shapes.
 * Owns the way through a call. Never moves data itself.
 */
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/memory.h"
#include "base/status.h"
#include "comm.h"
#include "run/team.h"
#include "tune/tune.h"

struct arguments { /* of one rank's call */
    enum plan_collective collective;
    ringlet_dtype dtype;
    ringlet_op op;
    uint64_t count;
    const void *send;
    void *recv;
    ringlet_stream stream;
    int root; /* broadcast */
};

/* ---- names ---- */

static const char *collective_name(uint32_t value) {
    return plan_collective_name((enum plan_collective)value);
}

static const char *dtype_name(uint32_t value) {
    return ringlet_dtype_name((ringlet_dtype)value);
}

static const char *op_name(uint32_t value) {
    return ringlet_op_name((ringlet_op)value);
}

static const struct agree_names names = {collective_name, dtype_name, op_name};

/* ---- one rank's arguments ---- */

struct extent {
    const char *name;
    const void *base;
    uint64_t bytes;
};

static ringlet_status type_check(const struct arguments *a) {
    if (!dtype_known(a->dtype))
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s: unknown type %d",
                           collective_name(a->collective), (int)a->dtype);
    if (!dtype_op_known(a->op))
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s: unknown operation %d",
                           collective_name(a->collective), (int)a->op);
    return RINGLET_OK;
}

static ringlet_status root_check(const ringlet_comm *comm, const struct arguments *a) {
    if (a->collective == PLAN_BROADCAST && (a->root < 0 || (uint32_t)a->root >= comm->ranks))
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "broadcast: root %d is not one of the %u ranks 0 to %u", a->root,
                           comm->ranks, comm->ranks - 1);
    return RINGLET_OK;
}

/* Whether a rank's send buffer takes part: a broadcast looks at the root's alone. */
static bool sends(uint32_t rank, const struct arguments *a) {
    return a->collective != PLAN_BROADCAST || rank == (uint32_t)a->root;
}

static ringlet_status extents_make(const ringlet_comm *comm, const struct arguments *a,
                                   struct extent *send, struct extent *recv) {
    uint64_t part, whole;
    if (__builtin_mul_overflow(a->count, (uint64_t)device_dtype_size(a->dtype), &part) ||
        __builtin_mul_overflow(part, (uint64_t)comm->ranks, &whole) || whole > INT64_MAX)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "%s: count %llu is too large: %u ranks times %u bytes each overflow 2^63",
            collective_name(a->collective), (unsigned long long)a->count, comm->ranks,
            device_dtype_size(a->dtype));
    *send = (struct extent){"send", a->send, a->collective == PLAN_REDUCE_SCATTER ? whole : part};
    *recv = (struct extent){"recv", a->recv, a->collective == PLAN_ALL_GATHER ? whole : part};
    return RINGLET_OK;
}

static ringlet_status extent_check(const ringlet_comm *comm, uint32_t rank,
                                   const struct arguments *a, const struct extent *e) {
    const char *call = collective_name(a->collective);
    if (!e->base)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s: rank %u: %s is NULL", call, rank,
                           e->name);
    if ((uintptr_t)e->base % device_dtype_size(a->dtype))
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "%s: rank %u: %s (%p) is not aligned to the type's %u bytes", call, rank,
                           e->name, e->base, device_dtype_size(a->dtype));
    struct device_pointer pointer;
    comm->system->ops->inspect(comm->system, e->base, &pointer);
    switch (pointer.kind) {
    case DEVICE_POINTER_DEVICE:
        break;
    case DEVICE_POINTER_MANAGED:
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "%s: rank %u: %s (%p) is managed memory; use device memory (cudaMalloc)",
                           call, rank, e->name, e->base);
    case DEVICE_POINTER_HOST:
    case DEVICE_POINTER_UNKNOWN:
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "%s: rank %u: %s (%p) is not device memory; allocate it on device %d",
                           call, rank, e->name, e->base, comm->devices[rank]);
    }
    if (pointer.device != comm->devices[rank])
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "%s: rank %u: %s (%p) is memory of device %d, but the rank's is device %d", call, rank,
            e->name, e->base, pointer.device, comm->devices[rank]);
    if (pointer.bytes < e->bytes)
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "%s: rank %u: %s (%p) has %llu bytes to the end of its allocation, but %llu "
            "are needed",
            call, rank, e->name, e->base, (unsigned long long)pointer.bytes,
            (unsigned long long)e->bytes);
    return RINGLET_OK;
}

/* In place, apart, or neither. */
static ringlet_status overlap_check(uint32_t rank, const struct arguments *a,
                                    const struct extent *send, const struct extent *recv,
                                    bool *in_place) {
    uintptr_t s = (uintptr_t)send->base, r = (uintptr_t)recv->base;
    uint64_t part = a->count * device_dtype_size(a->dtype);
    switch (a->collective) {
    case PLAN_ALL_REDUCE:
    case PLAN_BROADCAST:
        *in_place = s == r;
        break;
    case PLAN_REDUCE_SCATTER:
        *in_place = r == s + rank * part;
        break;
    case PLAN_ALL_GATHER:
        *in_place = s == r + rank * part;
        break;
    }
    if (*in_place || s + send->bytes <= r || r + recv->bytes <= s)
        return RINGLET_OK;
    static const char *const rule[] = {"recv = send", "recv = send + rank * count",
                                       "send = recv + rank * count", "recv = send"};
    return status_fail(
        RINGLET_INVALID_ARGUMENT,
        "%s: rank %u: send (%p, %llu bytes) and recv (%p, %llu bytes) overlap; they must "
        "lie apart, or be in place: %s",
        collective_name(a->collective), rank, send->base, (unsigned long long)send->bytes,
        recv->base, (unsigned long long)recv->bytes, rule[a->collective]);
}

static ringlet_status stream_check(const ringlet_comm *comm, uint32_t rank,
                                   const struct arguments *a, bool one_thread) {
    struct device_queue queue = {comm->devices[rank], a->stream};
    const char *call = collective_name(a->collective);
    switch (comm->system->ops->stream_check(comm->system, queue)) {
    case DEVICE_STREAM_OK:
        return RINGLET_OK;
    case DEVICE_STREAM_PER_THREAD:
        if (!one_thread)
            return RINGLET_OK;
        return status_fail(
            RINGLET_INVALID_ARGUMENT,
            "%s: rank %u: cudaStreamPerThread means another stream in each thread that "
            "enqueues for the ranks; pass a stream of its own",
            call, rank);
    case DEVICE_STREAM_OTHER_DEVICE:
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "%s: rank %u: the stream belongs to another device (or context) than "
                           "the rank's (device "
                           "%d)",
                           call, rank, queue.device);
    case DEVICE_STREAM_CAPTURING:
        return status_fail(RINGLET_UNSUPPORTED,
                           "%s: rank %u: the stream is being captured into a graph, which copies "
                           "between devices cannot be; end the capture first",
                           call, rank);
    case DEVICE_STREAM_UNKNOWN:
        break;
    }
    return status_fail(RINGLET_INVALID_ARGUMENT, "%s: rank %u: %p is not a stream of device %d",
                       call, rank, (void *)a->stream, queue.device);
}

/* Checks what one rank was given and describes it for the peers. */
static ringlet_status arguments_check(const ringlet_comm *comm, uint32_t rank,
                                      const struct arguments *a, bool one_thread,
                                      struct agree_call *call) {
    struct extent send, recv;
    *call = (struct agree_call){.collective = (uint32_t)a->collective,
                                .dtype = (uint32_t)a->dtype,
                                .op = (uint32_t)a->op,
                                .root = (uint32_t)a->root,
                                .count = a->count,
                                .send = a->send,
                                .recv = a->recv,
                                .stream = a->stream};
    ringlet_status status = type_check(a);
    if (!status)
        status = root_check(comm, a);
    if (!status)
        status = extents_make(comm, a, &send, &recv);
    if (!status && a->count && sends(rank, a))
        status = extent_check(comm, rank, a, &send);
    if (!status && a->count)
        status = extent_check(comm, rank, a, &recv);
    if (!status && a->count && sends(rank, a))
        status = overlap_check(rank, a, &send, &recv, &call->in_place);
    if (!status)
        status = stream_check(comm, rank, a, one_thread);
    if (status) {
        call->bad = status;
        strncpy(call->text, status_message(), sizeof call->text - 1);
    }
    return status;
}

/* ---- the plan ---- */

static struct plan_spec spec_make(const ringlet_comm *comm, const struct comm_rank *rank,
                                  const struct agree_call *call, const char **why) {
    uint32_t bytes = device_dtype_size((ringlet_dtype)call->dtype);
    struct tune_choice choice =
        tune_choose((enum plan_collective)call->collective, comm->ranks, call->count, bytes,
                    comm->algorithm, comm->rings, comm->slices);
    *why = choice.why;
    struct plan_spec spec = {
        .collective = (enum plan_collective)call->collective,
        .algorithm = choice.algorithm,
        .ranks = comm->ranks,
        .root = call->root,
        .count = call->count,
        .element_bytes = bytes,
        .rings = choice.rings,
        .slices = choice.slices,
        .granule = COMM_GRANULE_BYTES / bytes,
        .scratch_count = comm->scratch_bytes / bytes,
        .host_count = COMM_HOST_BYTES / bytes,
        .in_place = rank->in_place,
        .staged = comm->staged_edges && choice.algorithm == PLAN_RING ? comm->staged : NULL,
    };
    return spec;
}

/* The plan of the call that the rank is in: every rank comes to the same one. */
static ringlet_status plan_find(ringlet_comm *comm, struct comm_rank *rank,
                                const struct agree_call *call, const struct plan **out) {
    const char *why;
    struct plan_spec spec = spec_make(comm, rank, call, &why);
    if (rank->plan && plan_spec_equal(&rank->plan->spec, &spec)) {
        *out = rank->plan;
        return RINGLET_OK;
    }
    pthread_mutex_lock(&comm->plans_lock);
    struct plan_cache_entry *entry = NULL;
    ringlet_status status = plan_cache_get(&comm->plans, &spec, &entry);
    if (!status && !entry->prepared) {
        status = run_prepare(comm->run, entry->plan);
        entry->prepared = !status;
    }
    if (!status) {
        comm->last.algorithm = plan_algorithm_name(spec.algorithm);
        comm->last.why = why;
        comm->last.rings = spec.rings;
        comm->last.slices = entry->plan->slices;
        rank->plan = *out = entry->plan;
    }
    pthread_mutex_unlock(&comm->plans_lock);
    if (!status || status == RINGLET_INVALID_ARGUMENT)
        return status; /* an argument is wrong on every rank alike, and nothing is done */
    return comm_fail(comm, status); /* others may be on their way */
}

/* What all ranks were given, read off the board, into the rank's own arrays. */
static void peers_read(const ringlet_comm *comm, struct comm_rank *rank, uint32_t number) {
    for (uint32_t r = 0; r < comm->ranks; r++) {
        const struct agree_call *call = agree_peer(comm->agree, r, number);
        rank->in_place[r] = call->in_place;
        rank->buffers[r] = (struct run_buffers){call->send, call->recv, call->stream};
    }
}

static bool extents_meet(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Ranks that share a device may be given one memory: what one receives in, no other may use. Every
 * rank looks at the same and comes to the same verdict. */
static ringlet_status sharers_check(const ringlet_comm *comm, const struct comm_rank *rank,
                                    const struct agree_call *call) {
    uint64_t part = call->count * device_dtype_size((ringlet_dtype)call->dtype);
    bool scatter = call->collective == PLAN_REDUCE_SCATTER;
    bool gather = call->collective == PLAN_ALL_GATHER;
    uint64_t send = scatter ? part * comm->ranks : part, recv = gather ? part * comm->ranks : part;
    for (uint32_t a = 0; call->count && comm->shares_devices && a < comm->ranks; a++)
        for (uint32_t b = 0; b < comm->ranks; b++) {
            const struct run_buffers *x = &rank->buffers[a], *y = &rank->buffers[b];
            bool b_sends = call->collective != PLAN_BROADCAST || b == call->root;
            if (a == b || comm->devices[a] != comm->devices[b])
                continue;
            if (extents_meet(x->recv, recv, y->recv, recv) ||
                (b_sends && extents_meet(x->recv, recv, y->send, send)))
                return status_fail(
                    RINGLET_INVALID_ARGUMENT,
                    "%s: ranks %u and %u share device %d, and recv of rank %u overlaps "
                    "a buffer of rank %u",
                    collective_name(call->collective), a, b, comm->devices[a], a, b);
        }
    return RINGLET_OK;
}

static struct run_part part_make(ringlet_comm *comm, const struct comm_rank *owner, uint32_t rank,
                                 const struct plan *plan, const struct agree_call *call,
                                 uint32_t number) {
    struct run_part part = {.run = comm->run, .buffers = owner->buffers, .rank = rank};
    part.call = (struct run_call){plan, number, (ringlet_dtype)call->dtype, (ringlet_op)call->op};
    return part;
}

/* ---- enqueuing ---- */

/* Enqueues one rank's part on its own thread, waiting for peers' host programs as needed. */
static ringlet_status part_advance(ringlet_comm *comm, struct run_part *part) {
    ringlet_status status;
    struct patience patience = patience_start(comm->timeout_ms);
    uint64_t seen = run_progress(comm->run), now;
    for (;;) {
        uint32_t step = part->next, waits = part->waits_done;
        switch (run_advance(part, UINT32_MAX, &status)) {
        case RUN_DONE:
            return RINGLET_OK;
        case RUN_FAILED:
            return comm_fail(comm, status);
        case RUN_READY:
        case RUN_BLOCKED:
            break;
        }
        if (comm_stopped(comm))
            return comm_usable(comm);
        bool moved = part->next != step || part->waits_done != waits;
        if (!moved && patience_pause(&patience))
            continue;
        /* As long as anybody moves, the peers are only slow: what they enqueue need not be what
         * this rank waits for. */
        now = run_progress(comm->run);
        if (moved || now != seen) {
            seen = now;
            patience = patience_start(comm->timeout_ms);
            continue;
        }
        status_fail(RINGLET_TIMEOUT,
                    "%s: rank %u waited %lld ms (timeout_ms) for rank %u to enqueue its part",
                    collective_name(part->call.plan->spec.collective), part->rank,
                    (long long)comm->timeout_ms, run_blocker(part));
        return comm_fail(comm, RINGLET_TIMEOUT);
    }
}

static ringlet_status part_drive(ringlet_comm *comm, struct run_part *part) {
    ringlet_status status = part_advance(comm, part);
    if (status)
        run_give_up(part);
    return status;
}

/* Enqueues all ranks' parts from one thread, a step at a time, in the order the backend chooses. */
static ringlet_status parts_advance(ringlet_comm *comm, struct run_part *parts, uint32_t *waiting) {
    struct device_system *system = comm->system;
    uint32_t left = comm->ranks, blocked = 0;
    for (uint32_t r = 0; r < left; r++)
        waiting[r] = r;
    struct patience patience = patience_start(comm->timeout_ms);
    while (left) {
        uint32_t pick = system->ops->turn(system, left);
        struct run_part *part = &parts[waiting[pick]];
        int saved;
        ringlet_status status = system->ops->bind(system, comm->devices[part->rank], &saved);
        if (status)
            return comm_fail(comm, status);
        enum run_state state = run_advance(part, 1, &status);
        system->ops->unbind(system, saved);
        if (state == RUN_FAILED)
            return comm_fail(comm, status);
        if (state == RUN_DONE)
            waiting[pick] = waiting[--left];
        if (comm_stopped(comm))
            return comm_usable(comm);
        if (state != RUN_BLOCKED && blocked) {
            blocked = 0;
            patience = patience_start(comm->timeout_ms);
        }
        if (state == RUN_BLOCKED && ++blocked > 64 * left && !patience_pause(&patience)) {
            /* The first step not yet enqueued waits for nobody, so this is a fault of ours. */
            status_fail(RINGLET_TIMEOUT, "rank %u could not be enqueued within %lld ms", part->rank,
                        (long long)comm->timeout_ms);
            return comm_fail(comm, RINGLET_TIMEOUT);
        }
    }
    return RINGLET_OK;
}

static ringlet_status parts_drive(ringlet_comm *comm, struct run_part *parts, uint32_t *waiting) {
    ringlet_status status = parts_advance(comm, parts, waiting);
    for (uint32_t r = 0; r < comm->ranks && status; r++)
        run_give_up(&parts[r]);
    return status;
}

/* ---- first shape: each rank on its own thread ---- */

static ringlet_status peers_wait(ringlet_comm *comm, uint32_t rank, const struct arguments *a,
                                 uint32_t number) {
    uint32_t missing;
    uint64_t seen = 0, now = 0;
    ringlet_status status;
    do { /* once more as long as who has not come is getting on with the call before */
        seen = now;
        status = agree_wait(comm->agree, number, comm->timeout_ms, comm_stopped, comm, &missing);
        now = status == RINGLET_TIMEOUT ? run_progress(comm->run) : 0;
    } while (status == RINGLET_TIMEOUT && atomic_load(&comm->rank[missing].busy) && now != seen);
    if (status == RINGLET_ABORTED)
        return comm_usable(comm);
    if (status == RINGLET_TIMEOUT) {
        status_fail(
            status,
            "%s (call %u): rank %u waited %lld ms, but rank %u did not enter; if one thread "
            "calls for several ranks, use the _multi call instead",
            collective_name(a->collective), number, rank, (long long)comm->timeout_ms, missing);
        return comm_fail(comm, status);
    }
    return agree_compare(comm->agree, number, &names);
}

static ringlet_status rank_call(ringlet_comm *comm, uint32_t rank, const struct arguments *a) {
    struct agree_call call;
    uint32_t number;
    char text[AGREE_TEXT_MAX] = "";
    ringlet_status bad = arguments_check(comm, rank, a, false, &call);
    if (bad)
        memcpy(text, call.text, sizeof text);
    ringlet_status status =
        agree_enter(comm->agree, rank, &call, comm->timeout_ms, comm_stopped, comm, &number);
    if (status == RINGLET_TIMEOUT) {
        status_fail(status, "rank %u is %d failed calls ahead of its peers, which do not follow",
                    rank, AGREE_DEPTH);
        return comm_fail(comm, status);
    }
    if (status)
        return comm_usable(comm);
    if (bad) /* the peers are told; this rank need not wait for them */
        return status_fail(bad, "%s", text);
    status = peers_wait(comm, rank, a, number);
    if (status)
        return status;
    struct comm_rank *own = &comm->rank[rank];
    const struct plan *plan;
    peers_read(comm, own, number);
    status = sharers_check(comm, own, &call);
    if (!status)
        status = plan_find(comm, own, &call, &plan);
    if (status)
        return status;
    struct run_part part = part_make(comm, own, rank, plan, &call, number);
    return part_drive(comm, &part);
}

static ringlet_status call_one(ringlet_comm *comm, int rank, const struct arguments *a) {
    ringlet_status status = comm_rank_usable(comm, rank);
    if (status)
        return status;
    struct comm_rank *own = &comm->rank[rank];
    if (atomic_exchange(&own->busy, true)) {
        status_fail(RINGLET_MISMATCH,
                    "%s: rank %d is called by two threads at once; each rank has one thread",
                    collective_name(a->collective), rank);
        return comm_fail(comm, RINGLET_MISMATCH);
    }
    /* Looked at again, now that it is seen to be inside: who frees a buffer behind a failure waits
     * for those that are. */
    status = comm_usable(comm);
    int saved;
    if (!status && (status = comm->system->ops->bind(comm->system, comm->devices[rank], &saved)))
        status = comm_fail(comm, status);
    else if (!status) {
        status = rank_call(comm, (uint32_t)rank, a);
        comm->system->ops->unbind(comm->system, saved);
    }
    atomic_store(&own->busy, false);
    return status;
}

/* ---- second shape: one thread for all ---- */

struct drive { /* all ranks of one call */
    ringlet_comm *comm;
    struct agree_call *calls; /* [ranks] */
    struct run_part *parts;   /* [ranks] */
    uint32_t *waiting;        /* [ranks] */
    _Atomic int failed;       /* first status of a team member */
};

/* A team member's way: one rank. */
static void member(void *context, uint32_t rank) {
    struct drive *drive = context;
    ringlet_comm *comm = drive->comm;
    int saved, none = 0;
    ringlet_status status = comm->system->ops->bind(comm->system, comm->devices[rank], &saved);
    if (!status) {
        status = part_drive(comm, &drive->parts[rank]);
        comm->system->ops->unbind(comm->system, saved);
    } else {
        status = comm_fail(comm, status);
    }
    if (status)
        atomic_compare_exchange_strong(&drive->failed, &none, (int)status);
}

static ringlet_status drive_run(struct drive *drive) {
    ringlet_comm *comm = drive->comm;
    if (comm->ranks == 1 || comm->system->ops->single_threaded(comm->system) ||
        !team_run(comm->ranks, member, drive))
        return parts_drive(comm, drive->parts, drive->waiting);
    return atomic_load(&drive->failed) ? comm_usable(comm) : RINGLET_OK;
}

static ringlet_status drive_start(struct drive *drive) {
    ringlet_comm *comm = drive->comm;
    struct comm_rank *first = &comm->rank[0];
    const struct plan *plan;
    uint32_t number = agree_enter_all(comm->agree, drive->calls);
    peers_read(comm, first, number);
    ringlet_status status = sharers_check(comm, first, &drive->calls[0]);
    if (!status)
        status = plan_find(comm, first, &drive->calls[0], &plan);
    for (uint32_t r = 0; r < comm->ranks && !status; r++) {
        comm->rank[r].plan = plan; /* none may be left with one that the cache gives away */
        drive->parts[r] = part_make(comm, first, r, plan, &drive->calls[r], number);
    }
    return status ? status : drive_run(drive);
}

static ringlet_status rank_arguments_check(ringlet_comm *comm, uint32_t rank,
                                           const struct arguments *a, struct agree_call *call) {
    int saved;
    ringlet_status status = comm->system->ops->bind(comm->system, comm->devices[rank], &saved);
    if (status)
        return comm_fail(comm, status);
    status = arguments_check(comm, rank, a, true, call);
    comm->system->ops->unbind(comm->system, saved);
    return status;
}

/* Marks every rank as being called; how many could be. */
static uint32_t ranks_take(ringlet_comm *comm) {
    uint32_t taken = 0;
    while (taken < comm->ranks && !atomic_exchange(&comm->rank[taken].busy, true))
        taken++;
    return taken;
}

static ringlet_status drive_all(struct drive *drive, struct arguments a, const void *const *send,
                                void *const *recv, const ringlet_stream *streams) {
    ringlet_comm *comm = drive->comm;
    for (uint32_t r = 0; r < comm->ranks; r++) {
        a.send = send ? send[r] : NULL;
        a.recv = recv ? recv[r] : NULL;
        a.stream = streams ? streams[r] : NULL;
        ringlet_status status = rank_arguments_check(comm, r, &a, &drive->calls[r]);
        if (status)
            return status;
    }
    uint32_t taken = ranks_take(comm);
    ringlet_status status = RINGLET_OK;
    if (taken < comm->ranks) {
        status_fail(RINGLET_MISMATCH, "%s: rank %u is called by two threads at once",
                    collective_name(a.collective), taken);
        status = comm_fail(comm, RINGLET_MISMATCH);
    } else if (!(status = comm_usable(comm))) {
        status = drive_start(drive);
    }
    while (taken)
        atomic_store(&comm->rank[--taken].busy, false);
    return status;
}

static ringlet_status call_all(ringlet_comm *comm, struct arguments a, const void *const *send,
                               void *const *recv, const ringlet_stream *streams) {
    ringlet_status status = comm_usable(comm);
    if (status)
        return status;
    if (a.count && ((!send && a.collective != PLAN_BROADCAST) || !recv))
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s: the array %s is NULL",
                           collective_name(a.collective), send ? "recv" : "send");
    struct drive drive = {.comm = comm};
    drive.calls = memory_zeroed(comm->ranks, sizeof *drive.calls);
    drive.parts = memory_zeroed(comm->ranks, sizeof *drive.parts);
    drive.waiting = memory_zeroed(comm->ranks, sizeof *drive.waiting);
    if (drive.calls && drive.parts && drive.waiting)
        status = drive_all(&drive, a, send, recv, streams);
    else
        status = status_fail(RINGLET_OUT_OF_MEMORY, "out of host memory for %u ranks", comm->ranks);
    memory_free(drive.calls);
    memory_free(drive.parts);
    memory_free(drive.waiting);
    return status;
}

/* ---- the public calls ---- */

ringlet_status ringlet_all_reduce(ringlet_comm *comm, int rank, const void *send, void *recv,
                                  uint64_t count, ringlet_dtype dtype, ringlet_op op,
                                  ringlet_stream stream) {
    struct arguments a = {PLAN_ALL_REDUCE, dtype, op, count, send, recv, stream, 0};
    return call_one(comm, rank, &a);
}

ringlet_status ringlet_reduce_scatter(ringlet_comm *comm, int rank, const void *send, void *recv,
                                      uint64_t count, ringlet_dtype dtype, ringlet_op op,
                                      ringlet_stream stream) {
    struct arguments a = {PLAN_REDUCE_SCATTER, dtype, op, count, send, recv, stream, 0};
    return call_one(comm, rank, &a);
}

ringlet_status ringlet_all_gather(ringlet_comm *comm, int rank, const void *send, void *recv,
                                  uint64_t count, ringlet_dtype dtype, ringlet_stream stream) {
    struct arguments a = {PLAN_ALL_GATHER, dtype, RINGLET_SUM, count, send, recv, stream, 0};
    return call_one(comm, rank, &a);
}

ringlet_status ringlet_broadcast(ringlet_comm *comm, int rank, const void *send, void *recv,
                                 uint64_t count, ringlet_dtype dtype, int root,
                                 ringlet_stream stream) {
    struct arguments a = {PLAN_BROADCAST, dtype, RINGLET_SUM, count, send, recv, stream, root};
    return call_one(comm, rank, &a);
}

ringlet_status ringlet_all_reduce_multi(ringlet_comm *comm, const void *const *send,
                                        void *const *recv, uint64_t count, ringlet_dtype dtype,
                                        ringlet_op op, const ringlet_stream *streams) {
    struct arguments a = {PLAN_ALL_REDUCE, dtype, op, count, NULL, NULL, NULL, 0};
    return call_all(comm, a, send, recv, streams);
}

ringlet_status ringlet_reduce_scatter_multi(ringlet_comm *comm, const void *const *send,
                                            void *const *recv, uint64_t count, ringlet_dtype dtype,
                                            ringlet_op op, const ringlet_stream *streams) {
    struct arguments a = {PLAN_REDUCE_SCATTER, dtype, op, count, NULL, NULL, NULL, 0};
    return call_all(comm, a, send, recv, streams);
}

ringlet_status ringlet_all_gather_multi(ringlet_comm *comm, const void *const *send,
                                        void *const *recv, uint64_t count, ringlet_dtype dtype,
                                        const ringlet_stream *streams) {
    struct arguments a = {PLAN_ALL_GATHER, dtype, RINGLET_SUM, count, NULL, NULL, NULL, 0};
    return call_all(comm, a, send, recv, streams);
}

ringlet_status ringlet_broadcast_multi(ringlet_comm *comm, const void *const *send,
                                       void *const *recv, uint64_t count, ringlet_dtype dtype,
                                       int root, const ringlet_stream *streams) {
    struct arguments a = {PLAN_BROADCAST, dtype, RINGLET_SUM, count, NULL, NULL, NULL, root};
    return call_all(comm, a, send, recv, streams);
}
