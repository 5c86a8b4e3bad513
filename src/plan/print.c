/*
 * Plans for people: names, one step in words, the whole plan as a table.
 * Owns wording only. Never judges a plan: it prints a broken one as well, as far as it makes sense.
 */
#include <inttypes.h>
#include <string.h>

#include "plan/plan.h"

enum { REF_TEXT = 96, WHERE_TEXT = 64, PART_TEXT = 48 };

const char *plan_collective_name(enum plan_collective collective) {
    switch (collective) {
    case PLAN_ALL_REDUCE:
        return "all-reduce";
    case PLAN_REDUCE_SCATTER:
        return "reduce-scatter";
    case PLAN_ALL_GATHER:
        return "all-gather";
    case PLAN_BROADCAST:
        return "broadcast";
    }
    return "unknown collective";
}

const char *plan_algorithm_name(enum plan_algorithm algorithm) {
    switch (algorithm) {
    case PLAN_RING:
        return "ring";
    case PLAN_HOST_STAGED:
        return "host";
    case PLAN_HOST_PIPELINED:
        return "host-pipelined";
    case PLAN_DIRECT:
        return "direct";
    }
    return "unknown algorithm";
}

const char *plan_buffer_name(uint32_t buffer) {
    static const char *const names[PLAN_BUFFERS] = {"SEND", "RECV", "SCRATCH", "HOST"};
    return buffer < PLAN_BUFFERS ? names[buffer] : "?";
}

