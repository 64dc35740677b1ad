/* huge.h: blocks above 1 MiB, or aligned beyond 64 KiB: each a mapping of its own.
 *
 * Their addresses are kept in a table beside, so a pointer is known or foreign
 * without a look at the memory. Thread-safe. */
#ifndef HAK_HUGE_H
#define HAK_HUGE_H

#include "base/base.h"
#include "os/lock.h"

typedef struct {
    _Atomic size_t block_count;
    _Atomic size_t bytes;
} hak_huge_stats_t; /* written under the lock, read by anyone */

extern hak_huge_stats_t hak_huge_stats;
extern hak_lock_t hak_huge_lock;

/* A zeroed mapping of at least `size` bytes at a multiple of `align`, a power of
 * two. NULL without memory. */
void *hak_huge_alloc(size_t size, size_t align);

/* Size of the mapping that starts at `block`, 0 when there is none. */
size_t hak_huge_size(const void *block);

/* Start and size of the mapping around `pointer`; false when there is none. Slow:
 * for diagnosis. */
bool hak_huge_find(const void *pointer, void **start, size_t *size);

/* Unmaps. False when `block` is no huge block. */
bool hak_huge_free(void *block);

/* Resizes by moving pages, never bytes. NULL when the system refuses; then the
 * block is as it was. */
void *hak_huge_resize(void *block, size_t size);

#endif
