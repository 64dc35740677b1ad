/* locked.c - a program that has freed much of what it has locked in memory, and rests: its helper thread
 * sleeps, although the kernel gives none of these pages back.
 *
 *     locked [MiB]
 *
 * Each trial is a process with a second thread. It allocates so many MiB in blocks of one tier, locks all
 * its memory or none, and frees the blocks. Then the helper must come to sleep for a whole second: who
 * wakes four times a second keeps a machine awake. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "figures.h"
#include "proc.h"

enum { MOST_BLOCKS = 1 << 17, SECONDS_MOST = 60 };

static size_t bytes;
static void *blocks[MOST_BLOCKS];

struct trial {
    size_t size;
    bool locks;
};

static void *rest(void *unused) {
    for (;;) pause();
    return unused;
}

static void check(const void *context) {
    const struct trial *trial = context;
    pthread_t thread;
    size_t count = 0;
    CHECK(pthread_create(&thread, NULL, rest, NULL) == 0, "no thread");
    for (size_t made = 0; made < bytes && count < MOST_BLOCKS; made += trial->size) {
        blocks[count] = API(malloc)(trial->size);
        CHECK(blocks[count] != NULL, "no memory");
        memset(blocks[count++], 1, trial->size);
    }
    if (trial->locks && mlockall(MCL_CURRENT) != 0) {
        fprintf(stdout, "SKIP: memory cannot be locked here\n");
        return;
    }
    while (count > 0) API(free)(blocks[--count]);
    CHECK(proc_threads() == 3, "there are %u threads, and no helper", proc_threads());
    bool rests = proc_others_rest(1000, SECONDS_MOST);
    fprintf(stdout, "blocks of %zu, %s: %lu KiB remain\n", trial->size,
            trial->locks ? "locked" : "not locked", (unsigned long)proc_rss_kib());
    CHECK(rests, "blocks of %zu: the helper still wakes after %d seconds", trial->size,
          SECONDS_MOST);
}

static const struct trial trials[] = {{600, false},       {600, true},       {9000, true},
                                      {200 << 10, false}, {200 << 10, true}, {3 << 20, true}};

static unsigned try_some(unsigned index, unsigned step) {
    unsigned failures = 0;
    for (size_t i = index; i < sizeof trials / sizeof *trials; i += step) {
        struct child_end end;
        child_run(check, &trials[i], 2 * SECONDS_MOST, &end);
        fputs(end.err, stderr);
        failures += !end.in_time || end.status != 0;
    }
    return failures;
}

int main(int argc, char **argv) {
    bytes = argument(argc, argv, 1, 64) << 20;
    watchdog(300, "a helper with locked memory");
    require_hakmem();
    CHECK(child_share(6, try_some) == 0, "a helper does not come to rest");
    return 0;
}
