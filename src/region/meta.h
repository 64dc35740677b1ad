/* meta.h: memory for our own records: bitmaps, cache stacks, caches, tables.
 *
 * Blocks are powers of two from 16 bytes on, aligned to their size up to a page,
 * reused by size, and never given back: what they describe comes and goes, their
 * sum stays near 1 % of the heap. Thread-safe. */
#ifndef HAK_META_H
#define HAK_META_H

#include "base/base.h"
#include "os/lock.h"

/* NULL when the system has no memory left. The contents are undefined. */
void *hak_meta_alloc(size_t size);

/* `size` as it was asked for. */
void hak_meta_free(void *block, size_t size);

/* Bytes taken from the system for records. */
size_t hak_meta_bytes(void);

extern hak_lock_t hak_meta_lock;

#endif
