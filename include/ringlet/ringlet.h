/*
 * Ringlet: AllReduce between the GPUs of one host. This is the whole public interface; it needs no
 * CUDA header, and it is the same for CUDA devices and for emulated ones.
 *
 * Vocabulary. A *communicator* joins `n` ranks, rank r being one device. A *stream* is a CUDA
 * stream (`cudaStream_t` is `struct CUstream_st *`, so it passes as it is) or one made by
 * ringlet_stream_create(). Counts are in elements, offsets and sizes in bytes, unless a name says
 * otherwise (`timeout_ms`).
 *
 * Order. Every collective is stream-ordered: it starts after what the rank's stream holds at the
 * call, and what the stream is given afterwards starts after it. A call may hold its host thread
 * until its peers have entered the same call, never until data has moved. A communicator runs one
 * collective at a time, in the order called, also when the calls name different streams.
 *
 * Errors. Every function returns a ringlet_status; ringlet_error_message() gives the calling
 * thread's last failure in words: which rank, which argument, which value, and the remedy. A failed
 * call that is the caller's (a bad argument, ranks that disagree) leaves the communicator usable:
 * it counts as that call on every rank, and every rank of it is told. A failure of a device, a
 * timeout of a collective, an abort, and a rank called by two threads at once are sticky: every
 * later call returns the first of them, and only ringlet_comm_destroy() helps. Some ranks may have
 * got OK for the very call that fails on others; what it was to write is then undefined. Buffers
 * stay in use until the calls of all ranks have returned and their streams have drained
 * (ringlet_stream_wait() works on a failed communicator).
 *
 * Threads. Different ranks of one communicator may be called from different threads at once; one
 * rank must not. Different communicators are independent. To end a communicator that threads may
 * still be using: ringlet_comm_abort(), join the threads, then ringlet_comm_destroy().
 *
 * Emulated devices under SEEDED hold what is enqueued until something waits (ringlet_stream_wait(),
 * ringlet_buffer_read()), so wait now and then.
 */
#ifndef RINGLET_RINGLET_H
#define RINGLET_RINGLET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#error "Ringlet runs on Linux"
#endif
#define RINGLET_API __attribute__((visibility("default")))

#define RINGLET_VERSION_MAJOR 0
#define RINGLET_VERSION_MINOR 1
#define RINGLET_VERSION_PATCH 0

/* Every status: name, value, what it means. The names of ringlet_status come from this list
 * alone. */
#define RINGLET_STATUS_MAP(X)                                                                      \
    X(OK, 0, "success")                                                                            \
    X(INVALID_ARGUMENT, 1, "an argument is not valid")                                             \
    X(MISMATCH, 2, "the ranks disagree about the call")                                            \
    X(UNSUPPORTED, 3, "not supported by this build, machine or type")                              \
    X(NO_DEVICE, 4, "no such device")                                                              \
    X(OUT_OF_MEMORY, 5, "out of memory")                                                           \
    X(DEVICE_ERROR, 6, "a device reported an error")                                               \
    X(TIMEOUT, 7, "a deadline passed")                                                             \
    X(ABORTED, 8, "the communicator was aborted")                                                  \
    X(PARSE_ERROR, 9, "malformed input")                                                           \
    X(SYSTEM_ERROR, 10, "the operating system reported an error")

typedef enum ringlet_status {
#define RINGLET_STATUS_ENUM(name, value, text) RINGLET_##name = value,
    RINGLET_STATUS_MAP(RINGLET_STATUS_ENUM)
#undef RINGLET_STATUS_ENUM
} ringlet_status;

/* Every element type: name, value, bytes of an element, name in words. */
#define RINGLET_DTYPE_MAP(X)                                                                       \
    X(FLOAT32, 0, 4, "float32")                                                                    \
    X(FLOAT16, 1, 2, "float16")                                                                    \
    X(BFLOAT16, 2, 2, "bfloat16")                                                                  \
    X(FLOAT64, 3, 8, "float64")                                                                    \
    X(INT8, 4, 1, "int8")                                                                          \
    X(INT32, 5, 4, "int32")                                                                        \
    X(INT64, 6, 8, "int64")                                                                        \
    X(UINT8, 7, 1, "uint8")                                                                        \
    X(UINT32, 8, 4, "uint32")                                                                      \
    X(UINT64, 9, 8, "uint64")

