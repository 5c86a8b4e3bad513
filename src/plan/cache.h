/*
 * Plans kept for use again.
 * Owns a bounded set of plans by spec, the least recently used one leaving first. Never knows who
 * runs them.
 */
#ifndef RINGLET_PLAN_CACHE_H
#define RINGLET_PLAN_CACHE_H

#include "plan/plan.h"

enum { PLAN_CACHE_MAX = 64 };

struct plan_cache_entry {
    struct plan *plan;
    bool prepared; /* the user's: what it needs for the plan is there */
    uint64_t used;
};

struct plan_cache {
    struct plan_cache_entry entries[PLAN_CACHE_MAX];
    uint64_t clock;
    uint64_t built; /* plans compiled so far */
};

/* The entry of a spec's plan, from the cache or newly built. The plan leaves with the entry: when
 * PLAN_CACHE_MAX other specs have been asked for since. */
ringlet_status plan_cache_get(struct plan_cache *cache, const struct plan_spec *spec,
                              struct plan_cache_entry **out);
void plan_cache_clear(struct plan_cache *cache);

#endif
