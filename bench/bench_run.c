/*
 * One size of a `ringlet bench`: measured, checked and recorded.
 * Owns the arithmetic of bandwidths. Never prints but how far it is.
 */
#include "bench.h"

#include <math.h>
#include <string.h>

#include "chain.h"

double bench_rate_gbps(uint64_t bytes, double us) {
    return us > 0 ? (double)bytes / us / 1e3 : 0;
}

static double bus_factor(enum session_collective collective, double ranks) {
    switch (collective) {
    case SESSION_ALL_REDUCE:
        return 2 * (ranks - 1) / ranks;
    case SESSION_BROADCAST:
        return 1;
    case SESSION_REDUCE_SCATTER:
    case SESSION_ALL_GATHER:
        break;
    }
    return (ranks - 1) / ranks;
}

const char *bench_op_name(const struct session_call *call) {
    return session_reduces(call->collective) ? ringlet_op_name(call->op) : "none";
}

struct session_call bench_call(const struct bench *b, uint64_t size, ringlet_dtype type,
                               ringlet_op op) {
    enum session_collective collective = (enum session_collective)b->job.set.collective;
    bool shared = collective == SESSION_REDUCE_SCATTER || collective == SESSION_ALL_GATHER;
    struct session_call call = {
        .collective = collective, .type = type, .op = op, .root = (int)b->job.set.root};
    call.count = size / session_element_size(&call) / (shared ? (uint64_t)b->session.ranks : 1);
    return call;
}

static bool measure_place(struct bench *b, const struct session_call *call) {
    const struct settings *set = &b->job.set;
    struct measure_config config = {set->warmups, set->iterations,
                                    b->session.modelled ? 1 : SAMPLES, set->percentiles};
    struct contender *present[LANES_MAX];
    struct measure_result results[LANES_MAX];
    int count = 0;
    for (int i = 0; i < b->lane_count; i++)
        if (!b->lanes[i].off)
            present[count++] = b->lanes[i].contender;
    if (set->chain && !chain_fill(&b->session, call))
        return false;
    if (!measure_all(b->crew, present, count, call, &config, results))
        return false;
    count = 0;
    for (int i = 0; i < b->lane_count; i++)
        if (!b->lanes[i].off)
            b->lanes[i].of[call->in_place] = results[count++];
    return true;
}

static void record_times(struct record *r, const struct measure_result *m, double factor) {
    r->time_us = m->median_us;
    r->time_min_us = m->least_us;
    r->time_max_us = m->most_us;
    r->algbw_gbps = bench_rate_gbps(r->bytes, m->median_us);
    r->busbw_gbps = r->algbw_gbps * factor;
    r->operations = m->operations;
    r->p50_us = m->operations ? m->p50_us : NAN;
    r->p90_us = m->operations ? m->p90_us : NAN;
    r->p99_us = m->operations ? m->p99_us : NAN;
    r->longest_us = m->operations ? m->longest_us : NAN;
}

/* What was measured beside it. */
static void record_others(struct bench *b, struct record *r) {
    const struct lane *link = bench_lane(b, LANE_LINK), *peer = bench_lane(b, LANE_PEER);
    r->link_gbps = r->peer_time_us = r->peer_time_min_us = r->peer_time_max_us = NAN;
    r->peer_ratio = NAN;
    if (link)
        r->link_gbps = bench_rate_gbps(r->bytes, link->of[r->in_place].median_us);
    if (!peer)
        return;
    const struct measure_result *m = &peer->of[r->in_place];
    r->peer = "nccl";
    r->peer_time_us = m->median_us;
    r->peer_time_min_us = m->least_us;
    r->peer_time_max_us = m->most_us;
    if (r->time_us > 0)
        r->peer_ratio = m->median_us / r->time_us;
}

static bool record_lane(struct bench *b, struct lane *lane, const struct session_call *call) {
    ringlet_comm_info info = {.struct_size = sizeof info};
    struct record *r = &lane->records[call->in_place];
    uint64_t wrong = RECORD_NONE;
    if (b->check && !check_call(b->check, lane->contender, call, &wrong))
        return false;
    ringlet_status status = ringlet_comm_query(lane->comm, &info);
    if (status)
        return session_fail(&b->session, "%s", session_words(status));
    *r = (struct record){.collective = names_collectives[call->collective],
                         .type = ringlet_dtype_name(call->type),
                         .op = bench_op_name(call),
                         .root = call->collective == SESSION_BROADCAST ? (uint64_t)call->root
                                                                       : RECORD_NONE,
                         .ranks = (uint64_t)b->session.ranks,
                         .bytes = session_bytes(&b->session, call),
                         .count = call->count,
                         .asked = names_algorithms[lane->algorithm],
                         .rings = info.rings,
                         .slices = info.slices,
                         .shape = (uint64_t)lane->shape,
                         .in_place = call->in_place,
                         .modelled = b->session.modelled,
                         .wrong = wrong};
    snprintf(r->algorithm, sizeof r->algorithm, "%s", info.algorithm);
    snprintf(r->why, sizeof r->why, "%s", info.why);
    record_times(r, &lane->of[call->in_place], bus_factor(call->collective, b->session.ranks));
    record_others(b, r);
    return record_add(&b->records, r) || session_fail(&b->session, "out of memory");
}

bool bench_size(struct bench *b, const struct session_call *call) {
    for (int place = b->job.set.chain ? 1 : 0; place < 2; place++) {
        struct session_call placed = *call;
        placed.in_place = place;
        progress_step(&b->progress, "%s of %llu bytes, %s, %s", names_collectives[call->collective],
                      (unsigned long long)session_bytes(&b->session, call),
                      ringlet_dtype_name(call->type), place ? "in place" : "out of place");
        if (!measure_place(b, &placed))
            return false;
        for (int i = 0; i < b->lane_count; i++)
            if (b->lanes[i].kind == LANE_RINGLET && !b->lanes[i].off &&
                !record_lane(b, &b->lanes[i], &placed))
                return false;
    }
    progress_erase(&b->progress);
    bench_print_rows(b);
    return !b->report.error ||
           session_fail(&b->session, "cannot write the table: %s", strerror(b->report.error));
}
