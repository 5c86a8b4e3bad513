#include "json.h"

#include <inttypes.h>
#include <math.h>

#include "text.h"

/* Comma, line break and key: what stands before every value. */
static void begin(struct json *j, const char *key) {
    if (j->depth) {
        bool *filled = &j->filled[j->depth - 1];
        if (*filled)
            fputc(',', j->out);
        if (!j->line)
            fprintf(j->out, "\n%*s", 2 * j->depth, "");
        else if (*filled)
            fputc(' ', j->out);
        *filled = true;
    }
    if (key) {
        text_json(key, j->out);
        fputs(": ", j->out);
    }
}

static void nest(struct json *j, const char *key, const char *braces, bool line) {
    begin(j, key);
    fputc(braces[0], j->out);
    j->closing[j->depth] = braces[1];
    j->filled[j->depth++] = false;
    if (line && !j->line)
        j->line = j->depth;
}

void json_object(struct json *j, const char *key) {
    nest(j, key, "{}", false);
}

void json_list(struct json *j, const char *key) {
    nest(j, key, "[]", false);
}

void json_object_line(struct json *j, const char *key) {
    nest(j, key, "{}", true);
}

void json_list_line(struct json *j, const char *key) {
    nest(j, key, "[]", true);
}

void json_end(struct json *j) {
    bool on_line = j->line != 0;
    if (j->line == j->depth)
        j->line = 0;
    j->depth--;
    if (!on_line && j->filled[j->depth])
        fprintf(j->out, "\n%*s", 2 * j->depth, "");
    fputc(j->closing[j->depth], j->out);
    if (!j->depth)
        fputc('\n', j->out);
}

void json_text(struct json *j, const char *key, const char *value) {
    if (!value) {
        json_null(j, key);
        return;
    }
    begin(j, key);
    text_json(value, j->out);
}

void json_whole(struct json *j, const char *key, uint64_t value) {
    begin(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void json_signed(struct json *j, const char *key, int64_t value) {
    begin(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void json_real(struct json *j, const char *key, int decimals, double value) {
    if (!isfinite(value)) {
        json_null(j, key);
        return;
    }
    begin(j, key);
    fprintf(j->out, "%.*f", decimals, value);
}

void json_bool(struct json *j, const char *key, bool value) {
    begin(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key) {
    begin(j, key);
    fputs("null", j->out);
}
