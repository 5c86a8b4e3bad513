#include "measure.h"

#include <pthread.h>
#include <stdlib.h>

struct sample {
    struct crew *crew;
    struct contender *contender;
    const struct session_call *call;
    uint64_t times;       /* operations that are timed together */
    uint64_t rounds;      /* how often */
    pthread_mutex_t lock; /* over what follows */
    uint64_t *slowest_ns; /* of each round */
};

static uint64_t now_ns(struct session *s) {
    uint64_t ns = 0;
    ringlet_clock_ns(s->comm, &ns);
    return ns;
}

static void finish(struct sample *sample, uint64_t round, int rank, const char *why, uint64_t ns) {
    struct session *s = sample->contender->session;
    pthread_mutex_lock(&sample->lock);
    if (why && rank >= 0)
        session_fail(s, "rank %d: %s", rank, why);
    else if (why)
        session_fail(s, "%s", why);
    if (ns > sample->slowest_ns[round])
        sample->slowest_ns[round] = ns;
    pthread_mutex_unlock(&sample->lock);
}

/* Enqueues, waits and notes the time; rank -1: all of them. False if that failed. */
static bool run_round(struct sample *sample, uint64_t round, int rank) {
    struct contender *contender = sample->contender;
    struct session *s = contender->session;
    uint64_t begin = now_ns(s);
    const char *why = contender->enqueue(contender, sample->call, rank, sample->times);
    ringlet_status status = RINGLET_OK;
    if (!why)
        status = rank < 0 ? session_wait_all(s) : session_wait(s, rank);
    uint64_t end = now_ns(s);
    if (status)
        why = session_words(status);
    finish(sample, round, rank, why, end - begin);
    return !why;
}

/* A rank that failed still meets the others, which would wait for it. */
static void rank_job(void *context, int rank) {
    struct sample *sample = context;
    bool fine = true;
    for (uint64_t round = 0; round < sample->rounds; round++) {
        crew_meet(sample->crew);
        fine = fine && run_round(sample, round, rank);
    }
}

static bool take(struct crew *crew, struct contender *contender, const struct session_call *call,
                 uint64_t times, uint64_t rounds, uint64_t *ns) {
    struct sample sample = {.crew = crew,
                            .contender = contender,
                            .call = call,
                            .times = times,
                            .rounds = rounds,
                            .slowest_ns = ns};
    for (uint64_t round = 0; round < rounds; round++)
        ns[round] = 0;
    pthread_mutex_init(&sample.lock, NULL);
    if (!contender->whole)
        crew_run(crew, rank_job, &sample);
    else
        for (uint64_t round = 0; round < rounds && run_round(&sample, round, -1);)
            round++;
    pthread_mutex_destroy(&sample.lock);
    return !contender->session->error[0];
}

bool measure_once(struct crew *crew, struct contender *contender, const struct session_call *call) {
    uint64_t ns;
    return take(crew, contender, call, 1, 1, &ns);
}

double measure_spread(const struct measure_result *result) {
    return result->median_us > 0 ? (result->most_us - result->least_us) / result->median_us : 0;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void summarise_samples(uint64_t *ns, int samples, double operations,
                              struct measure_result *out) {
    qsort(ns, (size_t)samples, sizeof *ns, compare);
    double unit = 1e3 * operations;
    out->median_us = (double)(ns[(samples - 1) / 2] + ns[samples / 2]) / 2 / unit;
    out->least_us = (double)ns[0] / unit;
    out->most_us = (double)ns[samples - 1] / unit;
}

/* The smallest value that `percent` of all are not above. */
static double percentile_us(const uint64_t *sorted, uint64_t count, unsigned percent) {
    uint64_t rank = (count * percent + 99) / 100;
    return (double)sorted[rank ? rank - 1 : 0] / 1e3;
}

static void summarise_singles(uint64_t *ns, uint64_t count, struct measure_result *out) {
    out->operations = count;
    qsort(ns, count, sizeof *ns, compare);
    out->p50_us = percentile_us(ns, count, 50);
    out->p90_us = percentile_us(ns, count, 90);
    out->p99_us = percentile_us(ns, count, 99);
    out->longest_us = percentile_us(ns, count, 100);
}

/* What is measured, before it is summarised: [contender][sample], [contender][operation]. */
struct times {
    uint64_t samples[MEASURE_CONTENDERS_MAX][MEASURE_SAMPLES_MAX];
    uint64_t *singles;
    uint64_t per_contender;
};

static bool take_round(struct crew *crew, struct contender *const *contenders, int count,
                       const struct session_call *call, const struct measure_config *config,
                       int sample, struct times *times) {
    uint64_t n = config->iterations;
    for (int i = 0; i < count; i++) {
        if (!take(crew, contenders[i], call, n, 1, &times->samples[i][sample]))
            return false;
        uint64_t *singles = times->singles + (uint64_t)i * times->per_contender;
        if (config->singly &&
            !take(crew, contenders[i], call, 1, n, singles + (uint64_t)sample * n))
            return false;
    }
    return true;
}

static bool take_all(struct crew *crew, struct contender *const *contenders, int count,
                     const struct session_call *call, const struct measure_config *config,
                     struct times *times) {
    uint64_t ns;
    for (int i = 0; i < count && config->warmups; i++)
        if (!take(crew, contenders[i], call, config->warmups, 1, &ns))
            return false;
    for (int sample = 0; sample < config->samples; sample++)
        if (!take_round(crew, contenders, count, call, config, sample, times))
            return false;
    return true;
}

bool measure_all(struct crew *crew, struct contender *const *contenders, int count,
                 const struct session_call *call, const struct measure_config *config,
                 struct measure_result *out) {
    struct times times = {.per_contender = config->iterations * (uint64_t)config->samples};
    uint64_t singles = config->singly ? times.per_contender * (uint64_t)count : 1;
    times.singles = malloc(singles * sizeof *times.singles);
    if (!times.singles)
        return session_fail(contenders[0]->session, "out of memory for the times of operations");
    bool fine = take_all(crew, contenders, count, call, config, &times);
    for (int i = 0; i < count && fine; i++) {
        out[i] = (struct measure_result){0};
        summarise_samples(times.samples[i], config->samples, (double)config->iterations, &out[i]);
        if (config->singly)
            summarise_singles(times.singles + (uint64_t)i * times.per_contender,
                              times.per_contender, &out[i]);
    }
    free(times.singles);
    return fine;
}