typedef enum ringlet_dtype {
#define RINGLET_DTYPE_ENUM(name, value, bytes, text) RINGLET_##name = value,
    RINGLET_DTYPE_MAP(RINGLET_DTYPE_ENUM)
#undef RINGLET_DTYPE_ENUM
} ringlet_dtype;

/* Every operation: name, value, name in words. Integers wrap; of MIN and MAX a NaN wins; AVG is the
 * sum divided by the number of ranks, of integers the wrapped sum with the fraction dropped.
 * docs/numerics.md has the order, the rounding and the error bounds. */
#define RINGLET_OP_MAP(X)                                                                          \
    X(SUM, 0, "sum")                                                                               \
    X(PROD, 1, "prod")                                                                             \
    X(MIN, 2, "min")                                                                               \
    X(MAX, 3, "max")                                                                               \
    X(AVG, 4, "avg")

typedef enum ringlet_op {
#define RINGLET_OP_ENUM(name, value, text) RINGLET_##name = value,
    RINGLET_OP_MAP(RINGLET_OP_ENUM)
#undef RINGLET_OP_ENUM
} ringlet_op;

/* RING: reduce-scatter and all-gather round a ring, by copies between devices and adding kernels.
 * DIRECT: each rank collects its chunk from all peers, adds it at once in rank order and hands the
 * result out; every pair of devices must have peer access. (Broadcast has no such form: RING.)
 * HOST: the textbook way without peer-to-peer: copy to pinned host memory, add on the CPU, copy
 * back. HOST_PIPELINED: the same in slices, copying and adding at once: the best that can be done
 * that way. The two host forms are for comparison. AUTO: the library chooses. */
typedef enum ringlet_algorithm {
    RINGLET_ALGORITHM_AUTO = 0,
    RINGLET_ALGORITHM_RING = 1,
    RINGLET_ALGORITHM_HOST = 2,
    RINGLET_ALGORITHM_HOST_PIPELINED = 3,
    RINGLET_ALGORITHM_DIRECT = 4
} ringlet_algorithm;

/* AUTO: CUDA where the library was built with it and a device is there, else emulated. */
typedef enum ringlet_backend {
    RINGLET_BACKEND_AUTO = 0,
    RINGLET_BACKEND_CUDA = 1,
    RINGLET_BACKEND_EMULATED = 2
} ringlet_backend;

/* How emulated devices run. THREADS: a host thread a stream, really concurrent. SEEDED: one
 * operation at a time, chosen pseudo-randomly by `seed` among those that are ready (seed 0: the one
 * that starts first in modelled time), every access watched by a race checker; the same seed gives
 * the same run. */
typedef enum ringlet_scheduler {
    RINGLET_SCHEDULER_THREADS = 0,
    RINGLET_SCHEDULER_SEEDED = 1
} ringlet_scheduler;

typedef struct ringlet_comm ringlet_comm;
struct CUstream_st;
typedef struct CUstream_st *ringlet_stream;

/* Options of ringlet_comm_create(); ringlet_options_init() fills in the defaults given here. */
typedef struct ringlet_options {
    size_t struct_size;             /* set by ringlet_options_init(); leave it */
    ringlet_backend backend;        /* AUTO */
    ringlet_algorithm algorithm;    /* AUTO */
    ringlet_scheduler scheduler;    /* THREADS; emulated devices only */
    uint64_t seed;                  /* 0; emulated devices under SEEDED only */
    const char *machine;            /* NULL: a built-in machine; else the path of a topology file
                                       (what `nvidia-smi topo -m` prints); emulated devices only */
    const ringlet_comm *machine_of; /* NULL; else share that communicator's emulated devices, so
                                       that buffers and streams of one serve the other */
    uint32_t rings;                 /* 0: choose; else so many rings side by side, at most 64 */
    uint32_t slices; /* 0: choose; else each chunk is cut into at least so many; at most 4096 */
    uint64_t
        scratch_bytes;  /* 0: the smaller of 256 MiB and 1 % of the device, a rank; at least 256 */
    int64_t timeout_ms; /* 30000: limit of a host wait for peers; -1: no limit */
    int share_devices;  /* 0; else a device may be named by several ranks (for tests) */
    int disable_p2p;    /* 0; else every edge goes through pinned host memory */
} ringlet_options;

