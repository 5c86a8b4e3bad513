#include "measure.h"

#include <pthread.h>
#include <stdlib.h>

struct sample {
    struct crew *crew;
    struct contender *contender;
    const struct session_call *call;
    uint64_t times;
    pthread_mutex_t lock; /* over what follows */
    uint64_t slowest_ns;
};

static uint64_t now_ns(struct session *s) {
    uint64_t ns = 0;
    ringlet_clock_ns(s->comm, &ns);
    return ns;
}

static void finish(struct sample *sample, int rank, const char *why, uint64_t ns) {
    struct session *s = sample->contender->session;
    pthread_mutex_lock(&sample->lock);
    if (why && rank >= 0)
        session_fail(s, "rank %d: %s", rank, why);
    else if (why)
        session_fail(s, "%s", why);
    if (ns > sample->slowest_ns)
        sample->slowest_ns = ns;
    pthread_mutex_unlock(&sample->lock);
}

static void rank_job(void *context, int rank) {
    struct sample *sample = context;
    struct session *s = sample->contender->session;
    crew_meet(sample->crew);
    uint64_t begin = now_ns(s);
    const char *why =
        sample->contender->enqueue(sample->contender, sample->call, rank, sample->times);
    ringlet_status status = why ? RINGLET_OK : session_wait(s, rank);
    uint64_t end = now_ns(s);
    finish(sample, rank, status ? session_words(status) : why, end - begin);
}

static void whole_job(struct sample *sample) {
    struct session *s = sample->contender->session;
    uint64_t begin = now_ns(s);
    const char *why =
        sample->contender->enqueue(sample->contender, sample->call, -1, sample->times);
    ringlet_status status = why ? RINGLET_OK : session_wait_all(s);
    uint64_t end = now_ns(s);
    finish(sample, -1, status ? session_words(status) : why, end - begin);
}

static bool take(struct crew *crew, struct contender *contender, const struct session_call *call,
                 uint64_t times, uint64_t *ns) {
    struct sample sample = {.crew = crew, .contender = contender, .call = call, .times = times};
    pthread_mutex_init(&sample.lock, NULL);
    if (contender->whole)
        whole_job(&sample);
    else
        crew_run(crew, rank_job, &sample);
    pthread_mutex_destroy(&sample.lock);
    *ns = sample.slowest_ns;
    return !contender->session->error[0];
}

bool measure_once(struct crew *crew, struct contender *contender, const struct session_call *call) {
    uint64_t ns;
    return take(crew, contender, call, 1, &ns);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct measure_result summarise(double *us, int samples) {
    qsort(us, (size_t)samples, sizeof *us, compare);
    double median = (us[(samples - 1) / 2] + us[samples / 2]) / 2;
    double spread = median > 0 ? (us[samples - 1] - us[0]) / median : 0;
    return (struct measure_result){median, spread};
}

bool measure_all(struct crew *crew, struct contender *const *contenders, int count,
                 const struct session_call *call, const struct measure_config *config,
                 struct measure_result *out) {
    double us[MEASURE_CONTENDERS_MAX][MEASURE_SAMPLES_MAX];
    uint64_t ns;
    for (int i = 0; i < count && config->warmups; i++)
        if (!take(crew, contenders[i], call, config->warmups, &ns))
            return false;
    for (int sample = 0; sample < config->samples; sample++)
        for (int i = 0; i < count; i++) {
            if (!take(crew, contenders[i], call, config->iterations, &ns))
                return false;
            us[i][sample] = (double)ns / 1e3 / (double)config->iterations;
        }
    for (int i = 0; i < count; i++)
        out[i] = summarise(us[i], config->samples);
    return true;
}
