/*
 * One line on a terminal that says how far a command is, and is erased again.
 * Owns that line. Never writes where standard error is no terminal.
 */
#ifndef RINGLET_BENCH_PROGRESS_H
#define RINGLET_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool terminal, shown;
    uint64_t done, total; /* steps */
};

void progress_begin(struct progress *progress, uint64_t total);
/* The next step is under way. */
void progress_step(struct progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Erases the line: before anything else is printed, and at the end. */
void progress_erase(struct progress *progress);

#endif
