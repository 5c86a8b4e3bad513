/*
 * What agreement costs: threads that enter and wait for each other as a call does, and nothing
 * else. Prints nanoseconds a call by number of ranks, the median of several samples.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/agree.h"

enum { RANKS_MAX = 8, CALLS = 20000, SAMPLES = 7 };

static struct agree *board;

static bool go_on(void *context) {
    return context != NULL;
}

static const char *word(uint32_t value) {
    (void)value;
    return "";
}

static void *rank_run(void *argument) {
    static const struct agree_names names = {word, word, word};
    uint32_t rank = (uint32_t)(uintptr_t)argument, number, missing;
    struct agree_call call = {.count = 2};
    for (int i = 0; i < CALLS; i++)
        if (agree_enter(board, rank, &call, 10000, go_on, NULL, &number) ||
            agree_wait(board, number, 10000, go_on, NULL, &missing) ||
            agree_compare(board, number, &names))
            exit(EXIT_FAILURE);
    return NULL;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double sample(uint32_t ranks) {
    pthread_t threads[RANKS_MAX];
    board = agree_new(ranks);
    uint64_t start = clock_now_ns();
    for (uintptr_t r = 0; r < ranks; r++)
        if (pthread_create(&threads[r], NULL, rank_run, (void *)r))
            exit(EXIT_FAILURE);
    for (uint32_t r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    double ns = (double)(clock_now_ns() - start) / CALLS;
    agree_free(board);
    return ns;
}

int main(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (uint32_t ranks = 2; ranks <= RANKS_MAX && (long)ranks <= cores; ranks *= 2) {
        double samples[SAMPLES];
        for (int i = 0; i < SAMPLES; i++)
            samples[i] = sample(ranks);
        qsort(samples, SAMPLES, sizeof *samples, by_value);
        printf("agreement of %u ranks: %.0f ns a call (%.0f to %.0f)\n", ranks,
               samples[SAMPLES / 2], samples[0], samples[SAMPLES - 1]);
    }
    return EXIT_SUCCESS;
}
