/* heap.h: large heaps: superslabs, grain by grain, one heap for each CPU.
 *
 * There are as many heaps as shards, and each is made when it is first used (meta/lazy_table.h). A thread uses the heap
 * of the CPU on which it currently runs. Rejected: the heap of the thread's shard. Threads that run one after another
 * on a CPU have different shards, so each CPU would write to the lines of several heaps.
 *
 * Ownership: a superslab belongs to one heap, or to the pool. A block belongs to the heap of the superslab in which it
 * lies; any thread may free it.
 *
 * A block's record is the word `large` of the unit in which the block begins. At most one block begins in a unit, since
 * a block is longer than a unit.
 *   length in grains << 5 | freed << 4 | first grain, counted in its unit;  0 = none
 * The word is written under the heap's lock when the block is made, resized or merged. A free sets `freed` by
 * compare-and-swap before it does anything else: only one of two racing frees succeeds, and the other touches nothing.
 * Rejected: to decide that under a lock, because a free on another CPU takes another lock.
 *
 * When the program frees a block a second time, its unit may already be a slab, a chunk (fine_grain.h) or part of
 * another heap. A slab has its counts in place of the word, a chunk the number of its heap. A block has 17 to 256
 * grains; those words, from the moment they are written, read as a shorter or a longer length, so the free finds no
 * block there. If the free does find a block in use and sets its freed bit, the unit stays in its heap until the block
 * is merged. So the owner word, read after the bit is set, names the right heap.
 *
 * A resize also changes the word by compare-and-swap: after it has taken the grains by which the block grows, and
 * before it frees the grains that are cut off. A free at the same time is an error of the program, but only one of the
 * two succeeds. If the free does, the resize fails and leaves the block as it was.
 *
 * A freed block is merged with the free extents, under the heap's lock. If it is freed on another CPU than the heap's,
 * it goes into the heap's transfer array instead. The array has a lock of its own, so the free waits for no allocation;
 * a full array is emptied into the extents.
 *
 * A block that is freed on the heap's own CPU first stays whole among the heap's recent blocks (recent.h). It is merged
 * when newer blocks take its place, when the extents have no room, when a block cannot grow in place, at each visit of
 * a purge, and when the pool lacks a superslab and it is this heap's turn.
 *
 * Lock order: heap -> transfer -> pool; no thread holds the locks of two heaps. Between two locks, a block that is
 * freed or memory that is purged is held by one thread, and counted as used. That thread is inside the gate
 * (os/gate.h), so the child of a fork has no such block.
 *
 * Counts, under the lock: used grains = sum of blocks, including freed ones that wait, + grains claimed by a purge;
 * idle = touched and not used; lent = superslabs without a used grain. */
#pragma once

#include "base/base.h"
#include "large/extent.h"
#include "large/part.h"
#include "large/recent.h"
#include "meta/lazy_table.h"
#include "os/lock.h"
#include "region/superslab.h"
#include "region/superslab_list.h"
#include "shard/shard.h"

enum {
    HAK_HEAPS_MAX = HAK_SHARDS_MAX,
    HAK_TRANSFER_MAX = 256,
    HAK_LARGE_FREED = 16,
};

/* Sums for the check of a heap (verify.c). */
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
    size_t idle_published;     /* lock; the part of idle and recent that is in the sum over heaps */
    size_t live_peak;  /* lock; of live, since a look for sparse memory was last requested */
    size_t sparse_due; /* lock; a fall by so many grains requests a look; 0: there was no look */
    bool wants_sparse; /* lock; see hak_heap_purge_sparse */
    _Atomic uint64_t local, remote, stolen, runs, run_units, resized, purge_calls;
    /* Hints for threads that look for memory in other heaps. The line is written only when a hint changes, because the
     * values from which the hints follow change with each call. */
    _Atomic unsigned
        last_home HAK_ALIGNED(HAK_LINE); /* written under the lock; home of the last user */
    /* the same, or set under the transfer lock: more than half as much is free as is in use. If the holders of
     * both locks write it at once, a set may be lost; the next block that comes back sets it again */
    _Atomic bool has_much;
    hak_lock_t transfer_lock HAK_ALIGNED(HAK_LINE);
    unsigned transfer_count;        /* transfer lock */
    _Atomic size_t transfer_grains; /* written under the transfer lock */
    _Atomic uint64_t transferred, spilled;
    hak_unit_t *transfer[HAK_TRANSFER_MAX]; /* transfer lock; newest last */
    hak_heap_sum_t sum;                     /* hak_verify runs once at a time */
} hak_heap_t;

