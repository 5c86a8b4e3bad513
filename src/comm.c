/*
 * Communicators: made, asked and ended.
 * Owns devices, edges and the sticky error of a communicator. Never runs a collective
 * (collective.c).
 */
#include "comm.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "device/emulated.h"
#include "topology/topology.h"

/* ---- small things ---- */

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

const char *ringlet_version(void) {
    return TEXT_OF(RINGLET_VERSION_MAJOR) "." TEXT_OF(RINGLET_VERSION_MINOR) "." TEXT_OF(
        RINGLET_VERSION_PATCH);
}

ringlet_status ringlet_options_init(ringlet_options *options) {
    if (!options)
        return status_fail(RINGLET_INVALID_ARGUMENT, "options is NULL");
    *options = (ringlet_options){.struct_size = sizeof *options, .timeout_ms = 30000};
    return RINGLET_OK;
}

ringlet_status ringlet_device_count(ringlet_backend backend, const char *machine, int *count) {
    if (!count)
        return status_fail(RINGLET_INVALID_ARGUMENT, "count is NULL");
    if ((int)backend < 0 || backend > RINGLET_BACKEND_EMULATED)
        return status_fail(RINGLET_INVALID_ARGUMENT, "unknown backend %d", (int)backend);
    if (backend == RINGLET_BACKEND_CUDA || (backend == RINGLET_BACKEND_AUTO && !machine)) {
        if (machine)
            return status_fail(RINGLET_INVALID_ARGUMENT,
                               "machine is for emulated devices, but backend is CUDA");
        *count = device_cuda_count();
    } else if (machine) {
        struct topology topology;
        ringlet_status status = topology_read(&topology, machine);
        if (status)
            return status;
        *count = (int)topology.gpus;
        topology_free(&topology);
    } else {
        *count = TOPOLOGY_GPUS_MAX;
    }
    return RINGLET_OK;
}

/* ---- errors ---- */

ringlet_status comm_fail(ringlet_comm *comm, ringlet_status status) {
    pthread_mutex_lock(&comm->error_lock);
    if (!atomic_load_explicit(&comm->error, memory_order_relaxed)) {
        snprintf(comm->error_text, sizeof comm->error_text, "%s", status_message());
        atomic_store_explicit(&comm->error, (int)status, memory_order_release);
    }
    pthread_mutex_unlock(&comm->error_lock);
    return comm_usable(comm);
}

ringlet_status comm_usable(const ringlet_comm *comm) {
    if (!comm)
        return status_fail(RINGLET_INVALID_ARGUMENT, "comm is NULL");
    int error = atomic_load_explicit(&comm->error, memory_order_acquire);
    if (!error)
        return RINGLET_OK;
    return status_fail((ringlet_status)error, "%s", comm->error_text);
}

ringlet_status comm_rank_usable(const ringlet_comm *comm, int rank) {
    ringlet_status status = comm_usable(comm);
    if (!status && (rank < 0 || (uint32_t)rank >= comm->ranks))
        status = status_fail(RINGLET_INVALID_ARGUMENT, "rank %d is not one of the %u ranks 0 to %u",
                             rank, comm->ranks, comm->ranks - 1);
    return status;
}

bool comm_stopped(void *comm) {
    return atomic_load_explicit(&((ringlet_comm *)comm)->error, memory_order_relaxed) != 0;
}

ringlet_status ringlet_comm_abort(ringlet_comm *comm) {
    if (!comm)
        return status_fail(RINGLET_INVALID_ARGUMENT, "comm is NULL");
    status_fail(RINGLET_ABORTED, "the communicator was aborted");
    comm_fail(comm, RINGLET_ABORTED);
    return RINGLET_OK;
}

ringlet_status ringlet_comm_error(const ringlet_comm *comm) {
    return comm_usable(comm);
}

/* ---- creation ---- */

