/* block.c: classify a pointer by arithmetic and the map; describe misuse. */
#include "api/block.h"

#include "error/error.h"
#include "large/huge.h"
#include "large/large.h"
#include "region/region.h"

static hak_block_t in_huge(const void *pointer) {
    hak_block_t block = {.kind = HAK_KIND_FOREIGN};
    block.size = hak_huge_size(pointer);
    if (block.size) {
        block.kind = HAK_KIND_HUGE;
        block.start = (void *)(uintptr_t)pointer;
    } else if (hak_huge_find(pointer, &block.start, &block.size)) {
        block.kind = HAK_KIND_INSIDE;
    }
    return block;
}

static void in_run(hak_block_t *block, const void *pointer) {
    bool found = hak_large_find(pointer, &block->start, &block->size);
    block->kind = found ? HAK_KIND_RUN : HAK_KIND_FREED;
    if (!found) {
        block->start = NULL;
        block->size = 0;
    }
}

static void in_slab(hak_block_t *block, const void *pointer) {
    const hak_class_t *info = &hak_classes[block->class_index];
    uint32_t offset = (uint32_t)((uintptr_t)pointer - (uintptr_t)block->slab->base);
    uint32_t index = hak_block_index(offset, info->reciprocal);
    if (index >= info->count) return; /* behind the last block */
    block->start = block->slab->base + (size_t)index * info->size;
    block->size = info->size;
    block->kind = HAK_KIND_CACHED;
}

hak_block_t hak_block_of(const void *pointer) {
    hak_block_t block = {.kind = HAK_KIND_FOREIGN};
    block.slab = hak_region_slab_of(pointer);
    if (!block.slab) return in_huge(pointer);
    block.class_index = hak_owner_class(hak_load_acquire(&block.slab->owner));
    if (block.class_index == HAK_CLASS_NONE) {
        block.kind = HAK_KIND_FREED;
        return block;
    }
    if (block.class_index == HAK_CLASS_RUN)
        in_run(&block, pointer);
    else
        in_slab(&block, pointer);
    if (block.start && block.start != pointer) block.kind = HAK_KIND_INSIDE;
    return block;
}

void hak_block_report_double(const char *function, const void *pointer) {
    hak_block_t block = hak_block_of(pointer);
    if (block.size)
        hak_error_double_free(function, pointer, block.size);
    else
        hak_error_report(function, "double free: %p lies in memory that is already free", pointer);
}

void hak_block_report(const char *function, const void *pointer, const hak_block_t *block) {
    if (block->kind == HAK_KIND_FREED) {
        hak_block_report_double(function, pointer);
    } else if (block->kind == HAK_KIND_INSIDE) {
        hak_error_report(function, "%s pointer: %p lies %zu bytes inside a %zu-byte block at %p",
                         (uintptr_t)pointer % 8 ? "misaligned" : "interior", pointer,
                         (size_t)((uintptr_t)pointer - (uintptr_t)block->start), block->size,
                         block->start);
    } else {
        hak_error_report(function, "foreign pointer: %p was not allocated by hakmem", pointer);
    }
}
