/*
 * Devices behind one small interface: memory, streams, events, copies and reductions.
 * Owns the interface and what is common to all backends. Never knows plans or communicators.
 *
 * A system is a set of devices of one backend, numbered from 0. Host memory is the place
 * DEVICE_HOST. Every function may be called from any thread; a backend serialises what it must.
 * Operations on a queue run in the order given. Every member of the table is there in every
 * backend.
 *
 * Events are CUDA's, exactly: a wait binds to the latest record at the moment the wait is *issued*;
 * a wait on an event not yet recorded waits for nothing; recording again does not disturb waits
 * issued before. record() and wait() are host calls, so who wants to wait must know that the record
 * has been issued.
 */
#ifndef RINGLET_DEVICE_DEVICE_H
#define RINGLET_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ringlet/ringlet.h"

enum { DEVICE_HOST = -1, DEVICE_NAME_MAX = 127, DEVICE_INPUTS_MAX = 64 };

struct device_system;
struct device_event; /* a backend's own */

/* A stream with its device; stream NULL is the device's default stream. */
struct device_queue {
    int device;
    ringlet_stream stream;
};

/* Who asked for an operation, for messages: the communicator's call number, rank and plan step. */
struct device_tag {
    uint32_t call, rank, step;
};

/*
 * What a reduction does with its inputs. The 16-bit floats are added up in float32 and rounded
 * once; integers wrap; of MIN and MAX a NaN wins, and of zeros of both signs the later input. For
 * AVG inputs are contributions of one rank each; inputs[0] is one only if `first`, else it is what
 * earlier reductions came to. Of floats the contributions are scaled by 1 / ranks, in float32 or
 * float64, before they are added; of integers the wrapped sum is divided by `ranks`, towards zero,
 * if `last`. Other operations ignore the last three fields.
 */
struct device_reduction {
    ringlet_dtype dtype;
    ringlet_op op;
    uint32_t ranks; /* AVG: 1 to 2^31 - 1 */
    bool first, last;
};

struct device_info {
    char name[DEVICE_NAME_MAX + 1];
    char pci[32];     /* "0000:3b:00.0", "" if it has none */
    uint8_t uuid[16]; /* zeros if it has none */
    uint64_t memory_bytes;
    int compute_major, compute_minor; /* 0.0 if it has none */
};

/* What enabling peer access from one device to another came to. */
enum device_peer {
    DEVICE_PEER_ON,            /* enabled now */
    DEVICE_PEER_ALREADY_ON,    /* was enabled by somebody else: theirs */
    DEVICE_PEER_NOT_POSSIBLE,  /* the pair has no path (cudaDeviceCanAccessPeer says 0) */
    DEVICE_PEER_NOT_SUPPORTED, /* refused: cudaErrorPeerAccessUnsupported */
    DEVICE_PEER_EXHAUSTED,     /* refused: cudaErrorTooManyPeers, mapping resources used up */
    DEVICE_PEER_NO_DEVICE,     /* refused: cudaErrorInvalidDevice */
    DEVICE_PEER_FAILED         /* any other error; the thread's message has it */
};
/* "peer access is not possible between these devices" and so on; static. */
const char *device_peer_text(enum device_peer result);

enum device_pointer_kind {
    DEVICE_POINTER_DEVICE,  /* memory of `device` */
    DEVICE_POINTER_HOST,    /* host memory, registered or not */
    DEVICE_POINTER_MANAGED, /* unified memory that migrates */
    DEVICE_POINTER_UNKNOWN
};
struct device_pointer {
    enum device_pointer_kind kind;
    int device;
    uint64_t bytes; /* to the end of the allocation; UINT64_MAX where that cannot be told */
};

/* Whether a stream can be used by a device's rank. */
enum device_stream_state {
    DEVICE_STREAM_OK,
    DEVICE_STREAM_OTHER_DEVICE,
    DEVICE_STREAM_CAPTURING,  /* into a graph */
    DEVICE_STREAM_PER_THREAD, /* cudaStreamPerThread: another stream in each thread */
    DEVICE_STREAM_UNKNOWN     /* not a stream */
};

struct device_ops {
    const char *backend; /* "cuda", "emulated" */

    /* Drops one reference; the last frees the system and everything still allocated in it. Whether
     * that ends work still under way as well: if not, it must not be called while there is any. */
    bool close_ends_work;
    void (*close)(struct device_system *);
    void (*retain)(struct device_system *);

    int (*count)(struct device_system *);
    ringlet_status (*describe)(struct device_system *, int device, struct device_info *out);
    /* Name of the machine as a whole. The system's string. */
    const char *(*machine)(struct device_system *);
    /* Whether now_ns() is modelled time, and whether operations advance only inside poll() and
     * turn(). */
    bool (*modelled)(struct device_system *);
    bool (*single_threaded)(struct device_system *);

    /* The calling thread works for `device` until unbind(); what was current is saved in and
     * restored from *saved. Bindings nest. */
    ringlet_status (*bind)(struct device_system *, int device, int *saved);
    void (*unbind)(struct device_system *, int saved);