static ringlet_status options_validate(const ringlet_options *o) {
    if (o->struct_size != sizeof *o)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "options.struct_size is %zu, not %zu: call ringlet_options_init() first",
                           o->struct_size, sizeof *o);
    if ((int)o->backend < 0 || o->backend > RINGLET_BACKEND_EMULATED)
        return status_fail(RINGLET_INVALID_ARGUMENT, "unknown backend %d", (int)o->backend);
    if ((int)o->algorithm < 0 || o->algorithm > RINGLET_ALGORITHM_DIRECT)
        return status_fail(RINGLET_INVALID_ARGUMENT, "unknown algorithm %d", (int)o->algorithm);
    if ((int)o->scheduler < 0 || o->scheduler > RINGLET_SCHEDULER_SEEDED)
        return status_fail(RINGLET_INVALID_ARGUMENT, "unknown scheduler %d", (int)o->scheduler);
    if (o->rings > PLAN_RINGS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%u rings; at most %d", o->rings,
                           PLAN_RINGS_MAX);
    if (o->slices > COMM_SLICES_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%u slices; at most %d", o->slices,
                           COMM_SLICES_MAX);
    if (o->timeout_ms < -1)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "timeout_ms is %lld; it must be -1 (no limit) or more",
                           (long long)o->timeout_ms);
    if (o->machine && o->machine_of)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "machine and machine_of are both set; set the one that is meant");
    if ((o->machine || o->machine_of) && o->backend == RINGLET_BACKEND_CUDA)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "machine and machine_of are for emulated devices, but backend is CUDA");
    return RINGLET_OK;
}

static ringlet_status emulated_start(ringlet_comm *comm, const ringlet_options *o) {
    if (o->machine_of) {
        ringlet_status status = comm_usable(o->machine_of);
        if (status)
            return status;
        comm->system = o->machine_of->system;
        comm->system->ops->retain(comm->system);
        return RINGLET_OK;
    }
    struct topology machine;
    uint32_t gpus = 1;
    for (uint32_t r = 0; r < comm->ranks; r++)
        if (comm->devices[r] >= 0 && (uint32_t)comm->devices[r] >= gpus)
            gpus = (uint32_t)comm->devices[r] + 1;
    gpus = gpus < TOPOLOGY_GPUS_MAX ? gpus : TOPOLOGY_GPUS_MAX;
    ringlet_status status =
        o->machine ? topology_read(&machine, o->machine) : topology_make_switch(&machine, gpus);
    if (status)
        return status;
    struct emulated_config config = {&machine, o->scheduler, o->seed, false};
    status = emulated_open(&comm->system, &config);
    topology_free(&machine);
    return status;
}

/* Said once: a job that was to run on GPUs would run on the CPU. */
static void emulation_warn(void) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        status_warn("no CUDA device is used: devices are emulated, on the CPU (%s); ask for "
                    "RINGLET_BACKEND_CUDA or RINGLET_BACKEND_EMULATED to be sure",
                    device_cuda_text());
}

static ringlet_status system_start(ringlet_comm *comm, const ringlet_options *o) {
    bool chooses = o->backend == RINGLET_BACKEND_AUTO && !o->machine && !o->machine_of;
    if (o->backend == RINGLET_BACKEND_CUDA || (chooses && device_cuda_count() > 0))
        return device_open_cuda(&comm->system);
    if (chooses)
        emulation_warn();
    return emulated_start(comm, o);
}

static ringlet_status devices_validate(ringlet_comm *comm, int share) {
    int count = comm->system->ops->count(comm->system);
    for (uint32_t r = 0; r < comm->ranks; r++) {
        int device = comm->devices[r];
        if (device < 0 || device >= count)
            return status_fail(RINGLET_NO_DEVICE,
                               "rank %u: there is no device %d; this machine (%s) has %d device%s",
                               r, device, comm->system->ops->machine(comm->system), count,
                               count == 1 ? "" : "s");
        for (uint32_t other = 0; other < r; other++) {
            if (comm->devices[other] != device)
                continue;
            if (!share)
                return status_fail(
                    RINGLET_INVALID_ARGUMENT,
                    "ranks %u and %u both name device %d; give each rank its own, or "
                    "set share_devices",
                    other, r, device);
            comm->shares_devices = true;
        }
    }
    return RINGLET_OK;
}

