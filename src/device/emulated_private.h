/*
 * What the files of the emulated devices share: the system, its memory, queues, operations and
 * tickets. Owns the types and says who guards what. Never seen outside src/device/emulated*.c.
 *
 * SEEDED: emulated_lock() is one mutex around every call, so all state is guarded by it.
 *
 * THREADS: the thread sanitizer judges the order of two workers' memory accesses, so nothing may
 * order two workers but tickets (events) and their own queues. Therefore
 *  - a worker takes no mutex. It gets operations from a list that host threads push to with release
 * and it reads with acquire, sleeps on a futex, and tells how far it is in `done`;
 *  - `done` is read with acquire only when the queue is found idle, which the caller is then told;
 *  - a worker allocates and frees nothing: finished operations are reclaimed by host threads;
 *  - the table of allocations has a read-write lock, which orders readers among themselves in
 * nothing; pins on an allocation are dropped with release and acquired by the thread that frees it
 * alone. Tickets and queues are reference-counted by host threads.
 */
#ifndef RINGLET_DEVICE_EMULATED_PRIVATE_H
#define RINGLET_DEVICE_EMULATED_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/history.h"
#include "device/emulated.h"

enum {
    EMULATED_ALIGNMENT = 256,
    EMULATED_FILL_MAX = 1 << 20, /* larger memory is not filled on allocation: it must stay cheap */
    EMULATED_BACKLOG_MAX = 1 << 12, /* finished operations kept before a push reclaims them */
    EMULATED_TEXT_MAX = 512,
    EMULATED_FRESH = 0xff, /* fresh memory: not-a-number as a float */
    EMULATED_FREED = 0xdb,
    EMULATED_OUTSIDE = -2 /* a place: ordinary host memory, not the system's */
};
#define EMULATED_MEMORY_BYTES ((uint64_t)64 << 30) /* of each device */
#define EMULATED_NO_ACTOR UINT32_MAX

struct emulated_allocation {
    char *base;
    uint64_t bytes;
    int place;
    void *block;            /* what was allocated, base lies within */
    atomic_uint pins;       /* operations that use it at this moment (THREADS) */
    struct history history; /* SEEDED */
};

/* What an actor knew at some moment: operation at[a] of actor a and all before it. Never changes.
 */
struct emulated_clock {
    uint32_t references;
    uint32_t count;
    uint64_t at[];
};

/* One record of an event, or a gate: done once, waited for by any number of queues. */
struct emulated_ticket {
    atomic_uint references;
    atomic_uint done;             /* a futex */
    bool failed;                  /* the queue had failed; written before done */
    struct emulated_queue *queue; /* that records it, a reference; NULL for a gate */
    struct emulated_ticket *next; /* gates only: the system's list of closed ones */
    double end_ns;                /* SEEDED */
    struct emulated_clock *clock; /* SEEDED; NULL: nothing is known */
};

enum emulated_kind {
    EMULATED_RECORD,
    EMULATED_WAIT,
    EMULATED_GATE,
    EMULATED_COPY,
    EMULATED_REDUCE,
    EMULATED_TRANSFER,
    EMULATED_STOP /* the worker's last */
};

struct emulated_operation {
    _Atomic(struct emulated_operation *) next;
    enum emulated_kind kind;
    struct device_tag tag;
    int dst_place, src_place;
    char *dst;
    const char *src;           /* not of reductions */
    const void *const *inputs; /* of reductions; in the operation's own memory once it is pushed */
    uint32_t input_count;
    struct device_reduction how;
    uint64_t bytes; /* of one range */
    struct emulated_ticket
        *ticket; /* a reference: record: to be done; wait, gate: to be waited for */
    struct emulated_clock *issued; /* what the host knew, a reference; SEEDED */
    double issued_ns;              /* SEEDED: does not start before */
};

struct emulated_queue {
    struct emulated *system;
    int device;
    uint32_t number; /* order of creation; the default streams come first */
    bool is_default;
    bool destroyed;
    atomic_uint references;

