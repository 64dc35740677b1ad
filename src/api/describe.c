/* describe.c: a block and the blocks beside it, for the report of an error. */
#include "api/describe.h"

#include "api/block.h"
#include "error/log.h"
#include "hardened/hardened.h"
#include "hardened/state.h"

enum { NEIGHBOURS = 2 }; /* on each side */

static const char *state_of(const hak_unit_t *slab, const hak_class_t *info, uint32_t index) {
    const hak_state_word_t *at =
        hak_hardened_on() ? hak_state_word(hak_state_unit(slab->base), info, index) : NULL;
    const uint16_t word = at ? hak_load_relaxed(at) : HAK_STATE_NEVER;
    if (hak_state_is_used(word)) return "in use";
    if (hak_state_of(word) == HAK_STATE_FREE) return "free";
    return hak_state_is_taken(slab, info, index) ? "in use, or in a thread's cache" : "free";
}

static void describe_slab(const hak_block_t *block) {
    const hak_class_t *info = &hak_classes[block->class_index];
    const char *first = hak_slab_first(block->unit, info);
    uint32_t at = (uint32_t)((size_t)((const char *)block->start - first) / info->size);
    uint32_t begin = at > NEIGHBOURS ? at - NEIGHBOURS : 0;
    for (uint32_t i = begin; i <= at + NEIGHBOURS && i < info->count; i++)
        hak_log_to_copy("    %p: %s%s", (const void *)(first + (size_t)i * info->size),
                        state_of(block->unit, info, i), i == at ? " (this one)" : "");
}

void hak_describe(const void *pointer) {
    static const char *const kinds[] = {
        [HAK_KIND_CACHED] = "a block of a slab",
        [HAK_KIND_LARGE] = "a large block",
        [HAK_KIND_HUGE] = "a huge block",
        [HAK_KIND_SAMPLED] = "a sampled block",
        [HAK_KIND_FREED] = "in memory that is not in use",
        [HAK_KIND_INSIDE] = "inside a block",
        [HAK_KIND_FOREIGN] = "in no block of hakmem",
    };
    hak_block_t block = hak_block_of(pointer);
    hak_log_to_copy("  %p is %s", pointer, kinds[block.kind]);
    if (block.start)
        hak_log_to_copy("  the block begins at %p and has %zu bytes", block.start, block.size);
    if (block.start && block.unit && block.class_index <= HAK_CLASS_COUNT) {
        hak_log_to_copy("  blocks beside it:");
        describe_slab(&block);
    }
}