/* Sets every field to its default. options must not be NULL (then: RINGLET_INVALID_ARGUMENT). */
RINGLET_API ringlet_status ringlet_options_init(ringlet_options *options);

/* Version of the library that is loaded, as "MAJOR.MINOR.PATCH". Static storage. */
RINGLET_API const char *ringlet_version(void);

/* Name ("RINGLET_TIMEOUT") and meaning ("a deadline passed") of a status. Static storage; an
 * unknown value gives "RINGLET_UNKNOWN" and "unknown status". */
RINGLET_API const char *ringlet_status_name(ringlet_status status);
RINGLET_API const char *ringlet_status_text(ringlet_status status);

/* Name of a type ("float32") and bytes of one element; name of an operation ("sum"). Static
 * storage; for an unknown value the names are "unknown" and the size is 0. */
RINGLET_API const char *ringlet_dtype_name(ringlet_dtype dtype);
RINGLET_API uint32_t ringlet_dtype_size(ringlet_dtype dtype);
RINGLET_API const char *ringlet_op_name(ringlet_op op);

/* The calling thread's last failure in words, "" if there was none. Valid until that thread's next
 * call that fails. */
RINGLET_API const char *ringlet_error_message(void);

/* How many devices there are. EMULATED, and AUTO with a machine: those of the machine file, or with
 * machine NULL the most that the built-in machine can have. CUDA, and AUTO without a machine: those
 * visible to the process, 0 without a driver. Errors: INVALID_ARGUMENT (a machine for CUDA
 * devices), PARSE_ERROR and SYSTEM_ERROR (the file). */
RINGLET_API ringlet_status ringlet_device_count(ringlet_backend backend, const char *machine,
                                                int *count);

/*
 * Makes a communicator of `ranks` ranks (1 to 1024); rank r is device devices[r], or device r where
 * devices is NULL. options may be NULL for the defaults. Device memory that peers write to is taken
 * here, and so is pinned host memory where an edge or the algorithm asked for needs it (32 MiB a
 * rank). Enables peer access along the ring; an edge where it is missing or refused goes through
 * pinned host memory, with a warning on the log that names it. Peer access stays enabled
 * afterwards, since others in the process may have come to rely on it. AUTO without a CUDA device
 * warns, once, that devices are emulated. *out is set only on success. Destroy it with
 * ringlet_comm_destroy(). Errors: INVALID_ARGUMENT (no ranks, a device named twice without
 * share_devices, bad options), NO_DEVICE, OUT_OF_MEMORY, PARSE_ERROR and SYSTEM_ERROR (the machine
 * file), DEVICE_ERROR.
 */
RINGLET_API ringlet_status ringlet_comm_create(ringlet_comm **out, const int *devices, int ranks,
                                               const ringlet_options *options);

/*
 * Frees the communicator and sets *comm to NULL; NULL and a pointer to NULL are accepted, so
 * destroying twice is harmless. Waits up to the communicator's timeout for work that is still under
 * way; what is then still in use cannot be freed and is left, and RINGLET_TIMEOUT with a message
 * says what. Threads that are inside a call are made to leave it (ABORTED); none may begin one.
 */
RINGLET_API ringlet_status ringlet_comm_destroy(ringlet_comm **comm);

/* Makes every host wait inside the communicator return, and every later call fail, with
 * RINGLET_ABORTED (or the sticky error there was before). May be called from any thread. */
RINGLET_API ringlet_status ringlet_comm_abort(ringlet_comm *comm);

/* The communicator's sticky error, RINGLET_OK if there is none; its words go to
 * ringlet_error_message(). */
RINGLET_API ringlet_status ringlet_comm_error(const ringlet_comm *comm);

