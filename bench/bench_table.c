/*
 * The table of a `ringlet bench`: header, columns behind NCCL's, rows.
 * Owns which columns there are. Never computes what it prints, but percentages.
 */
#include "bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_steps(FILE *out, const struct settings *set, int gpus) {
    fprintf(out,
            "# nThread 1 nGpus %d minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
            "(%s) warmup iters: %" PRIu64 " iters: %" PRIu64 " agg iters: 1 validation: %" PRIu64
            " graph: 0\n",
            gpus, set->minbytes, set->maxbytes,
            set->stepbytes != OPTIONS_UNSET ? set->stepbytes : set->stepfactor,
            set->stepbytes != OPTIONS_UNSET ? "bytes" : "factor", set->warmups, set->iterations,
            set->check);
}

static void print_devices(const struct bench *b) {
    FILE *out = b->report.out;
    const struct session *s = &b->session;
    enum { SHOWN = 16 };
    fprintf(out, "#\n# Using devices\n");
    for (int rank = 0; rank < s->ranks && rank < SHOWN; rank++) {
        ringlet_device_info info = {.struct_size = sizeof info};
        if (ringlet_comm_device_query(s->comm, rank, &info))
            continue;
        fprintf(out, "#  Rank %2d Pid %6d device %2d %s%s%s%s\n", rank, (int)getpid(), info.device,
                info.pci[0] ? "[" : "", info.pci, info.pci[0] ? "] " : "", info.name);
    }
    if (s->ranks > SHOWN)
        fprintf(out, "#  ... and %d ranks more\n", s->ranks - SHOWN);
}

void bench_print_header(struct bench *b) {
    FILE *out = b->report.out;
    static const char *const shape_texts[] = {"one host thread a rank",
                                              "one thread calls for all ranks",
                                              "one host thread a rank, and one thread for all"};
    const struct settings *set = &b->job.set;
    const struct session *s = &b->session;
    fprintf(out, "# ringlet %s bench: %s, %d ranks on %d %s devices, %s\n", ringlet_version(),
            names_collectives[set->collective], s->ranks, b->job.gpus,
            s->emulated ? "EMULATED" : "CUDA", shape_texts[set->shape]);
    if (s->modelled)
        fprintf(out,
                "#\n# TIMES ARE MODELLED, not measured: machine '%s'%s%s\n"
                "# Data is really moved and checked; no GPU is involved.\n#\n",
                s->machine, b->job.note ? ", emulated since there is " : "",
                b->job.note ? b->job.note : "");
    if (s->modelled && set->shape != SHAPE_WHOLE)
        fprintf(out, "# With a thread a rank the order of calls, and so modelled time, varies a "
                     "little.\n#\n");
    print_steps(out, set, b->job.gpus);
    print_devices(b);
    if (set->chain)
        fprintf(out, "#\n# A chain: each operation takes what the one before left, in place.\n");
    if (set->percentiles)
        fprintf(out, "#\n# p50 to max: operations timed each on its own, with calling and waiting; "
                     "time: back to back\n");
}

static void print_peer(struct bench *b) {
    FILE *out = b->report.out;
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    const struct lane *peer = bench_lane(b, LANE_PEER);
    if (!peer)
        return;
    fprintf(out, "# NCCL %s beside it, NCCL_NVLS_ENABLE=%s; ratio: NCCL's time over Ringlet's\n",
            contender_nccl_version(peer->contender), nvls ? nvls : "(not set)");
    if (!nvls || strcmp(nvls, "0"))
        fprintf(
            out,
            "# NCCL may use NVLink multicast, which Ringlet does not; NCCL_NVLS_ENABLE=0 compares "
            "peer-to-peer with peer-to-peer\n");
}

/* The columns behind NCCL's: titles, and the cells of a row in the same order. */

static const char *const places[] = {"out", "in"};

static void name_percentiles(struct report *r) {
    static const char *const groups[] = {"each out of place", "each in place"};
    static const char *const titles[] = {"p50", "p90", "p99", "max"};
    for (int place = 0; place < 2; place++)
        for (int i = 0; i < 4; i++)
            report_extra(r, i ? NULL : groups[place], titles[i], "(us)");
}

static void name_shape(struct report *r) {
    report_extra(r, "shape 2 out", "time", "(us)");
    report_extra(r, NULL, "busbw", "(GB/s)");
    report_extra(r, "shape 2 in", "time", "(us)");
    report_extra(r, NULL, "busbw", "(GB/s)");
}

static void name_peer(struct report *r) {
    static const char *const groups[] = {"NCCL out-of-place", "NCCL in-place"};
    for (int place = 0; place < 2; place++) {
        report_extra(r, groups[place], "time", "(us)");
        report_extra(r, NULL, "spread", "(%)");
        report_extra(r, NULL, "ratio", "");
    }
}

