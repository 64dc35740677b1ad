/* bin.h: what a shard bin does under its own lock; internal to shard/. */
#pragma once

#include "shard/shard.h"

/* Blocks of slabs that have no more of them are taken and given one by one: nearly each makes its slab full or free. */
enum { HAK_FEW_BLOCKS = 3 };

/* Results of a take, beside the blocks. */
typedef struct {
    bool *zeroed;      /* or NULL: whether the one wanted block is known to be zero */
    hak_twice_t twice; /* blocks that were already free: reported at the end */
} hak_told_t;

/* Writes at most `want` free blocks to top[1..]: from listed slabs, then from the kept empty slab;
 * with `fresh` also blocks that were never in use, whose pages may not exist yet. Returns how many.
 * Free blocks that were freed again are left in told->twice (T in shard.h); the take ends if it
 * finds some while there are others. Bin lock held. */
unsigned hak_bin_take(hak_bin_t *bin, unsigned class_index, unsigned want, void **top, bool fresh,
                      hak_told_t *told);

/* Enters a slab that belongs to nobody and whose blocks are all free. Bin lock held. */
void hak_bin_adopt(hak_bin_t *bin, unsigned shard, unsigned class_index, hak_unit_t *slab);

/* After blocks were set free in `slab`: lists it, keeps it empty, or returns true
 * when the caller must release it once the lock is free. Bin lock held. */
bool hak_bin_after_free(hak_bin_t *bin, hak_unit_t *slab);

/* The number of blocks that `purged` of a slab represents. */
HAK_FAST_PATH uint32_t hak_bin_purged_blocks(const hak_unit_t *slab, const hak_class_t *info) {
    return (uint32_t)slab->purged * info->count / 256;
}

/* Free blocks of a slab whose pages exist, as far as is known. */
HAK_FAST_PATH unsigned hak_bin_ready(const hak_unit_t *slab, const hak_class_t *info) {
    return slab->free_count - (info->count - (unsigned)slab->fresh);
}

/* For bound slabs (warm_slab.h). The first takes a listed slab out of the list, touched and spare;
 * the others add it to touched and spare again, and then to the list. Bin lock held. */
void hak_bin_leave(hak_bin_t *bin, hak_unit_t *slab);
void hak_bin_return(hak_bin_t *bin, hak_unit_t *slab);
void hak_bin_list_first(hak_bin_t *bin, hak_unit_t *slab);
void hak_bin_list_last(hak_bin_t *bin, hak_unit_t *slab);

/* Takes used blocks of one slab: up to `want` to *end, end[-1], ..., lowest address first.
 * Returns how many. The slab is claimed. */
unsigned hak_bin_carve(hak_unit_t *slab, unsigned class_index, unsigned want, void **end);

/* Moves the slabs from the head of the list up to this one to its end: they are used last. Bin lock held. */
void hak_bin_pass_over(hak_bin_t *bin, hak_unit_t *slab);

/* The kept empty slab, taken out of its bin for release; or NULL. Bin lock held. */
hak_unit_t *hak_bin_release_empty(hak_bin_t *bin);

/* The watcher is a function of a higher layer. It is called for each slab that is being made, before
 * any other thread knows the slab. */
typedef void (*hak_slab_watcher_t)(const hak_unit_t *slab, unsigned class_index);
void hak_slab_set_watcher(hak_slab_watcher_t watcher);

/* Makes a pool unit a slab of a class for a shard, all blocks free; false without memory. */
bool hak_slab_make(hak_unit_t *slab, unsigned shard, unsigned class_index, bool zeroed);

/* Prepares a slab that belongs to nobody for another bin of its class. False when a second free has
 * missed the slab: then it needs another bitmap. */
bool hak_slab_moves(hak_unit_t *slab, unsigned class_index);

/* Gives slabs of a shard that no longer belong to a bin (a list by `next`) back to the pool. With
 * `keeps`, the shard keeps some for its other classes (stock.h). Returns their number. */
uint32_t hak_slab_release_list(hak_unit_t *list, unsigned shard, unsigned class_index, bool keeps);

/* The line of TINY_PAGEBOX_LOG: a slab goes from the pool to a shard, or back. */
HAK_SLOW_PATH void hak_bin_log_hand_over(const char *event, const hak_unit_t *slab,
                                         unsigned class_index);

/* Of a shard that is made (table.c), as the functions below. */
hak_bin_t *hak_bin_of(unsigned shard, unsigned class_index);

/* Number of slabs in all bins of a shard; the second adds some, under the lock of their bin. */
uint32_t hak_bin_slab_count(unsigned shard);
void hak_bin_add_slabs(unsigned shard, uint32_t more);

