/*
 * A fixed set of threads that run one job at a time, each with its index.
 * Owns the threads. Never runs anything outside crew_run().
 */
#ifndef RINGLET_BENCH_CREW_H
#define RINGLET_BENCH_CREW_H

struct crew;

/* `threads` threads, at least 1; NULL if they cannot be had. */
struct crew *crew_create(int threads);
void crew_destroy(struct crew *crew);
int crew_size(const struct crew *crew);

/* Runs job(context, index) on every thread and returns when all are done. */
void crew_run(struct crew *crew, void (*job)(void *context, int index), void *context);

/* Inside a job: waits until every thread has come here, spinning, so that all leave within a
 * microsecond of each other. */
void crew_meet(struct crew *crew);

#endif