/* Whether rank `from` can copy straight to rank `to`; says why not. */
static bool edge_direct(ringlet_comm *comm, uint32_t from, uint32_t to) {
    int a = comm->devices[from], b = comm->devices[to];
    if (a == b)
        return true;
    enum device_peer result = comm->system->ops->peer_enable(comm->system, a, b);
    if (result == DEVICE_PEER_ON || result == DEVICE_PEER_ALREADY_ON)
        return true;
    status_warn(
        "the edge from rank %u to rank %u (device %d to device %d) goes through pinned host "
        "memory: %s%s%s",
        from, to, a, b, device_peer_text(result), result == DEVICE_PEER_FAILED ? ": " : "",
        result == DEVICE_PEER_FAILED ? status_message() : "");
    return false;
}

/* All rings run through the ranks in their own order, so they share edges. */
static void ring_edges_start(ringlet_comm *comm, int disable_p2p) {
    for (uint32_t r = 0; r < comm->ranks && comm->ranks > 1; r++) {
        bool staged = disable_p2p || !edge_direct(comm, r, (r + 1) % comm->ranks);
        comm->staged_edges += staged;
        for (uint32_t ring = 0; ring < PLAN_RINGS_MAX; ring++)
            comm->staged[(size_t)ring * comm->ranks + r] = staged;
    }
}

/* Direct copies between every two ranks; there is no other way for it. */
static ringlet_status pairs_start(ringlet_comm *comm, int disable_p2p) {
    for (uint32_t r = 0; r < comm->ranks; r++)
        for (uint32_t step = 1; step < comm->ranks; step++) {
            uint32_t to = (r + step) % comm->ranks;
            if (disable_p2p || !edge_direct(comm, r, to))
                return status_fail(RINGLET_UNSUPPORTED,
                                   "direct needs peer access between every two ranks, but rank %u "
                                   "has none to rank %u%s; use the ring",
                                   r, to, disable_p2p ? " (disable_p2p is set)" : "");
        }
    return RINGLET_OK;
}

static bool staged_algorithm(ringlet_algorithm algorithm) {
    return algorithm == RINGLET_ALGORITHM_HOST || algorithm == RINGLET_ALGORITHM_HOST_PIPELINED;
}

/* Only what the algorithm goes over is enabled. */
static ringlet_status edges_start(ringlet_comm *comm, int disable_p2p) {
    ringlet_status status = RINGLET_OK;
    if (comm->algorithm == RINGLET_ALGORITHM_DIRECT)
        status = pairs_start(comm, disable_p2p);
    if (!status && !staged_algorithm(comm->algorithm))
        ring_edges_start(comm, disable_p2p);
    return status;
}

static ringlet_status scratch_choose(ringlet_comm *comm, const ringlet_options *o) {
    if (staged_algorithm(o->algorithm))
        return RINGLET_OK; /* none is used */
    comm->scratch_bytes = o->scratch_bytes ? o->scratch_bytes : COMM_SCRATCH_BYTES;
    for (uint32_t r = 0; r < comm->ranks && !o->scratch_bytes; r++) {
        struct device_info info;
        ringlet_status status = comm->system->ops->describe(comm->system, comm->devices[r], &info);
        if (status)
            return status;
        if (info.memory_bytes && info.memory_bytes / 100 < comm->scratch_bytes)
            comm->scratch_bytes = info.memory_bytes / 100;
    }
    comm->scratch_bytes = comm->scratch_bytes / COMM_GRANULE_BYTES * COMM_GRANULE_BYTES;
    if (comm->scratch_bytes < 2 * COMM_GRANULE_BYTES)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "scratch_bytes is %llu; at least %u are needed (0 chooses)",
                           (unsigned long long)o->scratch_bytes, 2 * COMM_GRANULE_BYTES);
    return RINGLET_OK;
}

