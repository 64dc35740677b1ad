/* remote.h: remote frees, of blocks that lie in another shard's slabs. The protocol stands in shard.h. */
#pragma once

#include "shard/flush.h"
#include "shard/shard.h"

/* Steps F0 to F3 of the protocol, inside the gate. Returns the blocks of `mask` that were free
 * already. */
uint64_t hak_remote_free(hak_unit_t *slab, unsigned class_index, unsigned word, uint64_t mask);

/* T: checks the words from which a take of up to `want` blocks would take. Returns the blocks of the first such word
 * that are free and were freed again, and the word's index; 0 when there are none. Lock or claim held, as in the next
 * two functions. */
uint64_t hak_remote_look(const hak_unit_t *slab, const hak_class_t *info, unsigned want,
                         unsigned *word);

/* Takes these blocks out of the bitmap, as if they were handed out, and puts them into *twice. Returns how many: 0 if
 * *twice already has other blocks, which must be reported first. */
unsigned hak_remote_take_out(hak_unit_t *slab, const hak_class_t *info, unsigned want,
                             hak_twice_t *twice);

/* True when the slab has such blocks. Usually no remote blocks come to words that have free ones; then the test reads
 * only the slab's descriptor. */
HAK_FAST_PATH bool hak_remote_finds_twice(const hak_unit_t *slab, const hak_class_t *info,
                                          unsigned want) {
    unsigned word;
    return HAK_UNLIKELY((hak_load_relaxed(&slab->remote_words) & slab->words_free) != 0) &&
           HAK_UNLIKELY(hak_remote_look(slab, info, want, &word) != 0);
}

/* Merges the pending remote blocks of a bin, slab by slab, until it has merged *most blocks or more; stores in *most
 * how many are left of that number, 0 when the bin may have further ones. Slabs that are not reached, and slabs that a
 * thread is carving, stay pending. Slabs that became free and are not kept are returned in a list by `next`, for the
 * caller to release. *twice gets blocks that came back twice: the drain ends with their word. If *twice has some at the
 * beginning, the drain does nothing, because the caller must report them first. Bin lock held. */
hak_unit_t *hak_remote_merge(hak_bin_t *bin, unsigned shard, unsigned class_index, uint32_t *most,
                             hak_twice_t *twice);

/* The same, for a bin that usually has no pending blocks. */
HAK_FAST_PATH hak_unit_t *hak_remote_drain(hak_bin_t *bin, unsigned shard, unsigned class_index,
                                           uint32_t *most, hak_twice_t *twice) {
    if (HAK_LIKELY(!hak_load_relaxed(&bin->pending))) return NULL;
    return hak_remote_merge(bin, shard, class_index, most, twice);
}