static const char *lane_name(uint32_t kind) {
    static const char *const names[] = {"main", "out", "in", "add"};
    return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

static const char *phase_name(uint32_t phase) {
    static const char *const names[] = {"", "reduce-scatter", "all-gather", "host"};
    return phase < sizeof names / sizeof *names ? names[phase] : "?";
}

/* "rank 2 SCRATCH[0..8)"; the rank is left out where it is `home`, that of the lane. */
static const char *ref_text(char text[REF_TEXT], struct plan_ref ref, uint64_t count,
                            uint32_t home) {
    int used = ref.rank == home ? 0 : snprintf(text, REF_TEXT, "rank %" PRIu32 " ", ref.rank);
    snprintf(text + used, REF_TEXT - (size_t)used, "%s[%" PRIu64 "..%" PRIu64 ")",
             plan_buffer_name(ref.buffer), ref.offset, ref.offset + count);
    return text;
}

/* "rank 1 out", with the ring where there are several. */
static const char *where_text(char text[WHERE_TEXT], const struct plan *plan, uint32_t lane) {
    if (lane >= plan->lane_count) {
        snprintf(text, WHERE_TEXT, "lane %" PRIu32, lane);
        return text;
    }
    const struct plan_lane *at = &plan->lanes[lane];
    if (plan->spec.rings > 1 && at->kind != PLAN_MAIN)
        snprintf(text, WHERE_TEXT, "rank %" PRIu32 " %s of ring %u", at->rank, lane_name(at->kind),
                 (unsigned)at->ring);
    else
        snprintf(text, WHERE_TEXT, "rank %" PRIu32 " %s", at->rank, lane_name(at->kind));
    return text;
}

/* "chunk 0 slice 2", as far as the step has them. */
static const char *part_text(char text[PART_TEXT], const struct plan_step *step) {
    if (step->chunk == PLAN_NONE && step->slice == PLAN_NONE)
        snprintf(text, PART_TEXT, "all");
    else if (step->chunk == PLAN_NONE)
        snprintf(text, PART_TEXT, "slice %" PRIu32, step->slice);
    else
        snprintf(text, PART_TEXT, "chunk %" PRIu32 " slice %" PRIu32, step->chunk, step->slice);
    return text;
}

/* What a step does, without where it runs. */
static void deed_text(const struct plan *plan, const struct plan_step *step, char *buffer,
                      size_t size) {
    char dst[REF_TEXT], a[REF_TEXT], b[REF_TEXT], part[PART_TEXT];
    uint32_t home = step->lane < plan->lane_count ? plan->lanes[step->lane].rank : PLAN_NONE;
    ref_text(dst, step->dst, step->count, home);
    ref_text(a, step->a, step->count, home);
    ref_text(b, step->b, step->count, home);
    part_text(part, step);
    switch (step->op) {
    case PLAN_ENTER:
        snprintf(buffer, size, "enter");
        break;
    case PLAN_COPY:
        snprintf(buffer, size, "copy %s, %s to %s", part, a, dst);
        break;
    case PLAN_REDUCE:
        if (step->more_count)
            snprintf(buffer, size, "add %s, %s + %s + %u more to %s", part, a, b,
                     (unsigned)step->more_count, dst);
        else
            snprintf(buffer, size, "add %s, %s + %s to %s", part, a, b, dst);
        break;
    case PLAN_LEAVE:
        snprintf(buffer, size, "leave");
        break;
    default:
        snprintf(buffer, size, "unknown operation %u", (unsigned)step->op);
    }
}

void plan_step_text(const struct plan *plan, uint32_t step, char *buffer, size_t size) {
    char where[WHERE_TEXT], deed[4 * REF_TEXT];
    if (step >= plan->step_count) {
        snprintf(buffer, size, "no step %" PRIu32, step);
        return;
    }
    deed_text(plan, &plan->steps[step], deed, sizeof deed);
    snprintf(buffer, size, "%s: %s", where_text(where, plan, plan->steps[step].lane), deed);
}

static void print_header(const struct plan *plan, FILE *to) {
    const struct plan_spec *spec = &plan->spec;
    fprintf(to,
            "%s by %s: %" PRIu32 " rank%s, %" PRIu64 " elements of %" PRIu32 " bytes%s, %" PRIu32
            " ring%s, chunks in up to %" PRIu32 " slice%s\n",
            plan_collective_name(spec->collective), plan_algorithm_name(spec->algorithm),
            spec->ranks, spec->ranks == 1 ? "" : "s", spec->count, spec->element_bytes,
            spec->collective == PLAN_ALL_REDUCE || spec->collective == PLAN_BROADCAST ? ""
                                                                                      : " a rank",
            spec->rings, spec->rings == 1 ? "" : "s", plan->slices, plan->slices == 1 ? "" : "s");
    fprintf(to,
            "a rank uses %" PRIu64 " elements of scratch and %" PRIu64
            " of pinned host memory; %" PRIu32 " steps, %" PRIu32 " waits, %" PRIu32 " lanes\n",
            plan->scratch_used, plan->host_used, plan->step_count, plan->wait_count,
            plan->lane_count);
    fprintf(to,
            "A lane runs its steps from top to bottom. A step starts when the one above it on its "
            "lane\nand all that it waits for are done. [a..b) are elements a to b-1.\n\n");
    fprintf(to, "%6s  %-19s  %-18s  %s\n", "step", "where", "turn", "what");
}

static void print_waits(const struct plan *plan, const struct plan_step *step, FILE *to) {
    char where[WHERE_TEXT];
    for (uint32_t i = 0; i < step->wait_count; i++) {
        uint64_t index = (uint64_t)step->wait_first + i;
        if (index >= plan->wait_count)
            break;
        uint32_t wait = plan->waits[index];
        fprintf(to, "%s%" PRIu32, i ? ", " : "; waits for ", wait);
        if (wait < plan->step_count)
            fprintf(to, " (%s)", where_text(where, plan, plan->steps[wait].lane));
    }
}

static void print_step(const struct plan *plan, uint32_t id, FILE *to) {
    const struct plan_step *step = &plan->steps[id];
    char where[WHERE_TEXT], turn[32] = "", deed[4 * REF_TEXT];
    if (step->phase != PLAN_PHASE_NONE)
        snprintf(turn, sizeof turn, "%u %s", (unsigned)step->turn, phase_name(step->phase));
    deed_text(plan, step, deed, sizeof deed);
    fprintf(to, "%6" PRIu32 "  %-19s  %-18s  %s", id, where_text(where, plan, step->lane), turn,
            deed);
    print_waits(plan, step, to);
    fputc('\n', to);
}

void plan_print(const struct plan *plan, FILE *to, uint32_t rank) {
    print_header(plan, to);
    for (uint32_t id = 0; id < plan->step_count; id++) {
        uint32_t lane = plan->steps[id].lane;
        bool known = lane < plan->lane_count;
        if (rank == PLAN_NONE || (known && plan->lanes[lane].rank == rank))
            print_step(plan, id, to);
    }
}
