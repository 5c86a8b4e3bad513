/*
 * The command `ringlet`: finds the subcommand and hands over.
 * Owns the list of subcommands. Never does their work.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"
#include "ringlet/ringlet.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"bench", "times collectives and checks their results", command_bench},
    {"info", "shows version, devices, and what the library was built with", command_info},
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void help(FILE *out) {
    fprintf(out, "Usage: ringlet COMMAND [options]\n\n"
                 "AllReduce between the GPUs of one host, and on emulated GPUs without any.\n\n"
                 "Commands:\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n`ringlet COMMAND --help` says more. `ringlet --version` prints the version.\n"
                 "Exit status: 0 all went well, 1 something failed or was wrong, 2 bad usage.\n");
}

static int unknown(const char *name) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    fprintf(stderr, "ringlet: unknown command '%s'; the nearest is '%s'\ntry 'ringlet --help'\n",
            name, names[options_nearest(name, names, COMMANDS)]);
    return COMMAND_USAGE;
}

static int unknown_option(const char *name) {
    static const char *const names[] = {"--help", "--version"};
    fprintf(stderr, "ringlet: unknown option %s; the nearest is %s\ntry 'ringlet --help'\n", name,
            names[options_nearest(name, names, 2)]);
    return COMMAND_USAGE;
}

/* Output that could not be written (a full disk) is a failure too. */
static int finish(int status) {
    if (!fflush(stdout) && !ferror(stdout))
        return status;
    fprintf(stderr, "ringlet: cannot write the output\n");
    return status ? status : COMMAND_FAILED;
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
        if (!strcmp(name, commands[i].name)) {
            char *help_argv[] = {argv[2], (char[]){"--help"}, NULL};
            return wants_help ? commands[i].run(2, help_argv) : commands[i].run(argc - 1, argv + 1);
        }
    return unknown(name);
}

int main(int argc, char **argv) {
    return finish(dispatch(argc, argv));
}