static ringlet_status memory_start(ringlet_comm *comm, const int *devices) {
    uint32_t n = comm->ranks;
    comm->devices = memory_zeroed(n, sizeof *comm->devices);
    comm->staged = memory_zeroed((size_t)n * PLAN_RINGS_MAX, 1);
    comm->rank = memory_lines(n, sizeof *comm->rank);
    comm->agree = agree_new(n);
    if (!comm->devices || !comm->staged || !comm->rank || !comm->agree)
        return status_fail(RINGLET_OUT_OF_MEMORY, "out of host memory for %u ranks", n);
    for (uint32_t r = 0; r < n; r++) {
        comm->devices[r] = devices ? devices[r] : (int)r;
        comm->rank[r].in_place = memory_zeroed(n, 1);
        comm->rank[r].buffers = memory_zeroed(n, sizeof(struct run_buffers));
        if (!comm->rank[r].in_place || !comm->rank[r].buffers)
            return status_fail(RINGLET_OUT_OF_MEMORY, "out of host memory for %u ranks", n);
    }
    return RINGLET_OK;
}

static ringlet_status comm_start(ringlet_comm *comm, const int *devices, const ringlet_options *o) {
    comm->timeout_ms = o->timeout_ms;
    comm->algorithm = o->algorithm;
    comm->rings = o->rings;
    comm->slices = o->slices;
    comm->last.algorithm = comm->last.why = "";
    ringlet_status status = memory_start(comm, devices);
    if (!status)
        status = system_start(comm, o);
    if (!status)
        status = devices_validate(comm, o->share_devices);
    if (!status)
        status = scratch_choose(comm, o);
    if (!status)
        status = edges_start(comm, o->disable_p2p);
    if (status)
        return status;
    bool pinned = comm->staged_edges || staged_algorithm(comm->algorithm);
    status = run_create(&comm->run, comm->system, comm->devices, comm->ranks, comm->scratch_bytes,
                        COMM_HOST_BYTES);
    return status || !pinned ? status : run_host_start(comm->run);
}

ringlet_status ringlet_comm_create(ringlet_comm **out, const int *devices, int ranks,
                                   const ringlet_options *options) {
    ringlet_options defaults;
    ringlet_options_init(&defaults);
    const ringlet_options *o = options ? options : &defaults;
    if (!out)
        return status_fail(RINGLET_INVALID_ARGUMENT, "out is NULL");
    if (ranks < 1 || ranks > COMM_RANKS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT, "ranks is %d; it must be 1 to %d", ranks,
                           COMM_RANKS_MAX);
    ringlet_status status = options_validate(o);
    if (status)
        return status;
    ringlet_comm *comm = memory_zeroed(1, sizeof *comm);
    if (!comm)
        return status_fail(RINGLET_OUT_OF_MEMORY, "out of host memory");
    comm->ranks = (uint32_t)ranks;
    pthread_mutex_init(&comm->plans_lock, NULL);
    pthread_mutex_init(&comm->error_lock, NULL);
    status = comm_start(comm, devices, o);
    if (status) {
        char text[COMM_ERROR_MAX];
        snprintf(text, sizeof text, "%s", status_message());
        ringlet_comm_destroy(&comm);
        return status_fail(status, "%s", text);
    }
    *out = comm;
    return RINGLET_OK;
}

/* Ends the waits of threads that are still inside, and waits for them to come out. */
static ringlet_status threads_out(ringlet_comm *comm) {
    struct patience patience = patience_start(comm->timeout_ms);
    for (uint32_t r = 0; comm->rank && r < comm->ranks; r++)
        while (atomic_load(&comm->rank[r].busy)) {
            status_fail(RINGLET_ABORTED, "the communicator was destroyed while rank %u was called",
                        r);
            comm_fail(comm, RINGLET_ABORTED);
            if (!patience_pause(&patience))
                return status_fail(RINGLET_TIMEOUT,
                                   "rank %u is still inside a call after %lld ms: the communicator "
                                   "stays allocated",
                                   r, (long long)comm->timeout_ms);
        }
    return RINGLET_OK;
}

