/* bitmaps.h: the memory of slabs' bitmaps, which slabs that come and go use again.
 *
 * A slab's bitmap serves as nothing else once it is freed (meta.h). Small machines keep free ones in lists of the
 * process, under its lock. Beyond, a shard keeps a few of each size itself; what it cannot keep goes to those lists, and
 * they serve before the shard's room is cut further: so slabs that come and go need no more memory than once.
 *
 * PROTOCOL of a place
 *
 *   B1  free: CAS NULL -> bitmap, with release: the bitmap belongs to nobody
 *   B2  take: exchange -> NULL: what comes out is this thread's alone
 *
 * There is no list, and so no ABA. A thread stands inside the gate between the two, as long as it has the slab
 * (bin.h): the child of a fork loses no bitmap.
 *
 * The remote words of a free bitmap are 0, but for a second free that has missed the slab (shard.h, F1): then another
 * bitmap serves.
 *
 * Rejected: a list for each size. To take one bitmap off it is an ABA problem, and to take all of them leaves
 * the next thread without. */
#pragma once

#include "base/base.h"
#include "region/unit.h"

enum {
    HAK_BITMAP_LEAST = 16,
    HAK_BITMAP_SIZES = 7, /* powers of two from there on: a bitmap and its remote words */
    HAK_BITMAPS_KEPT = 8, /* of a size, in a shard */
};

typedef _Atomic(void *) hak_bitmap_place_t;

/* Undefined contents, but for the second half, which is 0; `size` is a power of two. NULL without memory. */
void *hak_shard_bitmap(unsigned shard, size_t size);
void hak_shard_free_bitmap(unsigned shard, void *bitmap, size_t size);

/* True when no remote word of a bitmap has a block. Sequentially consistent: L2 in shard.h. */
bool hak_shard_bitmap_is_clean(const void *bitmap, size_t size);
