/*
 * `ringlet bench`: times collectives size by size, checks their results, compares.
 * Owns the options and the order of things. Never looks behind the public interface.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "command.h"
#include "options.h"
#include "report.h"

enum { SHAPE_CHOOSE = -1, SHAPE_RANKS, SHAPE_WHOLE, SHAPE_BOTH };

struct settings {
    uint64_t minbytes, maxbytes, stepfactor, stepbytes, iterations, warmups, check, gpus, ranks;
    int algorithm, shape, collective, backend;
    uint64_t slices, rings, scratch, seed;
    int64_t timeout_ms;
    const char *machine;
    int share_devices, no_p2p, link, peer, verbose;
};

static const struct settings defaults = {
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
};

enum { RANKS_MAX = 4096 };
#define SIZE_LIMIT (UINT64_C(1) << 42)

static const char *const algorithms[] = {"auto", "ring", "host", NULL};   /* ringlet_algorithm */
static const char *const backends[] = {"auto", "cuda", "emulated", NULL}; /* ringlet_backend */
static const char *const shapes[] = {"1", "2", "both", NULL};
static const char *const collectives[] = {"all-reduce", "reduce-scatter", "all-gather", NULL};
static const char *const peers[] = {"nccl", NULL};

#define AT(member) offsetof(struct settings, member)
static const struct options_entry entries[] = {
    {'b', "minbytes", OPTIONS_SIZE, "SIZE", "smallest message", AT(minbytes), 0, SIZE_LIMIT, NULL},
    {'e', "maxbytes", OPTIONS_SIZE, "SIZE", "largest message (default 128M; emulated devices 4M)",
     AT(maxbytes), 0, SIZE_LIMIT, NULL},
    {'f', "stepfactor", OPTIONS_NUMBER, "N", "each size is N times the one before (default 4)",
     AT(stepfactor), 2, 1 << 20, NULL},
    {'i', "stepbytes", OPTIONS_SIZE, "SIZE", "each size is SIZE more than the one before, instead",
     AT(stepbytes), 1, SIZE_LIMIT, NULL},
    {'n', "iters", OPTIONS_NUMBER, "N", "operations in a sample (default 20; modelled time 2)",
     AT(iterations), 1, 1000000, NULL},
    {'w', "warmup_iters", OPTIONS_NUMBER, "N",
     "operations before the samples, at every size (default 5; modelled time 1)", AT(warmups), 0,
     1000000, NULL},
    {'c', "check", OPTIONS_NUMBER, "N", "0: do not check results", AT(check), 0, 1000000, NULL},
    {'g', "ngpus", OPTIONS_NUMBER, "N", "devices to use, from device 0 on (default all)", AT(gpus),
     1, RANKS_MAX, NULL},
    {0, "ranks", OPTIONS_NUMBER, "N",
     "ranks (default one a device; 4 on the built-in emulated machine). More ranks than devices "
     "share them: emulated ones, or with --share-devices",
     AT(ranks), 1, RANKS_MAX, NULL},
    {0, "collective", OPTIONS_CHOICE, NULL, "what to time", AT(collective), 0, 0, collectives},
    {0, "algorithm", OPTIONS_CHOICE, NULL,
     "ring: between the devices; host: the textbook way through host memory, for comparison",
     AT(algorithm), 0, 0, algorithms},
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
     AT(slices), 0, 1 << 20, NULL},
    {0, "rings", OPTIONS_NUMBER, "N", "rings side by side (0: the library chooses)", AT(rings), 0,
     RANKS_MAX, NULL},
    {0, "scratch", OPTIONS_SIZE, "SIZE",
     "device memory for scratch, a rank (0: the library chooses)", AT(scratch), 0, SIZE_LIMIT,
     NULL},
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
    {'v', "verbose", OPTIONS_FLAG, NULL,
     "columns with the spread of the samples, and a line a size that says what ran", AT(verbose), 0,
     0, NULL},
};

