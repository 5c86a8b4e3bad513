/*
 * The command `ringlet`: finds the subcommand and hands over.
 * Owns the list of subcommands. Never does their work.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "ringlet/ringlet.h"

const struct command command_list[] = {
    {"bench", "times collectives and checks their results", command_bench, &bench_command,
     &bench_defaults},
    {"info", "shows version, devices, and what the library was built with", command_info,
     &info_command, NULL},
    {"man", NULL, command_man, &man_command, NULL},
};
enum { COMMANDS = sizeof command_list / sizeof command_list[0] };
const int command_count = COMMANDS;

static void help(FILE *out) {
    fprintf(out, "Usage: ringlet COMMAND [options]\n\n"
                 "AllReduce between the GPUs of one host, and on emulated GPUs without any.\n\n"
                 "Commands:\n");
    for (int i = 0; i < COMMANDS; i++)
        if (command_list[i].summary)
            fprintf(out, "  %-8s %s\n", command_list[i].name, command_list[i].summary);
    fprintf(out, "\n`ringlet COMMAND --help` says more. `ringlet --version` prints the version.\n"
                 "Exit status: 0 all went well, 1 something failed or was wrong, 2 bad usage.\n");
}

static int say_unknown(const char *what, const char *name, const char *const *names, size_t count) {
    size_t nearest = options_nearest(name, names, count);
    fprintf(stderr, "ringlet: unknown %s '%s'", what, name);
    if (nearest < count)
        fprintf(stderr, "; the nearest is '%s'", names[nearest]);
    fprintf(stderr, "\ntry 'ringlet --help'\n");
    return COMMAND_USAGE;
}

static int unknown(const char *name) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = command_list[i].name;
    return say_unknown("command", name, names, COMMANDS);
}

static int unknown_option(const char *name) {
    static const char *const names[] = {"--help", "--version"};
    return say_unknown("option", name, names, 2);
}

/* Output that could not be written (a full disk) is a failure too. A command that failed has said
 * why. */
static int finish(int status) {
    errno = 0;
    if ((!fflush(stdout) && !ferror(stdout)) || status)
        return status;
    fprintf(stderr, "ringlet: cannot write the output%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return COMMAND_FAILED;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        help(stderr);
        return COMMAND_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || (!strcmp(name, "help") && argc == 2)) {
        help(stdout);
        return COMMAND_OK;
    }
    if (!strcmp(name, "--version")) {
        printf("ringlet %s\n", ringlet_version());
        return COMMAND_OK;
    }
    if (name[0] == '-')
        return unknown_option(name);
    bool wants_help = !strcmp(name, "help");
    if (wants_help)
        name = argv[2];
    for (int i = 0; i < COMMANDS; i++)
        if (!strcmp(name, command_list[i].name)) {
            char *help_argv[] = {argv[2], (char[]){"--help"}, NULL};
            return wants_help ? command_list[i].run(2, help_argv)
                              : command_list[i].run(argc - 1, argv + 1);
        }
    return unknown(name);
}

int main(int argc, char **argv) {
    return finish(dispatch(argc, argv));
}
