/*
 * The proof of the result: the plan run in its sequential order on sets of contributors, not on
 * numbers. Owns the symbolic memory of that run. Never looks at lanes or waits: check_order.c
 * proves that every order they allow is equivalent to this one.
 *
 * A value is which element of the collective it is (its logical index) and whose contributions it
 * holds. Logical indices: all-reduce and reduce-scatter: element i of SEND is i. All-gather:
 * element i of SEND of rank r is r * count + i. A buffer is a sorted list of intervals whose
 * elements count on from the first's index and share one set and state. Sets are kept once and
 * counted. The state tells what an average must know: whether a value is as the caller gave it, a
 * partial result, or complete.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "plan/check.h"

#define UNDEFINED UINT32_MAX /* the set of memory that nothing has written */

enum state { GIVEN, PARTIAL, COMPLETE };
static const char *const state_names[] = {"a contribution", "a partial result",
                                          "a complete result"};

struct piece { /* ends where the next begins, or with its list */
    uint64_t begin;
    uint64_t logical; /* index of the first element */
    uint32_t set;
    enum state state;
};

struct list {
    struct piece *pieces;
    uint32_t count, capacity;
};

struct sets {
    uint64_t *words;      /* a row of row_words a set */
    uint32_t *references; /* of each set; for a free one, the next free one */
    uint32_t row_words, capacity, first_free;
};

struct run {
    struct check check;
    struct sets sets;
    struct list *memory;          /* [ranks * PLAN_BUFFERS] */
    struct list left, right, sum; /* operands and result of one step, beginning at 0 */
};

/* Sets. */

static uint64_t *set_words(const struct sets *sets, uint32_t set) {
    return sets->words + (size_t)set * sets->row_words;
}

static void set_retain(struct sets *sets, uint32_t set) {
    if (set != UNDEFINED)
        sets->references[set]++;
}

static void set_release(struct sets *sets, uint32_t set) {
    if (set == UNDEFINED || --sets->references[set] > 0)
        return;
    sets->references[set] = sets->first_free;
    sets->first_free = set;
}

/* An empty set, held once; UNDEFINED when out of memory. */
static uint32_t set_new(struct sets *sets) {
    if (sets->first_free == UNDEFINED) {
        uint32_t grown = sets->capacity ? 2 * sets->capacity : 64;
        if (!memory_resize(&sets->words, (size_t)grown * sets->row_words, sizeof *sets->words) ||
            !memory_resize(&sets->references, grown, sizeof *sets->references))
            return UNDEFINED;
        for (uint32_t set = sets->capacity; set < grown; set++)
            sets->references[set] = set + 1 < grown ? set + 1 : UNDEFINED;
        sets->first_free = sets->capacity;
        sets->capacity = grown;
    }
    uint32_t set = sets->first_free;
    sets->first_free = sets->references[set];
    sets->references[set] = 1;
    memset(set_words(sets, set), 0, sets->row_words * sizeof *sets->words);
    return set;
}

static bool set_holds(const struct sets *sets, uint32_t set, uint32_t rank) {
    return set_words(sets, set)[rank / 64] >> (rank % 64) & 1;
}

static void set_add(struct sets *sets, uint32_t set, uint32_t rank) {
    set_words(sets, set)[rank / 64] |= UINT64_C(1) << (rank % 64);
}

/* The first rank that both sets hold, PLAN_NONE if there is none. */
static uint32_t set_common(const struct sets *sets, uint32_t a, uint32_t b) {
    for (uint32_t word = 0; word < sets->row_words; word++) {
        uint64_t common = set_words(sets, a)[word] & set_words(sets, b)[word];
        if (common)
            return 64 * word + (uint32_t)__builtin_ctzll(common);
    }
    return PLAN_NONE;
}

static uint32_t set_union(struct sets *sets, uint32_t a, uint32_t b) {
    uint32_t set = set_new(sets);
    if (set != UNDEFINED)
        for (uint32_t word = 0; word < sets->row_words; word++)
            set_words(sets, set)[word] = set_words(sets, a)[word] | set_words(sets, b)[word];
    return set;
}

/* Lists. */

