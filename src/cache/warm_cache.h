/* warm_cache.h: a cache's warm slabs: refills of promoted classes.
 *
 * The cache has one record for each class of a promoted band that its thread has refilled. The
 * record is made at the first such refill and lives as long as the cache. A cache without a
 * thread has no slab bound. The protocol is in shard/warm_slab.h. */
#pragma once

#include "cache/cache.h"
#include "shard/warm_slab.h"

/* Like hak_shard_take, for a class whose band is promoted: takes blocks from the warm slabs; if
 * they have none, from the shard, which then binds slabs. */
HAK_OUT_OF_LINE unsigned hak_warm_cache_refill(hak_cache_t *cache, unsigned class_index,
                                               unsigned want, void **top);

/* Gives all warm slabs back. The caller is the cache's thread, or the cache has no thread. */
void hak_warm_cache_release(hak_cache_t *cache);

/* The warm counters of one class, summed over caches. */
typedef struct {
    uint64_t counts[HAK_WARM_COUNTERS];
} hak_warm_cache_counts_t;

/* Adds the counters of one cache. Any thread may call it. */
void hak_warm_cache_add_counts(hak_cache_t *cache, unsigned class_index,
                               hak_warm_cache_counts_t *sum);
