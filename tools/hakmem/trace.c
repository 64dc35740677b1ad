/* trace.c: `hakmem record` runs a program with the recorder preloaded; `hakmem replay` repeats the
 * trace on allocators, one after the other. Recorder and replayer are files of their own: see
 * tools/record. */
#include "command.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../record/format.h"
#include "binary.h"
#include "override.h"

#define DEFAULT_FILE "hakmem.trace"

static const struct {
    const char *name, *file;
} known[] = {{"mimalloc", "libmimalloc.so.2"},
             {"jemalloc", "libjemalloc.so.2"},
             {"tcmalloc", "libtcmalloc.so.4"}};

/* The absolute path of the recorder or the replayer: beside the command in a build directory, or
 * where `make install` puts it. */
static void find_part(const char *command, int status, const char *name, char path[PATH_MAX]) {
    const char *const places[] = {"", HAKMEM_PARTS_FROM_COMMAND "/"};
    char folder[PATH_MAX], at[3 * PATH_MAX];
    command_folder(command, status, folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(at, sizeof at, "%s/%s%s", folder, places[i], name);
        if (realpath(at, path)) return;
    }
    fail(status, "%s: there is no %s: it is built where zlib is (Debian: zlib1g-dev)", command,
         name);
}

/* Bytes of "512M"; the command ends when it is none. */
static uint64_t bytes_of(const char *text) {
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    bool is_good = *text >= '0' && *text <= '9' && !errno && (!*end || (unit && !end[1]));
    if (!is_good || value == 0 || value > UINT64_MAX >> shift)
        fail(STATUS_RUN, "record: '%.64s' is no number of bytes, such as 512M", text);
    return value << shift;
}

static void set(const char *name, const char *value) {
    if (setenv(name, value, 1) != 0) fail(STATUS_RUN, "record: no memory");
}

static void set_number(const char *name, uint64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    set(name, text);
}

/* The absolute path of the trace: the program may change its folder. */
static void trace_path(const char *name, char path[2 * PATH_MAX]) {
    char folder[PATH_MAX] = "";
    if (!*name) fail(STATUS_RUN, "record: the name of the trace is empty");
    if (*name != '/' && !getcwd(folder, sizeof folder))
        fail(STATUS_RUN, "record: %s", strerror(errno));
    snprintf(path, (size_t)2 * PATH_MAX, "%s%s%s", folder, *name == '/' ? "" : "/", name);
    if (strlen(path) >= PATH_MAX - 16)
        fail(STATUS_RUN, "record: the name of the trace is too long");
}

/* The program is not started: the files are as they were, but for an older FILE.old. */
static void unmake_trace(const char *path, const char *kept, bool is_kept) {
    struct stat there;
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode)) return;
    unlink(path);
    if (is_kept) rename(kept, path);
}

/* Makes the file of the trace, with its first bytes: a full disk is told before the program starts. What is
 * there stays, as FILE.old: it may be a recording of hours. True when that is so. */
static bool make_trace(const char *path, const char *kept) {
    struct stat there;
    bool is_kept = stat(path, &there) == 0 && S_ISREG(there.st_mode) && there.st_size > 0;
    if (is_kept && rename(path, kept) != 0)
        fail(STATUS_RUN, "record: %s cannot be kept as %s: %s", path, kept, strerror(errno));
    /* At the limit of files' sizes the write fails instead. */
    void (*const before)(int) = signal(SIGXFSZ, SIG_IGN);
    FILE *file = fopen(path, "we");
    bool is_written = file && fputs(TRACE_MAGIC, file) >= 0;
    is_written = file && fclose(file) == 0 && is_written;
    const int error = errno;
    signal(SIGXFSZ, before);
    if (!is_written) {
        if (file)
            unmake_trace(path, kept, is_kept);
        else if (is_kept)
            rename(kept, path);
        fail(STATUS_RUN, "record: %s: %s", path, strerror(error));
    }
    return is_kept;
}

int command_record(int argc, char **argv) {
    const char *file = DEFAULT_FILE;
    char library[PATH_MAX], path[PATH_MAX], trace[2 * PATH_MAX], kept[2 * PATH_MAX + 8];
    bool is_program = false;
    (void)argc;
    for (argv++; *argv && **argv == '-' && !is_program;) {
        int count = 1;
        char *value;
        if (strcmp(*argv, "--") == 0)
            is_program = true;
        else if (strcmp(*argv, "--children") == 0)
            set(TRACE_CHILDREN, "1");
        else if ((value = option_value("record", argv, "--out", STATUS_RUN, &count)) != NULL)
            file = value;
        else if ((value = option_value("record", argv, "--limit", STATUS_RUN, &count)) != NULL)
            set_number(TRACE_LIMIT, bytes_of(value));
        else
            fail(STATUS_RUN, "record: '%.64s' is not known; `hakmem --help` shows the form", *argv);
        argv += count;
    }
    if (!*argv) fail(STATUS_RUN, "record: no program given");
    find_part("record", STATUS_RUN, "libhakmem_record.so", library);
    find_program("record", argv[0], path);
    preload_first("record", library);
    const char *problem = override_problem(path, library);
    if (problem) fail(STATUS_RUN, "record: not started: %s", problem);
    trace_path(file, trace);
    snprintf(kept, sizeof kept, "%s.old", trace);
    bool is_kept = make_trace(trace, kept);
    if (is_kept) fprintf(stderr, "hakmem record: the %s that was there is now %s\n", file, kept);
    set(TRACE_FILE, trace);
    set_number(TRACE_OWNER, (uint64_t)getpid());
    execvp(path, argv);
    int error = errno;
    unmake_trace(trace, kept, is_kept);
    fail(STATUS_NOT_EXEC, "record: %s: %s", path, strerror(error));
}

