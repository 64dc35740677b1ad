/* lab.c: `hakmem compare`, `tune`, `prof` and `report`: hand over to the lab, which is Python with packages for
 * statistics and plots: that of the checkout in which this command was built, else the installed
 * one. */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The program's own Python path stays as it is: the lab's is told to this process alone. */
static char starter[] = "import runpy, sys; sys.path[0] = sys.argv.pop(1); "
                        "runpy.run_module('hakmem_lab', run_name='__main__')";

static void set(const char *name, const char *value) {
    if (setenv(name, value, 1) != 0) fail(1, "no memory");
}

/* Tells the lab where this command is, which reads the live page of a process for it. */
static void set_command(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    set("HAKMEM_BENCH_COMMAND", path);
}

const char *python_name(void) {
    const char *name = getenv("HAKMEM_BENCH_PYTHON");
    return name && *name ? name : "python3";
}

/* Starts the installed lab in `folder`, if there is one. */
static void start_installed(const char *folder, int argc, char **argv) {
    char quiet[] = "-B", command[] = "-c", path[PATH_MAX + 16], python[PATH_MAX];
    char *words[argc + 6];
    snprintf(path, sizeof path, "%s/python", folder);
    if (access(path, X_OK) != 0) return;
    snprintf(python, sizeof python, "%s", python_name());
    char *head[] = {python, quiet, command, starter, path};
    memcpy(words, head, sizeof head);
    memcpy(words + 5, argv, ((size_t)argc + 1) * sizeof *argv);
    if (!getenv("HAKMEM_BENCH_BUILD")) set("HAKMEM_BENCH_BUILD", folder);
    execvp(python, words);
    fail(1, "%s: %s: %s", argv[0], python, strerror(errno));
}

/* argv[0] is the lab's name of what the user calls `said`. */
static int in_lab(const char *said, int argc, char **argv) {
    char name[32], folder[PATH_MAX], path[2 * PATH_MAX], real[PATH_MAX], *words[argc + 2];
    command_folder(argv[0], STATUS_USAGE, folder);
    snprintf(name, sizeof name, "hakmem %s", said);
    set("HAKMEM_BENCH_NAME", name);
    set_command();
    snprintf(path, sizeof path, "%s/" HAKMEM_PARTS_FROM_COMMAND "/lab", folder);
    if (realpath(path, real)) start_installed(real, argc, argv);
    snprintf(path, sizeof path, "%s/../../scripts/lab", folder);
    if (access(path, X_OK) != 0)
        fail(STATUS_USAGE, "%s: it needs the lab of the sources: `scripts/lab %s` in a checkout",
             said, argv[0]);
    words[0] = path;
    memcpy(words + 1, argv, ((size_t)argc + 1) * sizeof *argv);
    execv(path, words);
    fail(1, "%s: %s: %s", argv[0], path, strerror(errno));
}

int command_compare(int argc, char **argv) { return in_lab(argv[0], argc, argv); }

int command_tune(int argc, char **argv) { return in_lab(argv[0], argc, argv); }

int command_prof(int argc, char **argv) { return in_lab(argv[0], argc, argv); }

int command_report(int argc, char **argv) {
    static char name[] = "heap_report";
    argv[0] = name;
    return in_lab("report", argc, argv);
}