static const struct options_command command = {
    "ringlet bench",
    "Times collectives of floats, size by size, out of place and in place, and checks every "
    "result\n"
    "on fresh data: whole numbers bit for bit, and random ones against a float64 sum with the "
    "error\n"
    "bound of the operation. Columns are those of NCCL's all_reduce_perf.",
    "Sizes are in bytes; K, M and G are powers of 1024. time: of one operation, in microseconds, "
    "the\n"
    "median of several samples. algbw: size / time. busbw: algbw x 2(n-1)/n for all-reduce,\n"
    "(n-1)/n for its halves. Decimal GB/s. On emulated devices data is moved and checked, and time "
    "is\n"
    "that of a model.\n"
    "Exit status: 0 all went well, 1 something failed or was wrong, 2 bad usage.\n\n"
    "Examples:\n"
    "  ringlet bench\n"
    "  ringlet bench -b 1M -e 1G -f 4 --link --peer nccl\n"
    "  ringlet bench --machine machines/dgx1-v100.txt --no-p2p",
    entries,
    sizeof entries / sizeof entries[0],
};

/* What the settings come to on this machine. */
struct job {
    struct settings set;
    ringlet_backend backend;
    int available, gpus, ranks;
    const char *note; /* why emulated, or NULL */
    int *devices;
};

static int usage(const char *what) {
    fprintf(stderr, "ringlet bench: %s\ntry 'ringlet bench --help'\n", what);
    return COMMAND_USAGE;
}

static int failure(const char *what) {
    fflush(stdout);
    fprintf(stderr, "ringlet bench: %s\n", what);
    return COMMAND_FAILED;
}

static void fill_options(const struct settings *set, ringlet_backend backend,
                         ringlet_options *options) {
    ringlet_options_init(options);
    options->backend = backend;
    options->algorithm = (ringlet_algorithm)set->algorithm;
    options->scheduler = RINGLET_SCHEDULER_SEEDED;
    options->seed = set->seed;
    options->machine = set->machine;
    options->rings = (uint32_t)set->rings;
    options->slices = (uint32_t)set->slices;
    options->scratch_bytes = set->scratch;
    options->timeout_ms = set->timeout_ms;
    options->share_devices = set->share_devices;
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
        return failure(session_words(status));
    if (!job->available)
        return failure(
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
        return usage(what);
    }
    if (job->ranks > job->gpus && !emulated && !set->share_devices) {
        snprintf(
            what, sizeof what,
            "--ranks %d: there are %d devices; give --share-devices to put several ranks on one",
            job->ranks, job->gpus);
        return usage(what);
    }
    if (job->gpus > job->ranks)
        job->gpus = job->ranks;
    return COMMAND_OK;
}

static int check_settings(const struct settings *set) {
    if (set->stepfactor != OPTIONS_UNSET && set->stepbytes != OPTIONS_UNSET)
        return usage("--stepfactor and --stepbytes exclude each other; give one");
    if (set->maxbytes != OPTIONS_UNSET && set->maxbytes < set->minbytes)
        return usage("--maxbytes is less than --minbytes");
    if (set->machine && set->backend == RINGLET_BACKEND_CUDA)
        return usage("--machine is for emulated devices; leave --backend cuda out");
    return COMMAND_OK;
}

