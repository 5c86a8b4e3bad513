/*
 * The benchmark's text: header, rows and footer as NCCL's all_reduce_perf prints them, and columns
 * more behind those. Owns the format. Never computes what it prints, averages aside.
 */
#ifndef RINGLET_BENCH_REPORT_H
#define RINGLET_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { REPORT_EXTRAS_MAX = 32, REPORT_CELL_MAX = 20 };

struct report_extra {
    const char *group;        /* stands above this column and those after it without one; NULL */
    const char *title, *unit; /* a long title makes the column wide */
};

struct report {
    FILE *out;
    struct report_extra extras[REPORT_EXTRAS_MAX];
    int extra_count;
    double busbw_sum;
    uint64_t busbw_count, wrong;
    bool checked; /* at least one result was */
    int error;    /* errno of the first row that could not be written, 0 */
};

/* One direction of a row: out-of-place or in-place. NAN: not measured, N/A. */
struct report_result {
    double time_us, algbw, busbw;
    uint64_t wrong;
    bool checked; /* else #wrong is N/A */
};

struct report_row {
    uint64_t bytes, count;
    int root;                     /* -1: none */
    const char *type, *operation; /* "float"; "sum", "none" */
    struct report_result results[2];
    char extras[REPORT_EXTRAS_MAX][REPORT_CELL_MAX];
    int extra_count;
};

/* A row's next extra cell; what is not finite is N/A. */
void report_cell(struct report_row *row, int decimals, double value);
void report_cell_time(struct report_row *row, double us);
void report_cell_text(struct report_row *row, const char *text);

void report_extra(struct report *report, const char *group, const char *title, const char *unit);
void report_titles(const struct report *report);
void report_row(struct report *report, const struct report_row *row);
void report_footer(const struct report *report);
double report_average(const struct report *report); /* bus bandwidth so far */

/* "1234.5": digits as NCCL's programs choose them. buffer of REPORT_CELL_MAX. */
const char *report_time(double us, char *buffer);

#endif
