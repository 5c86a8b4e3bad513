/*
 * The options of `ringlet bench`, and what they come to on this machine.
 * Owns the defaults and the messages about bad usage. Never opens a communicator.
 */
#include "bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "available.h"

/* The library's limits, as ringlet.h gives them. */
enum { RANKS_MAX = 1024, RINGS_MAX = 64, SLICES_MAX = 4096, SCRATCH_MIN = 256 };
#define SIZE_LIMIT (UINT64_C(1) << 42)

const struct settings bench_defaults = {
    .minbytes = 8,
    .maxbytes = OPTIONS_UNSET,
    .stepfactor = OPTIONS_UNSET,
    .stepbytes = OPTIONS_UNSET,
    .iterations = OPTIONS_UNSET,
    .warmups = OPTIONS_UNSET,
    .check = 1,
    .gpus = OPTIONS_UNSET,
    .ranks = OPTIONS_UNSET,
    .shape = SHAPE_CHOOSE,
    .timeout_ms = 30000,
    .peer = -1,
    .plot_y = PLOT_BUSBW,
};

static const char *const backends[] = {"auto", "cuda", "emulated", NULL}; /* ringlet_backend */
static const char *const shapes[] = {"1", "2", "both", NULL};
static const char *const peers[] = {"nccl", NULL};
static const char *const plot_ys[] = {"algbw", "busbw", "time", NULL};

