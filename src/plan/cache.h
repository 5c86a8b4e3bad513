/*
 * Plans kept for use again.
 * Owns a bounded set of plans by spec, the least recently used one leaving first. Never knows who
 * runs them.
 */
#ifndef RINGLET_PLAN_CACHE_H
#define RINGLET_PLAN_CACHE_H

#include "plan/plan.h"

enum { PLAN_CACHE_MAX = 64 };

struct plan_cache {
    struct plan_cache_entry {
        struct plan *plan;
        uint64_t used;
    } entries[PLAN_CACHE_MAX];
    uint64_t clock;
    uint64_t built; /* plans compiled so far */
};

/* The plan of a spec, from the cache or newly built; the cache's. A plan given out stays valid for
 * PLAN_CACHE_MAX - 1 further calls at least. */
ringlet_status plan_cache_get(struct plan_cache *cache, const struct plan_spec *spec,
                              const struct plan **out);
void plan_cache_clear(struct plan_cache *cache);

#endif
