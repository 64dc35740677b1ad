/* start_up.c - what HAKMEM adds to the smallest program: page faults and resident memory of `true`.
 *
 *     start_up LIBRARY KiB [runs [faults]]
 *
 * Runs with and without LD_PRELOAD take turns; the medians may differ by so much. This program is
 * linked statically: the peak of a child includes that of its parent up to exec, so the parent must
 * be smaller than `true`. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

#define RUN_LIMIT 1001

struct cost {
    long faults;
    long rss_kib;
};

static struct cost one_run(char *variable) {
    char *arguments[] = {(char[]){"true"}, NULL};
    char *environment[] = {variable, NULL};
    struct rusage usage;
    pid_t pid;
    int status;
    CHECK(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment) == 0, "no /bin/true");
    CHECK(wait4(pid, &status, 0, &usage) == pid && status == 0, "/bin/true failed");
    return (struct cost){usage.ru_minflt, usage.ru_maxrss};
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
    static char preload[4096];
    static char nothing[] = "TEST_NOTHING=1";
    CHECK(argc > 2, "usage: start_up LIBRARY KiB [runs [faults]]");
    unsigned long runs = argument(argc, argv, 3, 101);
    unsigned long fault_limit = argument(argc, argv, 4, 40);
    unsigned long rss_limit = argument(argc, argv, 2, 200);
    CHECK(runs >= 1 && runs <= RUN_LIMIT, "1 to %d runs", RUN_LIMIT);
    watchdog(120, "start-up cost");
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
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
