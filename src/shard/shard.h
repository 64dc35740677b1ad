/* shard.h: the owners of slabs: a few shards, each with one lockable bin per class.
 *
 * Threads own no slab. A thread has a home shard, and takes and gives blocks there in batches, one lock a batch;
 * where threads outnumber the CPUs, it does so in the shard of its CPU (cache/cpu_depot.h).
 *
 * PROTOCOL of a block that comes back to a shard other than its slab's
 *
 * The freeing thread F holds a block of slab S that was in use. Therefore, until step F1, S cannot
 * be wholly free, keeps its class and shard, and is not released.
 *
 *   F1  old = remote[w].or(mask)             F has given the blocks back from here on
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
 * A drain may stop after some slabs and push the others back before it releases the lock: it has
 * not taken their remote_words, so no other thread has pushed them in the meantime.
 *
 * S belongs to the bin that its owner word names. The word changes only under the lock of the bin
 * that S leaves or enters; its flag HAK_OWNER_WARM changes under the lock of its bin (warm_slab.h).
 * On its way to another bin or to the pool, S is wholly free and belongs to nobody: no F has a
 * block of it.
 *
 * Rejected races:
 *  - S leaves its bin while F is between F1 and F3. It cannot: only the F that made remote[w]
 *    non-zero sets bit w, and D takes remote[w] only if bit w is set. So until F has done F2, F's
 *    blocks are not merged. From F2 to F3, D1 does not find S, so they are not merged either. S has
 *    blocks in use all the time.
 *  - S is on two stacks. Only the thread that turns remote_words from 0 pushes S, and D1 has taken
 *    S off its stack before D2 sets remote_words to 0.
 *  - ABA on the stack: the only removal is the exchange of the whole list.
 *
 * BLOCKS THAT ARE FREED TWICE. A thread F that frees a block for the second time holds no block in
 * use. So S may be wholly free, and may leave its bin during any step of F. F must not damage S, or
 * its bitmap, for their next owner.
 *  - F0: F reads the bitmap's address between two looks at the owner word; both must show the class
 *    of the block. Remote words lie in the second half of a bitmap's record. The size of a record
 *    depends only on the class, and its memory serves as nothing else (meta.h). So F1 always writes
 *    to remote words, of S or of another slab. A unit of a program's heap has the record of its
 *    chunk in this place, with both marks: F then gives up and reports.
 *  - F1 itself keeps S in its bin: S does not leave while a remote word is not 0. The thread that
 *    made a remote word non-zero, and only that thread, checks before F2 whether S is still there.
 *    If S has gone, F undoes F1 and reports. Otherwise S stays, with its bin and its record, until
 *    D3, which comes after F3.
 *  - A thread that lets S go holds the lock of its bin, and S is wholly free. It first checks:
 *
 *    L1  bits = record | LEAVES
 *    L2  a remote word of the record is not 0 -> bits = record: S stays, because a block comes
 *    L3  CAS of bits, record | LEAVES -> record | GONE; if it fails, S stays. Then owner = 0
 *
 *    L1 comes before L2, and F1 before F's check, so at least one of the two threads sees the
 *    other. If F sees LEAVES, it cannot know whether S will go. So F decides, by a CAS of bits,
 *    record | LEAVES -> record. If that CAS or L2 comes first, S stays, and the thread that merges
 *    F1 reports. If L3 comes first, S has gone. Neither thread waits for the other. GONE stays set
 *    until S belongs to a bin again, so F does not mistake a slab that belongs to nobody, or that
 *    has another record by now, for one that is still there. Rejected:
 *    - L1 sets the owner to 0. F took a slab that stayed for one that had gone, and undid F1 after
 *      T had taken the block out: the block was lost, and reported twice.
 *    - F waits while it sees LEAVES. F may have a higher priority on the CPU of the thread that
 *      must continue, and it may hold the lock of another bin.
 *    - F undoes F1 also if it sees LEAVES. S may stay, and the block's new owner may free it on
 *      another CPU in the meantime: that free is reported instead of F's, and the block is lost
 *      when F clears the bit.
 *    - L2 looks only at remote_words, and the remote words are cleared while S belongs to nobody. S
 *      then left while F was between F1 and F2. Its new owner freed the block, F's undo cleared
 *      that bit, and the block was lost.
 *    - A pin of its own, or a generation number of S that F2 compares. Either costs each remote
 *      free an atomic step, or the words one more line. L2 only reads one to eight lines when a
 *      slab leaves, which the slab's next life would otherwise have to write.
 *  - F1 may come between L2 and L3, or later. F then finds S gone. Until F has undone F1, the
 *    record must not be reused: its remote words would have a block that nobody frees. So a bitmap
 *    is reused only while its remote words are 0 (bitmaps.h), and only then does an empty slab
 *    enter a bin of another shard; otherwise it goes to the pool.
 *  - F may also stop before F1, while the record passes to another slab, or S to another bin with
 *    the same record. A thread that frees into the same word finds it non-zero, and leaves F2 to F.
 *    So if F has undone F1 and the word is still not 0, F does F2 and F3 for the slab that has the
 *    record, which stays in the meantime. Only in this case may F examine all slabs of the heap.
 *  - A block that is free in the bitmap may be freed again before it is handed out. If that free
 *    were merged later, it would free the next owner's block. So a take checks the words that it
 *    takes from, with the lock or the claim:
 *
 *    T   if remote_words has bit w: mask = remote[w] & bits[w]; these blocks are taken out of
 *        bits[w], and reported instead of handed out; they stay in remote[w], and D3 sets them free
 *        once
 *
 *    What T has seen stays until D3: bit w shows that F is past its check. So a take ends early
 *    only if other blocks must be reported first. Rejected:
 *    - T takes them out of remote[w]. That would be 0 with bit w of remote_words set, and D could
 *      merge a block before its F has done F2: S might leave its bin in the meantime.
 *    - T looks at remote[w] without remote_words. Each take would read a line that others write. It
 *      would report a second free between F1 and F2, but one that comes just after the take is no
 *      different, and nothing can detect that.
 *  - Some double frees remain undetected. F may stop between F0 and F1 while S and its record pass
 *    to another bin. F1 then sets the bit of a block that F knows nothing of. If the word is not 0,
 *    F does not check again: F is not reported, or that block is set free. If the word is 0, a
 *    correct free of that block by another CPU is reported instead of F, and the block is lost when
 *    F undoes F1, after two reports. Rejected: to pin S before F1, by a word of its own or by an
 *    epoch that all threads enter. That costs every remote free a step that other CPUs see, or
 *    makes the record of each slab that leaves wait for all CPUs.
 *
 * FORKS. A thread between F1 and F3, and a thread that has a slab in hand on its way between a bin
 * and the pool or between two bins, is inside the gate (os/gate.h): the child of a fork has no half
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
    HAK_SHARD_PROBED,  /* of those, blocks for a thread that asked another shard first */
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

