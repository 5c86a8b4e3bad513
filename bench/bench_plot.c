/*
 * Records of a `ringlet bench` as lines of a chart.
 * Owns what is one line, its name and its colour. Never draws.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "chart.h"

/* A line of the chart, and what its points share. */
enum { FROM_OWN, FROM_PEER, FROM_LINK };
struct line {
    int from;
    const struct record *first;
    struct chart_series series;
    char name[160];
};

struct plot {
    const struct bench *bench;
    const struct record_list *records;
    struct line *lines;
    size_t count;
    struct chart_point *points;
    struct {
        bool type, op, algorithm, shape, others;
    } varies;
};

/* Records of one line differ in size alone. */
static bool same_group(int from, const struct record *a, const struct record *b) {
    bool same = !strcmp(a->type, b->type) && !strcmp(a->op, b->op);
    return same && (from != FROM_OWN || (!strcmp(a->asked, b->asked) && a->shape == b->shape));
}

static bool same_line(int from, const struct record *a, const struct record *b) {
    return same_group(from, a, b) && (from == FROM_LINK || a->in_place == b->in_place);
}

static double point_y(const struct plot *p, int from, const struct record *r) {
    int y = p->bench->job.set.plot_y;
    double factor = r->algbw_gbps > 0 ? r->busbw_gbps / r->algbw_gbps : 0;
    double us = from == FROM_PEER ? r->peer_time_us : r->time_us;
    if (from == FROM_LINK)
        return r->link_gbps;
    if (y == PLOT_TIME)
        return us;
    return bench_rate_gbps(r->bytes, us) * (y == PLOT_BUSBW ? factor : 1);
}

static void find_variation(struct plot *p) {
    const struct record *first = p->records->items;
    for (size_t i = 0; i < p->records->count; i++) {
        const struct record *r = &p->records->items[i];
        p->varies.type |= strcmp(r->type, first->type) != 0;
        p->varies.op |= strcmp(r->op, first->op) != 0;
        p->varies.algorithm |= strcmp(r->asked, first->asked) != 0;
        p->varies.shape |= r->shape != first->shape;
    }
}

static void append(char *name, size_t size, const char *between, const char *text) {
    size_t length = strlen(name);
    snprintf(name + length, size - length, "%s%s", length ? between : "", text);
}

static void name_line(const struct plot *p, struct line *line) {
    static const char *const shapes[] = {"", "a thread a rank", "one thread"};
    const struct record *r = line->first;
    char *name = line->name;
    size_t size = sizeof line->name;
    name[0] = '\0';
    if (line->from != FROM_OWN)
        append(name, size, "", line->from == FROM_PEER ? "NCCL" : "link, both ways");
    else if (p->varies.others || (p->varies.algorithm && !strcmp(r->asked, "auto")))
        append(name, size, "", "Ringlet");
    if (line->from == FROM_OWN && p->varies.algorithm && strcmp(r->asked, "auto"))
        append(name, size, " ", r->asked);
    if (p->varies.type)
        append(name, size, ", ", r->type);
    if (p->varies.op)
        append(name, size, p->varies.type ? " " : ", ", r->op);
    if (line->from == FROM_OWN && p->varies.shape)
        append(name, size, ", ", shapes[r->shape]);
    if (line->from != FROM_LINK)
        append(name, size, ", ", r->in_place ? "in place" : "out of place");
    line->series.name = name;
}

/* Lines of one group have one colour. */
static unsigned colour_of(const struct plot *p, int from, const struct record *record,
                          unsigned *colours) {
    for (size_t i = 0; i < p->count; i++)
        if (p->lines[i].from == from && same_group(from, p->lines[i].first, record))
            return p->lines[i].series.colour;
    return (*colours)++;
}

