/* cpu_depot.h: free blocks that the caches of threads pass on to each other, per CPU and size class.
 *
 * All caches together hold a bounded number of bytes (HAKMEM_CACHE_BUDGET). With many more threads than
 * CPUs the share of a thread is small, so its magazines are often full or empty. Only as many threads
 * run as there are CPUs. So the depth that caches lack is kept per CPU: a full magazine leaves its
 * batch in the depot of the CPU that the thread runs on, and an empty one takes a batch from there. A thread that
 * ends leaves what its magazines hold there, as far as there is room.
 * That moves addresses only. It reads no slab and no bitmap, and a block of another shard is no remote
 * free. Depots are open while the share is small and there are more threads than CPUs; otherwise
 * nobody makes or visits one.
 *
 * PROTOCOL. A depot's lock protects its stack. It is only tried: whoever finds it held goes to the shard. So nobody
 * waits for a thread that lost its CPU while it held the lock, except a sweep of all depots, up to a second. The
 * number of the CPU is a hint: a thread that moves on meanwhile uses another CPU's depot once.
 *
 *   put     the flusher owns the blocks until it has stored `count`, then the depot owns them
 *   take    the depot owns them until `count` is stored, then the taker
 *   sweep   the purge pass takes blocks of a depot that nobody has used since the last pass, and gives
 *           them to the shard. It is inside the gate all the while: in the child of a fork no block is
 *           on its way
 *   get     a thread without a cache takes one block. From an empty depot it goes to the shard for a few
 *           more, and puts those into the depot; from one that is held for one block
 *   give    such a thread puts one block. If the depot is full, its older half goes to the shard, when
 *           the lock is let go. Both are inside the gate all the while, as a sweep is: the child of a fork
 *           loses at most the block that such a thread was given, or gives
 *
 * The bitmap of a slab counts the blocks in a depot as used, as it does those in magazines.
 *
 * DOUBLE FREES. A block that is freed twice is found when both copies come to the bitmap. A copy in a
 * depot may be handed out before, now also to another thread. Rejected: to mark the blocks of a depot in
 * their bitmaps. That is the work and the shared lines that the depot saves.
 *
 * Rejected: one array for all CPUs, which is a line that all of them write; one for each shard, since
 * threads of one shard run on several CPUs; to raise the share of each thread, which costs resident
 * memory for each thread and not for each CPU (docs/decisions/0064-depots.md). */
#pragma once

#include "base/base.h"
#include "meta/lazy_table.h"
#include "os/lock.h"
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

extern _Atomic bool hak_depot_open; /* atomic; a hint */
HAK_FAST_PATH bool hak_depot_is_open(void) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_depot_open));
}

/* Calls after which a new thread gets a cache; until then it is a novice (thread/thread.h), and depots serve it.
 * 0: at its first call, and depots serve no thread without a cache. Atomic; a hint. */
extern _Atomic uint32_t hak_depot_novice_calls;
HAK_FAST_PATH bool hak_depot_serves(void) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_depot_novice_calls) != 0);
}

/* Keeps as many of `count` blocks, from the first one on, as there is room for; returns how many. */
size_t hak_depot_put(unsigned class_index, void *const *blocks, size_t count);

/* Takes up to `want` blocks, those put last, and stores them in top[1..n]; returns n. */
size_t hak_depot_take(unsigned class_index, void **top, size_t want);

/* One block for a thread without a cache; NULL without memory. Depots are open. */
void *hak_depot_get(unsigned class_index);

/* Takes one from such a thread; false when it is one of the two put last: a double free. */
bool hak_depot_give(unsigned class_index, void *block);

/* The shard of the CPU that the caller runs on, which is made. */
unsigned hak_depot_shard(void);

/* Gives what no thread has used since the last sweep to the shards; `all`: everything. Goes on where
 * `walk` stands, as far as the budget allows; true at the end. *patience: milliseconds that all calls with
 * it may still wait for depots whose lock another thread holds. */
bool hak_depot_sweep(hak_walk_t *walk, bool all, unsigned *patience, hak_budget_t *budget);

/* The depots of a CPU, by class; NULL when there are none. They are made at the first put
 * (meta/lazy_table.h has the protocol). */
hak_depot_t *hak_depot_row(unsigned cpu);

/* Blocks of a class in all depots, and blocks of all classes that were taken from them so far. */
size_t hak_depot_count(unsigned class_index);
uint64_t hak_depot_taken(void);