RINGLET_API ringlet_status ringlet_comm_size(const ringlet_comm *comm, int *ranks);
RINGLET_API ringlet_status ringlet_comm_device(const ringlet_comm *comm, int rank, int *device);

/* A rank's device. */
typedef struct ringlet_device_info {
    size_t struct_size;    /* set it to sizeof(ringlet_device_info) before the call */
    int device;            /* its number */
    char name[128];        /* "NVIDIA H200"; of an emulated one, its machine's */
    char pci[32];          /* "0000:3b:00.0"; "" if it has none */
    uint64_t memory_bytes; /* of the device in all */
} ringlet_device_info;
RINGLET_API ringlet_status ringlet_comm_device_query(const ringlet_comm *comm, int rank,
                                                     ringlet_device_info *info);

/* What a communicator is and holds. Strings are the communicator's. */
typedef struct ringlet_comm_info {
    size_t struct_size; /* set it to sizeof(ringlet_comm_info) before the call */
    int ranks;
    int emulated;           /* 1: emulated devices */
    int modelled_time;      /* 1: ringlet_clock_ns() is the clock of a model */
    const char *machine;    /* device name, or the name of the emulated machine */
    uint64_t scratch_bytes; /* device memory in use as scratch, a rank */
    uint64_t host_bytes;    /* pinned host memory in use, all ranks together */
    int staged_edges;       /* edges of the ring that go through pinned host memory */
    const char *algorithm;  /* of the last collective: "ring", "direct", ...; "" before the first */
    uint32_t rings, slices; /* of the last collective; slices of a chunk */
    const char *why;        /* it was chosen, in words; "" before the first */
} ringlet_comm_info;
RINGLET_API ringlet_status ringlet_comm_query(const ringlet_comm *comm, ringlet_comm_info *info);

/*
 * First way to call: one host thread a rank. Each thread calls with its own rank, buffers and
 * stream; the call returns when this rank's part is enqueued. A thread that called for two ranks in
 * turn would wait for itself: it gets RINGLET_TIMEOUT, and the message names the second way (the
 * _multi calls).
 *
 * send, recv  device memory of this rank's device. They must be the same (in place), or not
 *             overlap; ranks may differ in this.
 * count       elements; any number, 0 included. The same on every rank.
 * stream      a stream of this rank's device; NULL is the device's legacy default stream (also for
 *             programs built with --default-stream per-thread; those pass cudaStreamPerThread).
 * Ownership: buffers stay the caller's and must stay allocated until the stream has passed the
 * call.
 * Errors: INVALID_ARGUMENT, MISMATCH (count, type, operation or collective differ between ranks; no
 * data is touched), TIMEOUT (a peer did not enter), ABORTED, DEVICE_ERROR, OUT_OF_MEMORY.
 *
 * all-reduce:      recv[i] = sum over ranks of send[i], i < count.
 * reduce-scatter:  recv[i] = sum over ranks of send[rank * count + i], i < count; send holds
 *                  ranks * count elements. In place: recv = send + rank * count.
 * all-gather:      recv[r * count + i] = send of rank r [i], i < count; recv holds ranks * count
 *                  elements. In place: send = recv + rank * count.
 * broadcast:       recv[i] = send of rank `root` [i], i < count; send of other ranks is not looked
 *                  at. In place (at the root): recv = send.
 */
RINGLET_API ringlet_status ringlet_all_reduce(ringlet_comm *comm, int rank, const void *send,
                                              void *recv, uint64_t count, ringlet_dtype dtype,
                                              ringlet_op op, ringlet_stream stream);
RINGLET_API ringlet_status ringlet_reduce_scatter(ringlet_comm *comm, int rank, const void *send,
                                                  void *recv, uint64_t count, ringlet_dtype dtype,
                                                  ringlet_op op, ringlet_stream stream);
RINGLET_API ringlet_status ringlet_all_gather(ringlet_comm *comm, int rank, const void *send,
                                              void *recv, uint64_t count, ringlet_dtype dtype,
                                              ringlet_stream stream);

RINGLET_API ringlet_status ringlet_broadcast(ringlet_comm *comm, int rank, const void *send,
                                             void *recv, uint64_t count, ringlet_dtype dtype,
                                             int root, ringlet_stream stream);

