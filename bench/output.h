/*
 * A file that a command writes as a whole or not at all.
 * Owns the temporary file beside it, which exists only while it is written. "-" is standard output;
 * what is no ordinary file (a pipe, /dev/null) is written directly. Never prints.
 */
#ifndef RINGLET_BENCH_OUTPUT_H
#define RINGLET_BENCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct output {
    const char *path;
    char *text; /* what was written so far */
    size_t length;
    FILE *out; /* writes to text */
};

enum { OUTPUT_WHY_MAX = 512 };

/* Whether a file could be written there, found out without leaving a trace, so that a long run does
 * not end with "permission denied". False with the reason, which names the path. */
bool output_possible(const char *path, char *why);

/* Write to output->out, then save. NULL path: nothing is saved. False: out of memory. */
bool output_open(struct output *output, const char *path);
/* Saves and closes; false with the reason, and then the old file is as it was. */
bool output_save(struct output *output, char *why);

/* Closes without saving. */
void output_drop(struct output *output);

#endif
