/* verify.h: the invariants of large heaps, their extents, and of huge blocks. */
#pragma once

#include "error/check.h"
#include "large/heap.h"

/* All extents, in extent.c; calls `visit` for each. */
void hak_extents_check(hak_check_t *check, const hak_extents_t *extents,
                       void (*visit)(const hak_unit_t *unit, void *context), void *context);
/* The first one of a bin, and the bin's bit. */
void hak_extents_check_bin(hak_check_t *check, const hak_extents_t *extents, unsigned bin);

/* A superslab of a large heap: what its record says of itself. Heap lock held. */
void hak_grains_check(hak_check_t *check, const hak_superslab_t *super);

/* A heap's transfer array. Its lock is held. */
void hak_transfer_check(hak_check_t *check, const hak_heap_t *heap);

/* A heap's extents, lists and sums; all heaps, and what they have in common; all huge blocks, and
 * what is kept. With every thread outside the engine. */
void hak_heap_check(hak_check_t *check, hak_heap_t *heap);
void hak_heaps_check(hak_check_t *check);
void hak_huge_check(hak_check_t *check);

void hak_heap_check_at_release(const void *lock);
void hak_transfer_check_at_release(const void *lock);
void hak_kept_check_at_release(const void *lock);
void hak_huge_table_check_at_release(const void *lock);
