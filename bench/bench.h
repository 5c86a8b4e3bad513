/*
 * What the parts of `ringlet bench` share: the settings, the run and what is timed in it.
 * Owns the data structures. bench.c has the order of things, bench_settings.c the options,
 * bench_lanes.c what is timed, bench_run.c one size, bench_table.c the table, bench_files.c JSON
 * and CSV, bench_plot.c the chart. None of them looks behind the public interface.
 */
#ifndef RINGLET_BENCH_BENCH_H
#define RINGLET_BENCH_BENCH_H

#include "check.h"
#include "command.h"
#include "names.h"
#include "options.h"
#include "output.h"
#include "progress.h"
#include "record.h"
#include "report.h"

enum { SHAPE_CHOOSE = -1, SHAPE_RANKS, SHAPE_WHOLE, SHAPE_BOTH };
enum { PLOT_ALGBW, PLOT_BUSBW, PLOT_TIME };

struct settings {
    uint64_t minbytes, maxbytes, stepfactor, stepbytes, iterations, warmups, check, gpus, ranks;
    int algorithm, shape, collective, backend, type, op;
    uint64_t slices, rings, scratch, seed, root;
    int64_t timeout_ms;
    const char *machine, *json, *csv, *plot;
    int plot_y, share_devices, no_p2p, link, peer, percentiles, chain, verbose;
};

/* What the settings come to on this machine. */
struct job {
    struct settings set;
    int argc; /* the command line, "bench" first */
    char **argv;
    ringlet_backend backend;
    int available, gpus, ranks;
    const char *note; /* why emulated, or NULL */
    int *devices;
};

/* What is timed: Ringlet by an algorithm in a call shape, or what stands beside it. */
struct lane {
    enum { LANE_RINGLET, LANE_LINK, LANE_PEER } kind;
    struct contender *contender;
    ringlet_comm *comm; /* Ringlet's; the lane's own where `owned` */
    bool owned;
    int algorithm;               /* as asked for */
    int shape;                   /* 1 or 2 */
    const char *nccl_type;       /* NCCL's name of the type at hand */
    bool off;                    /* the library lacks it for the type and operation at hand */
    struct measure_result of[2]; /* of one size: out of place, in place */
    struct record records[2];
};

enum { LANES_MAX = MEASURE_CONTENDERS_MAX, SAMPLES = 5 /* one where time is modelled */ };

struct bench {
    struct job job;
    struct session session;
    struct crew *crew;
    struct check *check;
    struct lane lanes[LANES_MAX];
    int lane_count;
    struct report report;
    struct progress progress;
    struct record_list records;
};

/* bench_settings.c */
int bench_usage(const char *what);   /* prints it; COMMAND_USAGE */
int bench_failure(const char *what); /* prints it; COMMAND_FAILED */
/* What the settings come to; COMMAND_OK or an exit status with the reason printed. Frees nothing.
 */
int bench_settle(struct job *job);
void bench_options(const struct job *job, int algorithm, ringlet_options *options);
uint64_t bench_next_size(const struct settings *set, uint64_t size);

/* bench_lanes.c: false with the session's error set. */
bool bench_open_lanes(struct bench *bench, const struct session_config *config);
void bench_close_lanes(struct bench *bench);
/* Switches off the lanes that the library lacks for this collective, type and operation. */
bool bench_choose_lanes(struct bench *bench, const struct session_call *call);
struct lane *bench_lane(struct bench *bench, int kind); /* the first such, NULL if there is none */

/* bench_run.c: measures, checks and records all that there is of one size. */
bool bench_size(struct bench *bench, const struct session_call *call);
/* The call of the largest count that `size` bytes hold. */
struct session_call bench_call(const struct bench *bench, uint64_t size, ringlet_dtype type,
                               ringlet_op op);
const char *bench_op_name(const struct session_call *call); /* "none" where it has none */
double bench_rate_gbps(uint64_t bytes, double us);

/* bench_table.c */
void bench_print_header(struct bench *bench);
void bench_print_columns(struct bench *bench);
/* The table's rows of the size that all lanes were measured at. */
void bench_print_rows(struct bench *bench);

/* bench_files.c: all files asked for; false with the reason. */
bool bench_write_files(const struct bench *bench, char *why);

/* bench_plot.c: false when out of memory. */
bool bench_plot(const struct bench *bench, FILE *out);

#endif