    pthread_mutex_t push;                  /* among host threads: tail, oldest, reclaimed */
    struct emulated_operation dummy, stop; /* dummy: stands before the first */
    struct emulated_operation *head;       /* the worker's: the one done last */
    struct emulated_operation *tail, *oldest;
    uint64_t reclaimed;
    atomic_uint_fast64_t issued, done;

    atomic_uint pushed; /* a futex: the worker sleeps on it */
    atomic_bool finished;
    bool has_worker;
    pthread_t worker;

    atomic_int failure; /* 0, 1 while the words are written, 2 */
    ringlet_status status;
    char text[EMULATED_TEXT_MAX];

    /* SEEDED */
    double end_ns;
    uint32_t actor; /* EMULATED_NO_ACTOR before the first data */
    bool learned;   /* knows something that the host did not when it last saw the queue idle */
    struct emulated_clock *joined; /* what was issued with the operation before, a reference */
};

struct device_event { /* the emulated backend's */
    pthread_mutex_t lock;
    int device;
    struct emulated_ticket *latest; /* a reference, NULL: never recorded */
    struct device_event *before, *after;
};

/* An actor of the vector clocks: a queue, or queues one after another. */
struct emulated_actor {
    bool used;
    uint32_t count;
    uint64_t *at;
};

struct emulated_record { /* an operation that some history still names */
    struct device_tag tag;
    uint64_t n; /* the actor's operation number */
    uint32_t actor, queue_number;
    int device;
    uint8_t kind;
    bool is_default, used, marked;
};

struct emulated_race {
    struct emulated_actor *actors;
    uint32_t actor_count, actor_capacity;
    struct emulated_record *records;
    uint32_t record_count, record_next; /* used up to record_next, then collected */
    struct emulated_clock *host;        /* what host threads have seen idle */
    uint64_t found;
    bool blind; /* was out of memory: what orders what is no longer known, nothing is reported */
    char text[EMULATED_TEXT_MAX];
};

/* How the choice goes for a while: evenly random choices alone never let one rank run far ahead. */
struct emulated_mood {
    uint32_t left;   /* choices until the next mood */
    uint32_t burst;  /* operations run in one turn, at most */
    bool sticky;     /* the same host program goes on */
    int slow_device; /* is chosen when nothing else is ready; -1: none */
};

struct emulated {
    struct device_system base;
    atomic_uint references;
    struct topology machine; /* its own; p2p of a link: peer access is enabled */
    ringlet_scheduler scheduler;
    uint64_t seed;
    bool keep_going;

    pthread_mutex_t lock;                     /* SEEDED: around every call */
    pthread_rwlock_t table;                   /* allocations, queues, events, gates, peers */
    struct emulated_allocation **allocations; /* sorted by base */
    uint32_t allocation_count, allocation_capacity;
    uint64_t *used_bytes;             /* [gpus] */
    struct emulated_queue **defaults; /* [gpus] */
    struct emulated_queue **queues;   /* streams, also destroyed ones that still have work */
    uint32_t queue_count, queue_capacity;
    uint32_t next_number;
    struct device_event *events;
    struct emulated_ticket *gates;
    int64_t live;
    uint8_t *peer_answer; /* [gpus * gpus] enum device_peer + 1; 0: as the machine has it */
    bool *peer_possible;  /* [gpus * gpus] as the machine has it */

    atomic_bool stopping;
    atomic_uint_fast64_t operations;
    atomic_uint_fast64_t turns;
    atomic_uint_fast64_t fail_countdown;
    atomic_int fail_status;

    /* SEEDED */
    struct emulated_queue **busy; /* have work; sorted by device, then number */
    uint32_t busy_count, busy_capacity;
    uint64_t random;
    struct emulated_mood mood;
    uint32_t last_turn;
    double *free_ns; /* [resources] */
    double now_ns;
    double host_ns; /* the latest end that host threads know of, having seen a queue idle */
    uint64_t digest;
    struct emulated_race race;
};

