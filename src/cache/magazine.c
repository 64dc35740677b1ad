/* magazine.c: how blocks leave a magazine. */
#include "cache/magazine.h"

#include <string.h>

#include "base/probe.h"
#include "cache/cpu_depot.h"
#include "shard/flush.h"

void hak_magazine_give(hak_cache_t *cache, unsigned class_index, void *const *blocks,
                       size_t count) {
    HAK_ADD_OWNED(&hak_magazine_counts(cache, class_index)->flushed, count);
    hak_shard_flush(cache->shard, class_index, blocks, (unsigned)count);
}

void hak_magazine_flush(hak_cache_t *cache, unsigned class_index, size_t count, bool to_depot) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    HAK_PROBE(flush, hak_classes[class_index].size, count);
    hak_cache_begin_change(cache);
    size_t kept = hak_lifo_put(cache, class_index, magazine->base + 1, count);
    if (to_depot) kept += hak_depot_put(class_index, magazine->base + 1 + kept, count - kept);
    if (count > kept)
        hak_magazine_give(cache, class_index, magazine->base + 1 + kept, count - kept);
    size_t left = hak_magazine_count(magazine) - count;
    memmove(magazine->base + 1, magazine->base + 1 + count, left * sizeof(void *));
    hak_store_relaxed(&magazine->top, magazine->base + left);
    hak_cache_end_change(cache);
}

HAK_OUT_OF_LINE void hak_magazine_empty(hak_cache_t *cache, unsigned class_index, bool to_depot) {
    void *blocks[1 + 64];
    size_t count = hak_magazine_count(&cache->magazines[class_index]);
    if (count) hak_magazine_flush(cache, class_index, count, to_depot);
    while ((count = hak_lifo_take(cache, class_index, blocks, 64)) > 0)
        hak_magazine_give(cache, class_index, blocks + 1, count);
    while (HAK_UNLIKELY(cache->has_sampler) &&
           (count = hak_sampler_take_back(cache, class_index, blocks, 64)) > 0)
        hak_magazine_give(cache, class_index, blocks, count);
}
