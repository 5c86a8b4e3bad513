/*
 * Writes JSON: objects and lists, each value typed.
 * Owns commas, indentation and number formats, so that what comes out is always valid: a number
 * that is not finite becomes null. Never closes the file.
 */
#ifndef RINGLET_BENCH_JSON_H
#define RINGLET_BENCH_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { JSON_DEPTH_MAX = 8 };

struct json {
    FILE *out;
    int depth, line; /* line: the depth from which on everything stands on one line; 0: none */
    bool filled[JSON_DEPTH_MAX];
    char closing[JSON_DEPTH_MAX];
};

/* key: NULL in a list and for the outermost object. */
void json_object(struct json *json, const char *key);
void json_list(struct json *json, const char *key);
/* The same, on one line with all that it holds. */
void json_object_line(struct json *json, const char *key);
void json_list_line(struct json *json, const char *key);
void json_end(struct json *json); /* of the innermost; the outermost ends the text */

void json_text(struct json *json, const char *key, const char *value); /* NULL: null */
void json_whole(struct json *json, const char *key, uint64_t value);
void json_signed(struct json *json, const char *key, int64_t value);
void json_real(struct json *json, const char *key, int decimals, double value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

#endif