/* Number of shards that may be made, and may have slabs. It only grows, under the lock of the
 * thread list. */
unsigned hak_shard_count(void);

/* Makes a shard, unless it exists (meta/lazy_table.h has the protocol). Before that, no thread is
 * at home in the shard, and no slab belongs to it. Returns its number; without memory for another
 * shard it returns 0, the number of a shard that needs none. */
unsigned hak_shard_open(unsigned shard);

/* Number of shards that are homes of threads, and of the large heaps of CPUs, from now on: at most
 * hak_shard_count. It follows the number of CPUs, up and down. */
unsigned hak_shard_homes(void);

/* The home of the CPU that the caller runs on; the first one in a process of one thread, wherever it runs. Each
 * node has a row of homes (os/numa_topology.h). */
unsigned hak_shard_here(void);

/* Memory for a record of a thread at home in the shard: from the shard's own room while that has
 * some (meta/room.h), else from the process. It is never given back. NULL without memory. */
void *hak_shard_record(unsigned shard, size_t size);

/* Must be called after the number of CPUs has changed. Lock of the thread list held. */
void hak_shard_recount(void);

/* Writes to a shard's bin of the class and changes nothing. If a new page is read first, its first write costs a second
 * page fault: so this comes before a thread first looks at the bin. No lock: one step replaces 0 by 0 in `adopted`, so
 * the holder of the lock, who reads it and then writes it, finds what it has read. Rejected: a load and a store, which
 * could undo the holder's count. */
