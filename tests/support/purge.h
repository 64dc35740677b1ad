/* purge.h - all at once what the engine purges in pieces. */
#pragma once

#include "large/huge.h"
#include "large/large.h"
#include "pool/pool.h"
#include "pool/purge.h"
#include "shard/sparse.h"

/* What has been kept for `delay_ms`, and what has been free for so long in large heaps; bytes. */
static inline size_t purge_huge(uint32_t delay_ms) {
    hak_budget_t budget = HAK_BUDGET_ALL;
    unsigned part = 0;
    size_t bytes = 0;
    hak_huge_purge_piece(&part, delay_ms, &budget, &bytes);
    return bytes;
}

static inline size_t purge_large(uint32_t delay_ms) {
    hak_budget_t budget = HAK_BUDGET_ALL;
    unsigned heap = 0;
    return hak_large_purge_piece(&heap, delay_ms, &budget);
}

/* Free units; returns how many. Superslabs with slabs in use wait for their round, unless `all`. */
static inline size_t purge_pool(uint32_t delay_ms, bool all) {
    hak_budget_t budget = HAK_BUDGET_ALL;
    return hak_pool_purge_piece(delay_ms, all, &budget);
}

/* Pages of free blocks in slabs that hold blocks in use, in all bins; bytes. */
static inline size_t purge_sparse(void) {
    hak_walk_t walk = {0};
    hak_budget_t budget = HAK_BUDGET_ALL;
    size_t bytes = 0;
    hak_shard_purge_piece(&walk, HAK_SPARSE_ALL, 0, &budget, &bytes);
    return bytes;
}
