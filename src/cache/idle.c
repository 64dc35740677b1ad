/* idle.c: gives back the blocks of magazines that the program does not use. */
#include "cache/idle.h"

#include "cache/cpu_depot.h"
#include "cache/magazine.h"
#include "cache/warm_cache.h"
#include "classes/dyn.h"
#include "shard/shard.h"

enum {
    REST_CALLS = 128, /* slow calls of its tier after which a magazine is idle... */
    REST_PAGES = 512, /* ...if it pins so many pages; with fewer pages, after more calls */
    PAGE_LEAST = 4096,
    WAITING_EACH = 4 * 1024, /* bytes of blocks that a magazine of a waiting cache keeps */
    LEFT_MOST = 8,           /* magazines of classes that were left, emptied by one call */
    LEFT_TIMES = 4,          /* see hak_idle_give_left */
    BRAKED_SLOTS = 5,        /* slots in use of a braked stack, sentinel included */
    BRAKED_MOST = 8,         /* magazines that one call brakes */
    BRAKED_LOOKS = 16,       /* magazines that a later call looks at; the first one looks at all */
};

/* Looks at a magazine. True when it is idle and has blocks to give back. */
static bool rests(hak_cache_t *cache, unsigned class_index, uint32_t clock) {
    const uint16_t top =
        (uint16_t)((uintptr_t)hak_load_relaxed(&cache->magazines[class_index].top) >> 3);
    const bool fewer = (int16_t)(top - cache->seen[class_index]) < 0;
    const size_t calls = clock - cache->used_at[class_index];
    cache->seen[class_index] = top;
    if (fewer || calls < REST_CALLS) return false;
    const size_t count = hak_magazine_held(cache, class_index);
    if (count == 0) return false; /* the class's row may not be known yet: see dyn.h */
    const size_t of_one = hak_classes[class_index].size / PAGE_LEAST + 1;
    return count * of_one * calls >= (size_t)REST_PAGES * REST_CALLS;
}

void hak_idle_look(hak_cache_t *cache, unsigned class_index, uint32_t now) {
    if (HAK_UNLIKELY(rests(cache, class_index, now))) hak_magazine_empty(cache, class_index, false);
}

HAK_NEXT void hak_idle_give_left(hak_cache_t *cache) {
    const uint32_t before = hak_shard_heap_units();
    const hak_bin_t *bins = hak_shard_bins(cache->shard);
    const bool has_more = hak_cache_has_more(cache);
    unsigned magazines = 0;
    for (unsigned w = 0; w < HAK_SHARD_CLASS_WORDS; w++) {
        for (uint64_t has = hak_shard_classes(cache->shard, w); has; has &= has - 1) {
            const unsigned i = w * 64 + hak_lowest_bit(has);
            void **top = hak_load_relaxed(&cache->magazines[i].top);
            if (*top && magazines < LEFT_MOST &&
                hak_bin_is_left(&bins[i], i,
                                HAK_LIKELY(!has_more) ? (size_t)(top - cache->magazines[i].base)
                                                      : hak_magazine_held(cache, i))) {
                hak_magazine_empty(cache, i, false);
                magazines++;
            }
            if (hak_load_relaxed(&bins[i].empty)) hak_shard_release_kept(cache->shard, i);
        }
    }
    cache->heap_units = ++cache->lefts % LEFT_TIMES ? hak_shard_heap_units() : before;
}

/* Doubles the slots of a braked stack. The program may still be emptying the heap, between two looks that find no
 * excess: with all slots at once, the last blocks of hundreds of slabs would fit in the stacks. */
static void release(hak_magazine_t *magazine) {
    unsigned slots = (magazine->limit - (uint32_t)(uintptr_t)magazine->base) / sizeof(void *) + 1;
    hak_idle_set_limit(magazine, hak_min((size_t)slots * 2, magazine->slots));
}

HAK_NEXT void hak_cache_brake(hak_cache_t *cache) {
    const unsigned looks = cache->braked ? BRAKED_LOOKS : HAK_CLASS_COUNT;
    cache->braked = true;
    for (unsigned i = 0, magazines = 0; i < looks && magazines < BRAKED_MOST; i++) {
        unsigned index = cache->victim = (uint16_t)(cache->victim % HAK_CLASS_COUNT + 1);
        hak_magazine_t *magazine = &cache->magazines[index];
        if (hak_magazine_held(cache, index) < BRAKED_SLOTS) continue;
        hak_magazine_empty(cache, index, false);
        if (magazine->slots > BRAKED_SLOTS) hak_idle_set_limit(magazine, BRAKED_SLOTS);
        magazines++;
    }
}

void hak_cache_unbrake(hak_cache_t *cache) { cache->braked = false; }

void hak_idle_empty_braked(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_empty(cache, class_index, false);
    if (!cache->braked) release(&cache->magazines[class_index]);
}

HAK_BEHIND bool hak_cache_flush_magazine(hak_cache_t *cache, hak_bad_t *bad) {
    bad->count = 0;
    for (unsigned i = 0; i < HAK_CLASS_COUNT; i++) {
        unsigned index = cache->victim = (uint16_t)(cache->victim % HAK_CLASS_COUNT + 1);
        if (hak_magazine_held(cache, index) == 0) continue;
        hak_magazine_empty_inside(cache, index, false, bad);
        return true;
    }
    return false;
}

static HAK_NEXT void empty_all(hak_cache_t *cache, bool to_depot) {
    hak_warm_cache_release(cache);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) hak_magazine_empty(cache, i, to_depot);
}

void hak_cache_flush_all(hak_cache_t *cache) { empty_all(cache, false); }

/* Bytes of blocks in its magazines. Most threads that end have small stacks: then nobody looks. */
static HAK_BEHIND size_t bytes_held(hak_cache_t *cache) {
    size_t bytes = 0;
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++) bytes += cache->capacity[tier];
    if (bytes <= HAK_WAITING_BYTES) return bytes;
    bytes = 0;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        const size_t count = hak_magazine_count(&cache->magazines[i]);
        if (count) bytes += count * hak_dyn_size_of(i);
    }
    return bytes;
}

HAK_BEHIND void hak_cache_rest(hak_cache_t *cache) {
    const bool to_depot = hak_depot_is_open();
    if (bytes_held(cache) <= HAK_WAITING_BYTES) return;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        const size_t count = hak_magazine_count(&cache->magazines[i]);
        const size_t most = count ? WAITING_EACH / hak_dyn_size_of(i) : 0;
        if (count > most) hak_magazine_flush(cache, i, count - most, to_depot, NULL);
    }
}

void hak_cache_pass_on(hak_cache_t *cache) { empty_all(cache, hak_depot_is_open()); }