#define AT(member) offsetof(struct settings, member)
static const struct options_entry entries[] = {
    {'b', "minbytes", OPTIONS_SIZE, "SIZE", "smallest message", AT(minbytes), 0, SIZE_LIMIT, NULL},
    {'e', "maxbytes", OPTIONS_SIZE, "SIZE", "largest message (default 128M; emulated devices 4M)",
     AT(maxbytes), 0, SIZE_LIMIT, NULL},
    {'f', "stepfactor", OPTIONS_NUMBER, "N", "each size is N times the one before (default 2)",
     AT(stepfactor), 2, 1 << 20, NULL},
    {'i', "stepbytes", OPTIONS_SIZE, "SIZE", "each size is SIZE more than the one before, instead",
     AT(stepbytes), 1, SIZE_LIMIT, NULL},
    {'n', "iters", OPTIONS_NUMBER, "N", "operations in a sample (default 20; modelled time 2)",
     AT(iterations), 1, 1000000, NULL},
    {'w', "warmup_iters", OPTIONS_NUMBER, "N",
     "operations before the samples, at every size (default 5; modelled time 1)", AT(warmups), 0,
     1000000, NULL},
    {'c', "check", OPTIONS_NUMBER, "N", "0: do not check results, and say so", AT(check), 0,
     1000000, NULL},
    {'g', "ngpus", OPTIONS_NUMBER, "N", "devices to use, from device 0 on (default all)", AT(gpus),
     1, RANKS_MAX, NULL},
    {0, "ranks", OPTIONS_NUMBER, "N",
     "ranks (default one a device; 4 on the built-in emulated machine). More ranks than devices "
     "share them: emulated ones, or with --share-devices",
     AT(ranks), 1, RANKS_MAX, NULL},
    {0, "collective", OPTIONS_CHOICE, NULL, "what to time", AT(collective), 0, 0,
     names_collectives},
    {'d', "datatype", OPTIONS_CHOICE, NULL,
     "type of the elements; all: one after the other. NCCL's names are taken too", AT(type), 0, 0,
     names_types},
    {'o', "op", OPTIONS_CHOICE, NULL, "operation; all: one after the other", AT(op), 0, 0,
     names_ops},
    {0, "algorithm", OPTIONS_CHOICE, NULL,
     "ring and direct: between the devices; host: the textbook way through host memory, and "
     "host-pipelined the best that can be done that way; all: a row for each, their samples taken "
     "in "
     "turn",
     AT(algorithm), 0, 0, names_algorithms},
    {'r', "root", OPTIONS_NUMBER, "N", "rank that a broadcast sends from", AT(root), 0,
     RANKS_MAX - 1, NULL},
    {0, "backend", OPTIONS_CHOICE, NULL,
     "auto: CUDA with at least two devices (one with --ranks 1 or --share-devices) and no "
     "--machine, "
     "else emulated",
     AT(backend), 0, 0, backends},
    {0, "machine", OPTIONS_TEXT, "FILE",
     "emulate this machine: what `nvidia-smi topo -m` printed there", AT(machine), 0, 0, NULL},
    {0, "shape", OPTIONS_CHOICE, NULL,
     "1: one host thread a rank; 2: one thread calls for all ranks; both: 2 in columns beside 1 "
     "(default 1; emulated devices 2, which is deterministic)",
     AT(shape), 0, 0, shapes},
    {0, "slices", OPTIONS_NUMBER, "N", "cut chunks into at least N slices (0: the library chooses)",
     AT(slices), 0, SLICES_MAX, NULL},
    {0, "rings", OPTIONS_NUMBER, "N", "rings side by side (0: the library chooses)", AT(rings), 0,
     RINGS_MAX, NULL},
    {0, "scratch", OPTIONS_SIZE_0, "SIZE",
     "device memory for scratch, a rank, from 256 on (0: the library chooses)", AT(scratch),
     SCRATCH_MIN, SIZE_LIMIT, NULL},
    {0, "seed", OPTIONS_NUMBER, "N",
     "emulated devices: order of operations (0: that of modelled time, else pseudo-random)",
     AT(seed), 0, 0, NULL},
    {0, "no-p2p", OPTIONS_FLAG, NULL, "send every edge through pinned host memory", AT(no_p2p), 0,
     0, NULL},
    {0, "share-devices", OPTIONS_FLAG, NULL, "several ranks may share a device (for tests)",
     AT(share_devices), 0, 0, NULL},
    {0, "timeout", OPTIONS_TIME, "MILLISECONDS", "how long a wait may last; -1: no limit",
     AT(timeout_ms), 0, 0, NULL},
    {0, "link", OPTIONS_FLAG, NULL,
     "a column with the rate of plain copies round the ring, all ranks at once, in the same run",
     AT(link), 0, 0, NULL},
    {0, "peer", OPTIONS_CHOICE, NULL,
     "columns with the peer's time on the same buffers and streams, samples taken in turn",
     AT(peer), 0, 0, peers},
    {0, "percentiles", OPTIONS_FLAG, NULL,
     "columns p50, p90, p99 and max: as many operations again are each timed on their own, from a "
     "common start until the slowest rank's stream is idle, so that calling and waiting are in "
     "those times",
     AT(percentiles), 0, 0, NULL},
    {0, "chain", OPTIONS_FLAG, NULL,
     "a dependent chain: each operation takes what the one before left, in place, on data that "
     "stays finite (zeros for sums, else ones). Without it operations follow each other on the "
     "same buffers, whatever becomes of the values",
     AT(chain), 0, 0, NULL},
    {'J', "json", OPTIONS_TEXT, "FILE", "write everything there as JSON; - is standard output",
     AT(json), 0, 0, NULL},
    {0, "csv", OPTIONS_TEXT, "FILE", "write the rows there as CSV; - is standard output", AT(csv),
     0, 0, NULL},
    {0, "plot", OPTIONS_TEXT, "FILE", "draw all of the run there as SVG; - is standard output",
     AT(plot), 0, 0, NULL},
    {0, "plot-y", OPTIONS_CHOICE, NULL, "what to draw over the size", AT(plot_y), 0, 0, plot_ys},
    {'v', "verbose", OPTIONS_FLAG, NULL,
     "columns with the spread of the samples, and a line a size that says what ran", AT(verbose), 0,
     0, NULL},
};

const struct options_command bench_command = {
    "ringlet bench",
    "Times collectives, size by size, out of place and in place, and checks every result on fresh\n"
    "data: once bit for bit, and once with all bits in use against a float64 reference with the\n"
    "error bound of the operation. Columns are those of NCCL's all_reduce_perf.",
    "Sizes are in bytes; K, M, G and T are powers of 1024. time: of one operation, in "
    "microseconds,\n"
    "the median of several samples of operations back to back. algbw: size / time. busbw: algbw x\n"
    "2(n-1)/n for all-reduce, (n-1)/n for its halves, 1 for broadcast. Decimal GB/s. On emulated\n"
    "devices data is moved and checked, and time is that of a model.\n"
    "JSON and CSV have a row for each size, type, operation, algorithm, shape and placement. "
    "Files\n"
    "are written at the end, whole or not at all. Only one of them can be -, and the table then "
    "goes\n"
    "to standard error. A terminal shows how far the run is.\n"
    "Exit status: 0 all went well, 1 something failed or was wrong, 2 bad usage.\n\n"
    "Examples:\n"
    "  ringlet bench\n"
    "  ringlet bench -b 1M -e 1G -f 4 --link --peer nccl\n"
    "  ringlet bench --algorithm all --plot rates.svg -J rates.json\n"
    "  ringlet bench --machine machines/dgx1-v100.txt --no-p2p",
    entries,
    sizeof entries / sizeof entries[0],
};

