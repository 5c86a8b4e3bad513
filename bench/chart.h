/*
 * A line chart as SVG, for every command that draws one.
 * Owns layout, colours and the text of the file, which depends on nothing but the chart: no date,
 * no font file, readable on light and dark. Never measures.
 */
#ifndef RINGLET_BENCH_CHART_H
#define RINGLET_BENCH_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "ticks.h"

struct chart_axis {
    const char *title;
    enum ticks_scale scale;
    enum ticks_unit unit;
};

struct chart_point {
    double x, y;
};

/* Points in the order of the line. What is not finite, or not positive on a logarithmic scale,
 * leaves a gap. */
struct chart_series {
    const char *name;
    const struct chart_point *points;
    size_t count;
    unsigned colour; /* series of one colour belong together; there are CHART_COLOURS, then again
                        with other markers */
    bool dashed;     /* and hollow markers */
};

enum { CHART_COLOURS = 8 };

struct chart {
    const char *title, *subtitle;
    const char *warning; /* stands out beside the subtitle; NULL */
    struct chart_axis x, y;
    const struct chart_series *series;
    size_t count;
};

void chart_write(const struct chart *chart, FILE *out);

#endif
