/*
 * Steady time and patience for host waits.
 * Owns nothing. Never used for modelled time.
 */
#ifndef RINGLET_BASE_CLOCK_H
#define RINGLET_BASE_CLOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A wait for another host thread: a short spin (peers usually come within a microsecond), then
 * giving up the processor, then sleeping, so that a late peer costs no core. */
struct patience {
    uint64_t start_ns, deadline_ns; /* deadline 0: none */
    uint32_t looks;
};

static inline struct patience patience_start(int64_t timeout_ms) {
    struct patience p = {clock_now_ns(), 0, 0};
    if (timeout_ms >= 0 && timeout_ms < INT64_MAX / 1000000)
        p.deadline_ns = p.start_ns + (uint64_t)timeout_ms * 1000000u;
    return p;
}

/* Call between two looks; false when the deadline has passed. */
static inline bool patience_pause(struct patience *p) {
    enum { SPINS = 200, YIELDS = 2000 };
    if (p->looks++ < SPINS) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
        return true;
    }
    if (p->looks < YIELDS) {
        sched_yield();
    } else {
        struct timespec nap = {0, 50000};
        nanosleep(&nap, NULL);
    }
    return !p->deadline_ns || clock_now_ns() < p->deadline_ns;
}

#endif
