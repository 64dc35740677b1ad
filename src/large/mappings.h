/* mappings.h: which huge blocks there are: a table from a block's start to its size.
 *
 * Open addressing, at most half full. When it is full, a larger one is made without the lock and
 * takes its place; what the smaller one holds moves over a few entries at a time, with the blocks
 * that are entered. So nothing here that is done under the lock is as long as the table.
 *
 * Everything is under the lock of huge.c, but for the making of a table. */
#ifndef HAK_MAPPINGS_H
#define HAK_MAPPINGS_H

#include "base/base.h"

typedef struct {
    uintptr_t start; /* 0: a free slot */
    size_t size;
    uint64_t note; /* of the hardened path (hardened/big.h); 0 for none */
} hak_mapping_t;

/* NULL when no block starts there. Valid until the next call of put or remove. */
hak_mapping_t *hak_mappings_find(uintptr_t start);

/* Slots of the table that is needed to enter one more block; 0 when there is room. */
size_t hak_mappings_wanted(void);

/* For a table of so many slots, all free; NULL without memory. Without the lock. */
hak_mapping_t *hak_mappings_make(size_t slots);

/* From now on that one. False, and it is still the caller's, when the table is as large by now, or
 * an earlier one is not empty yet. */
bool hak_mappings_use(hak_mapping_t *larger, size_t slots);

void hak_mappings_discard(hak_mapping_t *table, size_t slots);

/* There is room for it. */
void hak_mappings_put(uintptr_t start, size_t size);

void hak_mappings_remove(hak_mapping_t *mapping);

/* Size of the block that began there, if it is one of those that were removed last; 0 otherwise.
 * Whether another one has its place by now is not asked. */
size_t hak_mappings_removed(uintptr_t start);

/* The same, but room is kept for it, until it is put back, under whatever start. */
void hak_mappings_take_in_hand(hak_mapping_t *mapping);
void hak_mappings_put_back(uintptr_t start, size_t size);

/* Calls `visit` for the blocks of some slots, *at being 0 at first; false when it has been all of
 * them. The lock may be dropped between two calls: then a block that moves in the table
 * meanwhile may be missed, or seen twice. `visit` returns whether to go on. */
typedef bool (*hak_mapping_visitor_t)(const hak_mapping_t *mapping, void *context);
bool hak_mappings_walk(size_t *at, hak_mapping_visitor_t visit, void *context);

#endif
