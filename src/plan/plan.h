/*
 * The plan: a collective compiled to plain data. Who copies or reduces which element range on which
 * lane, and which earlier steps each step waits for.
 * Owns the plan's type and its making. Never holds an address, a stream or a device call;
 * everything in plan/ is a pure function of its arguments.
 *
 * Invariants (plan_check_*() proves them for a plan):
 *  - Steps are in one sequential order, in which the algorithm is right without any concurrency; a
 *    step waits only for earlier steps. So neither streams nor host programs can deadlock.
 *  - A lane belongs to one rank and runs its steps in the order given. `waits` of a step are steps
 *    on other lanes.
 *  - ENTER (first on a rank's MAIN lane) stands for all that came before the call: the caller's
 *    work and the call before; LEAVE (last on it) for all that comes after. Both count as writing
 *    every buffer of their rank. That is the entry and exit contract, and what makes any sequence
 *    of plans compose.
 *  - Two steps that touch overlapping memory, one of them writing, are ordered by lanes and waits;
 *    no wait can be left out.
 */
#ifndef RINGLET_PLAN_PLAN_H
#define RINGLET_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ringlet/ringlet.h"

enum plan_collective { PLAN_ALL_REDUCE, PLAN_REDUCE_SCATTER, PLAN_ALL_GATHER, PLAN_BROADCAST };
enum plan_algorithm { PLAN_RING, PLAN_HOST_STAGED, PLAN_HOST_PIPELINED, PLAN_DIRECT };
const char *plan_collective_name(enum plan_collective collective); /* "all-reduce" */
const char *
plan_algorithm_name(enum plan_algorithm algorithm); /* "ring", "host", "host-pipelined", "direct" */

enum plan_buffer { PLAN_SEND, PLAN_RECV, PLAN_SCRATCH, PLAN_HOST };
enum { PLAN_BUFFERS = 4 };
const char *plan_buffer_name(uint32_t buffer); /* "SCRATCH"; "?" for an unknown one */

struct plan_ref {    /* a place in a named buffer */
    uint64_t offset; /* elements */
    uint32_t rank;
    uint32_t buffer; /* enum plan_buffer */
};

enum plan_op {
    PLAN_ENTER,  /* stands for what came before; see above */
    PLAN_COPY,   /* dst = a */
    PLAN_REDUCE, /* dst = a op b; on the CPU where dst is in PLAN_HOST */
    PLAN_LEAVE
};

enum plan_lane_kind {
    PLAN_MAIN, /* the caller's stream */
    PLAN_OUT,  /* copies to the right neighbour */
    PLAN_IN,   /* copies out of pinned host memory, behind a staged edge */
    PLAN_ADD   /* reductions, where several rings would queue behind each other on MAIN */
};

struct plan_lane {
    uint32_t rank;
    uint16_t kind; /* enum plan_lane_kind */
    uint16_t ring;
};

enum plan_phase {
    PLAN_PHASE_NONE,
    PLAN_PHASE_REDUCE_SCATTER,
    PLAN_PHASE_ALL_GATHER,
    PLAN_PHASE_HOST
};

#define PLAN_NONE UINT32_MAX

/* Of a REDUCE, for operations that scale (average). FIRST: every operand is a rank's contribution
 * as the caller gave it; else the first one is a partial result and only the others are. LAST: the
 * result is complete. */
enum plan_flag { PLAN_FIRST = 1, PLAN_LAST = 2 };
enum { PLAN_OPERANDS_MAX = 64 };

struct plan_step {
    struct plan_ref dst, a, b; /* b: REDUCE only, whose further operands are more[more_first ...] */
    uint64_t count;            /* elements; 0 for ENTER and LEAVE, never 0 else */
    uint32_t lane;
    uint32_t wait_first, wait_count; /* waits[wait_first ...] */
    uint32_t event;        /* index among the rank's events, PLAN_NONE where nobody waits for it */
    uint32_t position;     /* index in the rank's program */
    uint32_t chunk, slice; /* what it moves, for people */
    uint32_t more_first;
    uint16_t more_count;
    uint16_t flags; /* enum plan_flag */
    uint16_t turn;  /* ring step, 0 to 2(n-1)-1 */
    uint8_t op;     /* enum plan_op */
    uint8_t phase;  /* enum plan_phase */
};

/* Everything a plan depends on, and so its key in a cache. Arrays are the caller's for
 * plan_build(), the plan's own in plan.spec. */
struct plan_spec {
    enum plan_collective collective;
    enum plan_algorithm algorithm;
    uint32_t ranks; /* 1 to PLAN_RANKS_MAX */
    uint32_t root;  /* broadcast: whose SEND goes to every RECV */
    uint64_t count; /* elements: of the whole (all-reduce, broadcast), of one rank's part (the
                       halves) */
    uint32_t element_bytes;
    uint32_t rings;          /* 1 to PLAN_RINGS_MAX; ring q carries the q-th part of everything */
    uint32_t slices;         /* a chunk is cut into at least so many, where it has the elements */
    uint32_t granule;        /* chunks and slices are cut at multiples of so many elements */
    uint64_t scratch_count;  /* elements of SCRATCH a rank may use */
    uint64_t host_count;     /* elements of HOST a rank may use */
    const uint8_t *in_place; /* [ranks] 1: in place; NULL: none */
    const uint32_t *order;   /* [rings * ranks] rank at each place of each ring; NULL: 0, 1, ... */
    const uint8_t *staged;   /* [rings * ranks] 1: the edge from that position to the next goes
                                through HOST of the sending rank; NULL: none */
};
enum { PLAN_RANKS_MAX = 32768, PLAN_RINGS_MAX = 64 };

