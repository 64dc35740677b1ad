/* shard.h: the owners of slabs: a few shards, each with one lockable bin per class.
 *
 * Threads own no slab. A thread has a home shard, and takes and gives blocks there
 * in batches, one lock a batch.
 *
 * PROTOCOL of a block that comes back to a shard other than its slab's
 *
 * Who: the freer F holds a block of slab S that was in use. Therefore S cannot be
 * wholly free, keeps its class and shard, and is not released, until step 1.
 *
 *   F1  old = remote[w].or(mask)             the blocks are given from here on
 *       old & mask      -> a double free
 *       old != 0        -> done: whoever made it non-zero does F2
 *   F2  old = remote_words.or(1 << w)
 *       old != 0        -> done: whoever made it non-zero does F3
 *   F3  push S on the pending stack of the bin that F read before F1
 *
 * Anyone who holds a bin's lock may drain that bin, so no thread's death or
 * idleness keeps memory:
 *
 *   D1  list = pending.exchange(NULL); for each S, its link is read before D2
 *   D2  words = remote_words.exchange(0)     S may be pushed again from here on
 *   D3  for each w in words: mask = remote[w].exchange(0), merge mask into bits[w];
 *       mask & bits[w] -> a double free
 *
 * A drain may stop after some slabs and push the others back before it lets the lock
 * go: their remote_words were not taken, so nobody else pushes them meanwhile.
 *
 * S belongs to the bin that its owner word names; the word changes only under the
 * lock of the bin that S leaves or enters, and its flag HAK_OWNER_WARM under that of
 * its bin (warm_slab.h). On its way from one to another, to the pool or to another shard,
 * S is all free and belongs to nobody: no F has a block of it.
 *
 * Rejected races:
 *  - S leaves its bin while F stands between F1 and F3. It cannot: bit w goes up
 *    only by the F that made remote[w] non-zero, and D takes remote[w] only through
 *    bit w. So until F has done F2, F's blocks are not merged; from F2 to F3 the
 *    same holds for D1, which does not find S. S has blocks in use all the while.
 *  - S on two stacks: only who turns remote_words from 0 pushes, and D1 has taken
 *    S off before D2 makes it 0.
 *  - ABA on the stack: the only removal is the exchange of the whole list.
 *
 * BLOCKS THAT ARE FREED TWICE. The second freer has no block in use: S may be all free, and leave its
 * bin at any step of F. What it does then must not hurt whoever has S, or its bitmap, by now.
 *  - F0 reads the bitmap's address between two looks at the owner: both have the class of the block.
 *    Remote words lie in the second half of a record whose size goes by the class, and records of
 *    bitmaps serve as nothing else (meta.h): F1 meets remote words, of S or of another's. A unit of a program's heap
 *    has the record of its chunk there, with both marks: F gives up and reports.
 *  - F1 itself keeps S where it is: S does not leave while a remote word is not 0. So who has made one non-zero, and only
 *    who has, looks whether S is still there, before F2: nobody else says so. If S has gone, F takes F1 back and reports;
 *    else S stays, with its bin and its record, until D3, which comes after F3.
 *  - Who lets S go, with the lock of its bin and S all free, asks first:
 *
 *    L1  bits = record | LEAVES
 *    L2  a remote word of the record is not 0 -> bits = record: S stays while a block comes
 *    L3  CAS of bits, record | LEAVES -> record | GONE; if it fails, S stays. Then owner = 0
 *
 *    L1 comes before L2, and F1 before F's look: one of them sees the other. If F sees LEAVES, nothing tells whether
 *    S will go. So F decides: CAS of bits, record | LEAVES -> record. If that or L2 is first, S stays, and who merges F1
 *    reports; if L3 is first, S has gone. Nobody waits for the other one. GONE stays until S is of a bin again: F does not
 *    take a slab that belongs to nobody, or that has another record by now, for one that is still there.
 *    Rejected: to write the owner first, 0 from L1 on. F took a slab that stayed for one that had gone, and took F1
 *    back after T had taken the block out: it was lost, and told twice. Rejected: F waits while it sees LEAVES. It may have the
 *    higher priority on the CPU of the thread that is to go on, and it may hold the lock of another bin. Rejected: F takes
 *    F1 back where it sees LEAVES, too. S may stay, and the block's new owner free it by another CPU meanwhile: that is told
 *    in place of F, and the block is lost when F has taken the bit away.
 *    Rejected: L2 looks at remote_words alone, and the remote words are cleared while S belongs to nobody. S then left while
 *    F stood between F1 and F2. Its new owner freed the block, F's undo took that bit away, and the block was lost.
 *    Rejected: a pin of its own, or a number of S's life that F2 compares. Either costs each remote free an atomic step, or
 *    the words an extra line; L2 reads one to eight lines when a slab leaves, which its next life had to write before.
 *  - F1 may come between L2 and L3, or later. F finds S gone, but until it has taken F1 back the record must not serve: it would
 *    have a block in its remote words that nobody frees. So a bitmap serves only while its remote words are 0 (bitmaps.h),
 *    and an empty slab enters a bin of another shard only then; else it goes to the pool.
 *  - F may have stopped before F1 instead, while the record became another slab's, or S one of another bin with the same record. Whoever
 *    frees into the same word there finds it not 0 and leaves F2 to F. So if F1 was taken back and the
 *    word is still not 0, F does F2 and F3 for the slab that has the record, which stays meanwhile. On this way alone F may look at
 *    all slabs of the heap.
 *  - A block that is free in the bitmap may come back before it is handed out again. Merged later, that would free
 *    the next owner's block. So a take looks at the words that it takes from, with the lock or the claim:
 *
 *    T   if remote_words has bit w: mask = remote[w] & bits[w]; those are taken out of bits[w], not handed out and
 *        told; they stay in remote[w], and D3 sets them free once
 *
 *    Rejected: to take them out of remote[w]. It would be 0 with bit w of remote_words set, and D could merge a
 *    block before its F has done F2: S might leave its bin meanwhile. Rejected: to look at remote[w] without
 *    remote_words, which costs a line that others write at each take. It would tell of a second free that stands
 *    between F1 and F2; one that comes just after the take is no different, and cannot be told by anybody.
 *    What T has seen stays until D3: bit w says that F is past its look. So a take ends early only at blocks that
 *    others are to be told of first.
 *  Some cases of a double free stay. F is stopped between F0 and F1 while S and its record become another bin's: then F1 is a bit of
 *  a block that F knows nothing of. If the word is not 0 there, F does not look again: it is not told, or that block is free. If it is 0,
 *  a right free of that block by another CPU is told in place of F, and the block is lost when F takes F1 back, after two reports.
 *  Rejected: to pin S before F1, by a word of its own or an epoch that all threads enter, which costs every remote free a
 *  step that other CPUs see, or the record of each slab that leaves the wait for all CPUs.
 *
 * FORKS. A freer between F1 and F3, and whoever has a slab in hand on its way between a bin and
 * the pool or between two bins, is inside the gate (os/gate.h): the child of a fork has no half
 * of such a step. */
