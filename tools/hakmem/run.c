/* run.c: `hakmem run`: puts the settings into the environment and the library into LD_PRELOAD, then
 * calls exec. The program replaces this process, so signals and the exit status are its own. */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/options.h"
#include "options/profiles.h"
#include "override.h"

typedef struct {
    char **argv; /* the program and its arguments */
    bool debug;
} order_t;

/* Applies one setting. The command refuses what the library would only warn about. */
static void set(const char *name, const char *value) {
    hak_option_t option = (hak_option_t)find_option(name, STATUS_RUN);
    hak_option_row_t row = hak_option_row(option);
    hak_text_t text = {value, strlen(value)};
    int64_t unused;
    if (option == HAK_OPTION_CONF)
        fail(STATUS_RUN, "run: --opt sets one option by its own name; HAKMEM_CONF holds several");
    if (!hak_option_parse(option, text, &unused))
        fail(STATUS_RUN, "run: '%.64s' is no value of %s, which takes %s%s%s", value, row.name,
             row.accepted, *row.unit ? " " : "", row.unit);
    if (setenv(row.name, value, 1) != 0) fail(STATUS_RUN, "run: no memory");
}

static void set_pair(char *pair) {
    char *equals = strchr(pair, '=');
    if (!equals) fail(STATUS_RUN, "run: --opt takes NAME=VALUE, not '%.64s'", pair);
    *equals = 0;
    set(pair, equals + 1);
}

static order_t read_arguments(char **argv) {
    order_t order = {0};
    for (argv++; *argv && **argv == '-' && !order.argv;) {
        int count = 1;
        char *value;
        if (strcmp(*argv, "--") == 0)
            order.argv = argv + 1;
        else if (strcmp(*argv, "--debug") == 0)
            order.debug = true;
        else if ((value = option_value("run", argv, "--profile", STATUS_RUN, &count)) != NULL)
            set("PROFILE", value);
        else if ((value = option_value("run", argv, "--stats", STATUS_RUN, &count)) != NULL)
            set("STATS", value);
        else if ((value = option_value("run", argv, "--opt", STATUS_RUN, &count)) != NULL)
            set_pair(value);
        else
            fail(STATUS_RUN, "run: '%.64s' is not known; `hakmem --help` shows the form", *argv);
        argv += count;
    }
    if (!order.argv) order.argv = argv;
    if (!*order.argv) fail(STATUS_RUN, "run: no program given");
    return order;
}

/* True if HAKMEM_CONF sets an option: a variable of the option's own would take precedence over that. */
static bool conf_sets(hak_option_t option) {
    const char *conf = getenv(hak_option_row(HAK_OPTION_CONF).name);
    for (; conf && *conf; conf += strcspn(conf, ","), conf += *conf == ',') {
        const hak_text_t name = {conf, strcspn(conf, ":,")};
        if (hak_option_find(name) == (int)option) return true;
    }
    return false;
}

/* A live page, unless the user says otherwise. An empty variable counts as not set. */
static void want_live_page(void) {
    const char *name = hak_option_row(HAK_OPTION_LIVE).name, *value = getenv(name);
    if ((!value || !*value) && !conf_sets(HAK_OPTION_LIVE)) setenv(name, "1", 1);
}

void command_folder(const char *command, int status, char *folder) {
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) fail(status, "%s: /proc is needed to find the library", command);
    folder[length] = 0;
    *strrchr(folder, '/') = 0;
}

void find_library(const char *command, int status, bool debug, char *library) {
    static const char *const places[] = {"libhakmem.so.1", HAKMEM_LIBRARY_FROM_COMMAND};
    char folder[PATH_MAX], path[2 * PATH_MAX];
    command_folder(command, status, folder);
    if (debug) {
        snprintf(path, sizeof path, "%s/../debug/libhakmem.so.1", folder);
        if (!realpath(path, library))
            fail(status, "%s: there is no debug build at %s; `make debug` makes it", command, path);
        return;
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, places[i]);
        if (realpath(path, library)) return;
    }
    fail(status, "%s: there is no libhakmem.so.1 beside the command, nor at %s", command, path);
}

void preload_first(const char *command, const char *library) {
    const char *before = getenv("LD_PRELOAD");
    char value[8192];
    size_t length = strlen(library);
    bool is_first = before && strncmp(before, library, length) == 0 && strchr(": ", before[length]);
    if (is_first) return; /* this command was itself started by `hakmem run` */
    if (strpbrk(library, ": "))
        fail(STATUS_RUN, "%s: LD_PRELOAD cannot name %s: a colon or a blank is in its path",
             command, library);
    int size = snprintf(value, sizeof value, "%s%s%s", library, before && *before ? ":" : "",
                        before ? before : "");
    if (size >= (int)sizeof value) fail(STATUS_RUN, "%s: LD_PRELOAD is too long", command);
    if (setenv("LD_PRELOAD", value, 1) != 0) fail(STATUS_RUN, "%s: no memory", command);
}

void find_program(const char *command, const char *name, char *path) {
    if (program_find(name, path, PATH_MAX)) return;
    const char *reason = errno == ENOENT   ? "no such program"
                         : errno == EACCES ? "not an executable file"
                                           : strerror(errno);
    fail(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXEC, "%s: %s: %s", command,
         *name ? name : "''", reason);
}

int command_run(int argc, char **argv) {
    char path[PATH_MAX], library[PATH_MAX];
    (void)argc;
    order_t order = read_arguments(argv);
    find_library("run", STATUS_RUN, order.debug, library);
    find_program("run", order.argv[0], path);
    preload_first("run", library);
    want_live_page();
    const char *problem = override_problem(path, library);
    if (problem) fail(STATUS_RUN, "run: not started on HAKMEM: %s", problem);
    execvp(path, order.argv);
    fail(STATUS_NOT_EXEC, "run: %s: %s", path, strerror(errno));
}
