/* first_pages.c - the first 100 small allocations of a program touch at most PAGE_LIMIT pages.
 *
 * The number depends a little on where the library is mapped. So the test takes the median of several
 * processes; each returns its number as its exit status. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { RUNS = 15, STATUS_MAX = 250 };

static int faults_of_100_blocks(void) {
    static unsigned char *blocks[100];
    long before = proc_minor_faults();
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = API(malloc)(16 + i * 10);
        blocks[i][0] = 1;
    }
    long faults = proc_minor_faults() - before;
    require_hakmem();
    for (size_t i = 0; i < 100; i++) API(free)(blocks[i]);
    return (int)(faults < STATUS_MAX ? faults : STATUS_MAX);
}

static int run_once(void) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) {
        execl("/proc/self/exe", "first_pages", "once", (char *)NULL);
        _exit(255);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) > 1 &&
              WEXITSTATUS(status) <= STATUS_MAX,
          "a process ended with status %#x", (unsigned)status);
    return WEXITSTATUS(status);
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(int argc, char **argv) {
    (void)argv;
    int faults[RUNS];
    watchdog(20, "100 allocations");
    if (argc > 1) return faults_of_100_blocks();
    for (int i = 0; i < RUNS; i++) faults[i] = run_once();
    qsort(faults, RUNS, sizeof *faults, compare);
    printf("%d page faults for the first 100 small allocations\n", faults[RUNS / 2]);
    CHECK(faults[RUNS / 2] <= PAGE_LIMIT, "%d page faults for the first 100 small allocations",
          faults[RUNS / 2]);
    return 0;
}
