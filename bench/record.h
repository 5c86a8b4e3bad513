/*
 * What a benchmark found out: a record for each thing that was timed, and the list of them.
 * Owns the fields, their names and formats: table, JSON, CSV and charts all come from here. Never
 * measures.
 */
#ifndef RINGLET_BENCH_RECORD_H
#define RINGLET_BENCH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "json.h"

#define RECORD_NONE UINT64_MAX /* a whole number that is not known; a real one is NAN */

enum { RECORD_NAME_MAX = 32, RECORD_WHY_MAX = 160 };

/* One collective of one size, type, operation, algorithm, call shape and placement. */
struct record {
    const char *collective, *type, *op;
    uint64_t root; /* of a broadcast */
    uint64_t ranks, bytes, count;
    const char *asked;               /* the algorithm given, "auto" for the library's choice */
    char algorithm[RECORD_NAME_MAX]; /* that ran */
    uint64_t rings, slices;
    char why[RECORD_WHY_MAX]; /* the library's reason for that algorithm */
    uint64_t shape;           /* 1: a host thread a rank; 2: one for all */
    bool in_place, modelled;
    double time_us, time_min_us, time_max_us; /* of one operation, over the samples: median, ... */
    double algbw_gbps, busbw_gbps;
    uint64_t wrong;
    uint64_t operations; /* that were timed on their own */
    double p50_us, p90_us, p99_us, longest_us;
    double link_gbps;
    const char *peer; /* NULL */
    double peer_time_us, peer_time_min_us, peer_time_max_us, peer_ratio;
};

struct record_list {
    struct record *items;
    size_t count, capacity;
};

bool record_add(struct record_list *list, const struct record *record); /* false: no memory */
void record_free(struct record_list *list);

/* All fields of a record; the innermost value of `json` must be a list. */
void record_write_json(const struct record *record, struct json *json);
/* The same fields under the same names: a header line and a line a record. Booleans are 0 and 1,
 * what is not known is empty. */
void record_write_csv(const struct record_list *list, FILE *out);

#endif
