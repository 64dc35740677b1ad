/* mid_figures.c - what the options of thread caches and of the mid tier change. */
#define _GNU_SOURCE
#include "mid_figures.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"
#include "pool_figures.h"

enum { BLOCKS = 40000 };

static void *blocks[BLOCKS];
static void *volatile kept;

/* KiB in the thread's cache after it has freed 16 MiB of several sizes, over and over. */
long cached_kib(void) {
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < BLOCKS; i++) blocks[i] = API(malloc)((size_t)(64 << i % 5));
        for (int i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
    }
    return statistic("total.cached_bytes") / 1024;
}

enum { RING_SIZE = 3000, RING_BLOCKS = 600 };

static long blocks_in_cache(void) { return statistic("total.cached"); }

/* Takes and gives blocks of one mid class until its ring is as deep as it gets. */
static void swing_ring(void) {
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < RING_BLOCKS; i++) blocks[i] = API(malloc)(RING_SIZE);
        for (int i = 0; i < RING_BLOCKS; i++) API(free)(blocks[i]);
    }
}

/* Most free blocks that the ring of a mid class ever holds. */
long ring_depth(void) {
    long before = blocks_in_cache(), most = 0;
    swing_ring();
    for (int i = 0; i < RING_BLOCKS; i++) blocks[i] = API(malloc)(RING_SIZE);
    for (int i = 0; i < RING_BLOCKS; i++) {
        API(free)(blocks[i]);
        long held = blocks_in_cache() - before;
        if (held > most) most = held;
    }
    return most;
}

/* Mallocs of a mid class that a batch saved a refill; refills that the second level served. */
long ring_hits(void) {
    swing_ring();
    return statistic("mid.ring_hits");
}

long lifo_hits(void) {
    swing_ring();
    return statistic("mid.lifo_hits");
}

/* Most blocks that leave a full ring in one go. */
long blocks_returned(void) {
    long most = 0;
    swing_ring();
    for (int i = 0; i < RING_BLOCKS; i++) blocks[i] = API(malloc)(RING_SIZE);
    long held = blocks_in_cache();
    for (int i = 0; i < RING_BLOCKS; i++) {
        API(free)(blocks[i]);
        long now = blocks_in_cache(), returned = held + 1 - now;
        if (returned > most) most = returned;
        held = now;
    }
    return most;
}

static long blocks_of_next_refill(size_t size) {
    for (;;) {
        long held = blocks_in_cache();
        kept = API(malloc)(size);
        long now = blocks_in_cache();
        if (now >= held) return now + 1 - held;
    }
}

/* Blocks that the first refill takes after the ring was full. */
long blocks_of_first_refill(void) {
    swing_ring();
    return blocks_of_next_refill(RING_SIZE);
}

/* Refills of a thread that allocates blocks of one mid class and frees none. */
static long refills_of_growth(size_t size) {
    const long before = statistic("bands.MID.uc_miss");
    for (int i = 0; i < RING_BLOCKS; i++) blocks[i] = API(malloc)(size);
    return statistic("bands.MID.uc_miss") - before;
}
long refills_of_small_rings(void) { return refills_of_growth(RING_SIZE); }
long refills_of_large_rings(void) { return refills_of_growth(4 * RING_SIZE); }

static void *free_every_other(void *unused) {
    for (int i = 0; i < RING_BLOCKS; i += 2) API(free)(blocks[i]);
    return unused;
}

/* Refills that it takes to allocate what a thread of another shard has freed, half of each slab. */
long refills_after_remote_frees(void) {
    pthread_t thread;
    long refills = 0;
    swing_ring();
    for (int i = 0; i < RING_BLOCKS; i++) blocks[i] = API(malloc)(RING_SIZE);
    CHECK(pthread_create(&thread, NULL, free_every_other, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    for (int i = 0; i < RING_BLOCKS / 2; i++) {
        long held = blocks_in_cache();
        kept = API(malloc)(RING_SIZE);
        refills += blocks_in_cache() >= held;
    }
    return refills;
}

enum { OFF_CLASS = 4112, OFF_CLASS_BLOCKS = 6000 };

/* Bytes of the last of many blocks that are a little larger than a power of two. */
long size_of_many(void) {
    for (int i = 0; i < OFF_CLASS_BLOCKS; i++)
        CHECK((kept = API(malloc)(OFF_CLASS)) != NULL, "no memory");
    return (long)API(malloc_usable_size)(kept);
}

/* Bytes of the first block of 13,000. */
long size_of_one(void) {
    kept = API(malloc)(13000);
    return (long)API(malloc_usable_size)(kept);
}
