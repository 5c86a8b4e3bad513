/*
 * The subcommands of `ringlet`: what each is to the others.
 * Owns the form of their list; main.c has the list. Never parses.
 */
#ifndef RINGLET_BENCH_COMMAND_H
#define RINGLET_BENCH_COMMAND_H

/* argv[0] is the subcommand's name. Exit statuses of every subcommand. */
enum { COMMAND_OK = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

int command_bench(int argc, char **argv);
int command_info(int argc, char **argv);
int command_man(int argc, char **argv);

struct options_command;

struct command {
    const char *name;
    const char *summary; /* for --help; NULL: left out there */
    int (*run)(int argc, char **argv);
    const struct options_command *options;
    const void *defaults; /* settings before parsing */
};

extern const struct command command_list[];
extern const int command_count;

extern const struct options_command bench_command, info_command, man_command;
extern const struct settings bench_defaults;

/* What this build has of CUDA and what it finds: runtime and driver in words. Static storage. */
const char *command_cuda_text(void);

#endif
