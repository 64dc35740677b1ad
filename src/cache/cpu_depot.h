/* cpu_depot.h: free blocks that the caches of threads exchange, per CPU and size class.
 *
 * All caches together hold a bounded number of bytes (HAKMEM_CACHE_BUDGET). With many more threads than
 * CPUs the share of a thread is small, so its magazines are often full or empty. But only as many threads
 * run as there are CPUs, so each CPU has depots that serve as the missing depth of the caches: a full magazine
 * leaves a batch in the depot of the CPU on which the thread runs, and an empty one takes a batch from there.
 * An ending thread leaves the blocks of its magazines there, as far as there is room. What a depot cannot serve comes
 * from the shard of that CPU, and what it has no room for goes there, wherever the thread is at home: threads of
 * several CPUs would otherwise meet at the bins of one home. Only addresses move within a depot: no
 * slab and no bitmap is read, and a block of another shard causes no remote free. Depots are open while the
 * share is small and there are more threads than CPUs; otherwise no thread makes or visits one.
 *
 * PROTOCOL. A depot's lock protects its stack. The lock is only tried: a thread that finds it held goes to the shard. So
 * none sleeps for it, a store releases it, and no thread waits for one that lost its CPU while it held the lock, except a
 * sweep of all depots, up to a second. The number of the CPU is a hint: a thread that migrates in the meantime uses another
 * CPU's depot once.
 *
 *   put     the flusher owns the blocks until it has stored `count`, then the depot owns them
 *   take    the depot owns them until `count` is stored, then the taker
 *   sweep   the purge pass takes the blocks of a depot that no thread has used since the last pass, and gives
 *           them to the shard. It is inside the gate all the time: in the child of a fork no block is
 *           on its way
 *   get     a thread without a cache takes one block. If the depot is empty, it takes a few more from the
 *           shard and puts those into the depot; if the depot's lock is held, it takes one from the shard
 *   give    such a thread puts one block. If the depot is full, its older half goes to the shard, after
 *           the lock is released. Get and give are inside the gate all the time, as a sweep is: the child of a
 *           fork loses at most the block that such a thread gets or gives
 *
 * The bitmap of a slab counts the blocks in a depot as used, as it does those in magazines.
 *
 * DOUBLE FREES. A block that is freed twice is found when both copies reach the bitmap. Before that, a copy in
 * a depot may be handed out, even to another thread. Rejected: to mark the blocks of a depot in their bitmaps.
 * That would cost the work and the shared lines that the depot saves.
 *
 * THE SHARD OF THE CPU. Nothing follows a thread that goes to another CPU: the home stays what it was. Its warm slabs
 * stay bound there, others take them back, and it binds no new ones (cache.c). A block belongs to its slab, and goes back to it by the lock of a bin or as a remote
 * one, whichever shard the thread gives it to (shard.h). So no step of shard.h depends on a thread's home.
 *
 * Rejected: one array for all CPUs, which is a line that all of them write; one for each shard, since
 * threads of one shard run on several CPUs; to raise the share of each thread, which costs resident
 * memory for each thread and not for each CPU (docs/decisions/0064-depots.md); to give a thread another home once it
 * has been on another CPU for a while, which needs the counts of two groups and moves its warm slabs. */
#pragma once

#include "base/base.h"
#include "meta/lazy_table.h"
#include "os/lock.h"
#include "pool/pool.h"
#include "shard/shard.h"

typedef struct {
    hak_lock_t lock;
    _Atomic uint32_t count; /* written under the lock; blocks in the stack */
    uint32_t slots;         /* lock; of the stack, 0 before the first block */
    bool is_used;           /* lock; since the last sweep */
    void **blocks;          /* lock; the stack, the oldest first */
    _Atomic uint64_t taken; /* written under the lock; blocks that went to magazines */
} HAK_ALIGNED(HAK_LINE) hak_depot_t;

/* Opens depots when the share of a thread is small. */
void hak_depot_set_share(size_t tiny_bytes, bool has_more_threads);

/* The pool asks, too. */
HAK_FAST_PATH bool hak_depot_is_open(void) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_pool_crowded));
}

/* Calls after which a new thread gets a cache; until then it is a novice (thread/thread.h), and depots serve it.
 * 0: at its first call, and depots serve no thread without a cache. Atomic; a hint. */
extern _Atomic uint32_t hak_depot_novice_calls;
HAK_FAST_PATH bool hak_depot_serves(void) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_depot_novice_calls) != 0);
}

/* Keeps as many of `count` blocks, from the first one on, as there is room for in the depot of a CPU; returns how
 * many. `cpu`, here and below: what hak_depot_home returned. */
size_t hak_depot_put(unsigned cpu, unsigned class_index, void *const *blocks, size_t count);

/* Takes up to `want` blocks from the depot of a CPU, those put last, and stores them in top[1..n]; returns n. */
size_t hak_depot_take(unsigned cpu, unsigned class_index, void **top, size_t want);

/* One block for a thread without a cache; NULL without memory. Depots are open. */
void *hak_depot_get(unsigned class_index);

/* Takes a block from such a thread; false when it is one of the two that were put last: a double free. */
bool hak_depot_give(unsigned class_index, void *block);

/* The shard of the CPU on which the caller runs; it is made if necessary. */
unsigned hak_depot_shard(void);

/* The shard with which a thread at home in `home` exchanges blocks; while depots are open, that is also the number of
 * the CPU. To ask for it is a part of what a slow call costs, so a call asks once. */
HAK_FAST_PATH unsigned hak_depot_home(unsigned home) {
    return hak_depot_is_open() ? hak_depot_shard() : home;
}

/* Gives the blocks of depots that no thread has used since the last sweep to the shards; `all`: those of all depots.
 * Continues at `walk`, as far as the budget allows; true at the end. *patience: milliseconds for which all calls with
 * it together may still wait for depots whose lock another thread holds. */
bool hak_depot_sweep(hak_walk_t *walk, bool all, unsigned *patience, hak_budget_t *budget);

/* The depots of a CPU, by class; NULL when there are none. They are made at the first put
 * (meta/lazy_table.h has the protocol). */
hak_depot_t *hak_depot_row(unsigned cpu);

/* Blocks of a class in all depots, and blocks of all classes that were taken from them so far. */
size_t hak_depot_count(unsigned class_index);
uint64_t hak_depot_taken(void);
