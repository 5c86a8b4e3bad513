#include "record.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "text.h"

bool record_add(struct record_list *list, const struct record *record) {
    enum { FIRST = 64 };
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : FIRST;
        struct record *items = realloc(list->items, capacity * sizeof *items);
        if (!items)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = *record;
    return true;
}

void record_free(struct record_list *list) {
    free(list->items);
    *list = (struct record_list){0};
}

/* NAME is a text inside the record, TEXT a pointer to one. */
enum kind { TEXT, NAME, WHOLE, FLAG, TIME, RATE, RATIO };

static const struct field {
    const char *name;
    enum kind kind;
    size_t offset;
} fields[] = {
#define FIELD(kind, member)                                                                        \
    { #member, kind, offsetof(struct record, member) }
    FIELD(TEXT, collective),
    FIELD(TEXT, type),
    FIELD(TEXT, op),
    FIELD(WHOLE, root),
    FIELD(WHOLE, ranks),
    FIELD(WHOLE, bytes),
    FIELD(WHOLE, count),
    {"algorithm_asked", TEXT, offsetof(struct record, asked)},
    FIELD(NAME, algorithm),
    FIELD(WHOLE, rings),
    FIELD(WHOLE, slices),
    FIELD(NAME, why),
    FIELD(WHOLE, shape),
    FIELD(FLAG, in_place),
    FIELD(FLAG, modelled),
    FIELD(TIME, time_us),
    FIELD(TIME, time_min_us),
    FIELD(TIME, time_max_us),
    FIELD(RATE, algbw_gbps),
    FIELD(RATE, busbw_gbps),
    FIELD(WHOLE, wrong),
    FIELD(WHOLE, operations),
    FIELD(TIME, p50_us),
    FIELD(TIME, p90_us),
    FIELD(TIME, p99_us),
    FIELD(TIME, longest_us),
    FIELD(RATE, link_gbps),
    FIELD(TEXT, peer),
    FIELD(TIME, peer_time_us),
    FIELD(TIME, peer_time_min_us),
    FIELD(TIME, peer_time_max_us),
    FIELD(RATIO, peer_ratio),
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static int decimals(enum kind kind) {
    return kind == RATE ? 6 : kind == RATIO ? 4 : 3; /* kB/s; ns */
}

static const void *member(const struct record *record, const struct field *field) {
    return (const char *)record + field->offset;
}

void record_write_json(const struct record *record, struct json *json) {
    json_object_line(json, NULL);
    for (int i = 0; i < FIELDS; i++) {
        const struct field *f = &fields[i];
        const void *value = member(record, f);
        switch (f->kind) {
        case TEXT:
            json_text(json, f->name, *(const char *const *)value);
            break;
        case NAME:
            json_text(json, f->name, value);
            break;
        case WHOLE:
            if (*(const uint64_t *)value == RECORD_NONE)
                json_null(json, f->name);
            else
                json_whole(json, f->name, *(const uint64_t *)value);
            break;
        case FLAG:
            json_bool(json, f->name, *(const bool *)value);
            break;
        case TIME:
        case RATE:
        case RATIO:
            json_real(json, f->name, decimals(f->kind), *(const double *)value);
            break;
        }
    }
    json_end(json);
}

static void write_cell(const struct field *f, const void *value, FILE *out) {
    switch (f->kind) {
    case TEXT:
        if (*(const char *const *)value)
            text_csv(*(const char *const *)value, out);
        break;
    case NAME:
        text_csv(value, out);
        break;
    case WHOLE:
        if (*(const uint64_t *)value != RECORD_NONE)
            fprintf(out, "%" PRIu64, *(const uint64_t *)value);
        break;
    case FLAG:
        fputc(*(const bool *)value ? '1' : '0', out);
        break;
    case TIME:
    case RATE:
    case RATIO:
        if (isfinite(*(const double *)value))
            fprintf(out, "%.*f", decimals(f->kind), *(const double *)value);
        break;
    }
}

void record_write_csv(const struct record_list *list, FILE *out) {
    for (int i = 0; i < FIELDS; i++)
        fprintf(out, "%s%s", i ? "," : "", fields[i].name);
    fputc('\n', out);
    for (size_t r = 0; r < list->count; r++)
        for (int i = 0; i < FIELDS; i++) {
            write_cell(&fields[i], member(&list->items[r], &fields[i]), out);
            fputc(i + 1 < FIELDS ? ',' : '\n', out);
        }
}
