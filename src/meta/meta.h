/* meta.h: memory for HAKMEM's own records: bitmaps, cache stacks, caches, tables.
 *
 * Blocks are powers of two from 16 bytes on, aligned to their size up to a page. They are reused by
 * size and never given back; their sum stays near 1 % of the heap. They lie in an area of their own
 * (area.h) with inaccessible ends, so no overflow of a block of the program reaches them. The word
 * before a record can be read: hak_cache_may_hold does so. Thread-safe. */
#pragma once

#include "base/base.h"
#include "os/lock.h"
#include "os/range.h"

/* NULL when the system has no memory left. The contents are undefined. */
void *hak_meta_alloc(size_t size);

/* The same, all zero. At most its first page has been touched. */
void *hak_meta_alloc_zeroed(size_t size);

/* `size` is that of the call that allocated the block. */
void hak_meta_free(void *block, size_t size);

/* The same for a block that is still all zero. Only hak_meta_alloc_zeroed hands it out again. */
void hak_meta_free_zeroed(void *block, size_t size);

/* The same for bitmaps of slabs: a freed one serves only as a bitmap of its size again. A thread
 * that frees a block twice may still write to the second half of such a bitmap (shard/shard.h). */
void *hak_meta_alloc_bitmap(size_t size);
void *hak_meta_reuse_bitmap(size_t size); /* NULL where no such bitmap is free */
void hak_meta_free_bitmap(void *block, size_t size);

/* Bytes taken from the system for records, and the number of kernel mappings that they make up. */
size_t hak_meta_bytes(void);
size_t hak_meta_mappings(void);

/* Bytes at the beginning of a window (os/window.h) of `size` bytes that are for records. */
HAK_FAST_PATH size_t hak_meta_window_part(size_t size) { return size / 16; }

/* Calls `visit` for each range of records, under the lock: it must not allocate. */
void hak_meta_each_range(hak_range_visitor_t visit, void *context);

extern hak_lock_t hak_meta_lock;
