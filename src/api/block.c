/* block.c: finds out what a pointer is, by arithmetic, the map, and the owners of the memory. */
#include "api/block.h"

#include "debug_record/record.h"
#include "hardened/guard_sample.h"
#include "large/huge.h"
#include "large/large.h"
#include "region/region.h"

/* For a pointer outside the heap: it begins a huge block, lies inside one, lies in a former block, or
 * is foreign. */
static void look_outside(hak_block_t *block, const void *pointer) {
    block->kind = HAK_KIND_FOREIGN;
    block->size = hak_huge_size(pointer);
    if (block->size) {
        block->kind = HAK_KIND_HUGE;
        block->start = (void *)(uintptr_t)pointer;
    } else if (hak_huge_find(pointer, &block->start, &block->size)) {
        block->kind = HAK_KIND_INSIDE;
    } else if (hak_huge_was_freed(pointer, &block->size) || hak_region_was_unmapped(pointer)) {
        block->kind = HAK_KIND_FREED;
    }
}

/* Finds the block that contains an address; in a large heap only a block in use. */
static bool find_block(hak_block_t *block, const void *pointer) {
    if (block->class_index == HAK_CLASS_LARGE)
        return hak_large_find(pointer, &block->start, &block->size);
    const hak_class_t *info = &hak_classes[block->class_index];
    uint32_t offset = hak_block_offset((uintptr_t)pointer, info);
    uint32_t index = hak_block_index(offset, info->reciprocal);
    if (index >= info->count) return false; /* before the first block or behind the last */
    block->start = hak_slab_first(block->unit, info) + (size_t)index * info->size;
    block->size = info->size;
    return true;
}

hak_block_t hak_block_in(hak_place_t place, const void *pointer) {
    hak_block_t block = {HAK_KIND_FREED, place.class_index, place.unit, NULL, 0};
    bool is_cached = place.class_index <= HAK_CLASS_COUNT;
    if (!place.unit) {
        look_outside(&block, pointer);
    } else if (place.class_index == HAK_CLASS_NONE) {
        return block;
    } else if (!find_block(&block, pointer)) {
        block.kind = is_cached ? HAK_KIND_FOREIGN : HAK_KIND_FREED;
        block.start = NULL; /* hak_large_find may have stored a freed block */
        block.size = 0;
    } else if (block.start != pointer) {
        block.kind = HAK_KIND_INSIDE;
    } else {
        block.kind = is_cached ? HAK_KIND_CACHED : HAK_KIND_LARGE;
    }
    return block;
}

static HAK_BEHIND hak_block_t sampled_block(const void *pointer) {
    hak_block_t block = {HAK_KIND_FOREIGN, HAK_CLASS_NONE, NULL, NULL, 0};
    bool in_use = hak_guard_sample_find(pointer, &block.start, &block.size);
    bool starts = block.start == pointer;
    bool inside = block.start && (uintptr_t)pointer - (uintptr_t)block.start < block.size;
    if (in_use && (starts || inside)) {
        block.kind = starts ? HAK_KIND_SAMPLED : HAK_KIND_INSIDE;
    } else {
        if (starts || inside) block.kind = HAK_KIND_FREED;
        block.start = NULL;
    }
    return block;
}

hak_block_t hak_block_of(const void *pointer) {
    if (hak_guard_sample_has(pointer)) return sampled_block(pointer);
    return hak_block_in(hak_block_place(pointer), pointer);
}

HAK_BEHIND bool hak_block_has_record(const hak_block_t *block) {
    bool is_cached = block->class_index != HAK_CLASS_NONE && block->class_index != HAK_CLASS_LARGE;
    if (!block->unit || (is_cached && hak_tier_of_class(block->class_index) != HAK_MID))
        return false;
    if (!is_cached && block->size && block->size <= HAK_TINY_MAX) return false;
    return hak_records_settle();
}
