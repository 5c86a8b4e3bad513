/*
 * The communicator, shared by the files of the public API.
 * Owns the type and the checks that every call begins with. Never seen by users.
 *
 * What one process per GPU would share between processes is in `agree` and in the addresses that
 * ranks publish there; the rest is either constant after creation or a rank's own.
 */
#ifndef RINGLET_COMM_H
#define RINGLET_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "device/device.h"
#include "plan/cache.h"
#include "run/agree.h"
#include "run/run.h"

enum { COMM_RANKS_MAX = 1024, COMM_SLICES_MAX = 4096, COMM_ERROR_MAX = 640 };

/* Pinned memory a rank, taken when the host algorithm or a staged edge first needs it. */
#define COMM_HOST_BYTES (32ull << 20)
#define COMM_SCRATCH_BYTES (256ull << 20)
/* Chunks and slices begin at multiples of this many bytes, which suits copies and kernels. */
#define COMM_GRANULE_BYTES 128u

struct comm_rank { /* written by the rank's thread alone */
    _Alignas(64) atomic_bool busy;
    /* Of the communicator's latest call that had one; so it is the last that the cache gives away.
     */
    const struct plan *plan;
    uint8_t *in_place;           /* [ranks] of the call it is in */
    struct run_buffers *buffers; /* [ranks] likewise */
};

struct ringlet_comm {
    struct device_system *system;
    struct run *run;
    struct agree *agree;
    uint32_t ranks;
    int *devices;
    bool shares_devices; /* some device has several ranks */
    uint8_t *staged;     /* [PLAN_RINGS_MAX * ranks] 1: that edge goes through pinned memory */
    uint32_t staged_edges;
    struct comm_rank *rank;
    uint64_t scratch_bytes;
    int64_t timeout_ms;
    ringlet_algorithm algorithm;
    uint32_t rings, slices;

    pthread_mutex_t plans_lock; /* cache, run_prepare() and `last`; never held while waiting */
    struct plan_cache plans;
    struct {
        const char *algorithm, *why;
        uint32_t rings, slices;
    } last;

    pthread_mutex_t error_lock;
    _Atomic int error; /* the sticky status; error_text is written before it and then never again */
    char error_text[COMM_ERROR_MAX];
};

/* Makes the thread's current error the communicator's sticky one, unless it has one; returns the
 * sticky status with its words as the thread's message. */
ringlet_status comm_fail(ringlet_comm *comm, ringlet_status status);

/* The sticky error with its words as the thread's message; OK if none. NULL is INVALID_ARGUMENT. */
ringlet_status comm_usable(const ringlet_comm *comm);

/* comm_usable(), and that the rank exists. */
ringlet_status comm_rank_usable(const ringlet_comm *comm, int rank);

/* Whether host waits must end; for the `stop` of agree_wait() and device_wait(). */
bool comm_stopped(void *comm);

#endif