#pragma once

#include "base/base.h"
#include "options/options.h"
#include "os/lock.h"
#include "pool/purge_budget.h"
#include "debug_record/record.h"
#include "region/region.h"
#include "region/unit.h"
#include "shard/flush.h"

enum { HAK_SHARDS_MAX = 256 }; /* an owner word has eight bits for it */

/* What is counted while a bin's lock is held. */
enum {
    HAK_SHARD_LOCKS,   /* times the lock was taken to take blocks or to give them */
    HAK_SHARD_MISSES,  /* takes that brought blocks */
    HAK_SHARD_TAKEN,   /* blocks taken */
    HAK_SHARD_PROBED,  /* of those, blocks for a cache at home in another shard */
    HAK_SHARD_DRAINED, /* blocks of remote frees merged */
    HAK_SHARD_COUNTERS
};

/* Invariant of a bin, whenever its lock is free, over all its slabs:
 *   touched = sum of fresh - purged blocks
 *   spare   = sum of free_count - (count - fresh) - purged blocks */
typedef struct {
    hak_lock_t lock;
    _Atomic uint32_t listed_count; /* written under the lock; slabs in list or kept empty */
    hak_unit_t *head, *tail;       /* lock; slabs with free blocks: those freed into
                                        last first, those never used up last */
    _Atomic(hak_unit_t *) empty;   /* written under the lock; one wholly free slab, kept for the
                                        next need */
    _Atomic(hak_unit_t *) pending; /* atomic; slabs with remote blocks, linked by pending_next */
    _Atomic size_t touched;        /* written under the lock; blocks with pages: once handed
                                      out, and not purged since. 2^32 of 16 bytes are 64 GiB */
    _Atomic size_t spare;          /* written under the lock; the free ones of them */
    _Atomic uint32_t adopted;      /* written under the lock; slabs entered so far */
    _Atomic uint16_t spare_age;    /* the same; passes that found `spare` unchanged (bin.h) */
    uint8_t empty_age;             /* lock; sweeps that `empty` has seen */
    _Atomic uint8_t rests;         /* lock to make it 0, at a take; else by visits (sparse.c) */
} HAK_ALIGNED(HAK_LINE) hak_bin_t;

