/* remote.h: remote frees, of blocks that lie in another shard's slabs. The protocol stands in shard.h. */
#pragma once

#include "shard/flush.h"
#include "shard/shard.h"

/* Steps F0 to F3 of the protocol, inside the gate. Returns the blocks of `mask` that were free
 * already. */
uint64_t hak_remote_free(hak_unit_t *slab, unsigned class_index, unsigned word, uint64_t mask);

/* T: looks at the words that a take of up to `want` blocks takes from. Returns the free blocks of the first one that has
 * some that were freed again, and which it is; 0 when there is none. Lock or claim held, as in the next two. */
uint64_t hak_remote_look(const hak_unit_t *slab, const hak_class_t *info, unsigned want,
                         unsigned *word);

/* Takes these out of the bitmap, as if they were handed out, and puts them into *twice. Returns how many: none when *twice
 * has others already, which are to be told first. */
unsigned hak_remote_take_out(hak_unit_t *slab, const hak_class_t *info, unsigned want,
                             hak_twice_t *twice);

/* True when the slab has such blocks. Mostly no remote blocks come to words that have free ones, and its descriptor is
 * at hand. */
HAK_FAST_PATH bool hak_remote_finds_twice(const hak_unit_t *slab, const hak_class_t *info,
                                          unsigned want) {
    unsigned word;
    return HAK_UNLIKELY((hak_load_relaxed(&slab->remote_words) & slab->words_free) != 0) &&
           HAK_UNLIKELY(hak_remote_look(slab, info, want, &word) != 0);
}

/* Merges the pending remote blocks of a bin, slab by slab until they were *most or more, of
 * which the rest is left there: 0 when there may be further ones. The other slabs stay pending,
 * and those that a thread is carving. Slabs that became free and are not kept are linked by
 * `next` into the returned list, for the caller to release. *twice: blocks that came back twice. The drain
 * ends with their word, and one that begins with some there does nothing: the caller tells of them first. Bin
 * lock held. */
hak_unit_t *hak_remote_merge(hak_bin_t *bin, unsigned shard, unsigned class_index, uint32_t *most,
                             hak_twice_t *twice);

/* The same, for a bin that mostly has none. */
HAK_FAST_PATH hak_unit_t *hak_remote_drain(hak_bin_t *bin, unsigned shard, unsigned class_index,
                                           uint32_t *most, hak_twice_t *twice) {
    if (HAK_LIKELY(!hak_load_relaxed(&bin->pending))) return NULL;
    return hak_remote_merge(bin, shard, class_index, most, twice);
}
