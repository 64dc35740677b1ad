/* known_free.c: looks for a block where free blocks are. Only a block with the tag (cache/tag.h) is looked
 * for. */
#include "thread/known_free.h"

#include "cache/cpu_depot.h"
#include "shard/remote.h"
#include "thread/thread.h"

enum { CACHES_MOST = 256 }; /* of other threads that one free looks at */

static bool others_have(unsigned class_index, const void *block) {
    unsigned left = CACHES_MOST;
    for (hak_cache_t *cache = hak_thread_caches(); cache && left; cache = cache->next, left--)
        if (hak_cache_has(cache, class_index, block)) return true;
    return false;
}

HAK_BEHIND bool hak_known_free(hak_cache_t *cache, const hak_unit_t *slab, unsigned class_index,
                               const void *block) {
    return hak_remote_is_free(slab, class_index, block) ||
           (cache && hak_cache_has(cache, class_index, block)) ||
           hak_depot_has(class_index, block) || others_have(class_index, block);
}
