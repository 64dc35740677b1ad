/* lifo.h: a second level of TLS_LO_MAX blocks behind the magazine of a mid class.
 *
 * Blocks that leave a full magazine go here first, and a refill takes blocks from here before
 * it asks the shard. It exists only if the option is above 0. Like the magazine it belongs to
 * the thread; other threads only count its blocks, under the cache's stack lock. */
#pragma once

#include "cache/cache.h"

/* Keeps as many of `count` blocks, from the first one on, as it has room for; returns how
 * many. */
size_t hak_lifo_put(hak_cache_t *cache, unsigned class_index, void *const *blocks, size_t count);

/* Takes up to `want` blocks, those put last, and stores them in top[1..n]; returns n. */
size_t hak_lifo_take(hak_cache_t *cache, unsigned class_index, void **top, size_t want);

/* Number of blocks of a class. The caller holds the stack lock or is the owner. */
size_t hak_lifo_count(const hak_cache_t *cache, unsigned class_index);

/* Forgets all blocks: for a cache whose thread does not exist in the child of a fork. */
void hak_lifo_reset(hak_cache_t *cache);
