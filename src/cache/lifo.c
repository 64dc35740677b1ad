/* lifo.c: the second level of a cache. Its memory is allocated when the first block comes and
 * never given back. */
#include "cache/lifo.h"

#include <string.h>

#include "debug/timing.h"
#include "meta/meta.h"
#include "options/options.h"

struct hak_lifo {
    void **blocks;          /* owner; TLS_LO_MAX of them, or NULL */
    _Atomic uint32_t count; /* owner writes */
};

/* Makes the lifos of all classes, as one record. */
static bool make(hak_cache_t *cache) {
    size_t size = HAK_CLASS_LIMIT * sizeof *cache->lifos;
    struct hak_lifo *lifos = hak_meta_alloc(size);
    if (!lifos) return false;
    memset(lifos, 0, size);
    hak_lock_acquire(&cache->stack_lock);
    cache->lifos = lifos;
    hak_lock_release(&cache->stack_lock);
    return true;
}

size_t hak_lifo_put(hak_cache_t *cache, unsigned class_index, void *const *blocks, size_t count) {
    size_t most = (size_t)hak_option(HAK_OPTION_TLS_LO_MAX);
    if (HAK_LIKELY(most == 0) || hak_tier_of_class(class_index) != HAK_MID) return 0;
    if (!cache->lifos && !make(cache)) return 0;
    struct hak_lifo *lifo = &cache->lifos[class_index];
    if (!lifo->blocks) lifo->blocks = hak_meta_alloc(most * sizeof(void *));
    if (!lifo->blocks) return 0;
    size_t held = hak_load_relaxed(&lifo->count), kept = hak_min(count, most - held);
    memcpy(lifo->blocks + held, blocks, kept * sizeof(void *));
    hak_store_relaxed(&lifo->count, (uint32_t)(held + kept));
    return kept;
}

size_t hak_lifo_take(hak_cache_t *cache, unsigned class_index, void **top, size_t want) {
    if (HAK_LIKELY(!cache->lifos)) return 0;
    struct hak_lifo *lifo = &cache->lifos[class_index];
    size_t held = hak_load_relaxed(&lifo->count), taken = hak_min(want, held);
    if (taken == 0) return 0;
    HAK_TIMED(pool_tls_lifo_pop);
    memcpy(top + 1, lifo->blocks + held - taken, taken * sizeof(void *));
    hak_store_relaxed(&lifo->count, (uint32_t)(held - taken));
    return taken;
}

size_t hak_lifo_count(const hak_cache_t *cache, unsigned class_index) {
    return cache->lifos ? hak_load_relaxed(&cache->lifos[class_index].count) : 0;
}

void hak_lifo_reset(hak_cache_t *cache) {
    for (unsigned i = 0; cache->lifos && i < HAK_CLASS_LIMIT; i++)
        hak_store_relaxed(&cache->lifos[i].count, 0);
}
