/*
 * A team of host threads, one a rank, for the calls in which one thread drives all.
 * Owns the use of OpenMP (or of POSIX threads where the build has no OpenMP). Never changes the
 * caller's OpenMP settings.
 */
#ifndef RINGLET_RUN_TEAM_H
#define RINGLET_RUN_TEAM_H

#include <stdbool.h>
#include <stdint.h>

/* Runs member(context, i) for i = 0 ... count - 1, all at the same time on threads of their own,
 * and returns when all have returned. False, with nothing run, where fewer threads can be had:
 * inside a parallel region, under a thread limit, with dynamic teams. */
bool team_run(uint32_t count, void (*member)(void *context, uint32_t index), void *context);

/* "OpenMP 201511" or "POSIX threads". */
const char *team_text(void);

#endif