    /* Device memory (256-byte aligned, contents undefined) and pinned host memory that every device
     * can copy to and from. Freeing NULL does nothing. */
    ringlet_status (*memory_alloc)(struct device_system *, int device, uint64_t bytes, void **out);
    ringlet_status (*memory_free)(struct device_system *, int device, void *memory);
    ringlet_status (*host_alloc)(struct device_system *, uint64_t bytes, void **out);
    ringlet_status (*host_free)(struct device_system *, void *memory);
    void (*inspect)(struct device_system *, const void *pointer, struct device_pointer *out);

    ringlet_status (*stream_create)(struct device_system *, int device, ringlet_stream *out);
    ringlet_status (*stream_destroy)(struct device_system *, int device, ringlet_stream stream);
    enum device_stream_state (*stream_check)(struct device_system *, struct device_queue queue);
    ringlet_status (*event_create)(struct device_system *, int device, struct device_event **out);
    ringlet_status (*event_destroy)(struct device_system *, int device, struct device_event *event);

    /* Tries to let `device` access memory of `peer`. Leaves the thread's last CUDA error as it
     * was. */
    enum device_peer (*peer_enable)(struct device_system *, int device, int peer);

    /* Enqueue. record: the event is of the queue's device; wait: the event may be of any device. */
    ringlet_status (*record)(struct device_system *, struct device_queue, struct device_event *);
    ringlet_status (*wait)(struct device_system *, struct device_queue, struct device_event *);
    /* Copies between places (device index or DEVICE_HOST), not overlapping. Between two devices
     * this is the peer copy (cudaMemcpyPeerAsync). Host memory is pinned memory of host_alloc(). */
    ringlet_status (*copy)(struct device_system *, struct device_queue, int dst_place, void *dst,
                           int src_place, const void *src, uint64_t bytes, struct device_tag);
    /* dst[i] = inputs[0][i] op inputs[1][i] op ..., in this order, of 1 to DEVICE_INPUTS_MAX
     * inputs; dst may be any of them exactly. place: the queue's device (a kernel) or DEVICE_HOST
     * (the CPU, in the queue's order). Pointers aligned for the type. Neither the array nor *how is
     * used after the call. */
    ringlet_status (*reduce)(struct device_system *, struct device_queue, int place, void *dst,
                             const void *const *inputs, uint32_t input_count, uint64_t count,
                             const struct device_reduction *how, struct device_tag);
    /* Copies between ordinary host memory and the queue's device, in its order; may block until
     * done. */
    ringlet_status (*transfer)(struct device_system *, struct device_queue, void *dst,
                               const void *src, uint64_t bytes, bool to_device);

    /* Whether the queue has done all it was given. Never blocks; under a single-threaded backend it
     * also runs one ready operation when not idle. */
    ringlet_status (*poll)(struct device_system *, struct device_queue, bool *idle);
    uint64_t (*now_ns)(struct device_system *);
    /* One thread drives `candidates` host programs (at least 1): which one advances next. A
     * single-threaded backend may first run some operations. */
    uint32_t (*turn)(struct device_system *, uint32_t candidates);
};

struct device_system {
    const struct device_ops *ops;
};

/* Waits until the queue is idle, sleeping between looks after a short spin; timeout_ms < 0: no
 * limit. TIMEOUT without a message of its own, so that the caller can say what was waited for.
 * `stop`, if not NULL, is asked now and then and ends the wait with ABORTED when it returns
 * true. */
ringlet_status device_wait(struct device_system *system, struct device_queue queue,
                           int64_t timeout_ms, bool (*stop)(void *), void *context);

/* Whether there is such a reduction: UNSUPPORTED for a type or an operation that is none,
 * INVALID_ARGUMENT for a number of inputs or ranks that is not allowed. */
ringlet_status device_reduction_check(const struct device_reduction *how, uint32_t input_count);

/* The CPU twin of the kernels, the same bit for bit on every CPU, NaN payloads apart; arguments as
 * above, and checked. The second form uses all processors, where the library has OpenMP and there
 * is enough to do. */
void device_cpu_reduce(void *dst, const void *const *inputs, uint32_t input_count, uint64_t count,
                       const struct device_reduction *how);
void device_cpu_reduce_parallel(void *dst, const void *const *inputs, uint32_t input_count,
                                uint64_t count, const struct device_reduction *how);
/* The same beside copies: on a quarter of the processors. The driver's and the ranks' threads run
 * then too, and a team waits for its slowest: with 32 processors and two H200s, 8 threads carried
 * 31 GB/s a GPU, 32 carried 9 (docs/performance.md). */
void device_cpu_reduce_beside(void *dst, const void *const *inputs, uint32_t input_count,
                              uint64_t count, const struct device_reduction *how);

/* Bytes of one element; 0 for a type that is none. */
uint32_t device_dtype_size(ringlet_dtype dtype);

/* The CUDA devices of the process. UNSUPPORTED where the library was built without CUDA, NO_DEVICE
 * where no driver or device is there. */
ringlet_status device_open_cuda(struct device_system **out);
/* How many CUDA devices; 0 without CUDA. */
int device_cuda_count(void);
/* One line for `ringlet info`: CUDA runtime and driver versions, or why there is none. Static or
 * thread-local. */
const char *device_cuda_text(void);

#endif