/*
 * Second way to call: one thread drives all ranks. Arrays have one entry a rank. The library
 * enqueues with one OpenMP thread a rank; where it is given fewer (inside a parallel region of the
 * caller's, under a thread limit), the calling thread enqueues all ranks itself, step by step.
 * streams may be NULL for the default stream of every device. cudaStreamPerThread is refused: it
 * means another stream in each of those threads.
 */
RINGLET_API ringlet_status ringlet_all_reduce_multi(ringlet_comm *comm, const void *const *send,
                                                    void *const *recv, uint64_t count,
                                                    ringlet_dtype dtype, ringlet_op op,
                                                    const ringlet_stream *streams);
RINGLET_API ringlet_status ringlet_reduce_scatter_multi(ringlet_comm *comm, const void *const *send,
                                                        void *const *recv, uint64_t count,
                                                        ringlet_dtype dtype, ringlet_op op,
                                                        const ringlet_stream *streams);
RINGLET_API ringlet_status ringlet_all_gather_multi(ringlet_comm *comm, const void *const *send,
                                                    void *const *recv, uint64_t count,
                                                    ringlet_dtype dtype,
                                                    const ringlet_stream *streams);

RINGLET_API ringlet_status ringlet_broadcast_multi(ringlet_comm *comm, const void *const *send,
                                                   void *const *recv, uint64_t count,
                                                   ringlet_dtype dtype, int root,
                                                   const ringlet_stream *streams);

/*
 * Helpers that work on CUDA devices and on emulated ones, so that one program serves both.
 * ringlet_buffer_alloc: `bytes` of memory on the rank's device, 256-byte aligned; free it with
 * ringlet_buffer_free() (NULL is accepted). ringlet_buffer_write/read: copy from or to ordinary
 * host memory in the order of `stream`, and wait until done (up to the communicator's timeout).
 * Freeing a buffer waits for what the communicator has enqueued, also behind a failed call
 * (TIMEOUT: nothing freed); other work on it is the caller's to wait for, as is a stream's before
 * it is destroyed.
 */
RINGLET_API ringlet_status ringlet_buffer_alloc(ringlet_comm *comm, int rank, uint64_t bytes,
                                                void **out);
RINGLET_API ringlet_status ringlet_buffer_free(ringlet_comm *comm, int rank, void *buffer);
RINGLET_API ringlet_status ringlet_buffer_write(ringlet_comm *comm, int rank, void *buffer,
                                                const void *host, uint64_t bytes,
                                                ringlet_stream stream);
RINGLET_API ringlet_status ringlet_buffer_read(ringlet_comm *comm, int rank, void *host,
                                               const void *buffer, uint64_t bytes,
                                               ringlet_stream stream);

/* A stream on the rank's device, and its end. Destroying NULL is harmless. */
RINGLET_API ringlet_status ringlet_stream_create(ringlet_comm *comm, int rank, ringlet_stream *out);
RINGLET_API ringlet_status ringlet_stream_destroy(ringlet_comm *comm, int rank,
                                                  ringlet_stream stream);

/* Waits until the stream has done all it holds; timeout_ms < 0 waits without limit. TIMEOUT leaves
 * stream and communicator as they are. A device's error is sticky. On a communicator that has
 * failed it waits as well, then returns the sticky error. */
RINGLET_API ringlet_status ringlet_stream_wait(ringlet_comm *comm, int rank, ringlet_stream stream,
                                               int64_t timeout_ms);

/* Nanoseconds on a steady clock: real time, or for emulated devices under SEEDED the time of the
 * model, which stands where the last finished operation ended. */
RINGLET_API ringlet_status ringlet_clock_ns(ringlet_comm *comm, uint64_t *ns);

/* Warnings (a staged edge, say) go to this function; by default to standard error. NULL restores
 * the default. Process-wide. */
typedef void (*ringlet_log_fn)(void *context, const char *message);
RINGLET_API void ringlet_log_set(ringlet_log_fn log, void *context);

#ifdef __cplusplus
}
#endif
#endif