void bench_print_columns(struct bench *b) {
    const struct settings *set = &b->job.set;
    struct report *r = &b->report;
    print_peer(b);
    if (set->algorithm == NAMES_ALGORITHMS)
        report_extra(r, NULL, "     algorithm", ""); /* as wide as "host-pipelined" */
    if (set->verbose || set->peer >= 0) {
        report_extra(r, "spread", places[0], "(%)");
        report_extra(r, NULL, places[1], "(%)");
    }
    if (set->percentiles)
        name_percentiles(r);
    if (set->shape == SHAPE_BOTH)
        name_shape(r);
    if (set->link) {
        report_extra(r, "link both ways", "copy", "(GB/s)");
        report_extra(r, NULL, places[0], "(%)");
        report_extra(r, NULL, places[1], "(%)");
    }
    if (set->peer >= 0)
        name_peer(r);
    report_titles(r);
}

static void cell_shape(struct report_row *row, const struct record *second) {
    for (int place = 0; place < 2; place++) {
        report_cell_time(row, second[place].time_us);
        report_cell(row, 2, second[place].busbw_gbps);
    }
}

static void cell_link(struct report_row *row, const struct record *own) {
    double link = fmax(own[0].link_gbps, own[1].link_gbps); /* a ceiling: the better of two */
    report_cell(row, 2, link);
    for (int place = 0; place < 2; place++)
        report_cell(row, 1, own[place].busbw_gbps / link * 100);
}

static void cell_peer(struct report_row *row, const struct record *own) {
    for (int place = 0; place < 2; place++) {
        const struct record *r = &own[place];
        report_cell_time(row, r->peer_time_us);
        report_cell(row, 1, (r->peer_time_max_us - r->peer_time_min_us) / r->peer_time_us * 100);
        report_cell(row, 2, r->peer_ratio);
    }
}

/* In the order of bench_print_columns(). second: the other shape's records, NULL if not timed. */
static void fill_cells(const struct bench *b, const struct record *own, const struct record *second,
                       struct report_row *row) {
    const struct settings *set = &b->job.set;
    if (set->algorithm == NAMES_ALGORITHMS)
        report_cell_text(row, own[1].asked);
    for (int place = 0; place < 2 && (set->verbose || set->peer >= 0); place++) {
        const struct record *r = &own[place];
        report_cell(row, 1,
                    r->modelled ? NAN : (r->time_max_us - r->time_min_us) / r->time_us * 100);
    }
    for (int place = 0; place < 2 && set->percentiles; place++) {
        report_cell_time(row, own[place].p50_us);
        report_cell_time(row, own[place].p90_us);
        report_cell_time(row, own[place].p99_us);
        report_cell_time(row, own[place].longest_us);
    }
    if (second)
        cell_shape(row, second);
    if (set->link)
        cell_link(row, own);
    if (set->peer >= 0)
        cell_peer(row, own);
}

static void print_choice(const struct bench *b, const struct lane *lane) {
    ringlet_comm_info info = {.struct_size = sizeof info};
    if (!ringlet_comm_query(lane->comm, &info))
        fprintf(b->report.out,
                "#   ran: algorithm %s (%s), rings %" PRIu32 ", slices %" PRIu32
                ", scratch %.1f MB a rank, edges through the host %d\n",
                info.algorithm, info.why, info.rings, info.slices, (double)info.scratch_bytes / 1e6,
                info.staged_edges);
}

/* A placement that was not measured is there as not known. */
static const struct record unmeasured = {.time_us = NAN,
                                         .time_min_us = NAN,
                                         .time_max_us = NAN,
                                         .algbw_gbps = NAN,
                                         .busbw_gbps = NAN,
                                         .wrong = RECORD_NONE,
                                         .p50_us = NAN,
                                         .p90_us = NAN,
                                         .p99_us = NAN,
                                         .longest_us = NAN,
                                         .link_gbps = NAN,
                                         .peer_time_us = NAN,
                                         .peer_time_min_us = NAN,
                                         .peer_time_max_us = NAN,
                                         .peer_ratio = NAN};

static void print_row(struct bench *b, struct lane *lane, struct lane *second) {
    struct report_row row = {.bytes = lane->records[1].bytes};
    for (int place = 0; place < 2; place++) {
        if (place == 0 && b->job.set.chain) {
            lane->records[place] = unmeasured;
            if (second)
                second->records[place] = unmeasured;
        }
        const struct record *r = &lane->records[place];
        row.results[place] =
            (struct report_result){r->time_us, r->algbw_gbps, r->busbw_gbps,
                                   r->wrong == RECORD_NONE ? 0 : r->wrong, r->wrong != RECORD_NONE};
        if (second && row.results[place].checked)
            row.results[place].wrong += second->records[place].wrong;
    }
    const struct record *r = &lane->records[1];
    row.count = r->count;
    row.operation = r->op;
    row.root = r->root == RECORD_NONE ? -1 : (int)r->root;
    row.type = lane->nccl_type;
    fill_cells(b, lane->records, second ? second->records : NULL, &row);
    report_row(&b->report, &row);
    if (b->job.set.verbose)
        print_choice(b, lane);
}

void bench_print_rows(struct bench *b) {
    for (int i = 0; i < b->lane_count; i++) {
        struct lane *lane = &b->lanes[i];
        bool is_first = i == 0 || lane[-1].comm != lane->comm;
        if (lane->kind != LANE_RINGLET || lane->off || !is_first)
            continue;
        bool has_second =
            i + 1 < b->lane_count && lane[1].kind == LANE_RINGLET && lane[1].comm == lane->comm;
        print_row(b, lane, has_second ? lane + 1 : NULL);
    }
}