static void choose_defaults(struct settings *set, bool emulated) {
    enum { CUDA_MAX = 128 << 20, EMULATED_MAX = 4 << 20, FACTOR = 4 };
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

/* Contenders: the one of the ordinary columns, then those beside it. */
enum { MAIN, SECOND_SHAPE, LINK, NCCL, CONTENDERS };

struct bench {
    struct job job;
    struct session session;
    struct crew *crew;
    struct check *check;
    struct contender *contenders[CONTENDERS];
    struct report report;
};

static bool open_contenders(struct bench *b) {
    const struct settings *set = &b->job.set;
    struct session *s = &b->session;
    const char *why;
    b->contenders[MAIN] = contender_open_ringlet(s, set->shape == SHAPE_WHOLE);
    if (set->shape == SHAPE_BOTH)
        b->contenders[SECOND_SHAPE] = contender_open_ringlet(s, true);
    if (!b->contenders[MAIN] || (set->shape == SHAPE_BOTH && !b->contenders[SECOND_SHAPE]))
        return session_fail(s, "out of memory");
    if (set->link && !(b->contenders[LINK] = contender_open_link(s, &why)))
        printf("# --link: N/A, %s\n", why);
    if (set->peer >= 0 && !(b->contenders[NCCL] = contender_open_nccl(s, &why)))
        printf("# --peer nccl: N/A, %s\n", why);
    return true;
}

static bool open_bench(struct bench *b) {
    struct job *job = &b->job;
    struct session_config config = {job->devices, job->ranks, job->set.maxbytes, {0}};
    fill_options(&job->set, job->backend, &config.options);
    if (job->ranks > job->gpus)
        config.options.share_devices = 1;
    if (!session_open(&b->session, &config))
        return false;
    bool threads = job->set.shape != SHAPE_WHOLE || !b->session.emulated;
    if (threads && !(b->crew = crew_create(job->ranks)))
        return session_fail(&b->session, "cannot start a thread for each of %d ranks", job->ranks);
    if (job->set.check && !(b->check = check_create(&b->session, b->crew, b->session.elements)))
        return session_fail(&b->session, "out of memory for checking results");
    return true;
}

static void close_bench(struct bench *b) {
    for (int i = CONTENDERS - 1; i >= 0; i--)
        contender_close(b->contenders[i]);
    check_destroy(b->check);
    crew_destroy(b->crew);
    session_close(&b->session);
    free(b->job.devices);
}

static void print_steps(const struct settings *set, int gpus) {
    printf("# nThread 1 nGpus %d minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64
           "(%s) warmup iters: %" PRIu64 " iters: %" PRIu64 " agg iters: 1 validation: %" PRIu64
           " graph: 0\n",
           gpus, set->minbytes, set->maxbytes,
           set->stepbytes != OPTIONS_UNSET ? set->stepbytes : set->stepfactor,
           set->stepbytes != OPTIONS_UNSET ? "bytes" : "factor", set->warmups, set->iterations,
           set->check);
}

static void print_devices(const struct bench *b) {
    const struct session *s = &b->session;
    enum { SHOWN = 16 };
    printf("#\n# Using devices\n");
    for (int rank = 0; rank < s->ranks && rank < SHOWN; rank++) {
        ringlet_device_info info = {.struct_size = sizeof info};
        if (ringlet_comm_device_query(s->comm, rank, &info))
            continue;
        printf("#  Rank %2d Pid %6d device %2d %s%s%s%s\n", rank, (int)getpid(), info.device,
               info.pci[0] ? "[" : "", info.pci, info.pci[0] ? "] " : "", info.name);
    }
    if (s->ranks > SHOWN)
        printf("#  ... and %d ranks more\n", s->ranks - SHOWN);
}

static void print_header(const struct bench *b) {
    static const char *const shape_texts[] = {"one host thread a rank",
                                              "one thread calls for all ranks",
                                              "one host thread a rank, and one thread for all"};
    const struct settings *set = &b->job.set;
    const struct session *s = &b->session;
    printf("# ringlet %s bench: %s, %d ranks on %d %s devices, %s\n", ringlet_version(),
           collectives[set->collective], s->ranks, b->job.gpus, s->emulated ? "EMULATED" : "CUDA",
           shape_texts[set->shape]);
    if (s->modelled)
        printf("#\n# TIMES ARE MODELLED, not measured: machine '%s'%s%s\n"
               "# Data is really moved and checked; no GPU is involved.\n#\n",
               s->machine, b->job.note ? ", emulated since there is " : "",
               b->job.note ? b->job.note : "");
    if (s->modelled && set->shape != SHAPE_WHOLE)
        printf("# With a thread a rank the order of calls, and so modelled time, varies a "
               "little.\n#\n");
    print_steps(set, b->job.gpus);
    print_devices(b);
}

static void print_peer(const struct bench *b) {
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    if (!b->contenders[NCCL])
        return;
    printf("# NCCL %s beside it, NCCL_NVLS_ENABLE=%s; ratio: NCCL's time over Ringlet's\n",
           contender_nccl_version(b->contenders[NCCL]), nvls ? nvls : "(not set)");
    if (!nvls || strcmp(nvls, "0"))
        printf(
            "# NCCL may use NVLink multicast, which Ringlet does not; NCCL_NVLS_ENABLE=0 compares "
            "peer-to-peer with peer-to-peer\n");
}

static void name_extras(struct bench *b) {
    const struct settings *set = &b->job.set;
    struct report *r = &b->report;
    if (set->verbose || set->peer >= 0) {
        report_extra(r, "spread", "out", "(%)");
        report_extra(r, NULL, "in", "(%)");
    }
    if (set->shape == SHAPE_BOTH) {
        report_extra(r, "shape 2 out", "time", "(us)");
        report_extra(r, NULL, "busbw", "(GB/s)");
        report_extra(r, "shape 2 in", "time", "(us)");
        report_extra(r, NULL, "busbw", "(GB/s)");
    }
    if (set->link) {
        report_extra(r, "link both ways", "copy", "(GB/s)");
        report_extra(r, NULL, "out", "(%)");
        report_extra(r, NULL, "in", "(%)");
    }
    if (set->peer >= 0) {
        report_extra(r, "NCCL out-of-place", "time", "(us)");
        report_extra(r, NULL, "spread", "(%)");
        report_extra(r, NULL, "ratio", "");
        report_extra(r, "NCCL in-place", "time", "(us)");
        report_extra(r, NULL, "spread", "(%)");
        report_extra(r, NULL, "ratio", "");
    }
}

/* What was measured of one size: [placement][contender]. */
struct measured {
    struct measure_result of[2][CONTENDERS];
    bool there[CONTENDERS];
};

static double rate_gbps(uint64_t bytes, double us) {
    return us > 0 ? (double)bytes / us / 1e3 : 0;
}

static double bus_factor(const struct bench *b) {
    double n = b->session.ranks;
    return (b->job.set.collective == SESSION_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

struct cells {
    struct report_row *row;
    int count;
};

static void cell(struct cells *cells, bool there, int decimals, double value) {
    char *text = cells->row->extras[cells->count++];
    if (there)
        snprintf(text, REPORT_CELL_MAX, "%.*f", decimals, value);
    else
        snprintf(text, REPORT_CELL_MAX, "N/A");
}

static void cell_time(struct cells *cells, bool there, double us) {
    if (there)
        report_time(us, cells->row->extras[cells->count++]);
    else
        cell(cells, false, 0, 0);
}

/* In the order of name_extras(). */
static void fill_extras(const struct bench *b, const struct measured *m, uint64_t bytes,
                        struct report_row *row) {
    const struct settings *set = &b->job.set;
    struct cells cells = {row, 0};
    if (set->verbose || set->peer >= 0)
        for (int place = 0; place < 2; place++)
            cell(&cells, !b->session.modelled, 1, m->of[place][MAIN].spread * 100);
    for (int place = 0; place < 2 && set->shape == SHAPE_BOTH; place++) {
        double us = m->of[place][SECOND_SHAPE].median_us;
        cell_time(&cells, true, us);
        cell(&cells, true, 2, rate_gbps(bytes, us) * bus_factor(b));
    }
    if (set->link) {
        double out = m->of[0][LINK].median_us, in = m->of[1][LINK].median_us;
        double link = rate_gbps(bytes, out < in ? out : in); /* a ceiling: the better of two */
        cell(&cells, m->there[LINK], 2, link);
        for (int place = 0; place < 2; place++)
            cell(&cells, m->there[LINK] && link > 0, 1, row->results[place].busbw / link * 100);
    }
    for (int place = 0; place < 2 && set->peer >= 0; place++) {
        const struct measure_result *nccl = &m->of[place][NCCL], *own = &m->of[place][MAIN];
        cell_time(&cells, m->there[NCCL], nccl->median_us);
        cell(&cells, m->there[NCCL], 1, nccl->spread * 100);
        cell(&cells, m->there[NCCL] && own->median_us > 0, 2, nccl->median_us / own->median_us);
    }
}

static bool measure_place(struct bench *b, const struct session_call *call, struct measured *m) {
    enum { SAMPLES = 5 };
    const struct settings *set = &b->job.set;
    struct measure_config config = {set->warmups, set->iterations,
                                    b->session.modelled ? 1 : SAMPLES};
    struct contender *present[CONTENDERS];
    struct measure_result results[CONTENDERS];
    int count = 0, from[CONTENDERS];
    for (int i = 0; i < CONTENDERS; i++)
        if (b->contenders[i]) {
            from[count] = i;
            present[count++] = b->contenders[i];
            m->there[i] = true;
        }
    if (!measure_all(b->crew, present, count, call, &config, results))
        return false;
    for (int i = 0; i < count; i++)
        m->of[call->in_place][from[i]] = results[i];
    return true;
}

static bool check_place(struct bench *b, const struct session_call *call,
                        struct report_result *result) {
    if (!b->check)
        return true;
    result->checked = true;
    for (int i = MAIN; i <= SECOND_SHAPE; i++) {
        uint64_t wrong = 0;
        if (b->contenders[i] && !check_call(b->check, b->contenders[i], call, &wrong))
            return false;
        result->wrong += wrong;
    }
    return true;
}

static void print_choice(const struct bench *b) {
    ringlet_comm_info info = {.struct_size = sizeof info};
    if (!ringlet_comm_query(b->session.comm, &info))
        printf("#   ran: algorithm %s, rings %" PRIu32 ", slices %" PRIu32
               ", scratch %.1f MB a rank, edges through the host %d\n",
               info.algorithm, info.rings, info.slices, (double)info.scratch_bytes / 1e6,
               info.staged_edges);
}

static bool run_size(struct bench *b, uint64_t size) {
    const struct settings *set = &b->job.set;
    bool halves = set->collective != SESSION_ALL_REDUCE;
    uint64_t share = halves ? (uint64_t)b->session.ranks : 1;
    struct session_call call = {(enum session_collective)set->collective, false,
                                size / sizeof(float) / share};
    struct report_row row = {.bytes = call.count * share * sizeof(float), .count = call.count};
    struct measured measured = {.there = {false}};
    row.operation = set->collective == SESSION_ALL_GATHER ? "none" : "sum";
    for (int place = 0; place < 2; place++) {
        struct report_result *result = &row.results[place];
        call.in_place = place;
        if (!measure_place(b, &call, &measured) || !check_place(b, &call, result))
            return false;
        result->time_us = measured.of[place][MAIN].median_us;
        result->algbw = rate_gbps(row.bytes, result->time_us);
        result->busbw = result->algbw * bus_factor(b);
    }
    fill_extras(b, &measured, row.bytes, &row);
    report_row(&b->report, &row);
    if (set->verbose)
        print_choice(b);
    return true;
}

static uint64_t next_size(const struct settings *set, uint64_t size) {
    if (set->stepbytes != OPTIONS_UNSET)
        return size + set->stepbytes;
    return size ? size * set->stepfactor : sizeof(float);
}

static int run(struct bench *b) {
    const struct settings *set = &b->job.set;
    bool fine = open_bench(b);
    if (fine) {
        print_header(b);
        fine = open_contenders(b);
    }
    if (fine) {
        print_peer(b);
        b->report.out = stdout;
        name_extras(b);
        report_titles(&b->report);
    }
    for (uint64_t size = set->minbytes; fine && size <= set->maxbytes; size = next_size(set, size))
        fine = run_size(b, size);
    if (fine)
        report_footer(&b->report);
    bool wrong = b->report.wrong > 0;
    char error[SESSION_ERROR_MAX];
    close_bench(b);
    memcpy(error, b->session.error, sizeof error);
    if (error[0])
        return failure(error);
    return wrong ? failure("results are wrong; see the columns #wrong") : COMMAND_OK;
}

int command_bench(int argc, char **argv) {
    struct bench bench = {.job.set = defaults};
    struct job *job = &bench.job;
    enum options_result parsed = options_parse(&command, argc, argv, &job->set, stdout, stderr);
    if (parsed)
        return parsed == OPTIONS_HELP ? COMMAND_OK : COMMAND_USAGE;
    int status = check_settings(&job->set);
    if (status)
        return status;
    choose_backend(job);
    status = choose_ranks(job);
    if (status)
        return status;
    choose_defaults(&job->set, job->backend == RINGLET_BACKEND_EMULATED);
    job->devices = calloc((size_t)job->ranks, sizeof *job->devices);
    if (!job->devices)
        return failure("out of memory");
    for (int rank = 0; rank < job->ranks; rank++)
        job->devices[rank] = rank % job->gpus;
    return run(&bench);
}
