/* sparse.h: pages of free blocks go back from slabs that also hold blocks in use. */
#pragma once

#include "shard/shard.h"

/* The bins that a pass purges. */
typedef enum {
    HAK_SPARSE_IDLE, /* bins most of whose blocks are free, and in which nothing moved for the delay */
    HAK_SPARSE_SPARE, /* bins most of whose blocks are free */
    HAK_SPARSE_ALL,
} hak_sparse_t;

/* Gives back pages of free blocks in slabs that are not free as a whole, as far as the budget
 * goes.
 *   grown: the heap has just grown by `bytes`: purges about as many, in classes most of whose blocks are free
 *   visit: is due when count_taken has noted it after units became slabs, in a large heap also after some slow calls:
 *          purges bins of one shard that gave no block in the meantime and have at most one block in use per page. Not
 *          done in a small heap, nor while many dirty units are free: then the heap has just shrunk, and may regrow
 *   piece: a part of a pass over all bins; true at the end
 * The bytes that went back are returned, or added to *bytes. */
bool hak_shard_count_taken(unsigned units);
size_t hak_shard_purge_grown(size_t bytes, hak_budget_t *budget);
bool hak_shard_heap_is_small(void);
bool hak_shard_may_visit(bool is_for_calls);
size_t hak_shard_visit(hak_budget_t *budget);
bool hak_shard_purge_piece(hak_walk_t *walk, hak_sparse_t which, uint32_t delay_ms,
                           hak_budget_t *budget, size_t *bytes);

/* Notes of shards for the thread that purges next. It lowers each as it does the work. */
extern _Atomic uint32_t hak_shard_grown;      /* units by which the heap has grown */
extern _Atomic uint32_t hak_shard_visits_due; /* since units have become slabs, as above */

/* True while a pass over idle bins may have work once `delay_ms` has passed. */
bool hak_shard_purge_waits(uint32_t delay_ms);

/* Bytes that these functions have given back so far. */
uint64_t hak_shard_purged_sparse(void);