int bench_usage(const char *what) {
    fprintf(stderr, "ringlet bench: %s\ntry 'ringlet bench --help'\n", what);
    return COMMAND_USAGE;
}

int bench_failure(const char *what) {
    fflush(stdout);
    fprintf(stderr, "ringlet bench: %s\n", what);
    return COMMAND_FAILED;
}

void bench_options(const struct job *job, int algorithm, ringlet_options *options) {
    const struct settings *set = &job->set;
    ringlet_options_init(options);
    options->backend = job->backend;
    options->algorithm = (ringlet_algorithm)algorithm;
    options->scheduler = RINGLET_SCHEDULER_SEEDED;
    options->seed = set->seed;
    options->machine = set->machine;
    options->rings = (uint32_t)set->rings;
    options->slices = (uint32_t)set->slices;
    options->scratch_bytes = set->scratch;
    options->timeout_ms = set->timeout_ms;
    options->share_devices = set->share_devices || job->ranks > job->gpus;
    options->disable_p2p = set->no_p2p;
}

static void choose_backend(struct job *job) {
    const struct settings *set = &job->set;
    int cuda = 0;
    if (ringlet_device_count(RINGLET_BACKEND_CUDA, NULL, &cuda))
        cuda = 0;
    job->backend = (ringlet_backend)set->backend;
    job->available = cuda;
    if (job->backend != RINGLET_BACKEND_AUTO)
        return;
    bool one_is_enough = set->share_devices || set->ranks == 1 || set->gpus == 1;
    bool enough = cuda >= 2 || (cuda == 1 && one_is_enough);
    job->backend = enough && !set->machine ? RINGLET_BACKEND_CUDA : RINGLET_BACKEND_EMULATED;
    if (!enough && !set->machine)
        job->note = cuda ? "one CUDA device here, two are needed" : "no CUDA device here";
}

/* Devices and ranks; COMMAND_OK or an exit status with the reason printed. */
static int choose_ranks(struct job *job) {
    const struct settings *set = &job->set;
    bool emulated = job->backend == RINGLET_BACKEND_EMULATED;
    char what[200];
    ringlet_status status =
        ringlet_device_count(job->backend, emulated ? set->machine : NULL, &job->available);
    if (status)
        return bench_failure(session_words(status));
    if (!job->available)
        return bench_failure(
            "no CUDA device here (`ringlet info` says more); --backend emulated needs none");
    enum { BUILT_IN = 4 };
    int natural = emulated && !set->machine ? BUILT_IN : job->available;
    if (set->gpus != OPTIONS_UNSET)
        job->gpus = (int)set->gpus;
    else if (set->ranks != OPTIONS_UNSET)
        job->gpus = (int)set->ranks < job->available ? (int)set->ranks : job->available;
    else
        job->gpus = natural;
    job->ranks = set->ranks == OPTIONS_UNSET ? job->gpus : (int)set->ranks;
    if (job->gpus > job->available) {
        snprintf(what, sizeof what, "--ngpus %d: there are %d devices", job->gpus, job->available);
        return bench_usage(what);
    }
    if (job->ranks > job->gpus && !emulated && !set->share_devices) {
        snprintf(
            what, sizeof what,
            "--ranks %d: there are %d devices; give --share-devices to put several ranks on one",
            job->ranks, job->gpus);
        return bench_usage(what);
    }
    if (job->gpus > job->ranks)
        job->gpus = job->ranks;
    if (set->root >= (uint64_t)job->ranks) {
        snprintf(what, sizeof what, "--root %d: there are %d ranks, from 0 on", (int)set->root,
                 job->ranks);
        return bench_usage(what);
    }
    return COMMAND_OK;
}