extern hak_lazy_table_t hak_heap_table;

/* NULL if the heap does not exist. */
HAK_FAST_PATH hak_heap_t *hak_heap_at(unsigned number) {
    return hak_lazy_table_at(&hak_heap_table, number);
}

/* Grains of free memory that have pages, recent blocks included. */
HAK_FAST_PATH size_t hak_heap_idle(const hak_heap_t *heap) {
    return hak_load_relaxed(&heap->idle) + hak_load_relaxed(&heap->recent.grains);
}

/* Runs over the numbers of all existing heaps. */
#define HAK_EACH_HEAP(i)                                                          \
    for (unsigned i = hak_lazy_table_next(&hak_heap_table, 0); i < HAK_HEAPS_MAX; \
         i = hak_lazy_table_next(&hak_heap_table, i + 1))

/* Makes a heap, unless it exists. Returns its number; without memory for another heap it returns 0, the number of a
 * heap that needs none. */
unsigned hak_heap_open(unsigned number);

/* The length in grains that a word `large` holds. */
HAK_FAST_PATH size_t hak_large_length(uint32_t run) { return run >> 5; }

/* All under the lock of the heap. */

/* Free grains that were just taken out of the extents become used and touched. False
 * when the limit on committed memory refuses them: then nothing has changed. */
bool hak_heap_use(hak_heap_t *heap, char *start, size_t grains);

/* True when all of these grains are touched. */
bool hak_heap_has_pages(char *start, size_t grains);

/* Used grains become free, and join the extents. */
void hak_heap_free(hak_heap_t *heap, char *start, size_t grains);

/* Takes adjacent free superslabs from the pool: `grains` grains or more; fewer, but at least `least`, if the pool has
 * no longer row. False without memory. */
bool hak_heap_grow(unsigned number, size_t least, size_t grains);

/* Gives one wholly free superslab to the pool; false when there is none. */
bool hak_heap_lend(hak_heap_t *heap);

/* ---- For heap_purge.c ---- */

/* Grains: 4 MiB. When a heap has fallen by so much, its first look for sparse memory is due. */
enum { HAK_SPARSE_FIRST = 4 << 8 };

HAK_FAST_PATH size_t hak_heap_sparse_due(const hak_heap_t *heap) {
    return heap->sparse_due ? heap->sparse_due : HAK_SPARSE_FIRST;
}

/* Grains that are taken out of the extents become used. */
HAK_FAST_PATH void hak_heap_set_used(hak_heap_t *heap, const hak_part_t *part) {
    if (part->super->used_grains == 0) HAK_ADD_OWNED(&heap->lent, -(size_t)1);
    part->super->used_grains = (uint16_t)(part->super->used_grains + part->count);
}

/* As hak_heap_free, but no look for sparse memory is requested. */
void hak_heap_give(hak_heap_t *heap, char *start, size_t grains);

/* A superslab whose grains are all free and out of the extents leaves the heap. */
void hak_heap_send_back(hak_heap_t *heap, hak_superslab_t *super);

/* A superslab with idle grains, which became free at `now` in milliseconds, becomes the newest in the list. */
void hak_heap_append_dirty(hak_heap_t *heap, hak_superslab_t *super, uint64_t now);