_Static_assert(sizeof(hak_bin_t) == HAK_LINE, "a bin is one cache line");

/* Number of shards that may be made, and may have slabs. It only grows, under the lock of the thread
 * list. */
unsigned hak_shard_count(void);

/* Makes a shard, unless it is there (meta/lazy_table.h has the protocol): no thread is at home in a shard,
 * and no slab belongs to it, before that. Returns its number, or 0, which needs no memory, when
 * there is none for another one. */
unsigned hak_shard_open(unsigned shard);

/* Number of shards that threads, and the large heaps of CPUs, are at home in from now on: never
 * more than the others. It follows the number of CPUs, up and down. */
unsigned hak_shard_homes(void);

/* The home of the CPU that the caller runs on; the first one in a process of one thread, wherever it runs. Each
 * node has a row of homes (os/numa_topology.h). */
unsigned hak_shard_here(void);

/* Memory for a record of a thread at home in the shard: the shard's own while it has some (meta/room.h),
 * else of the process. It is never given back. NULL without memory. */
void *hak_shard_record(unsigned shard, size_t size);

/* After that number has changed. Lock of the thread list held. */
void hak_shard_recount(void);

/* True when a shard's bin of the class has ever had a slab. */
bool hak_shard_has_slabs(unsigned home, unsigned class_index);

/* Those classes, a bit each: 64 * `word` and the next 63. */
enum { HAK_SHARD_CLASS_WORDS = (HAK_CLASS_COUNT + 64) / 64 };
uint64_t hak_shard_classes(unsigned shard, unsigned word);

/* Blocks of a class that programs or caches hold; a sum that no lock makes exact. */
size_t hak_shard_in_use(unsigned class_index);

/* Bytes of free blocks in the slabs of a shard, as far as their pages are there; a sum as above. */
size_t hak_shard_spare_bytes(unsigned shard);

/* True when no more slabs are made for a class: addresses are short, and its blocks are cut to measure
 * (large/fine_grain.h). They cannot have debug records, of which there is one for each 2 KiB, and HARDENED's
 * states belong to blocks of classes. */
HAK_FAST_PATH bool hak_shard_leaves(unsigned class_index) {
    const uint32_t above = hak_load_relaxed(&hak_region_short);
    return HAK_UNLIKELY(above != 0) && hak_classes[class_index].size > above && !hak_records_on() &&
           !hak_option(HAK_OPTION_HARDENED);
}