static void collect_line(struct plot *p, int from, const struct record *first, size_t *used,
                         unsigned *colours) {
    struct line *line = &p->lines[p->count];
    struct chart_point *points = p->points + *used;
    *line = (struct line){.from = from, .first = first};
    line->series = (struct chart_series){.points = points,
                                         .colour = colour_of(p, from, first, colours),
                                         .dashed = from != FROM_LINK && first->in_place};
    const struct record *end = p->records->items + p->records->count;
    for (const struct record *r = first; r < end; r++) {
        if (!same_line(from, first, r))
            continue;
        struct chart_point point = {(double)r->bytes, point_y(p, from, r)};
        size_t count = line->series.count;
        /* what stands beside several algorithms, or a link in both placements, is there again */
        if (count && points[count - 1].x == point.x) {
            if (point.y > points[count - 1].y && from == FROM_LINK)
                points[count - 1].y = point.y;
            continue;
        }
        points[line->series.count++] = point;
    }
    *used += line->series.count;
    p->count++;
}

static int by_colour(const void *a, const void *b) {
    const struct chart_series *x = &((const struct line *)a)->series;
    const struct chart_series *y = &((const struct line *)b)->series;
    return x->colour != y->colour ? (x->colour > y->colour) - (x->colour < y->colour)
                                  : x->dashed - y->dashed;
}

static void collect(struct plot *p) {
    const struct settings *set = &p->bench->job.set;
    size_t used = 0;
    unsigned colours = 0;
    for (int from = FROM_OWN; from <= FROM_LINK; from++)
        for (size_t i = 0; i < p->records->count; i++) {
            const struct record *r = &p->records->items[i];
            bool there = from == FROM_OWN ||
                         (from == FROM_PEER ? r->peer != NULL
                                            : r->link_gbps > 0 && set->plot_y != PLOT_TIME);
            bool is_new = true;
            for (size_t l = 0; l < p->count && is_new; l++)
                is_new = p->lines[l].from != from || !same_line(from, p->lines[l].first, r);
            if (there && is_new) {
                p->varies.others |= from != FROM_OWN;
                collect_line(p, from, r, &used, &colours);
            }
        }
    qsort(p->lines, p->count, sizeof *p->lines, by_colour);
    for (size_t i = 0; i < p->count; i++)
        name_line(p, &p->lines[i]);
}

static void title(const struct plot *p, char *text, size_t size) {
    const struct record *r = p->records->items;
    snprintf(text, size, "%s", names_collectives[p->bench->job.set.collective]);
    if (r && !p->varies.type)
        append(text, size, " of ", r->type);
    if (r && !p->varies.op && strcmp(r->op, "none"))
        append(text, size, ", ", r->op);
    if (r && !p->varies.algorithm && strcmp(r->asked, "auto"))
        append(text, size, ", algorithm ", r->asked);
}

static bool write_chart(const struct plot *p, FILE *out) {
    static const char *const y_titles[] = {"algorithm bandwidth in GB/s (size / time)",
                                           "bus bandwidth in GB/s", "time of one operation"};
    const struct session *s = &p->bench->session;
    int y = p->bench->job.set.plot_y;
    char heading[160], subtitle[240];
    struct chart_series *series = calloc(p->count + 1, sizeof *series);
    if (!series)
        return false;
    for (size_t i = 0; i < p->count; i++)
        series[i] = p->lines[i].series;
    title(p, heading, sizeof heading);
    snprintf(subtitle, sizeof subtitle, "%d ranks, %s%s", s->ranks, s->machine,
             p->bench->job.set.chain ? ", dependent chain" : "");
    struct chart chart = {.title = heading,
                          .subtitle = subtitle,
                          .warning = s->modelled ? "modelled times, not measured" : NULL,
                          .x = {"size of the message", TICKS_LOG2, TICKS_BYTES},
                          .y = {y_titles[y], y == PLOT_TIME ? TICKS_LOG10 : TICKS_LINEAR,
                                y == PLOT_TIME ? TICKS_MICROSECONDS : TICKS_PLAIN},
                          .series = series,
                          .count = p->count};
    chart_write(&chart, out);
    free(series);
    return true;
}

bool bench_plot(const struct bench *b, FILE *out) {
    struct plot p = {.bench = b, .records = &b->records};
    size_t most = 3 * b->records.count + 1; /* own, peer, link: of lines and of points */
    p.lines = calloc(most, sizeof *p.lines);
    p.points = calloc(most, sizeof *p.points);
    bool fine = p.lines && p.points;
    if (fine) {
        find_variation(&p);
        collect(&p);
        fine = write_chart(&p, out);
    }
    free(p.lines);
    free(p.points);
    return fine;
}
