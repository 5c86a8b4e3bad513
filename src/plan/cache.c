#include "plan/cache.h"

#include <string.h>

ringlet_status plan_cache_get(struct plan_cache *cache, const struct plan_spec *spec,
                              struct plan_cache_entry **out) {
    struct plan_cache_entry *oldest = &cache->entries[0];
    cache->clock++;
    for (int i = 0; i < PLAN_CACHE_MAX; i++) {
        struct plan_cache_entry *entry = &cache->entries[i];
        if (entry->plan && plan_spec_equal(&entry->plan->spec, spec)) {
            entry->used = cache->clock;
            *out = entry;
            return RINGLET_OK;
        }
        if (!entry->plan || (oldest->plan && entry->used < oldest->used))
            oldest = entry;
    }
    struct plan *plan = NULL;
    ringlet_status status = plan_build(&plan, spec);
    if (status)
        return status;
    plan_free(oldest->plan);
    *oldest = (struct plan_cache_entry){plan, false, cache->clock};
    cache->built++;
    *out = oldest;
    return RINGLET_OK;
}

void plan_cache_clear(struct plan_cache *cache) {
    for (int i = 0; i < PLAN_CACHE_MAX; i++)
        plan_free(cache->entries[i].plan);
    memset(cache, 0, sizeof *cache);
}
