/* warm_cache.c: decides when a refill uses warm slabs, and keeps their records. */
#include "cache/warm_cache.h"

#include <string.h>

#include "debug/call_paths.h"
#include "meta/meta.h"
#include "options/options.h"
#include "os/gate.h"

enum { BIND_NONE, BIND_ONLY, BIND_AND_CARVE };

/* Slow calls of a thread before it binds slabs: a short-lived thread would give them back at
 * once. */
enum { YOUNG_CALLS = 256 };

/* Other threads read the entries for statistics. An entry is published once and never changes
 * after that. */
struct hak_warm_cache {
    _Atomic(hak_warm_t *) warm[HAK_CLASS_COUNT + 1]; /* owner writes */
};

static int64_t way_of(const hak_cache_t *cache, unsigned class_index) {
    if (cache->slow_count - cache->born < YOUNG_CALLS) return BIND_NONE;
    if (hak_bands[class_index] != HAK_BAND_C7) return BIND_AND_CARVE;
    return hak_option(HAK_OPTION_WARM_TLS_BIND_C7);
}

static hak_warm_t *find(hak_cache_t *cache, unsigned class_index) {
    struct hak_warm_cache *all = hak_load_acquire(&cache->warm); /* partner: make */
    return all ? hak_load_acquire(&all->warm[class_index]) : NULL;
}

/* Makes the record of a class; NULL when no slabs may be bound, or there is no memory. */
static hak_warm_t *make(hak_cache_t *cache, unsigned class_index) {
    unsigned slabs = (unsigned)hak_option(HAK_OPTION_WARM_POOL_SIZE);
    if (slabs == 0) return NULL;
    struct hak_warm_cache *all = hak_load_relaxed(&cache->warm);
    if (!all) {
        all = hak_shard_record(cache->shard, sizeof *all);
        if (!all) return NULL;
        memset(all, 0, sizeof *all);
        hak_gate_enter();
        hak_store_release(&cache->warm, all); /* partner: find */
        hak_gate_leave();
    }
    hak_warm_t *warm = hak_warm_make(cache->shard, slabs);
    hak_gate_enter(); /* so that the child of a fork has both the pointer and its target, or none */
    if (warm) hak_store_release(&all->warm[class_index], warm); /* partner: find */
    hak_gate_leave();
    return warm;
}

HAK_NEXT unsigned hak_warm_cache_refill(hak_cache_t *cache, unsigned class_index, unsigned want,
                                        void **top) {
    int64_t way = way_of(cache, class_index);
    hak_warm_t *warm = way == BIND_NONE ? NULL : find(cache, class_index);
    if (!warm && way != BIND_NONE) warm = make(cache, class_index);
    if (!warm) return hak_shard_take(cache->shard, class_index, want, top, NULL);
    unsigned taken =
        HAK_WAY_FOUND(HAK_WAY_REFILL_WARM,
                      hak_warm_take(warm, cache->shard, class_index, want, top, way == BIND_ONLY));
    return taken ? taken : hak_shard_take_warm(cache->shard, class_index, want, top, warm);
}

void hak_warm_cache_release(hak_cache_t *cache) {
    for (unsigned i = 1; hak_load_relaxed(&cache->warm) && i <= HAK_CLASS_COUNT; i++) {
        hak_warm_t *warm = find(cache, i);
        if (warm) hak_warm_release(warm, cache->shard, i);
    }
}

void hak_warm_cache_add_counts(hak_cache_t *cache, unsigned class_index,
                               hak_warm_cache_counts_t *sum) {
    const hak_warm_t *warm = find(cache, class_index);
    for (unsigned i = 0; warm && i < HAK_WARM_COUNTERS; i++)
        sum->counts[i] += hak_load_relaxed(&warm->counts[i]);
}
