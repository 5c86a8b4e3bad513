#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* One parse under way. */
struct parse {
    const struct options_command *command;
    int argc, at; /* at: the argument being read */
    char **argv;
    char *settings;
    FILE *err;
};

static enum options_result fail(const struct parse *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum options_result fail(const struct parse *p, const char *format, ...) {
    va_list arguments;
    fprintf(p->err, "%s: ", p->command->name);
    va_start(arguments, format);
    vfprintf(p->err, format, arguments);
    va_end(arguments);
    fprintf(p->err, "\ntry '%s --help'\n", p->command->name);
    return OPTIONS_ERROR;
}

enum { NEAREST_MAX = 40 };

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edits from one word to the other: insert, delete, replace, swap neighbours; words are cut at
 * NEAREST_MAX. */
static size_t distance(const char *a, const char *b) {
    static const size_t wide = NEAREST_MAX;
    size_t rows[3][NEAREST_MAX + 1], n = smaller(strlen(a), wide), m = smaller(strlen(b), wide);
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] =
                smaller(smaller(above[j], now[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = smaller(now[j], second[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

size_t options_nearest(const char *word, const char *const *names, size_t count) {
    size_t best = count, best_score = SIZE_MAX, length = strlen(word);
    for (size_t i = 0; i < count; i++) {
        /* A word cut short is nearer to what it begins than to something as short as itself. */
        bool begins = length >= 2 && !strncmp(word, names[i], length);
        size_t edits = distance(word, names[i]), score = begins ? 1 : 2 * edits;
        bool near = begins || edits <= (length + 2) / 3;
        if (near && score < best_score)
            best = i, best_score = score;
    }
    return best;
}

bool options_is_set(const struct options_entry *entry, uint64_t value) {
    return !entry->maximum || value != OPTIONS_UNSET;
}

static bool is_size(const struct options_entry *entry) {
    return entry->kind == OPTIONS_SIZE || entry->kind == OPTIONS_SIZE_0;
}

enum reading { READ_FINE, READ_NO_NUMBER, READ_TOO_LARGE };

/* Digits, then a suffix if one is allowed. */
static enum reading read_number(const char *text, bool size, uint64_t *out) {
    static const char units[] = "KMGT";
    bool too_large;
    char *end;
    if (*text < '0' || *text > '9')
        return READ_NO_NUMBER;
    errno = 0;
    *out = strtoull(text, &end, 10);
    too_large = errno == ERANGE;
    if (size && *end) {
        const char *unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
        if (unit) {
            unsigned shift = 10 * (unsigned)(unit - units + 1);
            too_large |= *out > UINT64_MAX >> shift;
            *out <<= shift;
            end++;
        }
        if (!strcmp(end, "iB"))
            end += 2;
        else if (!strcmp(end, "B"))
            end++;
    }
    return *end ? READ_NO_NUMBER : too_large ? READ_TOO_LARGE : READ_FINE;
}

const char *options_size_text(uint64_t bytes, char *buffer) {
    static const char units[] = {'\0', 'K', 'M', 'G', 'T'};
    size_t unit = 0;
    while (bytes && unit + 1 < sizeof units && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(buffer, 24, "%llu%c", (unsigned long long)bytes, units[unit]);
    return buffer;
}

/* A value of the entry in its own form. buffer of at least 24 bytes. */
static const char *value_text(const struct options_entry *entry, uint64_t value, char *buffer) {
    if (is_size(entry))
        return options_size_text(value, buffer);
    snprintf(buffer, 24, "%llu", (unsigned long long)value);
    return buffer;
}

static enum options_result set_number(const struct parse *p, const struct options_entry *entry,
                                      const char *value) {
    bool size = is_size(entry);
    uint64_t number;
    char low[24], high[24];
    enum reading reading = read_number(value, size, &number);
    if (reading == READ_NO_NUMBER)
        return fail(p, "--%s: '%s' is not %s", entry->long_name, value,
                    size ? "a size; give bytes, with K, M, G or T for powers of 1024, such as 4M"
                         : "a number; give digits");
    if (reading == READ_TOO_LARGE)
        return fail(p, "--%s: %s is too large; the most is %s", entry->long_name, value,
                    value_text(entry, entry->maximum ? entry->maximum : UINT64_MAX, high));
    bool zero = entry->kind == OPTIONS_SIZE_0;
    bool outside = entry->maximum && (number < entry->minimum || number > entry->maximum);
    if (outside && !(zero && !number))
        return fail(p, "--%s: %s is not %sbetween %s and %s", entry->long_name, value,
                    zero ? "0 or " : "", value_text(entry, entry->minimum, low),
                    value_text(entry, entry->maximum, high));
    memcpy(p->settings + entry->offset, &number, sizeof number);
    return OPTIONS_RUN;
}

static enum options_result set_time(const struct parse *p, const struct options_entry *entry,
                                    const char *value) {
    uint64_t number, most = entry->maximum ? entry->maximum : INT64_MAX;
    int64_t time = -1;
    if (strcmp(value, "-1")) {
        enum reading reading = read_number(value, false, &number);
        if (reading == READ_NO_NUMBER)
            return fail(p, "--%s: '%s' is not a time; give whole %s, or -1 for no limit",
                        entry->long_name, value, entry->value_name);
        if (reading == READ_TOO_LARGE || number > most)
            return fail(p, "--%s: %s is too large; the most is %llu, and -1 is no limit",
                        entry->long_name, value, (unsigned long long)most);
        time = (int64_t)number;
    }
    memcpy(p->settings + entry->offset, &time, sizeof time);
    return OPTIONS_RUN;
}

static void list_choices(const struct options_entry *entry, const char *between, char *out,
                         size_t size) {
    size_t length = 0;
    out[0] = '\0';
    for (const char *const *choice = entry->choices; *choice && length < size; choice++)
        length +=
            (size_t)snprintf(out + length, size - length, "%s%s", length ? between : "", *choice);
}

static enum options_result set_choice(const struct parse *p, const struct options_entry *entry,
                                      const char *value) {
    char list[160];
    for (int i = 0; entry->choices[i]; i++)
        if (!strcmp(entry->choices[i], value)) {
            memcpy(p->settings + entry->offset, &i, sizeof i);
            return OPTIONS_RUN;
        }
    list_choices(entry, ", ", list, sizeof list);
    return fail(p, "--%s: '%s' is none of %s", entry->long_name, value, list);
}

static enum options_result set(const struct parse *p, const struct options_entry *entry,
                               const char *value) {
    static const int on = 1;
    switch (entry->kind) {
    case OPTIONS_FLAG:
        memcpy(p->settings + entry->offset, &on, sizeof on);
        return OPTIONS_RUN;
    case OPTIONS_SIZE:
    case OPTIONS_SIZE_0:
    case OPTIONS_NUMBER:
        return set_number(p, entry, value);
    case OPTIONS_TIME:
        return set_time(p, entry, value);
    case OPTIONS_CHOICE:
        return set_choice(p, entry, value);
    case OPTIONS_TEXT:
        memcpy(p->settings + entry->offset, &value, sizeof value);
        return OPTIONS_RUN;
    }
    return OPTIONS_ERROR;
}

/* `attached` is what stood behind the name in the same argument, NULL if nothing. */
static enum options_result take(struct parse *p, const struct options_entry *entry,
                                const char *attached) {
    if (entry->kind == OPTIONS_FLAG)
        return attached ? fail(p, "--%s takes no value", entry->long_name) : set(p, entry, NULL);
    if (attached)
        return set(p, entry, attached);
    if (p->at + 1 >= p->argc)
        return fail(p, "--%s needs a value", entry->long_name);
    return set(p, entry, p->argv[++p->at]);
}

static enum options_result unknown_long(const struct parse *p, const char *name) {
    enum { MOST = 64 };
    const char *names[MOST];
    size_t count = smaller(p->command->count, MOST - 1);
    for (size_t i = 0; i < count; i++)
        names[i] = p->command->entries[i].long_name;
    names[count++] = "help";
    size_t nearest = options_nearest(name, names, count);
    if (nearest == count)
        return fail(p, "unknown option --%s", name);
    return fail(p, "unknown option --%s; the nearest is --%s", name, names[nearest]);
}

static enum options_result take_long(struct parse *p, char *argument) {
    char *value = strchr(argument, '=');
    size_t length = value ? (size_t)(value - argument) : strlen(argument);
    for (size_t i = 0; i < p->command->count; i++) {
        const struct options_entry *entry = &p->command->entries[i];
        if (strlen(entry->long_name) == length && !strncmp(entry->long_name, argument, length))
            return take(p, entry, value ? value + 1 : NULL);
    }
    if (value)
        *value = '\0';
    return unknown_long(p, argument);
}

static enum options_result unknown_short(const struct parse *p, char name) {
    char known[128];
    size_t length = 0;
    known[0] = '\0';
    for (size_t i = 0; i < p->command->count; i++) {
        char other = p->command->entries[i].short_name;
        if (other && (other ^ name) == 0x20)
            return fail(p, "unknown option -%c; the nearest is -%c", name, other);
        if (other && length < sizeof known)
            length += (size_t)snprintf(known + length, sizeof known - length, " -%c", other);
    }
    return fail(p, "unknown option -%c; known are%s -h", name, known);
}

/* Letters: flags, and behind them perhaps one option with its value. */
static enum options_result take_short(struct parse *p, const char *argument) {
    const struct options_entry *entry = NULL;
    for (size_t i = 0; i < p->command->count && !entry; i++)
        if (p->command->entries[i].short_name == argument[0])
            entry = &p->command->entries[i];
    if (!entry)
        return unknown_short(p, argument[0]);
    bool more = entry->kind == OPTIONS_FLAG && argument[1] && argument[1] != '=';
    enum options_result result = take(p, entry, argument[1] && !more ? argument + 1 : NULL);
    return result || !more ? result : take_short(p, argument + 1);
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return true;
    return false;
}

enum options_result options_parse(const struct options_command *command, int argc, char **argv,
                                  void *settings, FILE *out, FILE *err) {
    struct parse p = {command, argc, 1, argv, settings, err};
    if (asks_for_help(argc, argv)) {
        options_help(command, settings, out);
        return OPTIONS_HELP;
    }
    for (; p.at < argc; p.at++) {
        char *argument = argv[p.at];
        enum options_result result;
        if (!strcmp(argument, "--"))
            return p.at + 1 == argc
                       ? OPTIONS_RUN
                       : fail(&p, "unexpected argument '%s' behind --", argv[p.at + 1]);
        if (argument[0] == '-' && argument[1] == '-')
            result = take_long(&p, argument + 2);
        else if (argument[0] == '-' && argument[1])
            result = take_short(&p, argument + 1);
        else
            result = fail(&p, "unexpected argument '%s'; options begin with -", argument);
        if (result)
            return result;
    }
    return OPTIONS_RUN;
}

void options_default_text(const struct options_entry *entry, const void *defaults, char *out,
                          size_t size) {
    const char *member = (const char *)defaults + entry->offset;
    uint64_t number;
    int64_t time;
    int choice;
    char buffer[24];
    out[0] = '\0';
    switch (entry->kind) {
    case OPTIONS_SIZE:
    case OPTIONS_SIZE_0:
    case OPTIONS_NUMBER:
        memcpy(&number, member, sizeof number);
        if (options_is_set(entry, number))
            snprintf(out, size, " (default %s)", value_text(entry, number, buffer));
        return;
    case OPTIONS_TIME:
        memcpy(&time, member, sizeof time);
        snprintf(out, size, " (default %lld)", (long long)time);
        return;
    case OPTIONS_CHOICE:
        memcpy(&choice, member, sizeof choice);
        if (choice >= 0)
            snprintf(out, size, " (default %s)", entry->choices[choice]);
        return;
    case OPTIONS_FLAG:
    case OPTIONS_TEXT:
        return;
    }
}

enum { HELP_INDENT = 30, HELP_WIDTH = 100 };

/* Words of `text` in a column from HELP_INDENT; the cursor stands there. */
static void print_wrapped(const char *text, FILE *out) {
    size_t column = HELP_INDENT;
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + length > HELP_WIDTH) {
            fprintf(out, "\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, text);
        column += length;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', out);
}

void options_value_text(const struct options_entry *entry, char *out, size_t size) {
    if (entry->kind == OPTIONS_CHOICE)
        list_choices(entry, "|", out, size);
    else
        snprintf(out, size, "%s", entry->value_name ? entry->value_name : "");
}

static void help_entry(const struct options_entry *entry, const void *defaults, FILE *out) {
    char name[160], value[120], text[512], preset[48];
    options_value_text(entry, value, sizeof value);
    if (entry->short_name)
        snprintf(name, sizeof name, "  -%c, --%s %s", entry->short_name, entry->long_name, value);
    else
        snprintf(name, sizeof name, "      --%s %s", entry->long_name, value);
    if (strlen(name) < HELP_INDENT)
        fprintf(out, "%-*s", HELP_INDENT, name);
    else
        fprintf(out, "%s\n%*s", name, HELP_INDENT, "");
    options_default_text(entry, defaults, preset, sizeof preset);
    snprintf(text, sizeof text, "%s%s", entry->help, preset);
    print_wrapped(text, out);
}

void options_help(const struct options_command *command, const void *defaults, FILE *out) {
    fprintf(out, "Usage: %s [options]\n\n%s\n\nOptions:\n", command->name, command->summary);
    for (size_t i = 0; i < command->count; i++)
        help_entry(&command->entries[i], defaults, out);
    fprintf(out, "  -h, --help                  this text\n");
    if (command->details)
        fprintf(out, "\n%s\n", command->details);
}
