/* malloc.h: the hot paths of malloc and free, shared by the C and C++ functions, and their slow
 * paths. */
#pragma once

#include "base/base.h"
#include "cache/cache.h"

/* Least size of a block that becomes a mapping of its own, at most HAK_LARGE_MAX + 1. Atomic, since
 * mallopt may change it. */
extern _Atomic size_t hak_mapping_threshold;

/* The slow paths. hak_allocate serves every size and a thread in any state; NULL with errno
 * ENOMEM when there is no memory. `site` is the HAK_CALLER of the public function, for debug
 * records and samples. */
void *hak_allocate(size_t size, const void *site);
void *hak_allocate_small(size_t size, const void *site,
                         const hak_cache_t *cache); /* up to HAK_SMALL_MAX bytes; hak_cache */
HAK_SLOW_PATH void *hak_out_of_memory(void);        /* sets ENOMEM, returns NULL */

/* The slow paths of free. hak_free_at is for a pointer into the heap, with the thread's magazine for its unit and the
 * unit's number. hak_release gets the name of any other public function that frees, for error lines; hak_release_sized
 * also the size that its caller passes. The first two get no NULL. */
void hak_free_slow(void *block);
void hak_free_at(void *block, const hak_magazine_t *magazine, uintptr_t unit);
void hak_release(void *block, const char *function);
void hak_release_sized(void *block, const char *function, size_t size);

/* `size` bytes in a block that is zero up to its usable size; NULL with ENOMEM. */
void *hak_allocate_zeroed(size_t size, const void *site);

/* `size` bytes at a multiple of `align`, a power of two. NULL with ENOMEM. */
void *hak_allocate_aligned(size_t align, size_t size, const void *site);

/* Allocates without a sample, in a process that is not on the hardened path. If `zero`, `align` is 1. */
void *hak_allocate_unsampled(size_t size, size_t align, bool zero, const void *site);

/* Pops a free block from the magazine at a byte offset; NULL for an empty one. */
HAK_FAST_PATH void *hak_pop_from(hak_cache_t *cache, size_t magazine) {
    void *block = *hak_load_relaxed(&hak_cache_magazine(cache, magazine)->top);
    if (HAK_LIKELY(block != NULL)) {
        HAK_STEP_DOWN(cache, magazine);
        HAK_COUNT_CALL(hak_class_of_magazine(magazine), HAK_CALL_ALLOCATED);
    }
    return block;
}

/* Pops a free block of the class of `size` from the thread's magazine, and stores the magazine's
 * byte offset in *found. NULL for an empty magazine, a thread without a cache, or a size beyond
 * the routing table. */
HAK_FAST_PATH void *hak_pop_of_cache(hak_cache_t *cache, size_t size, size_t *found) {
    if (HAK_UNLIKELY(size > HAK_SMALL_MAX)) return NULL;
    return hak_pop_from(cache, *found = cache->route[(size + 7) >> 3]);
}

HAK_FAST_PATH void *hak_pop_of_magazine(size_t size, size_t *found) {
    hak_cache_t *cache = hak_cache;
    HAK_NOT_IN_RAX(cache);
    return hak_pop_of_cache(cache, size, found);
}

HAK_FAST_PATH void *hak_pop_small(size_t size) {
    size_t magazine;
    return hak_pop_of_magazine(size, &magazine);
}

/* The same; also NULL for 0 bytes. */
HAK_FAST_PATH void *hak_pop_some(size_t size) {
    hak_cache_t *cache = hak_cache;
    if (HAK_UNLIKELY(size - 1 >= HAK_SMALL_MAX)) return NULL;
    return hak_pop_from(cache, cache->route[((size - 1) >> 3) + 1]);
}

/* hak_pop_small at a multiple of `align`, a power of two. If a size is a multiple of `align`, all
 * blocks of its class are aligned: up to 128 bytes each multiple of 16 is a class, and above that,
 * classes are spaced by an eighth of a power of two. */
HAK_FAST_PATH void *hak_pop_aligned(size_t align, size_t size) {
    if (HAK_UNLIKELY(size > HAK_SMALL_MAX)) return NULL;
    return hak_pop_small(hak_align_up(size + !size, align));
}

/* Pushes a block on the thread's magazine of its class; `begins`: a block is known to begin at the address.
 * False when the slow path must decide; see hak_push. */
HAK_FAST_PATH bool hak_push_on(hak_magazine_t *magazine, void *block, bool begins) {
    void **top = hak_load_relaxed(&magazine->top);
    if (HAK_UNLIKELY(hak_cache_is_full(magazine, top))) return false;
    if (HAKMEM_CHECKS && HAK_UNLIKELY(hak_cache_may_hold(top, block))) return false;
    if (HAKMEM_CHECKS && !begins &&
        HAK_UNLIKELY(!hak_is_block_start((uint16_t)(uintptr_t)block, magazine->start_test)))
        return false;
    HAK_STEP_UP(magazine->top);
    top[1] = block;
    HAK_COUNT_CALL(magazine - hak_cache->magazines, HAK_CALL_FREED);
    HAK_COUNT_CALL(magazine - hak_cache->magazines, HAK_CALL_TLS_SLL);
    return true;
}

/* The number of an address's unit, counted from the map's first one. */
HAK_FAST_PATH uintptr_t hak_unit_number(const void *address) {
    return ((uintptr_t)address - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
}

/* The magazine for the blocks in a unit; false outside the heap. */
HAK_FAST_PATH bool hak_magazine_at(uintptr_t unit, hak_magazine_t **magazine) {
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) return false;
    *magazine = hak_cache_magazine(hak_cache, hak_load_relaxed(&hak_map.entries[unit]));
    return true;
}

/* The magazine for the blocks in an address's unit; false outside the heap. */
HAK_FAST_PATH bool hak_magazine_of(const void *address, hak_magazine_t **magazine) {
    return hak_magazine_at(hak_unit_number(address), magazine);
}

/* Pushes a block on the thread's magazine of its class. False when the slow path must decide: for
 * NULL, a foreign pointer, a large block, a full magazine, a double free, a pointer that is not the
 * start of a block, or a class whose slabs have colours. */
HAK_FAST_PATH bool hak_push(void *block) {
    hak_magazine_t *magazine;
    return HAK_LIKELY(hak_magazine_of(block, &magazine)) && hak_push_on(magazine, block, false);
}

/* Convert the byte offset of a magazine, as the map has it, to the row of hak_classes, and back. The region must
 * exist. */
HAK_FAST_PATH const hak_class_t *hak_row_at(size_t offset) {
    return (const void *)((const char *)hak_map.rows + offset);
}
HAK_FAST_PATH size_t hak_offset_of_row(const hak_class_t *row) {
    return (size_t)((const char *)row - (const char *)hak_map.rows);
}

/* The row of the class of the blocks in an address's unit; an all-zero row if the unit has no blocks of a class. False
 * outside the heap. */
HAK_FAST_PATH bool hak_row_of(const void *address, const hak_class_t **row) {
    uintptr_t unit = hak_unit_number(address);
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) return false;
    *row = hak_row_at(hak_load_relaxed(&hak_map.entries[unit]));
    return true;
}

/* The same; false also where no block of a tiny class starts, and on the hardened path. */
HAK_FAST_PATH bool hak_tiny_row_of(const void *block, const hak_class_t **row) {
    return hak_row_of(block, row) &&
           HAK_LIKELY(hak_is_tiny_start((uint16_t)(uintptr_t)block, *row));
}