/* A bin gets its first slab: see hak_shard_classes. The second: the part of a shard in other_bins of the pool. */
void hak_bin_add_class(unsigned shard, unsigned class_index);
size_t hak_shard_bins_told(unsigned shard);

/* Classes whose bins had HAK_SPARE_LEAST spare bytes when blocks last came back, a bit each, as in
 * hak_shard_classes. A search for sparse slabs reads only the lines of these bins (sparse.c), because
 * other CPUs write to such lines. A thread that gives blocks back sets the bit; a thread that finds
 * fewer spare bytes clears it; both hold the bin's lock. */
enum { HAK_SPARE_LEAST = 256 * 1024 };
uint64_t hak_shard_spare(unsigned shard, unsigned word);
void hak_bin_note_spare(unsigned shard, unsigned class_index, bool has);

/* True when a bin has used blocks of 64 KiB or more, for other shards to take. A hint, for shards that are not plain:
 * a thread that gives blocks back sets a bit for the class, and one that asks here and finds fewer clears it. While the
 * bit is not set, nobody reads the lines of the bin. All is relaxed. If blocks come between the look and the clear,
 * the bit is not set although it could be: until the next flush to this bin, others take fresh memory instead. */
bool hak_bin_lends(unsigned shard, unsigned class_index);

/* Bytes of touched free blocks in a bin, if most of its touched blocks are free and the bytes reach
 * HAK_SPARE_LEAST; else 0. */
size_t hak_bin_spare_bytes(const hak_bin_t *bin, unsigned class_index);

/* Sets the bit if hak_bin_spare_bytes is not 0, and that of hak_bin_lends if the bin has so much. Called with the bin
 * lock held, after blocks were freed. */
void hak_bin_look_at_spare(const hak_bin_t *bin, unsigned shard, unsigned class_index);

/* The low 16 bits of each counter of a bin. When a counter wraps, one is added to the carries of its
 * class afterwards; a reader without the lock reads the carries first. So the result may be one wrap
 * too small for a moment, but never too large: a reader may treat a smaller number as an old one. */
typedef struct {
    _Atomic uint16_t counts[HAK_SHARD_COUNTERS]; /* written under the bin's lock */
} hak_bin_counts_t;

hak_bin_counts_t *hak_bin_counts(unsigned shard, unsigned class_index);

/* Adds up to 65535 to a counter of a bin; an overflow goes to the carries. Bin lock held. */
HAK_SLOW_PATH void hak_bin_carry(unsigned class_index, unsigned counter);
HAK_FAST_PATH void hak_bin_count_in(hak_bin_counts_t *counts, unsigned class_index,
                                    unsigned counter, unsigned n) {
    unsigned sum = hak_load_relaxed(&counts->counts[counter]) + n;
    hak_store_relaxed(&counts->counts[counter], (uint16_t)sum);
    if (HAK_UNLIKELY(sum > UINT16_MAX)) hak_bin_carry(class_index, counter);
}
HAK_FAST_PATH void hak_bin_count(unsigned shard, unsigned class_index, unsigned counter,
                                 unsigned n) {
    hak_bin_count_in(hak_bin_counts(shard, class_index), class_index, counter, n);
}

/* Counters that few calls change, on pages that a small program does not touch.
 *
 *   slabs of a bin = adopted - left
 *   blocks on their way to slabs of a class = remote - HAK_SHARD_DRAINED, over all its bins */
typedef struct {
    _Atomic uint64_t remote; /* atomic; blocks that threads which give to the shard freed remotely,
                                except those that came back twice */
    _Atomic uint32_t left;   /* written under the bin's lock, as the next two; slabs that left
                                the bin so far */
    _Atomic uint32_t stage1; /* kept empty slabs used again */
    _Atomic size_t spare_seen; /* `spare` at the last pass, less what went back since */
} hak_bin_rare_t;

hak_bin_rare_t *hak_bin_rare(unsigned shard, unsigned class_index);
HAK_FAST_PATH hak_bin_rare_t *hak_owner_rare(uint16_t owner) {
    return hak_bin_rare(hak_owner_shard(owner), hak_owner_class(owner));
}

/* The wraps of a counter in all bins of a class, and the number that they amount to. */
extern _Atomic uint32_t hak_bin_carries[HAK_CLASS_COUNT + 1][HAK_SHARD_COUNTERS];
HAK_FAST_PATH uint64_t hak_bin_carried(unsigned class_index, unsigned counter) {
    return (uint64_t)hak_load_acquire(&hak_bin_carries[class_index][counter])
           << 16; /* partner: hak_bin_carry */
}
