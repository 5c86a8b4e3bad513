#include "bench.h"

#include <stdlib.h>
#include <string.h>

static bool open_bench(struct bench *b, struct session_config *config) {
    struct job *job = &b->job;
    bool all = job->set.algorithm == NAMES_ALGORITHMS;
    *config = (struct session_config){job->devices, job->ranks, job->set.maxbytes, {0}};
    bench_options(job, all ? RINGLET_ALGORITHM_RING : job->set.algorithm, &config->options);
    if (!session_open(&b->session, config))
        return false;
    bool threads = job->set.shape != SHAPE_WHOLE || !b->session.emulated;
    if (threads && !(b->crew = crew_create(job->ranks)))
        return session_fail(&b->session, "cannot start a thread for each of %d ranks", job->ranks);
    if (job->set.check && !(b->check = check_create(&b->session, b->crew)))
        return session_fail(&b->session, "out of memory for checking results");
    return true;
}

static void close_bench(struct bench *b) {
    bench_close_lanes(b);
    check_destroy(b->check);
    crew_destroy(b->crew);
    session_close(&b->session);
    record_free(&b->records);
    free(b->job.devices);
}

/* The types and operations asked for; an all-gather and a broadcast have none. */
struct range {
    int first_type, types, first_op, ops;
};

static struct range range_of(const struct settings *set) {
    bool all_types = set->type == NAMES_TYPES, all_ops = set->op == NAMES_OPS;
    struct range range = {all_types ? 0 : set->type, all_types ? NAMES_TYPES : 1,
                          all_ops ? 0 : set->op, all_ops ? NAMES_OPS : 1};
    if (!session_reduces((enum session_collective)set->collective))
        range.first_op = 0, range.ops = 1;
    return range;
}

static uint64_t count_steps(const struct settings *set, const struct range *range) {
    uint64_t sizes = 0;
    for (uint64_t size = set->minbytes; size <= set->maxbytes; size = bench_next_size(set, size))
        sizes++;
    return sizes * (uint64_t)range->types * (uint64_t)range->ops * (set->chain ? 1 : 2);
}

static bool run_sizes(struct bench *b, ringlet_dtype type, ringlet_op op) {
    const struct settings *set = &b->job.set;
    struct session_call largest = bench_call(b, set->maxbytes, type, op);
    if (!bench_choose_lanes(b, &largest))
        return false;
    bool any = false;
    for (int i = 0; i < b->lane_count; i++)
        any |= b->lanes[i].kind == LANE_RINGLET && !b->lanes[i].off;
    for (uint64_t size = set->minbytes; any && size <= set->maxbytes;
         size = bench_next_size(set, size)) {
        struct session_call call = bench_call(b, size, type, op);
        if (!bench_size(b, &call))
            return false;
    }
    return true;
}

static bool run_all(struct bench *b) {
    struct range range = range_of(&b->job.set);
    progress_begin(&b->progress, count_steps(&b->job.set, &range));
    for (int t = 0; t < range.types; t++)
        for (int o = 0; o < range.ops; o++)
            if (!run_sizes(b, names_type(range.first_type + t), (ringlet_op)(range.first_op + o)))
                return false;
    return b->records.count ||
           session_fail(&b->session, "the library has nothing of what is to be timed; see above");
}

static int run(struct bench *b) {
    struct session_config config;
    const struct settings *set = &b->job.set;
    bool uses_stdout = false;
    const char *const paths[] = {set->json, set->csv, set->plot};
    for (int i = 0; i < 3; i++)
        uses_stdout |= paths[i] && !strcmp(paths[i], "-");
    b->report.out = uses_stdout ? stderr : stdout;
    bool fine = open_bench(b, &config);
    if (fine) {
        bench_print_header(b);
        fine = bench_open_lanes(b, &config);
    }
    if (fine) {
        bench_print_columns(b);
        fine = run_all(b);
        progress_erase(&b->progress);
    }
    char why[OUTPUT_WHY_MAX], error[SESSION_ERROR_MAX];
    if (fine) {
        report_footer(&b->report);
        if (!bench_write_files(b, why))
            session_fail(&b->session, "%s", why);
    }
    bool wrong = b->report.wrong > 0;
    close_bench(b);
    memcpy(error, b->session.error, sizeof error);
    if (error[0])
        return bench_failure(error);
    return wrong ? bench_failure("results are wrong; see the columns #wrong") : COMMAND_OK;
}

int command_bench(int argc, char **argv) {
    struct bench bench = {.job = {.set = bench_defaults, .argc = argc, .argv = argv}};
    struct settings *set = &bench.job.set;
    enum options_result parsed = options_parse(&bench_command, argc, argv, set, stdout, stderr);
    if (parsed)
        return parsed == OPTIONS_HELP ? COMMAND_OK : COMMAND_USAGE;
    int status = bench_settle(&bench.job);
    return status ? status : run(&bench);
}