void hak_shard_touch(unsigned home, unsigned class_index);

/* True when a shard's bin of the class has ever had a slab. */
bool hak_shard_has_slabs(unsigned home, unsigned class_index);

/* The same for 64 classes, a bit each: 64 * `word` and the next 63. */
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

/* True when a take for the class may touch pages that do not exist yet: the home bin has no block
 * for it, the pool has no unit with pages, and the heap has grown or shrunk by a part since it had
 * `before` units in use. Other shards are not asked. No lock: a hint. */
bool hak_shard_must_grow(unsigned home, unsigned class_index, uint32_t before);

enum {
    /* The program has left a class when at most one in HAK_LEFT_PART of its touched blocks is in
     * use, and these blocks have HAK_LEFT_BYTES: fewer are not worth making a slab again. */
    HAK_LEFT_PART = 16,
    HAK_LEFT_BYTES = 8192,
};

/* The bins of an existing shard, by class. */
const hak_bin_t *hak_shard_bins(unsigned shard);

/* True when the touched blocks of a bin have some pages. Slabs of one block do not count: other
 * classes would touch the memory behind the block. No lock, as in the next function. */
HAK_FAST_PATH bool hak_bin_has_pages(const hak_bin_t *bin, unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    return info->count > 1 && hak_load_relaxed(&bin->touched) * info->size >= HAK_LEFT_BYTES;
}

/* True when the program has left a class: nearly all of its touched blocks are free, in the home
 * bin or among `cached` ones that the caller holds, and they have some pages. */
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

/* Gives back what a take has taken, and reports the blocks of *twice. */
void hak_shard_untake(unsigned home, unsigned class_index, void **top, unsigned taken,
                      const hak_twice_t *twice);

/* hak_shard_take for a caller that stays inside the gate: blocks that were freed twice are left in
 * *twice. Outside the gate, the caller then gives back what it has by hak_shard_untake, and takes
 * again. */
unsigned hak_shard_take_inside(unsigned home, unsigned class_index, unsigned want, void **top,
                               hak_twice_t *twice);

/* The same for a thread that has warm slabs (shard/warm_slab.h) and found no block in them; other
 * slabs are bound to it if possible. */
struct hak_warm;
unsigned hak_shard_take_warm(unsigned home, unsigned class_index, unsigned want, void **top,
                             struct hak_warm *warm);

/* A block of a new slab, even if hak_shard_leaves is true. The slab is a unit beside slabs in use,
 * which no superslab that is cut to measure can contain. NULL without memory. */
void *hak_shard_take_last(unsigned home, unsigned class_index, bool *zeroed);

/* Times that a shard was at its budget (SS_BUDGET) when it needed one more slab. */
uint64_t hak_shard_budget_hits(void);

/* Empty slabs that a shard took over from another one. */
uint64_t hak_shard_adopted_empty(void);

/* Position of a walk over all bins; 0 at the beginning. The walking thread owns it. */
typedef struct {
    unsigned shard, class_index;
    uint32_t left; /* slabs to look at in that bin, or drains of it so far */
} hak_walk_t;

/* Releases empty slabs that were not used since the last sweep, and takes warm slabs back from
 * which nothing was carved since. The second function goes as far as the budget allows; true at the
 * end. `patience`, if it is not NULL: all empty slabs go, and so many milliseconds all calls with it together may wait
 * for bins whose lock another thread holds. */
void hak_shard_release_idle(void);
bool hak_shard_release_piece(hak_walk_t *walk, unsigned *patience, hak_budget_t *budget);