static int check_files(const struct settings *set) {
    const char *const paths[] = {set->json, set->csv, set->plot};
    char why[OUTPUT_WHY_MAX];
    const char *first = NULL;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < i; j++)
            if (paths[i] && paths[j] && !strcmp(paths[i], paths[j]))
                return bench_usage(!strcmp(paths[i], "-")
                                       ? "only one of --json, --csv and --plot can be - "
                                         "(standard output)"
                                       : "--json, --csv and --plot name the same file");
        if (!first && paths[i] && !output_possible(paths[i], why))
            first = paths[i];
    }
    return first ? bench_failure(why) : COMMAND_OK;
}

static int check_settings(const struct settings *set) {
    if (set->stepfactor != OPTIONS_UNSET && set->stepbytes != OPTIONS_UNSET)
        return bench_usage("--stepfactor and --stepbytes exclude each other; give one");
    if (set->maxbytes != OPTIONS_UNSET && set->maxbytes < set->minbytes)
        return bench_usage("--maxbytes is less than --minbytes");
    if (set->machine && set->backend == RINGLET_BACKEND_CUDA)
        return bench_usage("--machine is for emulated devices; leave --backend cuda out");
    return COMMAND_OK;
}

static void choose_defaults(struct settings *set, bool emulated) {
    enum { CUDA_MAX = 128 << 20, EMULATED_MAX = 4 << 20, FACTOR = 2 };
    if (set->maxbytes == OPTIONS_UNSET) {
        set->maxbytes = emulated ? EMULATED_MAX : CUDA_MAX;
        if (set->maxbytes < set->minbytes)
            set->maxbytes = set->minbytes;
    }
    if (set->stepfactor == OPTIONS_UNSET && set->stepbytes == OPTIONS_UNSET)
        set->stepfactor = FACTOR;
    if (set->iterations == OPTIONS_UNSET)
        set->iterations = emulated ? 2 : 20;
    if (set->warmups == OPTIONS_UNSET)
        set->warmups = emulated ? 1 : 5;
    if (set->shape == SHAPE_CHOOSE)
        set->shape = emulated ? SHAPE_WHOLE : SHAPE_RANKS;
}

/* Emulated devices promise more than most machines have, and a process that takes too much is
 * killed without a word. What is touched for certain is counted: two buffers a rank. */
static int check_memory(const struct job *job) {
    uint64_t ranks = (uint64_t)job->ranks, available = available_bytes();
    uint64_t needed = 2 * ranks * (job->set.maxbytes + 2 * SESSION_GUARD);
    char what[300], largest[24];
    if (job->backend != RINGLET_BACKEND_EMULATED || needed <= available)
        return COMMAND_OK;
    snprintf(what, sizeof what,
             "%" PRIu64 " ranks with two buffers of %s each need %" PRIu64
             " bytes (%.1f GB), and this machine has %" PRIu64
             " (%.1f GB) available; lower --maxbytes or --ranks",
             ranks, options_size_text(job->set.maxbytes, largest), needed, (double)needed / 1e9,
             available, (double)available / 1e9);
    return bench_failure(what);
}

int bench_settle(struct job *job) {
    int status = check_settings(&job->set);
    if (!status)
        status = check_files(&job->set);
    if (status)
        return status;
    choose_backend(job);
    status = choose_ranks(job);
    if (status)
        return status;
    job->set.gpus = (uint64_t)job->gpus;
    job->set.ranks = (uint64_t)job->ranks;
    choose_defaults(&job->set, job->backend == RINGLET_BACKEND_EMULATED);
    status = check_memory(job);
    if (status)
        return status;
    job->devices = calloc((size_t)job->ranks, sizeof *job->devices);
    if (!job->devices)
        return bench_failure("out of memory");
    for (int rank = 0; rank < job->ranks; rank++)
        job->devices[rank] = rank % job->gpus;
    return COMMAND_OK;
}

uint64_t bench_next_size(const struct settings *set, uint64_t size) {
    enum { FIRST = 4 };
    if (set->stepbytes != OPTIONS_UNSET)
        return size + set->stepbytes;
    return size ? size * set->stepfactor : FIRST;
}