struct plan {
    struct plan_spec spec;
    struct plan_lane *lanes;
    struct plan_step *steps;
    uint32_t *waits;
    struct plan_ref *more;
    uint32_t lane_count, step_count, wait_count, more_count;
    uint32_t *program;                /* step ids, rank after rank, each in sequential order */
    uint32_t *program_first;          /* [ranks + 1] into program */
    uint32_t *event_count;            /* [ranks] */
    uint64_t scratch_used, host_used; /* elements a rank, the most of any */
    uint32_t slices;                  /* of the largest chunk, as built */
    bool exact_waits; /* no wait can be left out; false only beyond PLAN_EXACT_RANKS_MAX */
};
/* Beyond so many ranks (modelled machines only) waits are still sufficient, but some may be implied
 * by others: telling them costs memory that grows with steps times lanes. */
enum { PLAN_EXACT_RANKS_MAX = 64 };

/* Operands of a step: 1 for COPY, at least 2 for REDUCE, else 0. */
static inline uint32_t plan_operands(const struct plan_step *step) {
    return step->op == PLAN_COPY ? 1 : step->op == PLAN_REDUCE ? 2u + step->more_count : 0;
}

static inline struct plan_ref plan_operand(const struct plan *plan, const struct plan_step *step,
                                           uint32_t i) {
    return i == 0 ? step->a : i == 1 ? step->b : plan->more[step->more_first + i - 2];
}

/*
 * Compiles a plan; *out is set only on success and freed with plan_free(). INVALID_ARGUMENT for a
 * spec out of range, sizes that overflow, an order that is no permutation, or scratch too small for
 * one slice (the message says how much is needed); OUT_OF_MEMORY.
 */
ringlet_status plan_build(struct plan **out, const struct plan_spec *spec);
void plan_free(struct plan *plan);

/* Whether two specs make the same plan; a deep copy (false when out of memory, *to then empty), and
 * the end of one. */
bool plan_spec_copy(struct plan_spec *to, const struct plan_spec *from);
void plan_spec_free(struct plan_spec *spec);
bool plan_spec_equal(const struct plan_spec *a, const struct plan_spec *b);

/* Elements that a rank's buffer holds under the contract (SEND, RECV), or that the plan uses
 * (SCRATCH, HOST). */
uint64_t plan_buffer_count(const struct plan *plan, enum plan_buffer buffer);

/* Where a reference lies in memory: in place, SEND and RECV of a rank are one buffer. The result
 * names the larger of the two (SEND for all-reduce and reduce-scatter, RECV for all-gather), so
 * that two references touch the same memory exactly if their ranges at plan_locate() overlap. */
struct plan_ref plan_locate(const struct plan_spec *spec, struct plan_ref ref);

/* A deep copy, for changing one (tests). */
ringlet_status plan_clone(struct plan **out, const struct plan *plan);

/*
 * Proofs. What a plan is found guilty of goes to *fault with words; RINGLET_OK means proved.
 * PARSE_ERROR: the plan is wrong. OUT_OF_MEMORY.
 */
struct plan_fault {
    uint32_t step, other; /* PLAN_NONE where none */
    char text[240];
};

/* Contributors: runs the plan on sets of ranks. Every element read was written before; nothing is
 * added twice; at the end every element of RECV is the right element with the right contributors,
 * and SEND of a rank that is not in place is unchanged. References are within their buffers. */
ringlet_status plan_check_result(const struct plan *plan, struct plan_fault *fault);

/* Ordering: every two steps that conflict are ordered by lanes and waits. ignore_wait: index of one
 * wait to treat as absent, PLAN_NONE for none. */
ringlet_status plan_check_order(const struct plan *plan, uint32_t ignore_wait,
                                struct plan_fault *fault);

/* Structure: waits name earlier steps on other lanes that have an event; programs, positions, lanes
 * and events are consistent; a rank's program holds exactly its lanes' steps in sequential
 * order. */
ringlet_status plan_check_structure(const struct plan *plan, struct plan_fault *fault);

/* Cost: time of the plan on a modelled machine, rank r being GPU r. No data is moved. */
struct topology;
struct plan_cost {
    double total_ns;     /* until the last LEAVE */
    double link_busy_ns; /* of the busiest link resource */
    uint64_t link_bytes; /* moved between devices in all */
};
/* start_ns and end_ns: [step_count], or NULL. INVALID_ARGUMENT when the machine has fewer GPUs than
 * the plan has ranks. */
ringlet_status plan_cost(const struct plan *plan, const struct topology *machine,
                         struct plan_cost *out, double *start_ns, double *end_ns);

/* Prints a plan for people, a line a step: number, rank, lane, what it does, what it waits for.
 * Only the steps of one rank unless rank is PLAN_NONE. */

void plan_print(const struct plan *plan, FILE *to, uint32_t rank);
/* One step in a few words ("rank 1 out: copy chunk 0 slice 2, SEND[0..8) to rank 2
 * SCRATCH[0..8)"). */
void plan_step_text(const struct plan *plan, uint32_t step, char *buffer, size_t size);

#endif
