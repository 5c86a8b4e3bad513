/*
 * Specs for tests of plans: ranks, counts, slices and the rest, drawn so that all of them meet.
 * Owns the drawing; the same draw gives the same spec. Never judges a plan.
 */
#ifndef RINGLET_TESTS_PLAN_CONFIGS_H
#define RINGLET_TESTS_PLAN_CONFIGS_H

#include <check.h>
#include <string.h>

#include "plan/plan.h"

enum { CONFIG_RANKS = 128, CONFIG_RINGS = 3, CONFIG_TEXT = 256 };
enum config_many { CONFIG_NONE, CONFIG_SOME, CONFIG_ALL }; /* ranks in place; staged edges */
enum config_room { CONFIG_JUST_ENOUGH, CONFIG_A_LITTLE, CONFIG_PLENTY };

struct config {
    struct plan_spec spec;
    uint8_t in_place[CONFIG_RANKS], staged[CONFIG_RINGS * CONFIG_RANKS];
    uint32_t order[CONFIG_RINGS * CONFIG_RANKS];
    enum config_many in_place_many, staged_many;
    enum config_room room;
};

/* What varies freely; a draw from 0 to CONFIG_DRAWS - 1 covers every combination. */
enum { CONFIG_DRAWS = 3 * 3 * 3 * 3 };

static inline uint32_t config_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void config_order(struct config *c, uint32_t *random) {
    uint32_t n = c->spec.ranks;
    for (uint32_t ring = 0; ring < c->spec.rings; ring++) {
        uint32_t *order = c->order + (size_t)ring * n;
        for (uint32_t i = 0; i < n; i++)
            order[i] = i;
        for (uint32_t i = n - 1; ring > 0 && i > 0; i--) {
            uint32_t j = config_random(random) % (i + 1), other = order[j];
            order[j] = order[i];
            order[i] = other;
        }
    }
}

static inline void config_fill(uint8_t *to, size_t count, enum config_many many, uint32_t *random) {
    for (size_t i = 0; i < count; i++)
        to[i] = many == CONFIG_ALL || (many == CONFIG_SOME && config_random(random) % 2);
    if (many == CONFIG_SOME && count > 0)
        to[config_random(random) % count] = 1;
}

static inline const char *config_text(const struct config *c, char text[CONFIG_TEXT]) {
    static const char *const many[] = {"no", "some", "all"};
    const struct plan_spec *s = &c->spec;
    snprintf(
        text, CONFIG_TEXT,
        "%s %s n=%u count=%llu rings=%u slices=%u granule=%u scratch=%llu host=%llu, %s ranks in "
        "place, %s edges staged",
        plan_collective_name(s->collective), plan_algorithm_name(s->algorithm), s->ranks,
        (unsigned long long)s->count, s->rings, s->slices, s->granule,
        (unsigned long long)s->scratch_count, (unsigned long long)s->host_count,
        many[c->in_place_many], many[c->staged_many]);
    return text;
}

/* Builds the plan, with just as much scratch as it must have where the draw says so. */
static inline struct plan *config_build(struct config *c) {
    uint64_t unit = (uint64_t)c->spec.rings * c->spec.granule * c->spec.ranks;
    struct plan *plan = NULL;
    char text[CONFIG_TEXT];
    if (c->room != CONFIG_PLENTY)
        unit = (uint64_t)c->spec.rings * c->spec.granule;
    for (uint32_t units = 0; units <= 2 * c->spec.ranks * c->spec.ranks && !plan; units++) {
        c->spec.scratch_count = c->spec.host_count = units * unit;
        if (c->room == CONFIG_PLENTY)
            c->spec.scratch_count = c->spec.host_count = 4 * unit * (c->spec.count + 1);
        ringlet_status status = plan_build(&plan, &c->spec);
        ck_assert_msg(status == RINGLET_OK || (status == RINGLET_INVALID_ARGUMENT && !plan),
                      "%s: %s", config_text(c, text), ringlet_error_message());
    }
    ck_assert_msg(plan != NULL, "%s: %s", config_text(c, text), ringlet_error_message());
    if (c->room == CONFIG_A_LITTLE) {
        plan_free(plan);
        c->spec.scratch_count += 3 * unit;
        c->spec.host_count += 3 * unit;
        ck_assert_int_eq(plan_build(&plan, &c->spec), RINGLET_OK);
    }
    return plan;
}

/* count: elements; draw: what else. `random` turns orders, and which ranks and edges. */
static inline struct plan *config_draw(struct config *c, enum plan_algorithm algorithm,
                                       enum plan_collective collective, uint32_t ranks,
                                       uint64_t count, uint32_t slices, uint32_t draw,
                                       uint32_t random) {
    bool ring = algorithm == PLAN_RING;
    memset(c, 0, sizeof *c);
    c->in_place_many = (enum config_many)(draw % 3);
    c->room = (enum config_room)(draw / 3 % 3);
    c->staged_many = ring ? (enum config_many)(draw / 9 % 3) : CONFIG_NONE;
    c->spec = (struct plan_spec){.collective = collective,
                                 .algorithm = algorithm,
                                 .ranks = ranks,
                                 .count = count,
                                 .element_bytes = 4,
                                 .rings = ring ? 1 + draw / 27 % 3 : 1,
                                 .slices = slices,
                                 .granule = config_random(&random) % 4 ? 1 : 4,
                                 .in_place = c->in_place,
                                 .order = c->order,
                                 .staged = c->staged};
    c->spec.root = config_random(&random) % ranks;
    config_order(c, &random);
    config_fill(c->in_place, ranks, c->in_place_many, &random);
    for (uint32_t rank = 0; rank < ranks && collective == PLAN_BROADCAST; rank++)
        if (rank != c->spec.root)
            c->in_place[rank] = 0; /* only the root sends */
    config_fill(c->staged, (size_t)c->spec.rings * ranks, c->staged_many, &random);
    return config_build(c);
}

#endif