static bool list_reserve(struct list *list, uint64_t count) {
    uint64_t capacity = list->capacity ? list->capacity : 4;
    while (capacity < count)
        capacity *= 2;
    if (capacity > UINT32_MAX)
        return false;
    if (capacity == list->capacity)
        return true;
    if (!memory_resize(&list->pieces, capacity, sizeof *list->pieces))
        return false;
    list->capacity = (uint32_t)capacity;
    return true;
}

static void list_clear(struct sets *sets, struct list *list) {
    for (uint32_t i = 0; i < list->count; i++)
        set_release(sets, list->pieces[i].set);
    list->count = 0;
}

/* Appends a piece and takes over the hold on its set, or joins it with the last one. */
static bool list_append(struct sets *sets, struct list *list, struct piece piece) {
    if (list->count > 0) {
        const struct piece *last = &list->pieces[list->count - 1];
        if (last->set == piece.set && last->state == piece.state &&
            last->logical + (piece.begin - last->begin) == piece.logical) {
            set_release(sets, piece.set);
            return true;
        }
    }
    if (!list_reserve(list, (uint64_t)list->count + 1)) {
        set_release(sets, piece.set);
        return false;
    }
    list->pieces[list->count++] = piece;
    return true;
}

/* Index of the piece that holds element `at`; the list is not empty and begins at 0. */
static uint32_t list_find(const struct list *list, uint64_t at) {
    uint32_t low = 0, high = list->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (list->pieces[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct piece piece_from(struct piece piece, uint64_t begin) {
    if (piece.begin < begin) {
        piece.logical += begin - piece.begin;
        piece.begin = begin;
    }
    return piece;
}

/* Copies [begin, begin + count) of `from` into `to`, where it begins at 0. */
static bool list_read(struct sets *sets, const struct list *from, uint64_t begin, uint64_t count,
                      struct list *to) {
    list_clear(sets, to);
    for (uint32_t i = list_find(from, begin);
         i < from->count && from->pieces[i].begin < begin + count; i++) {
        struct piece piece = piece_from(from->pieces[i], begin);
        piece.begin -= begin;
        set_retain(sets, piece.set);
        if (!list_append(sets, to, piece))
            return false;
    }
    return true;
}

/* Puts `value` in place of [begin, begin + count) of `list`, whose last element is before `total`.
 */
static bool list_write(struct sets *sets, struct list *list, uint64_t total, uint64_t begin,
                       uint64_t count, const struct list *value) {
    uint64_t end = begin + count;
    uint32_t first = list_find(list, begin), last = list_find(list, end - 1);
    bool head = list->pieces[first].begin < begin;
    bool tail = end < (last + 1 < list->count ? list->pieces[last + 1].begin : total);
    struct piece rest = piece_from(list->pieces[last], end);
    uint32_t from =
        first + head; /* the first that goes; the last one goes too, `rest` comes back */
    uint64_t grown = (uint64_t)from + value->count + tail + (list->count - last - 1);
    if (!list_reserve(list, grown > list->count ? grown : list->count))
        return false;
    if (tail)
        set_retain(sets, rest.set);
    for (uint32_t i = from; i <= last; i++)
        set_release(sets, list->pieces[i].set);
    memmove(&list->pieces[from + value->count + tail], &list->pieces[last + 1],
            (list->count - last - 1) * sizeof *list->pieces);
    for (uint32_t i = 0; i < value->count; i++) {
        struct piece piece = value->pieces[i];
        piece.begin += begin;
        set_retain(sets, piece.set);
        list->pieces[from + i] = piece;
    }
    if (tail)
        list->pieces[from + value->count] = rest;
    list->count = (uint32_t)grown;
    return true;
}

/* The run. */

static struct list *memory_of(const struct run *run, uint32_t rank, uint32_t buffer) {
    return &run->memory[(size_t)rank * PLAN_BUFFERS + buffer];
}

static bool is_in_place(const struct plan_spec *spec, uint32_t rank) {
    return spec->in_place && spec->in_place[rank];
}

/* Everything undefined, then SEND with its own rank's contribution. */
static ringlet_status start(struct run *run) {
    const struct plan_spec *spec = &run->check.plan->spec;
    for (uint32_t rank = 0; rank < spec->ranks; rank++) {
        for (uint32_t buffer = 0; buffer < PLAN_BUFFERS; buffer++) {
            struct piece nothing = {0, 0, UNDEFINED, GIVEN};
            if (!list_append(&run->sets, memory_of(run, rank, buffer), nothing))
                return check_out_of_memory();
        }
        uint64_t count = run->check.total[PLAN_SEND];
        struct plan_ref place = plan_locate(spec, (struct plan_ref){0, rank, PLAN_SEND});
        struct piece own = {0, spec->collective == PLAN_ALL_GATHER ? rank * spec->count : 0,
                            set_new(&run->sets), GIVEN};
        if (own.set == UNDEFINED)
            return check_out_of_memory();
        set_add(&run->sets, own.set, rank);
        list_clear(&run->sets, &run->left);
        if (!list_append(&run->sets, &run->left, own) ||
            (count > 0 &&
             !list_write(&run->sets, memory_of(run, rank, place.buffer),
                         run->check.total[place.buffer], place.offset, count, &run->left)))
            return check_out_of_memory();
    }
    return RINGLET_OK;
}

static ringlet_status read_operand(struct run *run, uint32_t id, struct plan_ref ref,
                                   struct list *to) {
    const struct plan *plan = run->check.plan;
    struct plan_ref place = plan_locate(&plan->spec, ref);
    if (!list_read(&run->sets, memory_of(run, place.rank, place.buffer), place.offset,
                   plan->steps[id].count, to))
        return check_out_of_memory();
    for (uint32_t i = 0; i < to->count; i++)
        if (to->pieces[i].set == UNDEFINED)
            return check_fail(&run->check, id, PLAN_NONE,
                              "reads %s of rank %" PRIu32 " [%" PRIu64 "], which nothing wrote",
                              plan_buffer_name(ref.buffer), ref.rank,
                              ref.offset + to->pieces[i].begin);
    return RINGLET_OK;
}

/* The operand of a step must be in the state that the step takes it for. */
static ringlet_status check_state(struct run *run, uint32_t id, uint32_t operand,
                                  const struct list *list) {
    bool first = run->check.plan->steps[id].flags & PLAN_FIRST;
    enum state wanted = operand == 0 && !first ? PARTIAL : GIVEN;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->pieces[i].state != wanted)
            return check_fail(&run->check, id, PLAN_NONE,
                              "takes operand %" PRIu32 " for %s, but it is %s", operand,
                              state_names[wanted], state_names[list->pieces[i].state]);
    return RINGLET_OK;
}

/* Appends a + b from element `begin` on, where each is one piece. */
static ringlet_status add_pieces(struct run *run, uint32_t id, uint64_t begin, struct piece a,
                                 struct piece b) {
    a = piece_from(a, begin);
    b = piece_from(b, begin);
    if (a.logical != b.logical)
        return check_fail(&run->check, id, PLAN_NONE,
                          "adds element %" PRIu64 " to element %" PRIu64, b.logical, a.logical);
    uint32_t twice = set_common(&run->sets, a.set, b.set);
    if (twice != PLAN_NONE)
        return check_fail(&run->check, id, PLAN_NONE,
                          "adds the contribution of rank %" PRIu32 " to element %" PRIu64 " twice",
                          twice, a.logical);
    struct piece sum = {begin, a.logical, set_union(&run->sets, a.set, b.set), PARTIAL};
    if (sum.set == UNDEFINED || !list_append(&run->sets, &run->sum, sum))
        return check_out_of_memory();
    return RINGLET_OK;
}

/* sum = left + right */
static ringlet_status add(struct run *run, uint32_t id) {
    const struct list *a = &run->left, *b = &run->right;
    uint32_t i = 0, j = 0;
    uint64_t begin = 0, all = run->check.plan->steps[id].count;
    list_clear(&run->sets, &run->sum);
    while (begin < all) {
        ringlet_status status = add_pieces(run, id, begin, a->pieces[i], b->pieces[j]);
        if (status)
            return status;
        uint64_t a_end = i + 1 < a->count ? a->pieces[i + 1].begin : all;
        uint64_t b_end = j + 1 < b->count ? b->pieces[j + 1].begin : all;
        begin = a_end < b_end ? a_end : b_end;
        i += a_end == begin;
        j += b_end == begin;
    }
    return RINGLET_OK;
}

/* What is the caller's input and stays so may not be written: SEND, but for what is also RECV. */
static ringlet_status check_writable(struct run *run, uint32_t id) {
    const struct plan *plan = run->check.plan;
    const struct plan_step *step = &plan->steps[id];
    if (step->dst.buffer != PLAN_SEND)
        return RINGLET_OK;
    if (is_in_place(&plan->spec, step->dst.rank)) {
        struct plan_ref recv = {0, step->dst.rank, PLAN_RECV};
        uint64_t count = run->check.total[PLAN_RECV];
        uint64_t first = plan_locate(&plan->spec, recv).offset;
        uint64_t begin = plan_locate(&plan->spec, step->dst).offset;
        if (begin >= first && begin - first <= count && step->count <= count - (begin - first))
            return RINGLET_OK;
    }
    return check_fail(&run->check, id, PLAN_NONE,
                      "writes SEND of rank %" PRIu32 ", the caller's input", step->dst.rank);
}

/* dst may be an operand itself, but not lie across one. */
static ringlet_status check_overlap(struct run *run, uint32_t id) {
    const struct plan *plan = run->check.plan;
    const struct plan_step *step = &plan->steps[id];
    struct plan_ref dst = plan_locate(&plan->spec, step->dst);
    for (uint32_t i = 1; i < check_refs(step); i++) {
        struct plan_ref ref = plan_locate(&plan->spec, check_ref(plan, step, i));
        uint64_t apart =
            ref.offset > dst.offset ? ref.offset - dst.offset : dst.offset - ref.offset;
        if (ref.rank == dst.rank && ref.buffer == dst.buffer && apart != 0 && apart < step->count)
            return check_fail(&run->check, id, PLAN_NONE, "writes across what it reads");
    }
    return RINGLET_OK;
}

static void swap(struct list *a, struct list *b) {
    struct list other = *a;
    *a = *b;
    *b = other;
}

/* A step that says its result is complete is right, and one that does not say so as well. */
static ringlet_status check_complete(struct run *run, uint32_t id, struct list *value) {
    const struct plan *plan = run->check.plan;
    bool last = plan->steps[id].flags & PLAN_LAST;
    for (uint32_t i = 0; i < value->count; i++) {
        bool all = true;
        for (uint32_t rank = 0; rank < plan->spec.ranks && all; rank++)
            all = set_holds(&run->sets, value->pieces[i].set, rank);
        if (all != last)
            return check_fail(&run->check, id, PLAN_NONE,
                              all ? "has a complete result and does not say so"
                                  : "says that its result is complete, which it is not");
        value->pieces[i].state = last ? COMPLETE : PARTIAL;
    }
    return RINGLET_OK;
}

/* left = all operands added, one after the other */
static ringlet_status reduce(struct run *run, uint32_t id) {
    const struct plan *plan = run->check.plan;
    const struct plan_step *step = &plan->steps[id];
    ringlet_status status = check_state(run, id, 0, &run->left);
    for (uint32_t i = 1; i < plan_operands(step) && !status; i++) {
        status = read_operand(run, id, plan_operand(plan, step, i), &run->right);
        if (!status)
            status = check_state(run, id, i, &run->right);
        if (!status)
            status = add(run, id);
        if (!status)
            swap(&run->left, &run->sum);
    }
    return status ? status : check_complete(run, id, &run->left);
}

static ringlet_status run_step(struct run *run, uint32_t id) {
    const struct plan *plan = run->check.plan;
    const struct plan_step *step = &plan->steps[id];
    ringlet_status status = check_step(&run->check, id);
    if (status || check_refs(step) == 0 || step->count == 0)
        return status;
    if ((status = check_writable(run, id)) || (status = check_overlap(run, id)) ||
        (status = read_operand(run, id, step->a, &run->left)))
        return status;
    if (step->op == PLAN_REDUCE && (status = reduce(run, id)))
        return status;
    struct plan_ref place = plan_locate(&plan->spec, step->dst);
    if (!list_write(&run->sets, memory_of(run, place.rank, place.buffer),
                    run->check.total[place.buffer], place.offset, step->count, &run->left))
        return check_out_of_memory();
    return RINGLET_OK;
}

/* The result. */

/* RECV[at] of a rank must be element `logical` with the contribution of `only`, or of all ranks
 * where that is PLAN_NONE. */
static ringlet_status check_value(struct run *run, uint32_t rank, uint64_t at, struct piece got,
                                  uint64_t logical, uint32_t only) {
    if (got.set == UNDEFINED)
        return check_fail(&run->check, PLAN_NONE, PLAN_NONE,
                          "at the end nothing has written RECV of rank %" PRIu32 " [%" PRIu64 "]",
                          rank, at);
    if (got.logical != logical)
        return check_fail(&run->check, PLAN_NONE, PLAN_NONE,
                          "at the end RECV of rank %" PRIu32 " [%" PRIu64 "] is element %" PRIu64
                          ", not %" PRIu64,
                          rank, at, got.logical, logical);
    for (uint32_t from = 0; from < run->check.plan->spec.ranks; from++) {
        bool wanted = only == PLAN_NONE || only == from;
        if (set_holds(&run->sets, got.set, from) != wanted)
            return check_fail(
                &run->check, PLAN_NONE, PLAN_NONE,
                "at the end RECV of rank %" PRIu32 " [%" PRIu64 "] %s rank %" PRIu32, rank, at,
                wanted ? "lacks the contribution of" : "holds a contribution of", from);
    }
    return RINGLET_OK;
}

static ringlet_status check_recv(struct run *run, uint32_t rank) {
    const struct plan_spec *spec = &run->check.plan->spec;
    bool gather = spec->collective == PLAN_ALL_GATHER;
    uint64_t count = run->check.total[PLAN_RECV];
    uint64_t base = spec->collective == PLAN_REDUCE_SCATTER ? rank * spec->count : 0;
    struct plan_ref recv = plan_locate(spec, (struct plan_ref){0, rank, PLAN_RECV});
    const struct list *list = memory_of(run, rank, recv.buffer);
    uint32_t i = list_find(list, recv.offset);
    for (uint64_t at = 0; at < count;) {
        uint32_t only = gather                               ? (uint32_t)(at / spec->count)
                        : spec->collective == PLAN_BROADCAST ? spec->root
                                                             : PLAN_NONE;
        uint64_t next = gather ? (at / spec->count + 1) * spec->count : count;
        ringlet_status status = check_value(
            run, rank, at, piece_from(list->pieces[i], recv.offset + at), base + at, only);
        if (status)
            return status;
        if (i + 1 < list->count && list->pieces[i + 1].begin - recv.offset <= next) {
            i++;
            next = list->pieces[i].begin - recv.offset;
        }
        at = next;
    }
    return RINGLET_OK;
}

static ringlet_status check_result(struct run *run) {
    const struct plan *plan = run->check.plan;
    ringlet_status status = start(run);
    for (uint32_t id = 0; id < plan->step_count && !status; id++)
        status = run_step(run, id);
    for (uint32_t rank = 0; rank < plan->spec.ranks && !status; rank++)
        status = check_recv(run, rank);
    return status;
}

static void run_free(struct run *run) {
    for (size_t i = 0; run->memory && i < (size_t)run->check.plan->spec.ranks * PLAN_BUFFERS; i++)
        memory_free(run->memory[i].pieces);
    memory_free(run->memory);
    memory_free(run->left.pieces);
    memory_free(run->right.pieces);
    memory_free(run->sum.pieces);
    memory_free(run->sets.words);
    memory_free(run->sets.references);
}

ringlet_status plan_check_result(const struct plan *plan, struct plan_fault *fault) {
    struct run run = {.sets = {.first_free = UNDEFINED}};
    check_begin(&run.check, plan, fault);
    run.sets.row_words = plan->spec.ranks / 64 + (plan->spec.ranks % 64 != 0);
    run.memory = memory_zeroed((size_t)plan->spec.ranks * PLAN_BUFFERS, sizeof *run.memory);
    ringlet_status status = run.memory ? check_result(&run) : check_out_of_memory();
    run_free(&run);
    return status;
}
