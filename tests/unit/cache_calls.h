/* cache_calls.h - caches that a test makes, used as malloc and free use the thread's own; for cache.c
 * and lifo.c. */
#pragma once

#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "cache/cache.h"
#include "debug_record/record.h"
#include "shard/shard.h"

enum { HOME = 2, SECONDS = 20, HELD_MAX = 6000 };

static inline void set_budget(size_t bytes) {
    hak_cache_set_budget(HAK_TINY, bytes);
    hak_cache_set_budget(HAK_MID, bytes);
}

static inline hak_cache_t *make_cache(size_t budget) {
    set_budget(budget);
    hak_records_settle(); /* a program's first malloc did it; before, mid classes have no rings */
    hak_cache_t *cache = hak_cache_make();
    assert_non_null(cache);
    cache->shard = HOME;
    return cache;
}

static inline void drop_cache(hak_cache_t *cache) {
    hak_cache_flush_all(cache);
    for (int i = 0; i < 3; i++) hak_shard_release_idle();
    /* The record itself is left: caches are never given back. */
    set_budget(1 * MIB);
}

static inline unsigned class_of(const void *block) {
    return hak_owner_class(hak_region_unit_of(block)->owner);
}

/* As malloc and free use a bin. A block may be of a larger class than was asked for. */
static inline void *take(hak_cache_t *cache, unsigned class_index) {
    void *block = hak_cache_pop(cache, class_index);
    if (!block) block = hak_cache_refill(cache, class_index, NULL);
    assert_non_null(block);
    REQUIRE(class_of(block) >= class_index, "a block of class %u for class %u", class_of(block),
            class_index);
    return block;
}

static inline void **last_slot(const hak_magazine_t *bin) { return bin->base + bin->slots - 1; }

static inline void give(hak_cache_t *cache, void *block) {
    unsigned class_index = class_of(block);
    hak_magazine_t *bin = &cache->magazines[class_index];
    void **top = hak_load_relaxed(&bin->top);
    if (!bin->slots || top >= last_slot(bin)) {
        hak_cache_overflow(cache, class_index, block);
        return;
    }
    top[1] = block;
    hak_store_relaxed(&bin->top, top + 1);
}

/* Takes and gives `count` blocks of a class. */
static inline void swing(hak_cache_t *cache, unsigned class_index, unsigned count) {
    static void *blocks[HELD_MAX];
    for (unsigned i = 0; i < count; i++) blocks[i] = take(cache, class_index);
    for (unsigned i = 0; i < count; i++) give(cache, blocks[i]);
}

/* So many slow calls of a class, and a few more. */
static inline void be_slow(hak_cache_t *cache, unsigned class_index, unsigned calls) {
    const uint32_t before = cache->slow_count;
    while (cache->slow_count - before < calls) swing(cache, class_index, HELD_MAX);
}
