/* hardened_spot.h: the block of a size class that starts at an address, on the hardened path. */
#pragma once

#include "hardened/hardened.h"
#include "hardened/state.h"
#include "region/region.h"

/* A block of a class, in use or not. */
typedef struct {
    const hak_class_t *info;
    unsigned class_index;
    uint32_t index;
    hak_state_word_t *at; /* its state word; NULL: it has none */
    uint16_t word;        /* the word's value; NEVER if there is none */
} hak_spot_t;

/* False when no block of a class starts there. */
HAK_FAST_PATH bool hak_spot_find(const void *pointer, hak_spot_t *spot) {
    size_t unit = hak_state_unit(pointer);
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) return false;
    spot->class_index = hak_load_relaxed(&hak_map.entries[unit]) >> HAK_MAGAZINE_SHIFT;
    if (HAK_UNLIKELY(spot->class_index - 1u >= HAK_CLASS_COUNT)) return false;
    const hak_class_t *info = spot->info = &hak_classes[spot->class_index];
    uint32_t offset = HAK_LIKELY(!hak_class_is_coloured(info))
                          ? (uint16_t)(uintptr_t)pointer /* slabs of tiny blocks begin with one */
                          : hak_block_offset((uintptr_t)pointer, info);
    if (HAK_UNLIKELY(!hak_is_block_index(offset, info->start_test, &spot->index))) return false;
    spot->at = hak_state_word(unit, info, spot->index);
    spot->word = HAK_LIKELY(spot->at != NULL) ? hak_load_relaxed(spot->at) : HAK_STATE_NEVER;
    return true;
}

/* A block of a class, in use, that the hardened path has allocated. */
HAK_FAST_PATH bool hak_spot_find_used(const void *pointer, hak_spot_t *spot) {
    return hak_spot_find(pointer, spot) && HAK_LIKELY(hak_state_is_used(spot->word));
}

/* True for a block of a class that was allocated before the hardened path was switched on: it is OLD, or, where nothing
 * is OLD, it has no state but is not free. */
HAK_FAST_PATH bool hak_spot_is_old(const void *pointer, const hak_spot_t *spot) {
    if (hak_hardened.knows_old) return spot->word == HAK_STATE_OLD;
    return hak_state_of(spot->word) == HAK_STATE_NEVER &&
           hak_state_is_taken(hak_unit_of(pointer), spot->info, spot->index);
}
