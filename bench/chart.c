#include "chart.h"

#include <math.h>
#include <string.h>

#include "text.h"

/* Pixels. */
enum {
    WIDTH = 960,
    LEFT = 84,
    RIGHT = 926,
    TOP = 112,
    BOTTOM = 532,
    LEGEND_TOP = 612,
    LEGEND_LINE = 22,
    LEGEND_SAMPLE = 34, /* a piece of line */
    LEGEND_GAP = 26,
    MARGIN = 18
};

struct frame {
    const struct chart *chart;
    struct ticks x, y;
    size_t columns, rows; /* of the legend */
    double column_width;
    FILE *out;
};

static const char style[] =
    "<style>\n"
    "svg{--back:#ffffff;--text:#1b1f24;--soft:#59636e;--grid:#e2e6ea;--line:#8c959f;--warn:#9a4a00;"
    "\n"
    "--c0:#0969c4;--c1:#c9510c;--c2:#1a7f37;--c3:#a02a8d;--c4:#8a6a00;--c5:#0e8a8a;--c6:#c02234;"
    "--c7:#5b5f66}\n"
    "@media(prefers-color-scheme:dark){svg{--back:#14181d;--text:#e8ebef;--soft:#a3acb7;"
    "--grid:#2a3038;--line:#5d6773;--warn:#f0b060;\n"
    "--c0:#5aa9f8;--c1:#f58a4b;--c2:#56c271;--c3:#e07bd0;--c4:#d8b13c;--c5:#45c7c7;--c6:#f4737f;"
    "--c7:#b4bac2}}\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;"
    "font-size:13px}\n";

static bool drawable(enum ticks_scale scale, double value) {
    return isfinite(value) && (scale == TICKS_LINEAR || value > 0);
}

static bool visible(const struct chart *c, const struct chart_point *p) {
    return drawable(c->x.scale, p->x) && drawable(c->y.scale, p->y);
}

static void choose_axes(struct frame *f) {
    const struct chart *c = f->chart;
    struct chart_point least = {INFINITY, INFINITY}, most = {-INFINITY, -INFINITY};
    for (size_t s = 0; s < c->count; s++)
        for (size_t i = 0; i < c->series[s].count; i++) {
            const struct chart_point *p = &c->series[s].points[i];
            if (!visible(c, p))
                continue;
            least = (struct chart_point){fmin(least.x, p->x), fmin(least.y, p->y)};
            most = (struct chart_point){fmax(most.x, p->x), fmax(most.y, p->y)};
        }
    if (!isfinite(least.x))
        least = most = (struct chart_point){1, 1};
    ticks_choose(&f->x, c->x.scale, least.x, most.x);
    ticks_choose(&f->y, c->y.scale, least.y, most.y);
}

static double place_x(const struct frame *f, double value) {
    return LEFT + ticks_place(&f->x, value) * (RIGHT - LEFT);
}

static double place_y(const struct frame *f, double value) {
    return BOTTOM - ticks_place(&f->y, value) * (BOTTOM - TOP);
}

/* About, for letters of 13 pixels. */
static double text_width(const char *text) {
    double width = 0;
    for (; *text; text += text_utf8_length(text) ? text_utf8_length(text) : 1)
        width += 7;
    return width;
}

static void choose_legend(struct frame *f) {
    double widest = 0;
    for (size_t i = 0; i < f->chart->count; i++)
        widest = fmax(widest, text_width(f->chart->series[i].name));
    f->column_width = LEGEND_SAMPLE + 8 + widest + LEGEND_GAP;
    f->columns = (size_t)fmax(1, floor((RIGHT - LEFT + LEGEND_GAP) / f->column_width));
    if (f->columns > 1)
        f->columns -= f->columns % 2; /* series that belong together often come in pairs */
    if (f->columns > f->chart->count)
        f->columns = f->chart->count ? f->chart->count : 1;
    f->rows = (f->chart->count + f->columns - 1) / f->columns;
}

