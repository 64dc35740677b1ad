/* heap_purge.h: gives the pages of a large heap's free grains back to the system.
 *
 * Free stretches are claimed under the heap's lock: they leave the extents and count as used. Their pages are purged
 * without the lock, and then they become free again. A stretch of at most a unit cannot be outside the extents
 * (extent.h), so it is purged under the lock, which takes a few microseconds. */
#pragma once

#include "large/heap.h"
#include "pool/purge_budget.h"

/* Purges grains that have been free for `delay_ms`, as far as the budget goes; returns bytes. Takes the
 * lock itself. */
size_t hak_heap_purge(hak_heap_t *heap, uint32_t delay_ms, hak_budget_t *budget);

/* Looks for sparse memory, if a look was requested because the heap has fallen by half. Sparse memory was in blocks of
 * which the program used few pages. All grains of a freed block count as touched, so its memory would be kept as a
 * whole; later blocks begin at other places in it, and in time all of its pages would be resident. Purges superslabs in
 * which fewer than half of the idle grains are resident, whatever their age. Returns bytes. Takes the lock itself. */
size_t hak_heap_purge_sparse(hak_heap_t *heap, hak_budget_t *budget);
