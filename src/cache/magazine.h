/* magazine.h: the blocks of a magazine, and how they leave it; internal to cache/. The owner calls all functions,
 * without a lock. */
#pragma once

#include "cache/cache.h"
#include "cache/cpu_depot.h"
#include "cache/lifo.h"
#include "cache/sampler.h"
#include "shard/flush.h"

/* Blocks in its stack. */
HAK_FAST_PATH size_t hak_magazine_count(const hak_magazine_t *magazine) {
    return magazine->slots ? (size_t)(hak_load_relaxed(&magazine->top) - magazine->base) : 0;
}

/* True when a cache has lifos, or shares of a sample. */
HAK_FAST_PATH bool hak_cache_has_more(hak_cache_t *cache) {
    return cache->lifos || hak_sampler_of(cache);
}

/* Free blocks of a class that a cache holds. Others hold its stack lock. */
HAK_FAST_PATH size_t hak_magazine_held(hak_cache_t *cache, unsigned class_index) {
    size_t count = hak_magazine_count(&cache->magazines[class_index]);
    if (HAK_UNLIKELY(hak_cache_has_more(cache)))
        count += hak_lifo_count(cache, class_index) + hak_sampler_count(cache, class_index);
    return count;
}

HAK_FAST_PATH hak_cache_counts_t *hak_magazine_counts(hak_cache_t *cache, unsigned class_index) {
    return hak_cache_counts(cache, (hak_band_t)hak_bands[class_index]);
}

/* Around a change that thread/verify.c must not see half done. They nest. */
HAK_FAST_PATH void hak_cache_begin_change(hak_cache_t *cache) {
    cache->changing++;
    atomic_signal_fence(memory_order_seq_cst);
}
HAK_FAST_PATH void hak_cache_end_change(hak_cache_t *cache) {
    atomic_signal_fence(memory_order_seq_cst);
    cache->changing--;
}

/* The shard with which the cache exchanges blocks now; and the one with which it did last, for what need not know where
 * the thread runs by now: most slow calls of a young thread move no blocks. */
HAK_FAST_PATH unsigned hak_cache_find_partner(hak_cache_t *cache) {
    return hak_depot_is_open() ? (cache->partner = (uint8_t)hak_depot_shard()) : cache->shard;
}
HAK_FAST_PATH unsigned hak_cache_partner(const hak_cache_t *cache) {
    return hak_depot_is_open() ? cache->partner : cache->shard;
}

/* Gives a block to the cache's partner. */
void hak_magazine_give(hak_cache_t *cache, unsigned class_index, void *block);

/* Removes the oldest `count` blocks from a magazine, or fewer: up to blocks that were already free, which are then in
 * *twice. The class's lifo keeps as many as it has room for, then the depot, if allowed; the shard gets the others.
 * Returns how many it has removed. */
size_t hak_magazine_remove(hak_cache_t *cache, unsigned class_index, size_t count, bool to_depot,
                           hak_twice_t *twice);

/* Removes `count` of them, and reports what was already free. `coming`: the block that the caller then puts there, or
 * NULL; it lies there meanwhile. */
void hak_magazine_flush(hak_cache_t *cache, unsigned class_index, size_t count, bool to_depot,
                        void *coming);

/* Gives all blocks of a magazine, and those of its lifo and share, to the shard; those of the magazine to the depot
 * first, if they may. */
void hak_magazine_empty(hak_cache_t *cache, unsigned class_index, bool to_depot);

/* The same, but it ends at the first blocks that were already free, which are in *bad: the caller reports them. */
void hak_magazine_empty_inside(hak_cache_t *cache, unsigned class_index, bool to_depot,
                               hak_bad_t *bad);
