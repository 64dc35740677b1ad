/* pool_figures.c - what the options of superslabs change. */
#define _GNU_SOURCE
#include "pool_figures.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

#if defined(TEST_PREFIXED)
#define GET_STAT hakmem_stats_get
#else
#include <dlfcn.h>
#define GET_STAT ((int (*)(const char *, uint64_t *))dlsym(RTLD_DEFAULT, "hakmem_stats_get"))
#endif

/* Blocks that fill a slab each, of a mid class that nothing else uses. */
enum { SLABS = 48, SLAB_BLOCK = 61440, MANY_SLABS = 700 };

static void *blocks[MANY_SLABS];

long statistic(const char *name) {
    uint64_t value = 0;
    CHECK(GET_STAT(name, &value) == 0, "there is no figure %s", name);
    return (long)value;
}

static void take_slabs(int count) {
    for (int i = 0; i < count; i++) {
        blocks[i] = API(malloc)(SLAB_BLOCK);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, SLAB_BLOCK);
    }
}

/* KiB of a superslab. */
long superslab_kib(void) {
    take_slabs(SLABS);
    return statistic("memory.superslab_bytes") / statistic("pool.superslabs") / 1024;
}

/* Superslabs that 48 slabs lie in, and what the program had before. */
long superslabs_of_slabs(void) {
    take_slabs(SLABS);
    return statistic("pool.superslabs");
}

/* Units that go back within six looks at the clock from superslabs in each of which a slab stays in
 * use; while the program goes on to call. */
long units_released_in_part(void) {
    take_slabs(SLABS);
    for (int i = 0; i < SLABS; i++)
        if (i % 4) API(free)(blocks[i]);
    for (int round = 0; round < 150; round++) {
        for (int i = 0; i < 100; i++) API(free)(API(malloc)(100000));
        proc_sleep_ms(10);
    }
    return statistic("pool.purged_partial");
}

/* Times that a shard reclaims while a program takes 700 slabs, which is 87 superslabs of 512 KiB or
 * 43 of 1 MiB. It gets them all. */
long budget_hits(void) {
    take_slabs(MANY_SLABS);
    return statistic("pool.budget_hits");
}
