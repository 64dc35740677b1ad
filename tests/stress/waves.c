/* waves.c - a program without threads whose heap rises and falls pays for its pages with few faults.
 *
 *     waves [MiB]
 *
 * So many MiB in blocks of 512 bytes are allocated and freed six times in order; in another process
 * twice at random, and in a third process once at random, with a rest before the last ones. The first fall
 * gives nearly all of them back, since it may be the last one. What comes
 * back with the second wave comes in huge pages where that of the first one did, but for those that a slow
 * first fall gave back in parts. Beside the pages of these, all later waves together fault at most twice as often
 * as the first one; time does not pass for them. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "child.h"
#include "figures.h"
#include "proc.h"

enum { SIZE = 512, WAVES = 6, KEPT_PART = 8, HUGE_PART = 4, HUGE_KIB = 2048, PAGE_KIB = 4 };
enum { RANDOM_WAVES = 2, REST_WAVES = 1, REST_PART = 200, REST_MS = 700, SECONDS = 50 };

/* Faults on this machine so far that found no free huge page, where one was wanted. */
static size_t fallbacks(void) {
    FILE *file = fopen("/proc/vmstat", "r");
    size_t value = 0;
    char line[128];
    CHECK(file != NULL, "no /proc/vmstat");
    while (fgets(line, sizeof line, file) && sscanf(line, "thp_fault_fallback %zu", &value) != 1)
        continue;
    fclose(file);
    return value;
}

static void **blocks;
static size_t bytes, count;
static bool at_random, rests; /* longer than PURGE_DELAY_MS */

static long rise(void) {
    long before = proc_minor_faults();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = API(malloc)(SIZE);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, 1);
    }
    return proc_minor_faults() - before;
}

static void fall(void) {
    struct rng rng = rng_make(count);
    if (at_random) rng_shuffle(&rng, blocks, count);
    for (size_t i = 0; i < count; i++) {
        if (rests && i == count - count / REST_PART) proc_sleep_ms(REST_MS);
        API(free)(blocks[i]);
    }
}

static void check(const void *context) {
    const int waves = *(const int *)context;
    at_random = waves <= RANDOM_WAVES;
    rests = waves == REST_WAVES;
    blocks = mmap(NULL, count * sizeof *blocks, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(blocks != MAP_FAILED, "no table");
    size_t base = proc_rss_kib();
    long first = rise(), later = 0;
    size_t huge = proc_huge_kib(), missed = fallbacks(), lost = 0;
    fall();
    size_t kept = proc_rss_kib() - base;
    CHECK(kept < bytes / 1024 / KEPT_PART, "the first fall keeps %zu KiB", kept);
    set_option("PURGE_DELAY_MS", "3600000"); /* no wave makes pages old, however slow the machine */
    printf("freed %s\n", at_random ? "at random" : "in order");
    printf("wave 1: %ld faults, %zu KiB in huge pages; kept: %zu KiB\n", first, huge, kept);
    for (int wave = 2; wave <= waves; wave++) {
        long faults = rise();
        size_t now = proc_huge_kib(), lacking = (fallbacks() - missed) * HUGE_KIB;
        printf("wave %d: %ld faults, %zu KiB in huge pages\n", wave, faults, now);
        CHECK(now + lacking >= huge - huge / HUGE_PART, "%zu KiB in huge pages, and %zu at first",
              now, huge);
        if (huge > now + lost) lost = huge - now;
        later += faults;
        fall();
    }
    fflush(stdout);
    CHECK(later <= 2 * first + (long)(lost / PAGE_KIB),
          "%ld faults in later waves, %ld in the first one; %zu KiB less in huge pages", later,
          first, lost);
}

int main(int argc, char **argv) {
    const int in_order = WAVES, random = RANDOM_WAVES, with_rest = REST_WAVES;
    bytes = argument(argc, argv, 1, 500) << 20;
    count = bytes / SIZE;
    watchdog(2 * SECONDS, "waves");
    require_hakmem();
    child_must_succeed(check, &in_order, SECONDS, "waves in order");
    child_must_succeed(check, &random, SECONDS, "waves at random");
    child_must_succeed(check, &with_rest, SECONDS, "a wave with a rest");
    return 0;
}