ringlet_status ringlet_comm_destroy(ringlet_comm **pointer) {
    if (!pointer || !*pointer)
        return RINGLET_OK;
    ringlet_comm *comm = *pointer;
    *pointer = NULL;
    ringlet_status inside = threads_out(comm);
    if (inside)
        return inside;
    ringlet_status status = run_destroy(&comm->run, comm->timeout_ms);
    /* What still runs must not lose its memory: unless closing ends it, the system stays open. */
    if (comm->system && (status != RINGLET_TIMEOUT || comm->system->ops->close_ends_work))
        comm->system->ops->close(comm->system);
    plan_cache_clear(&comm->plans);
    for (uint32_t r = 0; comm->rank && r < comm->ranks; r++) {
        memory_free(comm->rank[r].in_place);
        memory_free(comm->rank[r].buffers);
    }
    agree_free(comm->agree);
    memory_free(comm->rank);
    memory_free(comm->staged);
    memory_free(comm->devices);
    pthread_mutex_destroy(&comm->plans_lock);
    pthread_mutex_destroy(&comm->error_lock);
    memory_free(comm);
    return status;
}

/* ---- queries ---- */

ringlet_status ringlet_comm_size(const ringlet_comm *comm, int *ranks) {
    if (!comm || !ranks)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s is NULL", comm ? "ranks" : "comm");
    *ranks = (int)comm->ranks;
    return RINGLET_OK;
}

ringlet_status ringlet_comm_device(const ringlet_comm *comm, int rank, int *device) {
    if (!comm || !device)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s is NULL", comm ? "device" : "comm");
    if (rank < 0 || (uint32_t)rank >= comm->ranks)
        return status_fail(RINGLET_INVALID_ARGUMENT, "rank %d is not one of the %u ranks 0 to %u",
                           rank, comm->ranks, comm->ranks - 1);
    *device = comm->devices[rank];
    return RINGLET_OK;
}

ringlet_status ringlet_comm_device_query(const ringlet_comm *comm, int rank,
                                         ringlet_device_info *info) {
    int device;
    struct device_info found;
    ringlet_status status = ringlet_comm_device(comm, rank, &device);
    if (status)
        return status;
    if (!info || info->struct_size != sizeof *info)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           info ? "info.struct_size is not sizeof(ringlet_device_info)"
                                : "info is NULL");
    status = comm->system->ops->describe(comm->system, device, &found);
    if (status)
        return status;
    *info = (ringlet_device_info){
        .struct_size = sizeof *info, .device = device, .memory_bytes = found.memory_bytes};
    snprintf(info->name, sizeof info->name, "%s", found.name);
    snprintf(info->pci, sizeof info->pci, "%s", found.pci);
    return RINGLET_OK;
}

ringlet_status ringlet_comm_query(const ringlet_comm *constant, ringlet_comm_info *info) {
    if (!constant || !info)
        return status_fail(RINGLET_INVALID_ARGUMENT, "%s is NULL", constant ? "info" : "comm");
    if (info->struct_size != sizeof *info)
        return status_fail(RINGLET_INVALID_ARGUMENT,
                           "info.struct_size is %zu, not %zu: set it to sizeof(ringlet_comm_info)",
                           info->struct_size, sizeof *info);
    ringlet_comm *comm = (ringlet_comm *)(uintptr_t)constant; /* for the lock */
    struct device_system *system = comm->system;
    pthread_mutex_lock(&comm->plans_lock);
    *info = (ringlet_comm_info){
        .struct_size = sizeof *info,
        .ranks = (int)comm->ranks,
        .emulated = strcmp(system->ops->backend, "cuda") != 0,
        .modelled_time = system->ops->modelled(system),
        .machine = system->ops->machine(system),
        .scratch_bytes = comm->scratch_bytes,
        .host_bytes = run_host_bytes(comm->run),
        .staged_edges = (int)comm->staged_edges,
        .algorithm = comm->last.algorithm,
        .rings = comm->last.rings,
        .slices = comm->last.slices,
        .why = comm->last.why,
    };
    pthread_mutex_unlock(&comm->plans_lock);
    return RINGLET_OK;
}