static inline bool emulated_seeded(const struct emulated *e) {
    return e->scheduler == RINGLET_SCHEDULER_SEEDED;
}

/* emulated.c */
struct emulated *emulated_of(struct device_system *system);
void emulated_lock(struct emulated *e);
void emulated_unlock(struct emulated *e);
/* A planted fault, if this call is the one. */
ringlet_status emulated_fault(struct emulated *e, const char *call);
ringlet_status emulated_check_device(const struct emulated *e, int device);
/* "device 1" or "host memory". */
const char *emulated_place_text(int place, char buffer[32]);

/* emulated_memory.c */
ringlet_status emulated_memory_alloc(struct device_system *, int device, uint64_t bytes,
                                     void **out);
ringlet_status emulated_memory_free(struct device_system *, int device, void *memory);
ringlet_status emulated_host_alloc(struct device_system *, uint64_t bytes, void **out);
ringlet_status emulated_host_free(struct device_system *, void *memory);
void emulated_inspect(struct device_system *, const void *pointer, struct device_pointer *out);
/* The allocation that holds the pointer, or NULL; the table's lock is held. */
struct emulated_allocation *emulated_allocation_find(const struct emulated *e, const void *pointer);
void emulated_memory_close(struct emulated *e);

/* One range that an operation reads or writes. */
struct emulated_access {
    const char *what; /* "destination" */
    int place;
    const char *pointer;
    uint64_t bytes;
    bool write;
    struct emulated_allocation *in; /* set by pinning; NULL: not the system's memory */
};
/* Finds and pins the memory of all accesses, or none and writes to `text` what is wrong. */
bool emulated_pin(struct emulated *e, struct emulated_access *accesses, uint32_t count,
                  char text[EMULATED_TEXT_MAX]);
void emulated_unpin(struct emulated_access *accesses, uint32_t count);

