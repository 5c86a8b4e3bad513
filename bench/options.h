/*
 * Command-line options from a table: parsing, checks, messages and --help come from the same
 * entries. Owns the table's meaning. Never exits and never prints anything but messages and help.
 */
#ifndef RINGLET_BENCH_OPTIONS_H
#define RINGLET_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What an option takes, and the type of the member that it sets. */
enum options_kind {
    OPTIONS_FLAG,   /* nothing; int, set to 1 */
    OPTIONS_SIZE,   /* bytes: 8, 4K, 1M, 1G, 1T (powers of 1024); uint64_t */
    OPTIONS_SIZE_0, /* the same, and 0 whatever the minimum is */
    OPTIONS_NUMBER, /* a whole number; uint64_t */
    OPTIONS_TIME,   /* a whole number or -1; int64_t */
    OPTIONS_CHOICE, /* one of `choices`; int, its index */
    OPTIONS_TEXT    /* anything; const char *, points into argv */
};

#define OPTIONS_UNSET UINT64_MAX /* a SIZE or NUMBER with a maximum that was not given */

struct options_entry {
    char short_name; /* 0 if it has none */
    const char *long_name;
    enum options_kind kind;
    const char *value_name; /* in --help; NULL for flags and choices */
    const char *help;
    size_t offset;              /* of the member in the settings */
    uint64_t minimum, maximum;  /* SIZE, NUMBER and (maximum) TIME; 0 and 0: no limit */
    const char *const *choices; /* CHOICE: NULL-terminated */
};

struct options_command {
    const char *name;    /* "ringlet bench" */
    const char *summary; /* a paragraph for --help */
    const char *details; /* what --help says at its end; may be NULL */
    const struct options_entry *entries;
    size_t count;
};

enum options_result { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_ERROR };

/* Whether a SIZE or NUMBER was given or has a default. */
bool options_is_set(const struct options_entry *entry, uint64_t value);

/* Sets in *settings (which holds the defaults) what argv[1..argc) names. --help and -h print the
 * help to `out`; a mistake prints one message and a hint to `err`, and later arguments are not
 * looked at. */
enum options_result options_parse(const struct options_command *command, int argc, char **argv,
                                  void *settings, FILE *out, FILE *err);

/* The help; `defaults` is a settings struct as it is before parsing. */
void options_help(const struct options_command *command, const void *defaults, FILE *out);

/* The entry's value as help has it, "SIZE" or "red|green", "" for a flag; and its default, such as
 * " (default 4M)", "" where it has none. `out` is always terminated. */
void options_value_text(const struct options_entry *entry, char *out, size_t size);
void options_default_text(const struct options_entry *entry, const void *defaults, char *out,
                          size_t size);

/* Index of the name nearest to `word` by edits (a neighbour swap is one); `count` where none is
 * near, that is begins with it or is a third of it in edits away. */
size_t options_nearest(const char *word, const char *const *names, size_t count);

/* "4M" for 4194304: the shortest exact form. buffer of at least 24 bytes. */
const char *options_size_text(uint64_t bytes, char *buffer);

#endif
