/* known_free.h: where a mid block that free was given lies free already.
 *
 * A block of a class is free in one of these places, or on its way from one to another: a bitmap or a remote
 * word of its slab, the stack of a thread's cache, the depot of a CPU. What is found there proves a double
 * free. For assume that the program is right: the caller has a block in use, and nobody else frees it. Then
 * everything that was done with the block before it was handed out happened before the caller's look, so the
 * look cannot miss that the block has left each of these places, and nobody can put it into one again.
 *
 *   bitmaps  no lock: no thread sets the bit of a block in use, and who takes the block clears it before
 *   depots   under the lock
 *   stacks   their owners change them meanwhile: hak_cache_has says why what it finds is true
 *
 * What is not found may be free all the same: on its way, in a second level (lifo.h), in a share
 * (sample_rate.h), or in a cache beyond the bound. Then it is found when both come to the bitmap. */
#pragma once

#include "base/base.h"
#include "cache/cache.h"
#include "region/unit.h"

/* True when a block of the slab's class, which begins at the address, is free. `cache`: the caller's, or NULL. */
bool hak_known_free(hak_cache_t *cache, const hak_unit_t *slab, unsigned class_index,
                    const void *block);
