/* check_range.c: checks that the bytes that a call uses lie within one block.
 *
 * No lock is taken, since signal handlers copy memory, too. So blocks above 1 MiB and fine blocks, such as those of the
 * program's heaps, are not checked. On the hardened path the former end at a guard page. */
#include "api/export.h"
#include "error/error.h"
#include "hardened/big.h"
#include "hardened/hardened.h"
#include "hardened/state.h"
#include "large/fine_grain.h"
#include "large/large.h"

/* The block, or the free memory, in which an address lies. */
typedef struct {
    const char *start; /* NULL: not known */
    size_t size;
    bool is_free;
} range_t;

/* Applies the state word of a block that the hardened path has allocated. */
static void refine(range_t *range, const hak_state_word_t *at, uint16_t word) {
    if (hak_state_of(word) == HAK_STATE_NEVER) return;
    range->is_free = hak_state_of(word) == HAK_STATE_FREE;
    if (!range->is_free && hak_hardened.canary) range->size = hak_state_size_at(at, word);
}

/* The block of a slab that contains an address. None does before the first block or behind the last. */
static range_t in_slab(const char *pointer, unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    uint32_t offset = hak_block_offset((uintptr_t)pointer, info);
    uint32_t index = hak_block_index(offset, info->reciprocal);
    range_t range = {pointer, 0, true};
    if (index >= info->count) return range;
    range = (range_t){pointer - (offset - index * info->size), info->size, false};
    if (!hak_hardened_on()) return range;
    const hak_state_word_t *at = hak_state_word(hak_state_unit(pointer), info, index);
    uint16_t word = at ? hak_load_acquire(at) : HAK_STATE_NEVER;
    refine(&range, at, word);
    if (HAK_UNLIKELY(hak_state_of(word) == HAK_STATE_NEVER))
        range.is_free = !hak_state_is_taken(hak_unit_of(pointer), info, index);
    return range;
}

static range_t in_large(const char *pointer) {
    void *start;
    range_t range = {NULL, 0, false};
    if (!hak_large_find(pointer, &start, &range.size)) return range;
    range.start = start;
    if (hak_hardened_on() && hak_big_note(start)) {
        range.is_free = hak_state_of(hak_big_note(start)) == HAK_STATE_FREE;
        range.size = hak_big_usable(hak_big_note(start));
    }
    return range;
}

static HAK_SLOW_PATH void report(const char *function, const range_t *range, const char *pointer,
                                 size_t size) {
    if (range->is_free)
        hak_error_report(function,
                         "use after free: %p, from which on %zu %s are used, lies in no block",
                         (const void *)pointer, HAK_ERROR_BYTES(size));
    else
        hak_error_report(function,
                         "overflow: %p is a block of %zu %s, and %zu from byte %zu on are used",
                         (const void *)range->start, HAK_ERROR_BYTES(range->size), size,
                         (size_t)(pointer - range->start));
}

int hakmem_check_range(const void *pointer, size_t size, const char *function) {
    if (size == 0) return 1;
    const hak_unit_t *unit = hak_region_unit_of(pointer);
    uint16_t owner = unit ? hak_load_acquire(&unit->owner) : 0;
    if (owner == 0 || owner == HAK_FINE_OWNER) return 1;
    range_t range =
        hak_owner_is_bin(owner) ? in_slab(pointer, hak_owner_class(owner)) : in_large(pointer);
    size_t from = (size_t)((const char *)pointer - range.start);
    if (HAK_LIKELY(!range.start ||
                   (!range.is_free && from <= range.size && size <= range.size - from)))
        return 1;
    report(function, &range, pointer, size);
    return 0;
}
