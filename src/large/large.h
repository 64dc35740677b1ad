/* large.h: blocks above 64 KiB up to 1 MiB, and smaller ones that are aligned to 128 KiB up to 2 MiB,
 * cut from runs of superslabs.
 *
 * A block is a whole number of grains (4 KiB). The few blocks that were freed last stay whole; others
 * merge with their free neighbours. An allocation takes the best fit. It looks, in this order, in
 *   1. the recent blocks of the heap of the thread's CPU, for one of its length, then its free extents,
 *   2. the transfer array of that heap: blocks that threads on other CPUs freed,
 *   3. the other heaps, as far as they can spare memory,
 *   4. fresh memory: a run of superslabs with room for L25_RUN_FACTOR blocks,
 *   5. if there is no fresh memory, all of the other heaps.
 * With L25_PREF=remote the transfer array comes before the free extents. The protocol is in heap.h. Thread-safe. */
#pragma once

#include "base/base.h"
#include "pool/purge_budget.h"
#include "region/unit.h"
#include "region/superslab.h"

/* The heap of the CPU the caller runs on; 0 in a process of one thread. */
unsigned hak_large_home(void);

/* Allocates a block of at least `size` bytes (64 KiB < size <= 1 MiB) at a multiple of `align` (a
 * power of two up to HAK_LARGE_ALIGN_MAX); zeroes it if `zero`. `home` is the caller's heap. NULL
 * when there is no memory. */
void *hak_large_alloc(unsigned home, size_t size, size_t align, bool zero);

/* Frees a block; returns its bytes, or 0 when no block in use begins there. `block` must lie in a
 * unit of a large heap. */
size_t hak_large_free(unsigned home, void *block);

/* Finds the block in use that contains `pointer`; false when there is none. */
bool hak_large_find(const void *pointer, void **start, size_t *size);

/* Resizes a block in place, to more than 64 KiB; false when that is not possible. The last three
 * functions also serve fine blocks (fine_grain.h), which are not resized. */
bool hak_large_resize(void *block, size_t size);

/* Purges memory that has been free for `delay_ms`, as far as the budget allows, in heap *at and the
 * following heaps; returns bytes. Must be called now and then, otherwise freed blocks keep their
 * pages. All is done when *at is the number of heaps. */
size_t hak_large_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget);

/* The same for memory of any age that was in blocks with few touched pages. */
size_t hak_large_purge_sparse_piece(unsigned *at, hak_budget_t *budget);

/* Bytes of free memory that still have pages, cheaply: up to 4 MiB behind for each heap. hak_large_idle (view.h)
 * is exact. */
size_t hak_large_idle_about(void);
