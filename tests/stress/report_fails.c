/* report_fails.c - malloc_stats() to a stderr that takes nothing: it is no cancellation point, ends no program, and the
 * next one is served.
 *
 *     report_fails closed|full|limit
 *
 *   closed   a pipe without a reader
 *   full     a full pipe that does not block
 *   limit    a file at the limit of files' sizes (RLIMIT_FSIZE) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

static void stderr_is(const char *what) {
    int ends[2], file;
    if (strcmp(what, "limit") == 0) {
        const struct rlimit none = {0, 0};
        char name[] = "/tmp/report_fails.XXXXXX";
        CHECK((file = mkstemp(name)) >= 0 && unlink(name) == 0, "no file");
        CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0, "no limit");
    } else {
        CHECK(pipe(ends) == 0, "no pipe");
        file = ends[1];
        if (strcmp(what, "full") == 0) {
            CHECK(fcntl(file, F_SETFL, O_NONBLOCK) == 0, "it blocks");
            while (write(file, "x", 1) > 0) continue;
        } else {
            close(ends[0]);
        }
    }
    CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO, "no stderr");
}

static void *report(void *cancelled) {
    if (cancelled) CHECK(pthread_cancel(pthread_self()) == 0, "no cancel");
    malloc_stats();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    void *result;
    CHECK(argc > 1, "usage: report_fails closed|full|limit");
    watchdog(50, "a report");
    require_hakmem();
    int kept = dup(STDERR_FILENO);
    stderr_is(argv[1]);
    for (int cancelled = 1; cancelled >= 0; cancelled--) {
        CHECK(pthread_create(&thread, NULL, report, cancelled ? &thread : NULL) == 0, "no thread");
        CHECK(pthread_join(thread, &result) == 0, "no join");
        dup2(kept, STDERR_FILENO);
        CHECK(result == NULL, "a thread was cancelled inside malloc_stats");
        stderr_is(argv[1]);
    }
    printf("report_fails: %s\n", argv[1]);
    return 0;
}
