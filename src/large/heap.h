/* heap.h: large heaps: superslabs, grain by grain, one heap for each CPU.
 *
 * There are as many heaps as shards, each made at its first use (meta/lazy_table.h), and a thread's heap is
 * that of the CPU it runs on at the moment. Rejected: the heap of its shard, since threads that follow each other
 * have different ones, and then each CPU writes to the lines of several heaps.
 *
 * Who owns what: a superslab belongs to one heap, or to the pool. A block belongs to
 * the heap whose superslab it lies in; any thread may free it.
 *
 * A block's record is the word `large` of the unit it begins in (at most one does,
 * since a block is longer than a unit):
 *   length in grains << 5 | freed << 4 | first grain, counted in its unit;  0 = none
 * Written under the heap's lock where the block is made, resized or merged. `freed` is set by
 * compare-and-swap before anything else is done: of two racing frees one wins, and the other
 * touches nothing. Rejected: to decide that under a lock, since a free on another CPU takes
 * another lock.
 *
 * Where the program frees a block twice, the unit may by then be a slab, a chunk (fine_grain.h) or another heap's. A
 * block has 17 to 256 grains. The counts of a slab, from its making on, are a shorter length or a longer one, and so
 * is the word of a chunk: these words are no block. A mark on a block in use keeps its unit in the heap that the
 * owner names after it.
 *
 * A resize changes the word by compare-and-swap as well: after it has taken the grains that the block
 * grows by, and before it frees those that are cut off. A free at the same time is a mistake of the
 * program, but of the two one wins. If that is the free, the resize fails and leaves the block as it was.
 *
 * A freed block merges with the free extents under the heap's lock, or, freed on another
 * CPU than the heap's, goes into the heap's transfer array under a lock of its own, so that
 * it waits for no allocation; a full array is emptied into the extents.
 *
 * Freed on the heap's own CPU, it first stays whole among the heap's recent blocks (recent.h). It merges
 * when newer ones take its place, when the extents have no room, when a block cannot grow in place, at each
 * visit of a purge, and when the pool lacks a superslab and it is this heap's turn.
 *
 * Locks: heap -> transfer -> pool. Never two heaps. Between two locks a block that is freed, or
 * memory that is purged, is in the hands of one thread, and counted as used. That thread is
 * inside the gate (os/gate.h), so a fork's child has no such block.
 *
 * Counting, under the lock: used grains = sum of blocks, freed ones that wait included, + claimed by a
 * purge; idle = touched and not used; lent = superslabs without a used grain. */
#pragma once

#include "base/base.h"
#include "large/extent.h"
#include "large/recent.h"
#include "meta/lazy_table.h"
#include "os/lock.h"
#include "pool/purge_budget.h"
#include "region/superslab.h"
#include "region/superslab_list.h"
#include "shard/shard.h"

enum {
    HAK_HEAPS_MAX = HAK_SHARDS_MAX,
    HAK_TRANSFER_MAX = 256,
    HAK_LARGE_FREED = 16,
};

/* What the check of a heap adds up (verify.c). */
typedef struct {
    size_t grains, used, live, blocks, listed; /* listed: superslabs in the list of dirty ones */
    size_t free, idle;                         /* of extents, as the next visit finds them */
    size_t lent;                               /* superslabs without a used grain */
} hak_heap_sum_t;