/* emulated_queue.c */
ringlet_status emulated_stream_create(struct device_system *, int device, ringlet_stream *out);
ringlet_status emulated_stream_destroy(struct device_system *, int device, ringlet_stream stream);
enum device_stream_state emulated_stream_check(struct device_system *, struct device_queue at);
bool emulated_queue_open(struct emulated *e); /* the default streams */
void emulated_queue_close(struct emulated *e);
/* A reference to the queue of a stream, or NULL with the thread's message set. */
struct emulated_queue *emulated_queue_find(struct emulated *e, struct device_queue at);
void emulated_queue_release(struct emulated_queue *q);
/* The queue fails, for good, unless it has failed already. */
void emulated_queue_fail(struct emulated_queue *q, ringlet_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool emulated_queue_failed(struct emulated_queue *q);
/* Its status with its words as the thread's message; OK if it has not failed. */
ringlet_status emulated_queue_status(struct emulated_queue *q);
/* "device 0 stream 7" or "device 0 default stream". */
const char *emulated_queue_text(int device, uint32_t number, bool is_default, char buffer[48]);
/* Puts a copy of the operation at the end, with a reference to its ticket. */
ringlet_status emulated_queue_push(struct emulated_queue *q,
                                   const struct emulated_operation *model);
/* The next operation, NULL if there is none; only the one that runs the queue may ask. */
struct emulated_operation *emulated_queue_next(struct emulated_queue *q);
/* Frees operations that are done; the caller has acquired `done` and holds the push lock. */
void emulated_queue_reclaim(struct emulated_queue *q, uint64_t done);
/* Forgets destroyed streams whose work is done. */
void emulated_queue_reap(struct emulated *e);

/* emulated_event.c */
ringlet_status emulated_event_create(struct device_system *, int device, struct device_event **out);
ringlet_status emulated_event_destroy(struct device_system *, int device,
                                      struct device_event *event);
/* The event's latest record from now on, or NULL; with a reference. */
void emulated_event_set(struct device_event *event, struct emulated_ticket *ticket);
struct emulated_ticket *emulated_event_latest(struct device_event *event);
struct emulated_ticket *emulated_ticket_new(struct emulated_queue *q);
struct emulated_ticket *emulated_ticket_retain(struct emulated_ticket *ticket);
void emulated_ticket_release(struct emulated_ticket *ticket);
bool emulated_ticket_done(struct emulated_ticket *ticket);
/* The ticket is done, in the state that its queue is in. */
void emulated_ticket_finish(struct emulated_ticket *ticket);
void emulated_open_gates(struct emulated *e);
void emulated_event_close(struct emulated *e);

/* emulated_operation.c: the calls that enqueue, and what operations do */
ringlet_status emulated_record(struct device_system *, struct device_queue, struct device_event *);
ringlet_status emulated_wait(struct device_system *, struct device_queue, struct device_event *);
ringlet_status emulated_copy(struct device_system *, struct device_queue, int dst_place, void *dst,
                             int src_place, const void *src, uint64_t bytes, struct device_tag);
ringlet_status emulated_reduce(struct device_system *, struct device_queue, int place, void *dst,
                               const void *const *inputs, uint32_t input_count, uint64_t count,
                               const struct device_reduction *how, struct device_tag);
ringlet_status emulated_transfer(struct device_system *, struct device_queue, void *dst,
                                 const void *src, uint64_t bytes, bool to_device);
const char *emulated_kind_text(enum emulated_kind kind);
static inline bool emulated_moves_data(enum emulated_kind kind) {
    return kind == EMULATED_COPY || kind == EMULATED_REDUCE || kind == EMULATED_TRANSFER;
}
/* Moves an operation's data; false when the queue failed over it. */
bool emulated_execute(struct emulated_queue *q, const struct emulated_operation *op);
/* A wait whose ticket is done: the queue fails with the one that recorded it. */
void emulated_inherit_failure(struct emulated_queue *q, struct emulated_ticket *ticket);

/* emulated_threads.c */
bool emulated_threads_start(struct emulated_queue *q); /* a worker */
void emulated_threads_wake(struct emulated_queue *q);
void emulated_threads_stop(struct emulated_queue *q); /* asks; does not wait */
void emulated_threads_join(struct emulated_queue *q);
void emulated_threads_await(struct emulated_ticket *ticket);
void emulated_threads_wake_waiters(struct emulated_ticket *ticket);
ringlet_status emulated_threads_poll(struct emulated_queue *q, bool *idle);

/* emulated_seeded.c */
bool emulated_seeded_open(struct emulated *e);
void emulated_seeded_close(struct emulated *e);
bool emulated_seeded_busy(
    struct emulated_queue *q); /* the queue got its first work; false: no memory */
ringlet_status emulated_seeded_poll(struct emulated_queue *q, bool *idle);
ringlet_status emulated_seeded_drain(struct emulated_queue *q);
uint32_t emulated_seeded_turn(struct emulated *e, uint32_t candidates);

/* emulated_race.c: all under the lock; false and the rest of the results: out of memory */
bool emulated_race_join(struct emulated_queue *q, const struct emulated_clock *clock);
struct emulated_clock *emulated_race_snapshot(const struct emulated_queue *q);
bool emulated_race_saw_idle(struct emulated_queue *q); /* a host thread did */
struct emulated_clock *emulated_clock_retain(struct emulated_clock *clock);
void emulated_clock_release(struct emulated_clock *clock);
/* There was no memory to go on watching: the queue fails, and no race is reported any more. */
void emulated_race_blind(struct emulated_queue *q);
/* Records the accesses of the queue's present operation; the queue fails over a race unless the
 * system keeps going. */
void emulated_race_access(struct emulated_queue *q, const struct emulated_operation *op,
                          const struct emulated_access *accesses, uint32_t count);
/* The allocation is about to be freed by a host thread: DEVICE_ERROR over a race. */
ringlet_status emulated_race_free(struct emulated *e, struct emulated_allocation *allocation);
void emulated_race_leave(struct emulated_queue *q); /* the queue ends: its actor can be another's */
void emulated_race_close(struct emulated *e);

#endif
