/* routes.h: which class serves a size in a cache.
 *
 * Each class touches pages of its own: the first page of a slab, its bitmap, a stack. Most programs ask for a few
 * blocks each of dozens of sizes. So the first blocks of a class are lent by a wider one, its lender (classes.def),
 * until the program has shown that it wants more: after LENDS refills for the sizes of the class (of up to 1 KiB of
 * blocks each, at first), or when the class has a slab or a free block after all, because other threads use it. Where
 * a slab has gone back, the class may be lent to again, as long as refills are left.
 *
 *   lent[class]   0: the class serves its sizes; else 1 + refills that its lender may still serve
 *   route[entry]  up to HAK_SMALL_MAX, in a cache without shares: the lender while `lent` is not 0, else the class
 *
 * malloc reads the route and knows nothing of lending. Above HAK_SMALL_MAX there is no route: each block that is lent
 * is a slow call. A block belongs to the class of its slab, wherever the request came from: free, realloc and
 * malloc_usable_size go by that, and the figures of the lender count it. Rejected: to put blocks of the lender into the
 * magazine of the class, where calloc would zero too little of them. */
#pragma once

#include "cache/cache.h"

/* Of a new cache: all classes that have a lender are lent to. */
void hak_routes_begin(hak_cache_t *cache);

/* The class that serves a refill for sizes of a class that is lent to: its lender, or the class from now on. */
unsigned hak_routes_serve(hak_cache_t *cache, unsigned class_index);

/* The class serves its sizes from now on. Where it has a block in the magazine, no refill would say so. */
void hak_routes_own(hak_cache_t *cache, unsigned class_index);
