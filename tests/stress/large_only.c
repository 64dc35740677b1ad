/* large_only.c - a program with large blocks only gives freed memory back by its own calls: the helper
 * thread is off.
 *
 *     large_only [MiB [milliseconds]]
 *
 * Blocks of 64 KiB to 1 MiB are made and freed, then single blocks for so long; resident memory must
 * be below the base + 8 MiB at the end. The option is set before a fresh start of this program. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"
#include "rng.h"

#define MOST_BLOCKS 4096
#define LEAST_SIZE ((size_t)64 << 10)
#define MOST_SIZE ((size_t)1 << 20)
#define SINGLE_SIZE 100000
#define MARGIN_KIB 8192

static void *blocks[MOST_BLOCKS];

static void *touched(size_t size) {
    void *block = API(malloc)(size);
    CHECK(block != NULL, "malloc(%zu) gave NULL", size);
    memset(block, 1, size);
    return block;
}

int main(int argc, char **argv) {
    size_t bytes = argument(argc, argv, 1, 20) << 20;
    unsigned long milliseconds = argument(argc, argv, 2, 2000);
    watchdog(50, "large blocks only");
    require_hakmem();
    if (getenv("HAKMEM_PURGE_THREAD") == NULL) {
        setenv("HAKMEM_PURGE_THREAD", "0", 1);
        execv("/proc/self/exe", argv);
        check_failed(__FILE__, __LINE__, "exec failed");
    }
    /* One small block, as any program has: a clock that small blocks drive has moved, and stops. */
    void *small = API(malloc)(100);
    struct rng rng = rng_make(bytes);
    size_t base = proc_rss_kib();
    size_t count = 0;
    for (size_t made = 0; made < bytes && count < MOST_BLOCKS; count++) {
        size_t size = rng_size(&rng, LEAST_SIZE, MOST_SIZE);
        blocks[count] = touched(size);
        made += size;
    }
    size_t peak = proc_rss_kib();
    CHECK(peak > base + MARGIN_KIB, "%zu MiB show only %zu KiB", bytes >> 20, peak - base);
    for (size_t i = 0; i < count; i++) API(free)(blocks[i]);
    for (unsigned long step = 0; step < milliseconds / 10; step++) {
        proc_sleep_ms(10);
        for (int i = 0; i < 20; i++) API(free)(API(malloc)(SINGLE_SIZE));
    }
    size_t now = proc_rss_kib();
    API(free)(small);
    CHECK(now < base + MARGIN_KIB, "after %lu ms %zu KiB remain of %zu KiB in large blocks",
          milliseconds, now - base, peak - base);
    return 0;
}
