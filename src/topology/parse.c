/*
 * Reads the matrix that `nvidia-smi topo -m` prints.
 * Owns the grammar and its messages, each with line and column. Never trusts a byte: memory is
 * bounded by a small multiple of the text's length until the matrix is known to be whole.
 *
 * A line counts by its first word. Two words GPU# GPU#, GPU# CPU or (before the header) GPU# and
 * anything that is no cell: the header. GPU# otherwise: a row. Anything else (legend, network
 * cards, what stood above the paste) is passed over. Columns are counted by words: those of GPUs
 * and network cards, one word each, come before the affinity columns, whose headers have two.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/status.h"
#include "topology/rates.h"

enum { TEXT_MAX = 4 << 20, SHOWN_MAX = 24, MESSAGE_TEXT_MAX = 384 };

struct word { /* offsets into the text */
    uint32_t begin, end;
};

struct cell {
    uint32_t begin; /* where it stands, for messages */
    uint8_t class, nvlinks;
};

struct column {
    uint32_t begin;
    uint32_t gpu;   /* the number in its label */
    uint32_t place; /* how many words into the header */
    uint32_t row;   /* which of the rows read is this GPU's; ROW_NONE before it came */
};
#define ROW_NONE UINT32_MAX

struct parser {
    const char *text, *source;
    uint32_t length, at;
    struct column *columns;
    uint32_t column_count, column_capacity;
    uint32_t header;    /* its offset; valid once there are columns */
    struct cell *cells; /* row_count rows in the order read */
    uint32_t row_count, row_capacity;
};

static ringlet_status fail_at(const struct parser *p, uint32_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static ringlet_status fail_at(const struct parser *p, uint32_t offset, const char *format, ...) {
    char what[MESSAGE_TEXT_MAX];
    uint32_t line = 1, line_begin = 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < offset; i++)
        if (p->text[i] == '\n')
            line++, line_begin = i + 1;
    return status_fail(RINGLET_PARSE_ERROR, "%s:%u:%u: %s", p->source, line,
                       offset - line_begin + 1, what);
}

/* Length of the terminal colour code at `at`: ESC [ digits and semicolons, a letter. A paste may
 * have lost the ESC. 0 if there is none. */
static uint32_t colour_code(const struct parser *p, uint32_t at) {
    uint32_t i = at;
    bool escaped = i < p->length && p->text[i] == '\x1b';
    i += escaped;
    if (i >= p->length || p->text[i] != '[')
        return 0;
    for (i++; i < p->length && ((p->text[i] >= '0' && p->text[i] <= '9') || p->text[i] == ';'); i++)
        ;
    if (i >= p->length)
        return 0;
    char last = p->text[i];
    bool letter = (last >= 'a' && last <= 'z') || (last >= 'A' && last <= 'Z');
    return last == 'm' || (escaped && letter) ? i + 1 - at : 0;
}

/* Length of what separates words at `at`, line ends aside: blanks, colour codes, and what a web
 * page or an editor makes of them (no-break space, byte order mark). */
