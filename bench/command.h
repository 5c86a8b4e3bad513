/*
 * The subcommands of `ringlet`.
 * Owns their names. Never parses.
 */
#ifndef RINGLET_BENCH_COMMAND_H
#define RINGLET_BENCH_COMMAND_H

/* argv[0] is the subcommand's name. Exit statuses of every subcommand. */
enum { COMMAND_OK = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

int command_bench(int argc, char **argv);
int command_info(int argc, char **argv);

/* What this build has of CUDA and what it finds: runtime and driver in words. Static storage. */
const char *command_cuda_text(void);

#endif
