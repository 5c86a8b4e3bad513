/*
 * `ringlet man`: the man page ringlet.1, made of the tables that --help is made of.
 * Owns the page's form (roff, man macros). Never says anything of an option that help does not.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "ringlet/ringlet.h"

const struct options_command man_command = {
    .name = "ringlet man",
    .summary = "Prints the man page ringlet(1) in roff; `ringlet man | man -l -` shows it.",
};

/* A character as it is, where roff has a meaning of its own for it; NULL where it has none. */
static const char *escape(char c) {
    switch (c) {
    case '\\':
        return "\\e";
    case '-':
        return "\\-"; /* else a hyphen, which cannot be copied into a shell */
    case '\'':
        return "\\(aq";
    case '`':
        return "\\(ga";
    case '|':
        return "|\\:"; /* long lists of choices may be broken there */
    default:
        return NULL;
    }
}

/* A dot that begins a line would begin a macro. */
static void print_text(const char *text, size_t length) {
    if (length && *text == '.')
        fputs("\\&", stdout);
    for (size_t i = 0; i < length; i++) {
        const char *escaped = escape(text[i]);
        if (escaped)
            fputs(escaped, stdout);
        else
            putchar(text[i]);
    }
}

static void print_line(const char *text) {
    print_text(text, strlen(text));
    putchar('\n');
}

/* Lines; an empty one ends a paragraph, and indented ones stay as they are. */
static void print_paragraphs(const char *text) {
    bool kept = false;
    while (*text) {
        size_t length = strcspn(text, "\n"), indent = strspn(text, " ");
        if (kept != (indent > 0)) {
            kept = indent > 0;
            puts(kept ? ".nf" : ".fi");
        }
        if (length) {
            print_text(text + indent, length - indent);
            putchar('\n');
        } else {
            puts(".PP");
        }
        text += length + (text[length] == '\n');
    }
    if (kept)
        puts(".fi");
}

static void print_entry(const struct options_entry *entry, const void *defaults) {
    char value[160], preset[48];
    options_value_text(entry, value, sizeof value);
    options_default_text(entry, defaults, preset, sizeof preset);
    puts(".TP");
    if (entry->short_name)
        printf("\\fB\\-%c\\fR, ", entry->short_name);
    fputs("\\fB\\-\\-", stdout);
    print_text(entry->long_name, strlen(entry->long_name));
    fputs("\\fR", stdout);
    if (value[0]) {
        fputs(" \\fI", stdout);
        print_text(value, strlen(value));
        fputs("\\fR", stdout);
    }
    putchar('\n');
    print_text(entry->help, strlen(entry->help));
    print_line(preset);
}

static void print_command(const struct command *command) {
    const struct options_command *options = command->options;
    printf(".SS %s\n", options->name);
    print_paragraphs(options->summary);
    for (size_t i = 0; i < options->count; i++)
        print_entry(&options->entries[i], command->defaults);
    puts(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nthis text");
    if (options->details) {
        puts(".PP");
        print_paragraphs(options->details);
    }
}

static void print_page(void) {
    printf(".TH RINGLET 1 \"\" \"ringlet %s\" \"User Commands\"\n", ringlet_version());
    puts(".SH NAME\nringlet \\- AllReduce between the GPUs of one host: its benchmark");
    puts(".SH SYNOPSIS");
    for (int i = 0; i < command_count; i++)
        printf("%s.B %s\n[options]\n", i ? ".PP\n" : "", command_list[i].options->name);
    puts(".PP\n.B ringlet \\-\\-version\n.PP\n.B ringlet help\n[command]");
    puts(".SH DESCRIPTION\nringlet times and checks the collectives of the library Ringlet, on "
         "CUDA devices and on\nemulated ones, and shows what the library was built with.");
    puts(".SH COMMANDS");
    for (int i = 0; i < command_count; i++)
        print_command(&command_list[i]);
    puts(".SH EXIT STATUS\n0: all went well; 1: something failed or was wrong; 2: bad usage.");
    puts(".SH ENVIRONMENT\nThe library and the command take no settings from the environment. "
         "NCCL has its own;\nNCCL_NVLS_ENABLE is shown beside its times.");
    puts(".SH SEE ALSO\nThe comments in ringlet/ringlet.h describe the library.");
}

int command_man(int argc, char **argv) {
    struct {
        int none;
    } settings = {0};
    enum options_result result = options_parse(&man_command, argc, argv, &settings, stdout, stderr);
    if (result)
        return result == OPTIONS_HELP ? COMMAND_OK : COMMAND_USAGE;
    print_page();
    return COMMAND_OK;
}
