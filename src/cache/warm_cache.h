/* warm_cache.h: a cache's warm slabs: refills of promoted classes.
 *
 * There is a record for each class of a promoted band that the thread has refilled, made
 * at the first time and kept as long as the cache. A cache without a thread has no slab
 * bound. The protocol is in shard/warm.h. */
#ifndef HAK_WARM_CACHE_H
#define HAK_WARM_CACHE_H

#include "cache/cache.h"
#include "shard/warm.h"

/* hak_shard_take for a class whose band is promoted: from the warm slabs, else from the
 * shard, which binds some. */
HAK_OUT_OF_LINE unsigned hak_warm_cache_refill(hak_cache_t *cache, unsigned class_index,
                                               unsigned want, void **top);

/* Gives all warm slabs back; by the cache's thread, or when it has none. */
void hak_warm_cache_release(hak_cache_t *cache);

/* What caches have counted for a class. */
typedef struct {
    uint64_t counts[HAK_WARM_COUNTERS];
} hak_warm_cache_counts_t;

/* Adds what one cache has; from any thread. */
void hak_warm_cache_add_counts(hak_cache_t *cache, unsigned class_index,
                               hak_warm_cache_counts_t *sum);

#endif