static uint32_t separator(const struct parser *p, uint32_t at) {
    const char *text = p->text + at;
    uint32_t left = p->length - at;
    if (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\v' || *text == '\f')
        return 1;
    if (left >= 2 && !memcmp(text, "\xc2\xa0", 2))
        return 2;
    if (left >= 3 && !memcmp(text, "\xef\xbb\xbf", 3))
        return 3;
    return colour_code(p, at);
}

/* The line's next word; false at its end, where p->at stays on the newline or the text's end. */
static bool next_word(struct parser *p, struct word *out) {
    uint32_t length;
    while (p->at < p->length && p->text[p->at] != '\n' && (length = separator(p, p->at)))
        p->at += length;
    out->begin = p->at;
    while (p->at < p->length && p->text[p->at] != '\n' && !separator(p, p->at))
        p->at++;
    out->end = p->at;
    return out->end > out->begin;
}

static void next_line(struct parser *p) {
    while (p->at < p->length && p->text[p->at] != '\n')
        p->at++;
    if (p->at < p->length)
        p->at++;
}

static bool word_is(const struct parser *p, struct word word, const char *expected) {
    size_t length = strlen(expected);
    return word.end - word.begin == length && !memcmp(p->text + word.begin, expected, length);
}

/* The digits after a prefix; false unless the word is just that and the number is at most `max`. */
static bool word_number(const struct parser *p, struct word word, const char *prefix, uint32_t max,
                        uint32_t *out) {
    uint32_t length = (uint32_t)strlen(prefix), number = 0;
    if (word.end - word.begin <= length || memcmp(p->text + word.begin, prefix, length))
        return false;
    for (uint32_t i = word.begin + length; i < word.end; i++) {
        char c = p->text[i];
        if (c < '0' || c > '9')
            return false;
        number = number * 10 + (uint32_t)(c - '0');
        if (number > max)
            return false;
    }
    *out = number;
    return true;
}

static bool word_gpu(const struct parser *p, struct word word, uint32_t *gpu) {
    return word_number(p, word, "GPU", 99999999, gpu);
}

/* A word for a message: printable, not too long. */
static const char *shown(const struct parser *p, struct word word, char buffer[SHOWN_MAX + 4]) {
    uint32_t length = word.end - word.begin, kept = length < SHOWN_MAX ? length : SHOWN_MAX;
    for (uint32_t i = 0; i < kept; i++) {
        char c = p->text[word.begin + i];
        buffer[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    strcpy(buffer + kept, length > kept ? "..." : "");
    return buffer;
}

static bool word_cell(const struct parser *p, struct word word, struct cell *out) {
    uint32_t nvlinks;
    *out = (struct cell){.begin = word.begin};
    if (word_number(p, word, "NV", UINT8_MAX, &nvlinks) && nvlinks) {
        out->class = TOPOLOGY_NVLINK;
        out->nvlinks = (uint8_t)nvlinks;
        return true;
    }
    for (int class = 0; class < TOPOLOGY_CLASSES; class ++) {
        out->class = (uint8_t) class;
        if (class != TOPOLOGY_NVLINK && word_is(p, word, topology_class_label(class)))
            return true;
    }
    out->class = TOPOLOGY_SYS;
    return word_is(p, word, "SOC"); /* what drivers before 2017 called SYS */
}

static struct column *find_column(struct parser *p, uint32_t gpu) {
    for (uint32_t i = 0; i < p->column_count; i++)
        if (p->columns[i].gpu == gpu)
            return &p->columns[i];
    return NULL;
}

static ringlet_status add_column(struct parser *p, struct column column) {
    if (find_column(p, column.gpu))
        return fail_at(p, column.begin, "a second column for GPU%u; paste each column once",
                       column.gpu);
    if (p->column_count == TOPOLOGY_GPUS_MAX)
        return fail_at(p, column.begin, "more than %d GPUs; take fewer", TOPOLOGY_GPUS_MAX);
    if (p->column_count == p->column_capacity) {
        uint32_t capacity = p->column_capacity ? p->column_capacity * 2 : 8;
        if (!memory_resize(&p->columns, capacity, sizeof *p->columns))
            return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for the columns of %s", p->source);
        p->column_capacity = capacity;
    }
    p->columns[p->column_count++] = column;
    return RINGLET_OK;
}

/* p->at is behind the first word, a GPU's. Ends at the first affinity column. */
static ringlet_status read_header(struct parser *p, struct word word, uint32_t gpu) {
    uint32_t place = 0;
    if (p->column_count)
        return fail_at(p, word.begin, "a second header; give one matrix a file");
    p->header = word.begin;
    do {
        if (word_is(p, word, "CPU"))
            break;
        if (word_gpu(p, word, &gpu)) {
            struct column column = {word.begin, gpu, place, ROW_NONE};
            ringlet_status status = add_column(p, column);
            if (status)
                return status;
        }
        place++;
    } while (next_word(p, &word));
    return RINGLET_OK;
}

static ringlet_status grow_rows(struct parser *p) {
    if (p->row_count < p->row_capacity)
        return RINGLET_OK;
    uint32_t capacity = p->row_capacity ? p->row_capacity * 2 : 4;
    if (capacity > p->column_count)
        capacity = p->column_count;
    if (!memory_resize(&p->cells, (size_t)capacity * p->column_count, sizeof *p->cells))
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for the rows of %s", p->source);
    p->row_capacity = capacity;
    return RINGLET_OK;
}

/* Which column a row's first word names; it must not have had a row. */
static ringlet_status begin_row(struct parser *p, struct word label, uint32_t gpu,
                                struct column **out) {
    if (!p->column_count)
        return fail_at(p, label.begin,
                       "a row before any header; paste the line of GPU names above it too");
    *out = find_column(p, gpu);
    if (!*out)
        return fail_at(p, label.begin,
                       "a row for GPU%u, which has no column; paste the whole matrix", gpu);
    if ((*out)->row != ROW_NONE)
        return fail_at(p, label.begin, "a second row for GPU%u; paste each row once", gpu);
    return RINGLET_OK;
}

static ringlet_status check_cell(const struct parser *p, struct word word, const struct cell *cell,
                                 const struct column *row, const struct column *column) {
    bool self = cell->class == TOPOLOGY_SELF;
    if (self && row != column)
        return fail_at(p, word.begin, "X means the GPU itself, but this is GPU%u to GPU%u",
                       row->gpu, column->gpu);
    if (!self && row == column)
        return fail_at(p, word.begin, "GPU%u to itself must be X", row->gpu);
    return RINGLET_OK;
}

static ringlet_status read_row(struct parser *p, struct column *row) {
    uint32_t place = 0;
    ringlet_status status = grow_rows(p);
    if (status)
        return status;
    for (uint32_t i = 0; i < p->column_count; i++) {
        struct cell cell;
        struct word word;
        char buffer[SHOWN_MAX + 4];
        bool there;
        do
            there = next_word(p, &word);
        while (there && place++ < p->columns[i].place);
        if (!there)
            return fail_at(p, p->at,
                           "the row of GPU%u ends before its column GPU%u; paste the whole line",
                           row->gpu, p->columns[i].gpu);
        if (!word_cell(p, word, &cell))
            return fail_at(p, word.begin,
                           "'%s' is no link; X, NV1 to NV255, PIX, PXB, PHB, NODE or SYS are",
                           shown(p, word, buffer));
        if ((status = check_cell(p, word, &cell, row, &p->columns[i])))
            return status;
        p->cells[(size_t)p->row_count * p->column_count + i] = cell;
    }
    row->row = p->row_count++;
    return RINGLET_OK;
}

static ringlet_status read_line(struct parser *p) {
    struct word first, second;
    struct cell cell;
    struct column *row = NULL;
    uint32_t gpu, other;
    if (!next_word(p, &first) || !word_gpu(p, first, &gpu))
        return RINGLET_OK;
    uint32_t behind = p->at;
    bool more = next_word(p, &second);
    p->at = behind;
    if (more ? word_gpu(p, second, &other) || word_is(p, second, "CPU") ||
                   (!p->column_count && !word_cell(p, second, &cell))
             : !p->column_count)
        return read_header(p, first, gpu);
    ringlet_status status = begin_row(p, first, gpu, &row);
    return status ? status : read_row(p, row);
}

static const struct cell *cell_of(const struct parser *p, uint32_t row, uint32_t column) {
    return &p->cells[(size_t)p->columns[row].row * p->column_count + column];
}

static ringlet_status check_symmetry(const struct parser *p) {
    for (uint32_t row = 0; row < p->column_count; row++)
        for (uint32_t column = 0; column < row; column++) {
            const struct cell *here = cell_of(p, row, column), *there = cell_of(p, column, row);
            char one[8], two[8];
            if (here->class == there->class && here->nvlinks == there->nvlinks)
                continue;
            struct topology_link link = {.class = here->class, .nvlinks = here->nvlinks};
            struct topology_link back = {.class = there->class, .nvlinks = there->nvlinks};
            topology_link_label(&link, one);
            topology_link_label(&back, two);
            return fail_at(
                p, here->begin,
                "GPU%u to GPU%u is %s, but GPU%u to GPU%u is %s; a link is the same both "
                "ways",
                p->columns[row].gpu, p->columns[column].gpu, one, p->columns[column].gpu,
                p->columns[row].gpu, two);
        }
    return RINGLET_OK;
}

static ringlet_status check_whole(const struct parser *p) {
    if (!p->column_count)
        return fail_at(p, p->length,
                       "no line of GPU names (GPU0 GPU1 ...); give what `nvidia-smi topo "
                       "-m` prints");
    for (uint32_t i = 0; i < p->column_count; i++)
        if (p->columns[i].row == ROW_NONE)
            return fail_at(p, p->columns[i].begin,
                           "GPU%u has a column but no row; paste the whole matrix",
                           p->columns[i].gpu);
    return check_symmetry(p);
}

/* "machines/dgx1-v100.txt" is called dgx1-v100. */
static void name_from(const char *source, char name[TOPOLOGY_NAME_MAX + 1]) {
    const char *slash = strrchr(source, '/'), *base = slash ? slash + 1 : source;
    const char *dot = strrchr(base, '.');
    size_t length = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    if (length > TOPOLOGY_NAME_MAX)
        length = TOPOLOGY_NAME_MAX;
    memcpy(name, base, length);
    name[length] = '\0';
}

static ringlet_status build(const struct parser *p, struct topology *out) {
    char name[TOPOLOGY_NAME_MAX + 1];
    struct topology t;
    name_from(p->source, name);
    ringlet_status status = topology_allocate(&t, p->column_count, name);
    if (status)
        return status;
    for (uint32_t row = 0; row < t.gpus; row++)
        for (uint32_t column = 0; column < t.gpus; column++) {
            const struct cell *cell = cell_of(p, row, column);
            t.links[(size_t)row * t.gpus + column] =
                topology_class_link(cell->class, cell->nvlinks);
        }
    topology_settle(&t);
    *out = t;
    return RINGLET_OK;
}

ringlet_status topology_parse(struct topology *out, const char *text, size_t length,
                              const char *source) {
    if (length > TEXT_MAX)
        return status_fail(RINGLET_PARSE_ERROR,
                           "%s:1:1: %zu bytes are more than the %d a machine may have", source,
                           length, TEXT_MAX);
    struct parser p = {.text = text, .source = source, .length = (uint32_t)length};
    ringlet_status status = RINGLET_OK;
    for (; !status && p.at < p.length; next_line(&p))
        status = read_line(&p);
    if (!status)
        status = check_whole(&p);
    if (!status)
        status = build(&p, out);
    memory_free(p.cells);
    memory_free(p.columns);
    return status;
}

/* Reads a stream's all, at most TEXT_MAX bytes. *out is freed by the caller in any case. */
static ringlet_status read_all(FILE *file, const char *path, char **out, size_t *length) {
    size_t capacity = 0, got;
    *length = 0;
    do {
        if (*length == capacity) {
            capacity = capacity ? capacity * 4 : 4096;
            if (!memory_resize(out, capacity, 1))
                return status_fail(RINGLET_OUT_OF_MEMORY, "no memory to read %s", path);
        }
        got = fread(*out + *length, 1, capacity - *length, file);
        *length += got;
        if (*length > TEXT_MAX)
            return status_fail(RINGLET_SYSTEM_ERROR,
                               "%s is larger than %d bytes; it is no machine file", path, TEXT_MAX);
    } while (got);
    if (ferror(file))
        return status_fail(RINGLET_SYSTEM_ERROR, "cannot read %s: %s", path, strerror(errno));
    return RINGLET_OK;
}

ringlet_status topology_read(struct topology *out, const char *path) {
    char *text = NULL;
    size_t length;
    FILE *file = fopen(path, "re");
    if (!file)
        return status_fail(RINGLET_SYSTEM_ERROR, "cannot open the machine file '%s': %s", path,
                           strerror(errno));
    struct stat about;
    ringlet_status status = RINGLET_OK;
    if (fstat(fileno(file), &about) == 0 && !S_ISREG(about.st_mode))
        status = status_fail(RINGLET_SYSTEM_ERROR,
                             "the machine file '%s' is no plain file, which it must be: it is read "
                             "more than once",
                             path);
    if (!status)
        status = read_all(file, path, &text, &length);
    fclose(file);
    if (!status)
        status = topology_parse(out, text, length, path);
    memory_free(text);
    return status;
}
