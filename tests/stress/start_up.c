/* start_up.c - what HAKMEM adds to the smallest program: page faults and resident memory of `true`.
 *
 *     start_up LIBRARY KiB [runs [faults]]
 *
 * Runs with and without LD_PRELOAD take turns; the medians may differ by so much. Resident memory is
 * read from the page tables when `true` exits: ru_maxrss comes from counters that each CPU adds to the
 * process's in steps of 128 KiB. How many pages of a file one page fault maps depends on what of it is in the page
 * cache. So the library is a copy in memory, and of other files, whose pages all processes share, only those that
 * `true` has to itself count; with all mapped pages of libc, the same library had 28 to 72 KiB more. The stack
 * does not count either: it begins at a random place. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define RUN_LIMIT 1001
#define UNTRACED 77 /* the end of a test that is skipped */

struct cost {
    long faults;
    long rss_kib;
};

/* What the mapping whose line this is counts by; NULL: not at all. */
static const char *figure_of(const char *line) {
    const char *path = strchr(line, '/');
    if (strstr(line, "[stack]")) return NULL;
    return path && !strstr(path, "libhakmem") ? "Anonymous:" : "Rss:";
}

static long resident_kib(pid_t pid) {
    char path[64], line[512];
    const char *figure = NULL;
    long all = 0, kib;
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL, "no %s", path);
    while (fgets(line, sizeof line, file)) {
        const bool is_figure = line[0] >= 'A' && line[0] <= 'Z'; /* addresses have small letters */
        if (!is_figure) figure = figure_of(line);
        if (is_figure && figure && strncmp(line, figure, strlen(figure)) == 0 &&
            sscanf(line + strlen(figure), "%ld kB", &kib) == 1)
            all += kib;
    }
    fclose(file);
    CHECK(all > 0, "%s has no resident memory", path);
    return all;
}

static struct cost one_run(char *variable) {
    char *arguments[] = {(char[]){"true"}, NULL};
    char *environment[] = {variable, NULL};
    struct rusage usage;
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(UNTRACED);
        execve("/bin/true", arguments, environment);
        _exit(127);
    }
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNTRACED) {
        puts("skipped: a process may not trace another here");
        exit(UNTRACED);
    }
    CHECK(WIFSTOPPED(status), "no /bin/true");
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL) == 0 &&
              ptrace(PTRACE_CONT, pid, NULL, NULL) == 0,
          "/bin/true cannot be traced");
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) &&
              status >> 16 == PTRACE_EVENT_EXIT,
          "/bin/true failed");
    long resident = resident_kib(pid);
    CHECK(ptrace(PTRACE_CONT, pid, NULL, NULL) == 0, "/bin/true does not end");
    CHECK(wait4(pid, &status, 0, &usage) == pid && status == 0, "/bin/true failed");
    return (struct cost){usage.ru_minflt, resident};
}

/* LD_PRELOAD=<a copy of the file in memory>. */
static void make_preload(const char *library, char *text, size_t size) {
    static char buffer[1 << 16];
    FILE *file = fopen(library, "r");
    int copy = memfd_create("libhakmem.so", MFD_CLOEXEC);
    CHECK(file != NULL && copy >= 0, "%s cannot be copied", library);
    for (size_t count; (count = fread(buffer, 1, sizeof buffer, file)) > 0;)
        CHECK(write(copy, buffer, count) == (ssize_t)count, "%s cannot be copied", library);
    fclose(file);
    snprintf(text, size, "LD_PRELOAD=/proc/%d/fd/%d", (int)getpid(), copy);
}

static int by_value(const void *left, const void *right) {
    long a = *(const long *)left;
    long b = *(const long *)right;
    return (a > b) - (a < b);
}

static long median(long *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

int main(int argc, char **argv) {
    static long faults[2][RUN_LIMIT];
    static long rss[2][RUN_LIMIT];
    static char preload[64];
    static char nothing[] = "TEST_NOTHING=1";
    CHECK(argc > 2, "usage: start_up LIBRARY KiB [runs [faults]]");
    unsigned long runs = argument(argc, argv, 3, 101);
    unsigned long fault_limit = argument(argc, argv, 4, 40);
    unsigned long rss_limit = argument(argc, argv, 2, 200);
    CHECK(runs >= 1 && runs <= RUN_LIMIT, "1 to %d runs", RUN_LIMIT);
    watchdog(120, "start-up cost");
    make_preload(argv[1], preload, sizeof preload);
    for (unsigned long i = 0; i < runs; i++)
        for (int with = 0; with < 2; with++) {
            struct cost cost = one_run(with ? preload : nothing);
            faults[with][i] = cost.faults;
            rss[with][i] = cost.rss_kib;
        }
    long more_faults = median(faults[1], runs) - median(faults[0], runs);
    long more_rss = median(rss[1], runs) - median(rss[0], runs);
    printf("true under HAKMEM: %+ld page faults, %+ld KiB resident\n", more_faults, more_rss);
    CHECK(more_faults > 0, "the library was not loaded: %ld more page faults", more_faults);
    CHECK(more_faults <= (long)fault_limit, "%ld more page faults, %lu allowed", more_faults,
          fault_limit);
    CHECK(more_rss <= (long)rss_limit, "%ld KiB more resident memory, %lu allowed", more_rss,
          rss_limit);
    return 0;
}
