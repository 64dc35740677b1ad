/* lifo.h: a second level behind the ring of a mid class, of TLS_LO_MAX blocks.
 *
 * What would leave a full ring goes here first, and comes back before the shard is
 * asked; there is none unless the option asks for it. It is the thread's own like the
 * ring; others only count its blocks, under the cache's stack lock. */
#ifndef HAK_LIFO_H
#define HAK_LIFO_H

#include "cache/cache.h"

/* Takes over as many of `count` blocks, from the first on, as there is room for. */
size_t hak_lifo_put(hak_cache_t *cache, unsigned class_index, void *const *blocks, size_t count);

/* Writes up to `want` blocks to top[1..n], those put last; returns n. */
size_t hak_lifo_take(hak_cache_t *cache, unsigned class_index, void **top, size_t want);

/* Blocks of a class. Stack lock held, or called by the owner. */
size_t hak_lifo_count(const hak_cache_t *cache, unsigned class_index);

/* Forgets all blocks, whatever state a thread that a fork left behind had them in. */
void hak_lifo_reset(hak_cache_t *cache);

#endif
