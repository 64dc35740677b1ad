/* sparse.c - pages of free blocks come back although each slab still holds a block in use.
 *
 *     sparse [MiB]
 *
 * The test allocates so many MiB in 64-byte blocks and frees all but every 1,024th. Then, each in its own
 * process:
 *   growth   as much again in blocks of 4 KiB: the peak stays near one of the two, not their sum
 *   trim     malloc_trim gives the pages back at once
 *   idle     without any further call, they go back by themselves, where a thread is there: then the
 *            helper is, too
 *   moved_on instead: values of a cache get longer, while old ones are evicted at random; the heap
 *            does not grow, and what lies between the last short ones goes back all the same
 *   swing    as many blocks of 4 KiB before, freed: while there is their memory for what comes
 *            next, nothing goes back, for the heap may rise again
 *   turnover instead: of blocks of 4 KiB one in sixteen is freed and allocated again, over and over. No
 *            slab changes hands, and what lies between the small ones goes back all the same
 *   large    instead: blocks of 70 to 102 KB, of which one page is written, a stack of so many MiB that rises and falls:
 *            little more than these pages is resident, wherever the blocks begin each time
 * What stays allocated keeps its contents. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "figures.h"
#include "load.h"
#include "proc.h"
#include "rng.h"

enum { SMALL = 64, KEEP_EVERY = 1024, PAGE = 4096, IDLE_SECONDS = 60 };

static size_t bytes;

static unsigned char **table_of(size_t count) {
    void *table = mmap(NULL, count * sizeof(void *), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "no table");
    return table;
}

/* Returns the blocks that are left, bytes / SMALL / KEEP_EVERY of them. */
static unsigned char **make_sparse(void) {
    size_t count = bytes / SMALL, left = 0;
    unsigned char **blocks = table_of(count), **kept = table_of(count / KEEP_EVERY);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = API(malloc)(SMALL);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], (int)i & 0xff, SMALL);
    }
    for (size_t i = 0; i < count; i++)
        if (i % KEEP_EVERY)
            API(free)(blocks[i]);
        else
            kept[left++] = blocks[i];
    munmap(blocks, count * sizeof(void *));
    return kept;
}

static void check_kept(unsigned char *const *kept) {
    for (size_t i = 0; i < bytes / SMALL / KEEP_EVERY; i++)
        for (size_t k = 0; k < SMALL; k++)
            CHECK(kept[i][k] == (i * KEEP_EVERY & 0xff), "a block has changed");
}

static void allocate_all(unsigned char **blocks, size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = API(malloc)(size);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 7, size);
    }
}

static void check_growth(const void *unused) {
    (void)unused;
    unsigned char **kept = make_sparse();
    size_t count = bytes / PAGE, peak = 0;
    unsigned char **pages = table_of(count);
    for (size_t i = 0; i < count; i++) {
        allocate_all(pages + i, 1, PAGE);
        if (i % 1000 == 0 && proc_rss_kib() > peak) peak = proc_rss_kib();
    }
    check_kept(kept);
    CHECK(peak < bytes / 1024 * 5 / 4 + 8192, "peak of %zu KiB with %zu KiB in use", peak,
          bytes / 1024);
}

static void check_trim(const void *unused) {
    (void)unused;
    unsigned char **kept = make_sparse();
    size_t full = proc_rss_kib();
    API(malloc_trim)(0);
    size_t now = proc_rss_kib();
    CHECK(now < full / 4, "%zu of %zu KiB remain", now, full);
    check_kept(kept);
}

static void *stay(void *unused) {
    for (;;) pause();
    return unused;
}

static void check_idle(const void *unused) {
    (void)unused;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stay, NULL) == 0, "no thread");
    unsigned char **kept = make_sparse();
    size_t full = bytes / 1024, now = full; /* on a busy machine much has gone back by now */
    for (int i = 0; i < IDLE_SECONDS * 10 && now >= full / 4; i++) {
        proc_sleep_ms(100);
        now = proc_rss_kib();
    }
    CHECK(now < full / 4, "after %d s %zu of %zu KiB remain", IDLE_SECONDS, now, full);
    check_kept(kept);
}

/* Of what its place says, and never 0, which a page that was given back would have. */
static unsigned char mark_of(const unsigned char *value) {
    return (unsigned char)((uintptr_t)value >> 4 | 1);
}

