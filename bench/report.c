#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void report_extra(struct report *report, const char *group, const char *title, const char *unit) {
    if (report->extra_count < REPORT_EXTRAS_MAX)
        report->extras[report->extra_count++] = (struct report_extra){group, title, unit};
}

/* Of an extra column, besides two blanks. */
static int column_width(const struct report_extra *extra) {
    enum { LEAST = 8 };
    int title = (int)strlen(extra->title);
    return title > LEAST ? title : LEAST;
}

static void titles_above(const struct report *r) {
    fprintf(r->out,
            "# %10s  %12s  %8s  %6s  %6s           out-of-place                       "
            "in-place          ",
            "", "", "", "", "");
    for (int i = 0; i < r->extra_count;) {
        int columns = 1;
        while (i + columns < r->extra_count && !r->extras[i + columns].group)
            columns++;
        int width = -2;
        for (int column = i; column < i + columns; column++)
            width += column_width(&r->extras[column]) + 2;
        fprintf(r->out, "  %*s", width, r->extras[i].group ? r->extras[i].group : "");
        i += columns;
    }
    fputc('\n', r->out);
}

void report_titles(const struct report *r) {
    fprintf(r->out, "#\n");
    titles_above(r);
    fprintf(r->out, "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s", "size",
            "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
            "busbw", "#wrong");
    for (int i = 0; i < r->extra_count; i++)
        fprintf(r->out, "  %*s", column_width(&r->extras[i]), r->extras[i].title);
    fprintf(r->out, "\n# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s", "(B)",
            "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
            "");
    for (int i = 0; i < r->extra_count; i++)
        fprintf(r->out, "  %*s", column_width(&r->extras[i]), r->extras[i].unit);
    fputc('\n', r->out);
    fflush(r->out);
}

const char *report_time(double us, char *buffer) {
    snprintf(buffer, REPORT_CELL_MAX, us >= 10000 ? "%7.0f" : us >= 100 ? "%7.1f" : "%7.2f", us);
    return buffer;
}

void report_cell_text(struct report_row *row, const char *text) {
    if (row->extra_count < REPORT_EXTRAS_MAX)
        snprintf(row->extras[row->extra_count++], REPORT_CELL_MAX, "%s", text);
}

void report_cell(struct report_row *row, int decimals, double value) {
    char text[REPORT_CELL_MAX] = "N/A";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.*f", decimals, value);
    report_cell_text(row, text);
}

void report_cell_time(struct report_row *row, double us) {
    char text[REPORT_CELL_MAX] = "N/A";
    report_cell_text(row, isfinite(us) ? report_time(us, text) : text);
}

static void print_result(struct report *r, const struct report_result *result) {
    char time[REPORT_CELL_MAX];
    if (!isfinite(result->time_us)) {
        fprintf(r->out, "  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    fprintf(r->out, "  %7s  %6.2f  %6.2f", report_time(result->time_us, time), result->algbw,
            result->busbw);
    if (result->checked)
        fprintf(r->out, "  %5" PRIu64, result->wrong);
    else
        fprintf(r->out, "  %5s", "N/A");
    r->busbw_sum += result->busbw;
    r->busbw_count++;
    r->wrong += result->wrong;
    r->checked |= result->checked;
}

void report_row(struct report *r, const struct report_row *row) {
    fprintf(r->out, "%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6d", row->bytes, row->count,
            row->type, row->operation, row->root);
    print_result(r, &row->results[0]);
    print_result(r, &row->results[1]);
    for (int i = 0; i < r->extra_count; i++)
        fprintf(r->out, "  %*s", column_width(&r->extras[i]), row->extras[i]);
    fputc('\n', r->out);
    if (fflush(r->out) && !r->error)
        r->error = errno;
}

double report_average(const struct report *r) {
    return r->busbw_count ? r->busbw_sum / (double)r->busbw_count : 0;
}

void report_footer(const struct report *r) {
    if (r->checked)
        fprintf(r->out, "# Out of bounds values : %" PRIu64 " %s\n", r->wrong,
                r->wrong ? "FAILED" : "OK");
    else
        fprintf(r->out, "# Out of bounds values : N/A, the results were not checked\n");
    fprintf(r->out, "# Avg bus bandwidth    : %g\n#\n", report_average(r));
    fflush(r->out);
}
