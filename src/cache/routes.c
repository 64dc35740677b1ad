/* routes.c: sets the routes of a cache, a class at a time. */
#include "cache/routes.h"

#include <string.h>

#include "debug_record/record.h"
#include "shard/shard.h"

enum { LENDS = 3 }; /* refills for a class that its lender serves */

void hak_routes_begin(hak_cache_t *cache) {
    for (unsigned i = 0; i <= HAK_SMALL_MAX / 8; i++)
        cache->route[i] = (uint16_t)(hak_lender_by_8[i] << HAK_MAGAZINE_SHIFT);
    for (unsigned i = 1; i < HAK_CLASS_LIMIT; i++)
        cache->lent[i] = hak_lenders[i] == i ? 0 : 1 + LENDS;
}

HAK_NEXT void hak_routes_own(hak_cache_t *cache, unsigned class_index) {
    cache->lent[class_index] = 0;
    if (class_index > HAK_CLASS_SMALL || cache->rationed) return;
    unsigned i = hak_classes[class_index].size / 8;
    do cache->route[i] = (uint16_t)(class_index << HAK_MAGAZINE_SHIFT);
    while (i-- > 0 && hak_class_by_8[i] == class_index);
}

HAK_OUT_OF_LINE unsigned hak_routes_serve(hak_cache_t *cache, unsigned class_index) {
    const bool has_block = *hak_load_relaxed(&cache->magazines[class_index].top) != NULL;
    if (!has_block && hak_shard_has_none(cache->shard, class_index) &&
        !(class_index > HAK_CLASS_SMALL && hak_records_on()) && --cache->lent[class_index])
        return hak_lenders[class_index];
    hak_routes_own(cache, class_index);
    return class_index;
}
