/* verify.h: the invariants of a thread's cache. */
#pragma once

#include "cache/cache.h"
#include "error/check.h"

/* Checks all magazines; if the owner calls it, also their sums and their blocks. Otherwise the owner is outside the
 * engine, and the check reads no field that the owner may change there. */
void hak_cache_check(hak_check_t *check, const hak_cache_t *cache);

#if HAKMEM_VERIFY
/* By the owner, as the last step of a slow call: one magazine, its newest block, and one of the others. Reports a block
 * whose slab has left the class since: it was freed twice. */
void hak_cache_check_after(hak_cache_t *cache, unsigned class_index);
#define HAK_CACHE_CHECK_AFTER(cache, class_index) hak_cache_check_after(cache, class_index)
#else
#define HAK_CACHE_CHECK_AFTER(cache, class_index) ((void)0)
#endif