typedef struct {
    hak_lock_t
        lock HAK_ALIGNED(HAK_LINE); /* alone in its line: others wait for it, or look at it */
    hak_recent_t recent HAK_ALIGNED(HAK_LINE); /* lock */
    hak_extents_t extents;                     /* lock */
    hak_dirty_list_t dirty; /* lock; superslabs with idle grains, the oldest first, or nearly so */
    _Atomic size_t idle;    /* written under the lock; grains */
    _Atomic size_t live;    /* written under the lock; grains of blocks, recent ones and those
                                         in the transfer array included */
    _Atomic size_t live_count; /* the same in blocks */
    _Atomic size_t lent;       /* written under the lock; superslabs; to others a hint */
    size_t idle_published;     /* lock; of idle and recent, what the sum over heaps knows of */
    size_t live_peak;          /* lock; of live, since a look for sparse memory was last wanted */
    size_t sparse_due; /* lock; a fall of so many grains makes one wanted; 0: none was made */
    bool wants_sparse; /* lock; see hak_heap_purge_sparse */
    _Atomic uint64_t local, remote, stolen, runs, run_units, resized, purge_calls;
    /* Hints for those who look for memory in the heaps of others, in a line that is written only when one of
     * them changes: what they are made of changes with each call. */
    _Atomic unsigned
        last_home HAK_ALIGNED(HAK_LINE); /* written under the lock; of who worked with it last */
    /* the same, or set under the transfer lock: more than half as much is free as is in use. If both locks'
     * holders write it at once, a set may be lost: the next block that comes back makes up for it */
    _Atomic bool has_much;
    hak_lock_t transfer_lock HAK_ALIGNED(HAK_LINE);
    unsigned transfer_count;        /* transfer lock */
    _Atomic size_t transfer_grains; /* written under the transfer lock */
    _Atomic uint64_t transferred, spilled;
    hak_unit_t *transfer[HAK_TRANSFER_MAX]; /* transfer lock; newest last */
    hak_heap_sum_t sum;                     /* hak_verify runs once at a time */
} hak_heap_t;

extern hak_lazy_table_t hak_heap_table;

/* NULL for a heap that is not made. */
HAK_FAST_PATH hak_heap_t *hak_heap_at(unsigned number) {
    return hak_lazy_table_at(&hak_heap_table, number);
}

/* Grains of free memory that have pages, recent blocks included. */
HAK_FAST_PATH size_t hak_heap_idle(const hak_heap_t *heap) {
    return hak_load_relaxed(&heap->idle) + hak_load_relaxed(&heap->recent.grains);
}

/* The heaps that are made. */
#define HAK_EACH_HEAP(i)                                                          \
    for (unsigned i = hak_lazy_table_next(&hak_heap_table, 0); i < HAK_HEAPS_MAX; \
         i = hak_lazy_table_next(&hak_heap_table, i + 1))

/* Makes a heap, unless it is there. Returns its number, or 0, which needs no memory, when there is
 * none for another one. */
unsigned hak_heap_open(unsigned number);

/* Of the word `large`. */
HAK_FAST_PATH size_t hak_large_length(uint32_t run) { return run >> 5; }

/* A stretch of grains within one superslab. */
typedef struct {
    hak_superslab_t *super;
    unsigned first, count;
} hak_part_t;

/* The first part of *left grains at *at; moves on behind it. False at the end. */
bool hak_part_next(char **at, size_t *left, hak_part_t *part);

/* All under the lock of the heap. */

/* Free grains that were just taken out of the extents become used and touched. False
 * when the limit on committed memory refuses them: then nothing has changed. */
bool hak_heap_use(hak_heap_t *heap, char *start, size_t grains);

/* True when all of these grains are touched. */
bool hak_heap_has_pages(char *start, size_t grains);

/* Used grains become free, and join the extents. */
void hak_heap_free(hak_heap_t *heap, char *start, size_t grains);

/* Adds free superslabs of the pool in a row: `grains` or more, or fewer where the row
 * ends, but `least` in one extent; false without memory. */
bool hak_heap_grow(unsigned number, size_t least, size_t grains);

/* Gives one wholly free superslab to the pool; false when there is none. */
bool hak_heap_lend(hak_heap_t *heap);

/* Purges grains that have been free for `delay_ms`, as far as the budget goes; returns bytes. Takes the
 * lock itself. */
size_t hak_heap_purge(hak_heap_t *heap, uint32_t delay_ms, hak_budget_t *budget);

/* If it is wanted, since the heap has fallen by half, a look for sparse memory: that of blocks of which the program used few pages. All grains of a
 * freed block count as touched, so it would be kept as a whole; the next blocks begin elsewhere in it, and in time
 * all of its pages would be in memory. Purges superslabs of whose idle grains fewer than half are in memory, whatever
 * their age. Returns bytes. Takes the lock itself. */
size_t hak_heap_purge_sparse(hak_heap_t *heap, hak_budget_t *budget);