/* The file of a library by its name, in the folders where the loader looks, nearly. dlopen cannot tell: it refuses
 * one with much static TLS, such as jemalloc, which is loaded at the start of a program or never. */
static bool find_by_name(const char *name, char path[PATH_MAX]) {
    const char *named = getenv("LD_LIBRARY_PATH");
    char folders[3 * PATH_MAX], libc[PATH_MAX] = "", at[4 * PATH_MAX];
    Dl_info about;
    if (dladdr(dlsym(RTLD_DEFAULT, "getenv"), &about) && about.dli_fname)
        snprintf(libc, sizeof libc, "%s", about.dli_fname);
    char *end = strrchr(libc, '/');
    if (end) *end = 0;
    snprintf(folders, sizeof folders, "%.4096s:/usr/local/lib:%s:/usr/lib64:/usr/lib",
             named ? named : "", libc);
    for (char *rest, *folder = strtok_r(folders, ":", &rest); folder;
         folder = strtok_r(NULL, ":", &rest)) {
        snprintf(at, sizeof at, "%s/%s", folder, name);
        if (realpath(at, path)) return true;
    }
    return false;
}

/* The library of an allocator by name or path; "" for the system's. */
static void allocator_library(const char *name, char path[PATH_MAX]) {
    static binary_t binary;
    *path = 0;
    if (strcmp(name, "system") == 0) return;
    if (strcmp(name, "hakmem") == 0) {
        find_library("replay", STATUS_USAGE, false, path);
        return;
    }
    const char *file = strchr(name, '/') ? name : NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) file = known[i].file;
    if (!file)
        fail(STATUS_USAGE,
             "replay: there is no allocator '%.64s'; there are hakmem, system, mimalloc, jemalloc, "
             "tcmalloc, or a path",
             name);
    bool is_there = strchr(file, '/') ? realpath(file, path) != NULL : find_by_name(file, path);
    if (is_there) binary_read(path, &binary);
    if (!is_there || !binary.has_malloc)
        fail(STATUS_USAGE, "replay: %s is not on this machine, or has no malloc", file);
}

/* Runs the replayer on one allocator; its status. */
static int replay_on(const char *allocator, const char *program, char **words) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) fail(1, "replay: %s", strerror(errno));
    if (child == 0) {
        char library[PATH_MAX], expected[PATH_MAX + 16];
        allocator_library(allocator, library);
        unsetenv("LD_PRELOAD");
        snprintf(expected, sizeof expected, "--expect=%s", library);
        words[1] = expected;
        if (*library) preload_first("replay", library);
        execv(program, words);
        fail(1, "replay: %s: %s", program, strerror(errno));
    }
    int status = 1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int command_replay(int argc, char **argv) {
    enum { WORDS = 6 };
    char *words[WORDS + 1] = {(char[]){"hakmem-replay"}, NULL}, *trace = NULL, *value;
    char nobody[] = "hakmem", *allocators = nobody, program[PATH_MAX];
    int used = 2, worst = 0;
    (void)argc;
    for (argv++; *argv;) {
        int count = 1;
        if ((value = option_value("replay", argv, "--alloc", STATUS_USAGE, &count)) != NULL)
            allocators = value;
        else if ((strcmp(*argv, "--json") == 0 || strncmp(*argv, "--touch=", 8) == 0) &&
                 used < WORDS - 1)
            words[used++] = *argv;
        else if (**argv == '-' || trace)
            fail(STATUS_USAGE, "replay: '%.64s' is not known; `hakmem --help` shows the form",
                 *argv);
        else
            trace = *argv;
        argv += count;
    }
    if (!trace) fail(STATUS_USAGE, "replay: no trace given");
    if (!allocators[strspn(allocators, ",")])
        fail(STATUS_USAGE, "replay: --alloc names no allocator");
    words[used] = trace;
    find_part("replay", STATUS_USAGE, "hakmem-replay", program);
    for (char *rest, *name = strtok_r(allocators, ",", &rest); name;
         name = strtok_r(NULL, ",", &rest)) {
        int status = replay_on(name, program, words);
        if (status > worst) worst = status;
    }
    return worst;
}
