/* main.c: the hakmem command: chooses the subcommand; help, version, and messages of failures. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"
#include "options/options.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define VERSION \
    TEXT(HAKMEM_VERSION_MAJOR) "." TEXT(HAKMEM_VERSION_MINOR) "." TEXT(HAKMEM_VERSION_PATCH)

static const char help[] =
    "Usage: hakmem run [--profile=NAME] [--opt NAME=VALUE]... [--stats=FORM] [--debug] [--] "
    "PROGRAM [ARGUMENT]...\n"
    "       hakmem stat PID|FILE [--wide | --json [--map] [--every SECONDS [--count N]] | "
    "--prometheus]\n"
    "       hakmem export [PID]... [--listen [ADDRESS:]PORT]\n"
    "       hakmem top PID [--interval SECONDS] [--sort KEY] [--once]\n"
    "       hakmem explain PID|FILE|CORE\n"
    "       hakmem options [NAME | --all]\n"
    "       hakmem options --from-jemalloc|--from-mimalloc|--from-tcmalloc STRING\n"
    "       hakmem compare [OPTION]... -- PROGRAM [ARGUMENT]...\n"
    "       hakmem tune [OPTION]... -- PROGRAM [ARGUMENT]...\n"
    "       hakmem prof PID|FILE [-o FILE.pb.gz]\n"
    "       hakmem report PID|FILE... [-o FILE.html]\n"
    "       hakmem record [--out FILE] [--limit SIZE] [--children] [--] PROGRAM [ARGUMENT]...\n"
    "       hakmem replay [--alloc=LIST] [--touch=all|none] [--json] TRACE\n"
    "       hakmem --help | --version\n"
    "\n"
    "run      starts PROGRAM on HAKMEM; says why if that is not possible\n"
    "         --profile=NAME     a named group of settings, as HAKMEM_PROFILE\n"
    "         --opt NAME=VALUE   one setting, as the variable HAKMEM_NAME\n"
    "         --stats=text|json  statistics when it ends, as HAKMEM_STATS\n"
    "         --debug            the debug build of the library\n"
    "stat     shows statistics: of a process that has a live page (those that `hakmem run` starts, "
    "or\n"
    "         HAKMEM_LIVE=1), or of a file (HAKMEM_STATS_FILE, or saved from stat --json)\n"
    "         --wide             all figures of each size class, not only the most important "
    "eight\n"
    "         --map              adds the use of each page of the heap, for `hakmem report`\n"
    "         --every SECONDS    prints a line of JSON at this interval, until the process ends or "
    "--count\n"
    "                            is reached\n"
    "export   serves the figures of these processes, or of all with a live page, to Prometheus\n"
    "         --listen           where, instead of 127.0.0.1:9876\n"
    "top      shows such a process while it runs, by tier and size class\n"
    "         --sort KEY         bytes, live, cached, misses or locks\n"
    "         --once             one table, after one interval\n"
    "explain  shows the parts of its resident memory, and a setting that reduces a large part;\n"
    "         for a core file, the parts of the heap\n"
    "options  shows the options, or one of them: its value, where the value comes from, and help\n"
    "         --from-jemalloc \"$MALLOC_CONF\"  translates the settings of another allocator\n"
    "compare  runs PROGRAM on HAKMEM and other allocators in turn; shows time, memory and counts\n"
    "tune     searches for the best options for PROGRAM, and checks them on it\n"
    "prof     converts the heap profile of a process (HAKMEM_PROF=1) or a file for pprof\n"
    "report   draws a process, or heap profiles and JSON of `stat`, as one HTML page\n"
    "record   writes the allocations of PROGRAM to FILE (hakmem.trace), of at most SIZE (1G)\n"
    "         --children         also records its child processes, in FILE.PID\n"
    "replay   repeats a trace on one or more allocators; shows peak memory, resident memory and "
    "time\n"
    "         --alloc=LIST       hakmem, system, mimalloc, jemalloc, tcmalloc, or a path, with "
    "commas\n"
    "         --touch=all        writes every page of a block (the default), or none\n"
    "         --json             prints a line of JSON for each allocator\n"
    "\n"
    "More: man hakmem\n";

void fail(int status, const char *format, ...) {
    va_list arguments;
    fputs("hakmem: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(status);
}

int finish(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    fail(1, "cannot write the output: %s", strerror(errno));
}

static bool is_help(const char *word) {
    return word && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0);
}

int find_option(const char *name, int status) {
    hak_text_t text = {name, strlen(name)};
    int option = hak_option_find(text);
    if (option >= 0) return option;
    int closest = hak_option_closest(text);
    if (closest >= 0)
        fail(status, "there is no option '%.64s'; did you mean %s?", name,
             hak_option_row((hak_option_t)closest).name);
    fail(status, "there is no option '%.64s'; `hakmem options --all` lists them", name);
}

char *option_value(const char *command, char **argv, const char *name, int status, int *count) {
    size_t length = strlen(name);
    if (strncmp(argv[0], name, length) != 0) return NULL;
    bool is_joined = argv[0][length] == '=';
    if (argv[0][length] && !is_joined) return NULL;
    *count = is_joined ? 1 : 2;
    if (is_joined) return argv[0] + length + 1;
    if (!argv[1]) fail(status, "%s: %s needs a value", command, name);
    return argv[1];
}

/* Standard files that are closed: otherwise a socket or file of the command would get their numbers. Output to
 * stdout still fails. A program that the command starts for the user gets what the user gave. */
static void open_standard_files(void) {
    static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int file = 0; file < 3; file++)
        if (fcntl(file, F_GETFD) < 0 && open("/dev/null", modes[file]) != file)
            fail(1, "/dev/null: %s", strerror(errno));
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
        bool explains_itself; /* it has options of its own, which --help shows */
    } commands[] = {{"run", command_run, false},         {"options", command_options, false},
                    {"stat", command_stat, false},       {"top", command_top, false},
                    {"explain", command_explain, false}, {"record", command_record, false},
                    {"replay", command_replay, false},   {"compare", command_compare, true},
                    {"tune", command_tune, true},        {"prof", command_prof, true},
                    {"report", command_report, true},    {"export", command_export, false}};
    if (argc < 2) fail(STATUS_USAGE, "no command given; `hakmem --help` shows how to use it");
    if (strcmp(argv[1], "run") != 0 && strcmp(argv[1], "record") != 0) open_standard_files();
    const char *text = NULL;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            if (!is_help(argv[2]) || commands[i].explains_itself)
                return commands[i].run(argc - 1, argv + 1);
            text = help;
        }
    if (is_help(argv[1])) text = help;
    if (strcmp(argv[1], "--version") == 0) text = "hakmem " VERSION "\n";
    if (!text) fail(STATUS_USAGE, "'%.64s' is no command; `hakmem --help` lists them", argv[1]);
    fputs(text, stdout);
    return finish();
}