static void write_text(const struct frame *f, const char *class, double x, double y,
                       const char *anchor, const char *text) {
    fprintf(f->out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", class, x, y,
            anchor);
    text_xml(text, f->out);
    fputs("</text>\n", f->out);
}

/* Each colour stands first as it is, for viewers that know no variables. */
static void write_style(const struct frame *f) {
    fputs(style, f->out);
    fputs(".back{fill:#ffffff;fill:var(--back)}text{fill:#1b1f24;fill:var(--text)}"
          ".soft{fill:#59636e;fill:var(--soft)}.warn{fill:#9a4a00;fill:var(--warn);"
          "font-weight:600}\n.title{font-size:18px;font-weight:600}"
          ".grid{stroke:#e2e6ea;stroke:var(--grid)}.edge{stroke:#8c959f;stroke:var(--line)}\n"
          ".s{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
          ".d{stroke-dasharray:6 5}.m{stroke-width:2}.h{fill:none;pointer-events:all}\n",
          f->out);
    static const char *const colours[CHART_COLOURS] = {"#0969c4", "#c9510c", "#1a7f37", "#a02a8d",
                                                       "#8a6a00", "#0e8a8a", "#c02234", "#5b5f66"};
    for (int i = 0; i < CHART_COLOURS; i++)
        fprintf(f->out, ".c%d{stroke:%s;stroke:var(--c%d)}.f%d{fill:%s;fill:var(--c%d)}%s", i,
                colours[i], i, i, colours[i], i, i % 2 ? "\n" : "");
    fputs("</style>\n", f->out);
}

static void write_titles(const struct frame *f) {
    const struct chart *c = f->chart;
    write_text(f, "title", LEFT, 38, "start", c->title);
    fprintf(f->out, "<text class=\"soft\" x=\"%d\" y=\"62\">", LEFT);
    text_xml(c->subtitle, f->out);
    if (c->warning) {
        fputs("<tspan class=\"warn\" dx=\"14\">", f->out);
        text_xml(c->warning, f->out);
        fputs("</tspan>", f->out);
    }
    fputs("</text>\n", f->out);
}

static void write_line(const struct frame *f, const char *class, double x1, double y1, double x2,
                       double y2) {
    fprintf(f->out, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class, x1, y1, x2, y2);
}

static void write_axes(const struct frame *f) {
    const struct chart *c = f->chart;
    char label[TICKS_LABEL_MAX];
    for (int i = 0; i < f->y.count; i++) {
        double y = place_y(f, f->y.at[i]);
        write_line(f, "grid", LEFT, y, RIGHT, y);
        write_text(f, "soft", LEFT - 10, y + 4.5, "end", ticks_label(c->y.unit, f->y.at[i], label));
    }
    for (int i = 0; i < f->x.count; i++) {
        double x = place_x(f, f->x.at[i]);
        write_line(f, "grid", x, TOP, x, BOTTOM);
        write_line(f, "edge", x, BOTTOM, x, BOTTOM + 5);
        write_text(f, "soft", x, BOTTOM + 22, "middle", ticks_label(c->x.unit, f->x.at[i], label));
    }
    write_line(f, "edge", LEFT, BOTTOM, RIGHT, BOTTOM);
    write_text(f, "axis", (LEFT + RIGHT) / 2.0, BOTTOM + 48, "middle", c->x.title);
    write_text(f, "axis", LEFT, TOP - 14, "start", c->y.title);
}

/* Circle, square, triangle, diamond in turn, so that lines which coincide can still be told apart,
 * and lines of one colour too. */
