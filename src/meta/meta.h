/* meta.h: memory for our own records: bitmaps, cache stacks, caches, tables.
 *
 * Blocks are powers of two from 16 bytes on, aligned to their size up to a page,
 * reused by size, and never given back: what they describe comes and goes, their
 * sum stays near 1 % of the heap. They lie in an area of their own (area.h), with inaccessible
 * ends: no overflow of a block of the program gets there. The word before a record can be read:
 * hak_cache_may_hold does so. Thread-safe. */
#pragma once

#include "base/base.h"
#include "os/lock.h"
#include "os/range.h"

/* NULL when the system has no memory left. The contents are undefined. */
void *hak_meta_alloc(size_t size);

/* The same; all of it is zero, and no page of it was touched yet, but for the first one at most. */
void *hak_meta_alloc_zeroed(size_t size);

/* `size` as it was asked for. */
void hak_meta_free(void *block, size_t size);

/* The same for what is still all zero: hak_meta_alloc_zeroed hands it out again, and nothing else does. */
void hak_meta_free_zeroed(void *block, size_t size);

/* The same for bitmaps of slabs: one that was freed serves as a bitmap of its size again, and as
 * nothing else. Who frees a block twice may still write to its second half (shard/shard.h). */
void *hak_meta_alloc_bitmap(size_t size);
void hak_meta_free_bitmap(void *block, size_t size);

/* Bytes taken from the system for records; the mappings that they are to the kernel. */
size_t hak_meta_bytes(void);
size_t hak_meta_mappings(void);

/* Bytes at the beginning of a window (os/place.h) of `size` bytes that are for records. */
HAK_FAST_PATH size_t hak_meta_window_part(size_t size) { return size / 16; }

/* Calls `visit` for each range of records, under the lock: it must not allocate. */
void hak_meta_each_range(hak_range_visitor_t visit, void *context);

extern hak_lock_t hak_meta_lock;
