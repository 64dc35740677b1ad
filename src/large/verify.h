/* verify.h: checks of large heaps, their extents, and huge blocks. */
#pragma once

#include "error/check.h"
#include "large/heap.h"

/* Checks all extents and calls `visit` for each; defined in extent.c. */
void hak_extents_check(hak_check_t *check, const hak_extents_t *extents,
                       void (*visit)(const hak_unit_t *unit, void *context), void *context);
/* Checks the first extent of a bin, and the bin's bit. */
void hak_extents_check_bin(hak_check_t *check, const hak_extents_t *extents, unsigned bin);

/* With every other thread outside the engine. The first checks a heap's extents, lists and sums; the second all heaps,
 * and their common sums; the third all huge blocks and kept stretches. */
void hak_heap_check(hak_check_t *check, hak_heap_t *heap);
void hak_heaps_check(hak_check_t *check);
void hak_huge_check(hak_check_t *check);

void hak_heap_check_at_release(const void *lock);
void hak_transfer_check_at_release(const void *lock);
void hak_kept_check_at_release(const void *lock);
void hak_huge_table_check_at_release(const void *lock);
