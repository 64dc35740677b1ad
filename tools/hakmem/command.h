/* command.h: what the files of the command share.
 *
 * The command uses the option table and its parser from src/options, and the table of statistics
 * from src/stats. It runs on the system's allocator, so that HAKMEM's variables in its environment
 * do not affect it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    STATUS_USAGE = 2,       /* the command was used wrongly */
    STATUS_RUN = 125,       /* run: nothing was started; as env(1) and timeout(1) do */
    STATUS_NOT_EXEC = 126,  /* run: the program cannot be executed */
    STATUS_NOT_FOUND = 127, /* run: the program does not exist */
};

/* Writes "hakmem: " and the formatted text as one line to stderr, and exits. */
_Noreturn void fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Flushes the output and returns the status: 0, or 1 with one line if the output failed. */
int finish(void);

/* Prints the words of a text in lines of at most `width`, indented; `first` columns of the first
 * line are already used. */
void print_wrapped(const char *text, int first, int indent, int width);

/* Index of a named option. If there is none, the command ends with one line and `status`. */
int find_option(const char *name, int status);

/* The value of "--name VALUE" or "--name=VALUE", and in *count the number of its words; NULL, and
 * *count unchanged, when argv[0] is another option. If the value is missing, the command ends with
 * `status`. */
char *option_value(const char *command, char **argv, const char *name, int status, int *count);

/* The folder in which this command lies, in a text of PATH_MAX. Where it cannot be known, the
 * command ends with one line that names the subcommand, and `status`. So do the next functions. */
void command_folder(const char *command, int status, char *folder);

/* The absolute path of the library, in a text of PATH_MAX: next to the command in a build
 * directory, or where `make install` puts it, relative to the command. */
void find_library(const char *command, int status, bool debug, char *library);

/* Finds a program as execvp(3) does; its path goes to a text of PATH_MAX. */
void find_program(const char *command, const char *name, char *path);

/* Puts the library first in LD_PRELOAD; the objects that are there already stay. */
void preload_first(const char *command, const char *library);

/* `hakmem options --from-ALLOCATOR STRING`: prints settings of another allocator as ours. False, if
 * argv has no such word; otherwise *status is the exit status. */
bool translate_options(int argc, char **argv, int *status);

/* The Python that the command runs its Python parts with: that of the wheel it came in, or python3. */
const char *python_name(void);

/* True for a file that begins as ELF files do. `hakmem explain` of one, a core file. */
bool is_elf_file(const char *name);
int explain_core(const char *core);

/* The subcommands; argv[0] is the subcommand's name. They return the exit status. */
int command_options(int argc, char **argv);
int command_run(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_top(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_record(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_compare(int argc, char **argv);
int command_prof(int argc, char **argv);
int command_report(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_export(int argc, char **argv);
