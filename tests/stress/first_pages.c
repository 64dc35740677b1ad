/* first_pages.c - the first 100 small allocations of a program touch at most PAGE_LIMIT pages, the records of
 * 64 slabs RECORD_LIMIT, and the first blocks of many size classes BIN_LIMIT.
 *
 * The numbers depend a little on where the library is mapped. So the test takes the median of several
 * processes; each returns its number as its exit status. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum {
    RUNS = 15,
    STATUS_MAX = 250,
    SLABS = 64,
    RECORD_LIMIT =
        46, /* the slabs' bitmaps fill 16 pages; 52 where each is read before it is written */
};

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

/* Nobody touches the blocks. */
static int faults_of_slabs(void) {
    require_hakmem();
    long before = proc_minor_faults();
    for (size_t i = 0; i < SLABS * 4096; i++) CHECK(API(malloc)(16) != NULL, "no block");
    return (int)(proc_minor_faults() - before);
}

/* Nobody touches these blocks, either. */
static int faults_of_classes(void) {
    require_hakmem();
    long before = proc_minor_faults();
    for (size_t size = 8; size <= 64 * 1024; size += size / 8 + 8)
        CHECK(API(malloc)(size) != NULL, "no block");
    return (int)(proc_minor_faults() - before);
}

static int run_once(const char *what) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0, "no process");
    if (child == 0) {
        execl("/proc/self/exe", "first_pages", what, (char *)NULL);
        _exit(255);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) > 1 &&
              WEXITSTATUS(status) <= STATUS_MAX,
          "a process ended with status %#x", (unsigned)status);
    return WEXITSTATUS(status);
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void check(const char *what, const char *title, int limit) {
    int faults[RUNS];
    for (int i = 0; i < RUNS; i++) faults[i] = run_once(what);
    qsort(faults, RUNS, sizeof *faults, compare);
    printf("%d page faults for %s\n", faults[RUNS / 2], title);
    CHECK(faults[RUNS / 2] <= limit, "%d page faults for %s", faults[RUNS / 2], title);
}

int main(int argc, char **argv) {
    watchdog(20, "the first pages");
    if (argc > 1)
        return *argv[1] == 'b'   ? faults_of_100_blocks()
               : *argv[1] == 'c' ? faults_of_classes()
                                 : faults_of_slabs();
    check("blocks", "the first 100 small allocations", PAGE_LIMIT);
    check("slabs", "the records of 64 slabs", RECORD_LIMIT);
    check("classes", "the first blocks of many size classes", BIN_LIMIT);
    return 0;
}
