/* bitmaps.h: the memory of slabs' bitmaps, which later slabs use again.
 *
 * The memory of a freed bitmap serves only as a bitmap again (meta.h). On small machines, lists of the process keep
 * the free ones, under one lock. On larger machines, each shard also keeps a few of each size. Those that it cannot
 * keep go to the lists of the process, which serve before more of the shard's room is cut. So slabs that are made and
 * released again and again need no further memory.
 *
 * PROTOCOL of a place
 *
 *   B1  free: CAS NULL -> bitmap, with release: the bitmap belongs to nobody
 *   B2  take: exchange -> NULL: what comes out is this thread's alone
 *
 * There is no list, and so no ABA problem. Between the two steps a thread is inside the gate, as long as it has the
 * slab (bin.h): the child of a fork loses no bitmap.
 *
 * The remote words of a free bitmap are 0, unless a second free has missed the slab (shard.h, F1): then another bitmap
 * is used.
 *
 * Rejected: a list for each size. Taking one bitmap off it has the ABA problem, and taking all of them leaves none for
 * the next thread. */
#pragma once

#include "base/base.h"
#include "region/unit.h"

enum {
    HAK_BITMAP_LEAST = 16,
    HAK_BITMAP_SIZES = 7, /* powers of two from there on: a bitmap and its remote words */
    HAK_BITMAPS_KEPT = 8, /* of a size, in a shard */
};

typedef _Atomic(void *) hak_bitmap_place_t;

/* The contents are undefined, except that the second half is 0; `size` is a power of two. NULL without memory. */
void *hak_shard_bitmap(unsigned shard, size_t size);
void hak_shard_free_bitmap(unsigned shard, void *bitmap, size_t size);

/* True when no remote word of a bitmap has a block. Sequentially consistent: L2 in shard.h. */
bool hak_shard_bitmap_is_clean(const void *bitmap, size_t size);
