#include "run/team.h"

#ifdef RINGLET_OPENMP
#include <omp.h>
#include <stdio.h>

bool team_run(uint32_t count, void (*member)(void *context, uint32_t index), void *context) {
    bool complete = true; /* every thread writes the same; only the first one does */
#pragma omp parallel num_threads(count)
    {
        uint32_t index = (uint32_t)omp_get_thread_num();
        if ((uint32_t)omp_get_num_threads() == count)
            member(context, index);
        else if (index == 0)
            complete = false;
    }
    return complete;
}

const char *team_text(void) {
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "OpenMP %d", _OPENMP);
    return text;
}
#else
#include <pthread.h>

#include "base/memory.h"

struct seat {
    void (*member)(void *context, uint32_t index);
    void *context;
    struct gate *gate;
    uint32_t index;
    pthread_t thread;
};

struct gate { /* closed until all threads are there */
    pthread_mutex_t lock;
    pthread_cond_t opened;
    int state; /* 0 closed, 1 go, -1 go home */
};

static int gate_pass(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    while (!gate->state)
        pthread_cond_wait(&gate->opened, &gate->lock);
    int state = gate->state;
    pthread_mutex_unlock(&gate->lock);
    return state;
}

static void gate_open(struct gate *gate, int state) {
    pthread_mutex_lock(&gate->lock);
    gate->state = state;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

static void *sit(void *argument) {
    struct seat *seat = argument;
    if (gate_pass(seat->gate) > 0)
        seat->member(seat->context, seat->index);
    return NULL;
}

bool team_run(uint32_t count, void (*member)(void *context, uint32_t index), void *context) {
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    struct seat *seats = memory_zeroed(count, sizeof *seats);
    uint32_t made = 0;
    if (!seats)
        return false;
    for (; made < count; made++) {
        seats[made] =
            (struct seat){.member = member, .context = context, .gate = &gate, .index = made};
        if (pthread_create(&seats[made].thread, NULL, sit, &seats[made]))
            break;
    }
    gate_open(&gate, made == count ? 1 : -1);
    for (uint32_t i = 0; i < made; i++)
        pthread_join(seats[i].thread, NULL);
    memory_free(seats);
    return made == count;
}

const char *team_text(void) {
    return "POSIX threads";
}
#endif
