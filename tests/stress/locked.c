/* locked.c - a program that has freed much of what it has locked in memory, and rests: its helper thread
 * sleeps, although the kernel gives none of these pages back.
 *
 *     locked [MiB]
 *
 * Each trial is a process with a second thread. It allocates so many MiB in blocks of one tier, locks all
 * its memory or none, and frees the blocks. Then the helper must come to sleep for a whole second: who
 * wakes four times a second keeps a machine awake. */
#define _GNU_SOURCE
#include <dirent.h>
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

/* How often the threads but the first and the one that rests have gone to sleep by themselves. */
static unsigned long sleeps(void) {
    unsigned long sum = 0, number;
    char path[300], line[128];
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "no /proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        if (entry->d_name[0] == '.' || strtol(entry->d_name, NULL, 10) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &number) == 1) sum += number;
        if (file) fclose(file);
    }
    closedir(tasks);
    return sum;
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
    unsigned long before = 0, now = sleeps();
    for (unsigned i = 0; now != before && i < SECONDS_MOST; i++) {
        proc_sleep_ms(1000);
        before = now;
        now = sleeps();
    }
    fprintf(stdout, "blocks of %zu, %s: %lu KiB remain, the helper has slept %lu times\n",
            trial->size, trial->locks ? "locked" : "not locked", (unsigned long)proc_rss_kib(),
            now);
    CHECK(now == before, "blocks of %zu: the helper still wakes in second %d, %lu times",
          trial->size, SECONDS_MOST, now - before);
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
