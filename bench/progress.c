#include "progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_MAX_COLUMNS = 78 }; /* so that it never wraps, and blanks erase it */

void progress_begin(struct progress *p, uint64_t total) {
    *p = (struct progress){.terminal = isatty(STDERR_FILENO), .total = total};
}

void progress_step(struct progress *p, const char *format, ...) {
    char what[LINE_MAX_COLUMNS + 1], line[2 * LINE_MAX_COLUMNS];
    va_list arguments;
    p->done++;
    if (!p->terminal)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(line, sizeof line, "[%" PRIu64 "/%" PRIu64 "] %s", p->done, p->total, what);
    fflush(stdout);
    fprintf(stderr, "\r%-*.*s", LINE_MAX_COLUMNS, LINE_MAX_COLUMNS, line);
    fflush(stderr);
    p->shown = true;
}

void progress_erase(struct progress *p) {
    if (!p->shown)
        return;
    fprintf(stderr, "\r%*s\r", LINE_MAX_COLUMNS, "");
    fflush(stderr);
    p->shown = false;
}