static void write_marker(const struct frame *f, const struct chart_series *s, double x, double y) {
    unsigned colour = s->colour % CHART_COLOURS,
             shape = (s->colour + s->colour / CHART_COLOURS) % 4;
    const double r = 3.5;
    fprintf(f->out, "<path class=\"m c%u ", colour);
    if (s->dashed)
        fputs("h\" d=\"", f->out);
    else
        fprintf(f->out, "f%u\" d=\"", colour);
    switch (shape) {
    case 0:
        fprintf(f->out, "M%.1f %.1fa%.1f %.1f 0 1 0 %.1f 0a%.1f %.1f 0 1 0 %.1f 0z", x - r, y, r, r,
                2 * r, r, r, -2 * r);
        break;
    case 1:
        fprintf(f->out, "M%.1f %.1fh%.1fv%.1fh%.1fz", x - r, y - r, 2 * r, 2 * r, -2 * r);
        break;
    case 2:
        fprintf(f->out, "M%.1f %.1fl%.1f %.1fh%.1fz", x, y - r - 1, r + 1, 2 * r, -2 * (r + 1));
        break;
    default:
        fprintf(f->out, "M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz", x, y - r - 1, r + 1, r + 1,
                -r - 1, r + 1, -r - 1, -r - 1);
    }
    fputs("\">", f->out);
}

static void write_tip(const struct frame *f, const struct chart_series *s,
                      const struct chart_point *p) {
    char x[TICKS_LABEL_MAX], y[TICKS_LABEL_MAX];
    fputs("<title>", f->out);
    text_xml(s->name, f->out);
    fprintf(f->out, ", %s: %s</title></path>\n", ticks_label(f->chart->x.unit, p->x, x),
            ticks_label(f->chart->y.unit, p->y, y));
}

static void write_series(const struct frame *f, const struct chart_series *s) {
    bool on = false, any = false;
    fputs("<g class=\"series\">\n<title>", f->out);
    text_xml(s->name, f->out);
    fputs("</title>\n", f->out);
    for (size_t i = 0; i < s->count; i++) {
        const struct chart_point *p = &s->points[i];
        bool shown = visible(f->chart, p);
        if (shown && !any)
            fprintf(f->out, "<path class=\"s c%u%s\" d=\"", s->colour % CHART_COLOURS,
                    s->dashed ? " d" : "");
        if (shown)
            fprintf(f->out, "%c%.1f %.1f", on ? 'L' : 'M', place_x(f, p->x), place_y(f, p->y));
        any = any || shown;
        on = shown;
    }
    if (any)
        fputs("\"/>\n", f->out);
    for (size_t i = 0; i < s->count; i++)
        if (visible(f->chart, &s->points[i])) {
            write_marker(f, s, place_x(f, s->points[i].x), place_y(f, s->points[i].y));
            write_tip(f, s, &s->points[i]);
        }
    fputs("</g>\n", f->out);
}

static void write_legend(const struct frame *f) {
    fputs("<g class=\"legend\">\n", f->out);
    for (size_t i = 0; i < f->chart->count; i++) {
        const struct chart_series *s = &f->chart->series[i];
        double x = LEFT + (double)(i % f->columns) * f->column_width;
        double y = LEGEND_TOP + (double)(i / f->columns) * LEGEND_LINE;
        fprintf(f->out, "<path class=\"s c%u%s\" d=\"M%.1f %.1fh%d\"/>\n",
                s->colour % CHART_COLOURS, s->dashed ? " d" : "", x, y - 4.5, LEGEND_SAMPLE);
        write_marker(f, s, x + LEGEND_SAMPLE / 2.0, y - 4.5);
        fputs("</path>\n", f->out);
        write_text(f, "entry", x + LEGEND_SAMPLE + 8, y, "start", s->name);
    }
    fputs("</g>\n", f->out);
}

void chart_write(const struct chart *chart, FILE *out) {
    struct frame f = {.chart = chart, .out = out};
    choose_axes(&f);
    choose_legend(&f);
    int height = LEGEND_TOP + ((int)f.rows - 1) * LEGEND_LINE + MARGIN;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>",
            WIDTH, height, WIDTH, height);
    text_xml(chart->title, out);
    fputs("</title>\n", out);
    write_style(&f);
    fprintf(out, "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    write_titles(&f);
    write_axes(&f);
    for (size_t i = chart->count; i-- > 0;) /* the first on top */
        write_series(&f, &chart->series[i]);
    write_legend(&f);
    fputs("</svg>\n", out);
}
