/* verify.c: the equations of cache.h, executed. */
#include "cache/verify.h"

#include <string.h>

#include "region/verify.h"
#include "shard/flush.h"

static const char of_magazine[] = "magazine", of_cache[] = "cache";

static void check_magazine(hak_check_t *check, const hak_cache_t *cache, unsigned class_index) {
    const hak_magazine_t *magazine = &cache->magazines[class_index];
    void **top = hak_load_relaxed(&magazine->top);
    if (!magazine->slots) {
        hak_check_that(check, of_magazine, magazine, "without a stack it holds no block",
                       *top == NULL);
        hak_check_that(check, of_magazine, magazine, "without a stack no top is below the limit",
                       magazine->limit == 0);
        return;
    }
    hak_check_that(check, of_magazine, magazine, "slots are a power of two",
                   hak_is_pow2(magazine->slots));
    hak_check_that(check, of_magazine, magazine, "base <= top < base + slots",
                   top >= magazine->base && top < magazine->base + magazine->slots);
    hak_check_that(check, of_magazine, magazine, "the sentinel is NULL", magazine->base[0] == NULL);
}

/* Checks a block in a magazine of the caller. */
static void check_block(hak_check_t *check, const hak_magazine_t *magazine, const void *block,
                        unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    const hak_unit_t *slab = block ? hak_region_unit_of(block) : NULL;
    hak_check_that(check, of_magazine, magazine, "its blocks belong to the heap", slab != NULL);
    if (!slab) return;
    hak_check_equal(check, of_magazine, magazine, "its blocks have its class, unless freed twice",
                    hak_map_class(slab), class_index);
    hak_check_that(check, of_magazine, magazine, "its pointers point to the start of a block",
                   hak_is_block_start(hak_block_offset((uintptr_t)block, info), info->start_test));
}

static void check_own_magazine(hak_check_t *check, const hak_cache_t *cache, unsigned class_index) {
    const hak_magazine_t *magazine = &cache->magazines[class_index];
    void **top = hak_load_relaxed(&magazine->top);
    if (!magazine->slots || top < magazine->base || top >= magazine->base + magazine->slots) return;
    hak_check_that(check, of_magazine, magazine, "limit = address of a slot, or 0",
                   magazine->limit == 0 || magazine->limit - (uint32_t)(uintptr_t)magazine->base <
                                               magazine->slots * sizeof(void *));
    for (void **slot = magazine->base + 1; slot <= top; slot++)
        check_block(check, magazine, *slot, class_index);
}

void hak_cache_check(hak_check_t *check, const hak_cache_t *cache) {
    size_t capacity[HAK_CACHED_TIERS] = {0};
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        check_magazine(check, cache, i);
        if (cache != hak_cache || i == HAK_CLASS_NONE || i > HAK_CLASS_COUNT) continue;
        check_own_magazine(check, cache, i);
        if (cache->magazines[i].slots)
            capacity[hak_tier_of_class(i)] +=
                (size_t)cache->magazines[i].slots * hak_classes[i].size;
    }
    for (unsigned tier = 0; cache == hak_cache && tier < HAK_CACHED_TIERS; tier++)
        hak_check_equal(check, of_cache, cache, "capacity = bytes that its stacks may hold",
                        cache->capacity[tier], capacity[tier]);
}

#if HAKMEM_VERIFY
/* True for a block that was freed twice: when one of the frees came back, the last block of its slab became free, and
 * the slab left its bin. */
static bool has_lost_slab(const void *block, unsigned class_index) {
    const hak_unit_t *slab = hak_region_unit_of(block);
    return slab ? hak_map_class(slab) != class_index : hak_region_was_unmapped(block);
}

/* Takes the block out, and reports it as the flush would do later. The program's handler of SIGABRT may change the
 * magazine or jump away, so this is the last step. */
static void report_slot(hak_magazine_t *magazine, void **slot, unsigned class_index) {
    void **top = hak_load_relaxed(&magazine->top);
    const void *block = *slot;
    memmove(slot, slot + 1, (size_t)(top - slot) * sizeof *slot);
    hak_store_relaxed(&magazine->top, top - 1);
    hak_shard_report_one(block, class_index);
}

void hak_cache_check_after(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **top = hak_load_relaxed(&magazine->top);
    hak_check_t check = {0};
    check_magazine(&check, cache, class_index);
    hak_check_stop(&check);
    if (!magazine->slots || top == magazine->base) return;
    void **slots[] = {top, magazine->base + 1 + cache->slow_count % (size_t)(top - magazine->base)};
    for (unsigned i = 0; i < 2; i++) {
        if (has_lost_slab(*slots[i], class_index)) {
            report_slot(magazine, slots[i], class_index);
            return;
        }
        check_block(&check, magazine, *slots[i], class_index);
    }
    hak_check_stop(&check);
}
#endif