/* Units in use, modulo 2^32. */
uint32_t hak_shard_heap_units(void);

/* True when a take for the class may touch pages that are not there yet, since the home bin has no block for it
 * and the pool no unit with pages, and the heap has grown or shrunk by a part since it had `before` units in use.
 * Other shards are not asked. No lock: a hint. */
bool hak_shard_must_grow(unsigned home, unsigned class_index, uint32_t before);

enum {
    /* A class is left when at most one touched block in so many is in use, and they have so many
     * bytes: less is not worth a slab that is made anew. */
    HAK_LEFT_PART = 16,
    HAK_LEFT_BYTES = 8192,
};

/* The bins of a shard that is made, by class. */
const hak_bin_t *hak_shard_bins(unsigned shard);

/* True when the touched blocks of a bin have some pages. Slabs of one block do not count: other classes would
 * touch what lies behind it. No lock, as in the next. */
HAK_FAST_PATH bool hak_bin_has_pages(const hak_bin_t *bin, unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    return info->count > 1 && hak_load_relaxed(&bin->touched) * info->size >= HAK_LEFT_BYTES;
}

/* True when the program has left a class: nearly all of its touched blocks are free, in the home bin or
 * among `cached` ones that the caller holds, and they have some pages. */
HAK_FAST_PATH bool hak_bin_is_left(const hak_bin_t *bin, unsigned class_index, size_t cached) {
    const size_t touched = hak_load_relaxed(&bin->touched);
    const size_t taken = touched - hak_load_relaxed(&bin->spare) - cached; /* may be below 0 */
    return (ptrdiff_t)taken * HAK_LEFT_PART <= (ptrdiff_t)touched &&
           hak_bin_has_pages(bin, class_index);
}

/* Gives the empty slab that a bin keeps to the pool, if it has some pages. */
void hak_shard_release_kept(unsigned home, unsigned class_index);

/* Takes up to `want` (>= 1) free blocks of a class and writes them to top[1..n],
 * the lowest address last. Returns n, 0 only without memory. With `zeroed`, want
 * must be 1, and *zeroed tells whether the block is known to be zero. */
unsigned hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                        bool *zeroed);

/* The same for a caller that stays inside the gate: blocks that were freed twice are left in *twice, and the
 * caller reports them outside (flush.h). If the take has ended there without a block, the caller takes again then. */
unsigned hak_shard_take_inside(unsigned home, unsigned class_index, unsigned want, void **top,
                               hak_twice_t *twice);
HAK_FAST_PATH bool hak_shard_ended_early(unsigned taken, const hak_twice_t *twice) {
    return HAK_UNLIKELY(twice->bits != 0) && !taken;
}

/* The same for a thread that has warm slabs (shard/warm_slab.h) and found no block in them; it
 * gets others bound, if it can. */
struct hak_warm;
unsigned hak_shard_take_warm(unsigned home, unsigned class_index, unsigned want, void **top,
                             struct hak_warm *warm);

/* A block of a new slab even where hak_shard_leaves: of a unit beside slabs in use, which no superslab
 * that is cut to measure can have. NULL without memory. */
void *hak_shard_take_last(unsigned home, unsigned class_index, bool *zeroed);

/* Times that a shard was at its budget (SS_BUDGET) when it needed one more slab. */
uint64_t hak_shard_budget_hits(void);

/* Empty slabs that a shard took over from another one. */
uint64_t hak_shard_adopted_empty(void);

/* How far a walk over all bins has come; 0 at the beginning. Who walks owns it. */
typedef struct {
    unsigned shard, class_index;
    uint32_t left; /* slabs to look at in that bin, or drains of it so far */
} hak_walk_t;

/* Releases empty slabs that stood unused since the last sweep, and takes warm slabs back
 * that nothing was carved from since. The second goes as far as the budget allows, and is
 * true at the end. */
void hak_shard_release_idle(void);
bool hak_shard_release_piece(hak_walk_t *walk, hak_budget_t *budget);