static void check_swing(const void *unused) {
    (void)unused;
    set_option("PURGE_DELAY_MS", "3600000"); /* nor does time pass */
    size_t count = bytes / PAGE;
    unsigned char **pages = table_of(count);
    allocate_all(pages, count, PAGE);
    unsigned char **kept = make_sparse();
    uint64_t before = figure("memory.sparse_purged");
    for (size_t i = 0; i < count; i++) API(free)(pages[i]);
    allocate_all(pages, count / 2, PAGE / 2);
    check_kept(kept);
    uint64_t purged = figure("memory.sparse_purged") - before;
    CHECK(purged == 0, "%llu bytes went back", (unsigned long long)purged);
}

static void check_turnover(const void *unused) {
    enum { ROUNDS = 100, STRIDE = 16 };
    (void)unused;
    set_option("PURGE_DELAY_MS", "3600000");
    size_t count = bytes / PAGE;
    unsigned char **pages = table_of(count);
    allocate_all(pages, count, PAGE);
    unsigned char **kept = make_sparse();
    uint64_t before = figure("memory.sparse_purged");
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = round % STRIDE; i < count; i += STRIDE) API(free)(pages[i]);
        for (size_t i = round % STRIDE; i < count; i += STRIDE)
            CHECK((pages[i] = API(malloc)(PAGE)) != NULL, "no memory");
    }
    uint64_t purged = figure("memory.sparse_purged") - before;
    CHECK(purged > bytes / 2, "only %llu bytes went back", (unsigned long long)purged);
    check_kept(kept);
}

static size_t evict_one(unsigned char **values, size_t *count, struct rng *rng) {
    size_t victim = rng_below(rng, *count), size = API(malloc_usable_size)(values[victim]);
    const unsigned char *value = values[victim];
    CHECK(value[0] == mark_of(value) && value[size - 1] == value[0], "a value has changed");
    API(free)(values[victim]);
    values[victim] = values[--*count];
    return size;
}

static void check_moved_on(const void *unused) {
    enum { FIRST = 64, GENERATIONS = 12, SETTLED = 6 };
    (void)unused;
    const size_t budget = bytes / 4;
    unsigned char **values = table_of(budget / FIRST);
    size_t live = 0, count = 0, most = 0, length = FIRST;
    struct rng rng = rng_make(4141);
    for (unsigned generation = 0; generation < GENERATIONS; generation++, length += length / 3) {
        for (size_t written = 0; written < budget;) {
            while (live + length + length / 4 > budget) live -= evict_one(values, &count, &rng);
            unsigned char *value = API(malloc)(length);
            CHECK(value != NULL, "no memory");
            size_t size = API(malloc_usable_size)(value);
            memset(value, mark_of(value), size);
            values[count++] = value;
            live += size;
            written += size;
        }
        if (generation >= SETTLED && proc_rss_kib() > most) most = proc_rss_kib();
    }
    CHECK(most < live / 1024 * 9 / 2, "%zu KiB resident with %zu KiB in use", most, live / 1024);
}

static void check_large(const void *unused) {
    enum { SHORTEST = 70000, SPREAD = 32000, ROUNDS = 20, SLACK_KIB = 8192 };
    (void)unused;
    size_t count = bytes / (SHORTEST + SPREAD / 2), most = 0, start = proc_rss_kib();
    unsigned char **blocks = table_of(count);
    struct rng rng = rng_make(4141);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            blocks[i] = API(malloc)(SHORTEST + rng_below(&rng, SPREAD));
            CHECK(blocks[i] != NULL, "no memory");
            blocks[i][0] = mark_of(blocks[i]);
        }
        if (proc_rss_kib() > most) most = proc_rss_kib();
        for (size_t i = count; i-- > 0;) {
            CHECK(blocks[i][0] == mark_of(blocks[i]), "a block has changed");
            API(free)(blocks[i]);
        }
    }
    size_t used = count * PAGE / 1024;
    CHECK(most - start < 2 * used + SLACK_KIB, "%zu KiB resident with %zu KiB in use", most - start,
          used);
}

int main(int argc, char **argv) {
    static void (*const checks[])(const void *) = {check_growth,   check_trim,  check_idle,
                                                   check_moved_on, check_swing, check_turnover,
                                                   check_large};
    bytes = argument(argc, argv, 1, 96) << 20;
    watchdog(160, "sparse slabs");
    require_hakmem();
    bool all = true;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        struct child_end end;
        child_run(checks[i], NULL, 30, &end);
        fputs(end.err, stderr);
        all &= end.in_time && end.status == 0;
    }
    CHECK(all, "pages of sparse slabs stay");
    return 0;
}
