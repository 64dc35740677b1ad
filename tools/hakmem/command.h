/* command.h: what the files of the command share.
 *
 * The command has the option table and its parser from src/options, and the table of statistics from
 * src/stats; it runs on the allocator of the
 * system, so that its environment may be any. */
#ifndef TOOLS_COMMAND_H
#define TOOLS_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum {
    STATUS_USAGE = 2,       /* the command was used wrongly */
    STATUS_RUN = 125,       /* run: not started, as env(1) and timeout(1) have it */
    STATUS_NOT_EXEC = 126,  /* run: the program cannot be executed */
    STATUS_NOT_FOUND = 127, /* run: there is no such program */
};

/* Writes "hakmem: " and the formatted text as one line to stderr, and exits. */
_Noreturn void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Status of a command whose output is written: 0; where it cannot be written, one line and 1. */
int finish(void);

/* Words of a text, in lines of at most `width` behind an indentation; the first line has `first` columns
 * of it already. */
void print_wrapped(const char *text, int first, int indent, int width);

/* Index of a named option; where there is none the command fails with `status` and one line. */
int find_option(const char *name, int status);

/* The value of "--name VALUE" or "--name=VALUE", NULL when argv[0] is another option; *count is how many
 * words it takes, and untouched otherwise. Without a value the command fails with `status`. */
char *option_value(const char *command, char **argv, const char *name, int status, int *count);

/* The subcommands; argv[0] is the subcommand's name. They return the exit status. */
int command_options(int argc, char **argv);
int command_run(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_top(int argc, char **argv);
int command_explain(int argc, char **argv);

#endif
