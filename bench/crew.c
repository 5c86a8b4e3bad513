#include "crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct member {
    struct crew *crew;
    pthread_t thread;
    int index;
};

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t given, done;
    void (*job)(void *, int); /* NULL: leave */
    void *context;
    unsigned long round; /* jobs given so far */
    int size, working;
    atomic_int arrived; /* of crew_meet() */
    atomic_uint meeting;
    struct member members[];
};

static void *member_main(void *argument) {
    struct member *me = argument;
    struct crew *crew = me->crew;
    pthread_mutex_lock(&crew->lock);
    for (unsigned long round = 1;; round++) {
        while (crew->round < round)
            pthread_cond_wait(&crew->given, &crew->lock);
        if (!crew->job)
            break;
        pthread_mutex_unlock(&crew->lock);
        crew->job(crew->context, me->index);
        pthread_mutex_lock(&crew->lock);
        if (--crew->working == 0)
            pthread_cond_signal(&crew->done);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static void give(struct crew *crew, void (*job)(void *, int), void *context) {
    pthread_mutex_lock(&crew->lock);
    crew->job = job;
    crew->context = context;
    crew->working = crew->size;
    crew->round++;
    pthread_cond_broadcast(&crew->given);
    pthread_mutex_unlock(&crew->lock);
}

void crew_run(struct crew *crew, void (*job)(void *, int), void *context) {
    give(crew, job, context);
    pthread_mutex_lock(&crew->lock);
    while (crew->working)
        pthread_cond_wait(&crew->done, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

struct crew *crew_create(int threads) {
    struct crew *crew = calloc(1, sizeof *crew + (size_t)threads * sizeof crew->members[0]);
    if (!crew)
        return NULL;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->given, NULL);
    pthread_cond_init(&crew->done, NULL);
    for (; crew->size < threads; crew->size++) {
        struct member *member = &crew->members[crew->size];
        member->crew = crew;
        member->index = crew->size;
        if (pthread_create(&member->thread, NULL, member_main, member)) {
            crew_destroy(crew);
            return NULL;
        }
    }
    return crew;
}

void crew_destroy(struct crew *crew) {
    if (!crew)
        return;
    give(crew, NULL, NULL);
    for (int i = 0; i < crew->size; i++)
        pthread_join(crew->members[i].thread, NULL);
    pthread_cond_destroy(&crew->given);
    pthread_cond_destroy(&crew->done);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

int crew_size(const struct crew *crew) {
    return crew->size;
}

void crew_meet(struct crew *crew) {
    enum { SPINS = 20000 }; /* then other threads may need the core */
    unsigned meeting = atomic_load(&crew->meeting);
    if (atomic_fetch_add(&crew->arrived, 1) + 1 == crew->size) {
        atomic_store(&crew->arrived, 0);
        atomic_store(&crew->meeting, meeting + 1);
        return;
    }
    for (int spins = 0; atomic_load(&crew->meeting) == meeting; spins++)
        if (spins > SPINS)
            sched_yield();
}
