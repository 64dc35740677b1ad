/* large_figures.c - what the options of large and huge blocks and of committed memory change. */
#include "large_figures.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"
#include "cpu.h"
#include "pool_figures.h"

enum { MIB = 1024 * 1024, LARGE = 100000, COUNT = 42 };

static void *blocks[COUNT];

static void allocate_all(void) {
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = API(malloc)(LARGE);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, LARGE);
    }
}

static void *free_all(void *unused) {
    stay_on_cpu(1);
    for (int i = 0; i < COUNT; i++) API(free)(blocks[i]);
    return unused;
}

/* Main allocates, a thread on a CPU with another heap frees; twice. */
static void trade(void) {
    stay_on_cpu(0);
    for (int turn = 0; turn < 2; turn++) {
        pthread_t thread;
        allocate_all();
        CHECK(pthread_create(&thread, NULL, free_all, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    }
}

/* Units of 64 KiB that a heap takes for its first large block. */
long units_of_a_run(void) {
    *(void *volatile *)&blocks[0] = API(malloc)(900000);
    return statistic("large.run_units") / statistic("large.runs");
}

long large_transferred(void) {
    trade();
    return statistic("large.transferred");
}

long large_from_others(void) {
    trade();
    return statistic("large.remote");
}

/* Of blocks that were freed one after the other. */
long large_purge_calls(void) {
    allocate_all();
    for (int i = 0; i < COUNT; i++) API(free)(blocks[i]);
    return statistic("large.purge_calls");
}

/* MiB of freed mappings that are kept, of 40. */
long huge_mib_kept(void) {
    for (int i = 0; i < 5; i++) CHECK(blocks[i] = API(malloc)(8 * MIB), "no memory");
    for (int i = 0; i < 5; i++) API(free)(blocks[i]);
    return statistic("huge.kept_bytes") / MIB;
}

/* MiB that malloc gives, at most 100, before it gives NULL. */
long mib_until_refused(void) {
    long count = 0;
    while (count < 100 && API(malloc)(MIB)) count++;
    return count;
}

/* MiB of free memory with pages after 64 MiB of small blocks came and went, and large ones came. */
long dirty_mib_with_a_limit(void) {
    enum { SMALL_COUNT = 65536 };
    static void *small[SMALL_COUNT];
    for (int i = 0; i < SMALL_COUNT; i++) memset(small[i] = API(malloc)(1000), 1, 1000);
    for (int i = 0; i < SMALL_COUNT; i++) API(free)(small[i]);
    for (int i = 0; i < COUNT; i++) blocks[i] = API(malloc)(2 * MIB);
    for (int i = 0; i < 2000; i++) API(free)(API(malloc)((size_t)i * 30));
    return statistic("memory.dirty_bytes") / MIB;
}

/* Blocks of a tier after ten of 10,000 bytes and ten of 100,000. */
static long live_in(const char *tier) {
    long before = statistic(tier);
    for (int i = 0; i < 10; i++) {
        CHECK(blocks[0] = API(malloc)(10000), "no memory");
        CHECK(blocks[1] = API(malloc)(100000), "no memory");
    }
    return statistic(tier) - before;
}

long live_in_mid(void) { return live_in("tiers.mid.live"); }
long live_in_large(void) { return live_in("tiers.large.live"); }

/* Of a heap that grows to 100 MB in slabs. */
long huge_superslabs(void) {
    for (int i = 0; i < 100000; i++) CHECK(API(malloc)(1000), "no memory");
    return statistic("pool.huge_superslabs");
}

/* Of one that grows to 12 MB. */
long huge_superslabs_of_a_small_heap(void) {
    for (int i = 0; i < 12000; i++) CHECK(API(malloc)(1000), "no memory");
    return statistic("pool.huge_superslabs");
}

long advice_for_a_huge_block(void) {
    CHECK(blocks[0] = API(malloc)(2 << 20), "no memory"); /* shorter than the least */
    long before = statistic("os.madvise");
    CHECK(blocks[1] = API(malloc)(4 << 20), "no memory");
    return statistic("os.madvise") - before;
}

long populated_units(void) {
    for (int i = 0; i < COUNT; i++) blocks[i] = API(malloc)(LARGE / 2);
    return statistic("pool.populated_units");
}

/* Twenty of 10,000 bytes and twenty of 100,000. */
static long debug_figure_of_forty(const char *name) {
    long before = statistic(name);
    for (int i = 0; i < 20; i++) {
        CHECK(blocks[i] = API(malloc)(10000), "no memory");
        CHECK(blocks[i + 20] = API(malloc)(100000), "no memory");
    }
    return statistic(name) - before;
}

long records_of_forty(void) { return debug_figure_of_forty("debug.records"); }
long record_bytes_of_forty(void) { return debug_figure_of_forty("debug.record_bytes"); }
