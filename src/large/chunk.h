/* chunk.h: the record of a chunk (fine_grain.h), for the files that cut, resize and check chunks. */
#pragma once

#include "base/bits.h"
#include "large/fine_grain.h"

enum {
    HAK_CHUNK_WHOLE = HAK_UNIT_SHIFT
}; /* log2 of the bytes of a grain, in a chunk that is one block */

/* The field `bits` of its units' descriptors points to it. Whatever is not constant is under the lock of its heap. */
typedef struct hak_fine {
    hak_ring_t age; /* in the ring of its heap */
    struct hak_fine *next, *prev;
    hak_unit_t *units;
    uint64_t *in_use, *begins;
    uint32_t used, longest; /* grains */
    uint32_t hint;          /* where the next search begins */
    uint32_t grains;        /* constant, as is unit_count, except in a chunk that is one block */
    uint8_t unit_count;
    uint8_t shift; /* constant */
    uint8_t list;
    bool is_first;  /* constant; its heap had no other memory then, and may never fill it */
    uint32_t epoch; /* of its heap when it was made, or last spared for a block in flight */
} hak_fine_t;
_Static_assert(sizeof(hak_fine_t) <= 128, "records are powers of two");

/* The word `large` of its units: the number of its heap, with the highest bit set. As the word of a large block it
 * would mean an impossible length. So a second free of a large block that lay there before finds no block (heap.h). */
HAK_FAST_PATH uint32_t hak_chunk_word(const hak_user_heap_t *heap) {
    return (uint32_t)1 << 31 | heap->number;
}
HAK_FAST_PATH hak_user_heap_t *hak_chunk_heap(uint32_t word) {
    return hak_user_heap_at(word ^ (uint32_t)1 << 31);
}

HAK_FAST_PATH size_t hak_chunk_bytes(const hak_fine_t *fine) {
    return (size_t)fine->unit_count << HAK_UNIT_SHIFT;
}
/* Number of grains, of 1 << shift bytes each, in a block of `size` bytes. */
HAK_FAST_PATH size_t hak_chunk_grains(size_t size, unsigned shift) {
    return ((hak_max(size, 1) - 1) >> shift) + 1;
}
HAK_FAST_PATH char *hak_chunk_address(const hak_fine_t *fine, size_t grain) {
    return fine->units[0].base + (grain << fine->shift);
}

/* Grains of the block that begins at a grain. */
HAK_FAST_PATH size_t hak_chunk_length(const hak_fine_t *fine, size_t grain) {
    for (size_t at = grain + 1; at < fine->grains; at = (at | 63) + 1) {
        uint64_t ends = (fine->begins[at / 64] | ~fine->in_use[at / 64]) >> at % 64;
        if (ends) return hak_min(at + hak_lowest_bit(ends), fine->grains) - grain;
    }
    return fine->grains - grain;
}

HAK_FAST_PATH unsigned hak_chunk_list_of(size_t longest) {
    return longest ? hak_highest_bit(longest) + 1 : 0;
}

/* Locks the heap of a block, and returns the block's chunk and first grain. Returns NULL if no block in use begins
 * there; *heap is locked in this case, too. */
hak_fine_t *hak_chunk_lock(const void *block, hak_user_heap_t **heap, size_t *grain);

/* The same for a unit: its chunk, and the grain at which the unit begins; NULL if the unit is in no chunk. */
const hak_fine_t *hak_chunk_lock_unit(const hak_unit_t *unit, hak_user_heap_t **heap,
                                      size_t *grain);

/* All three under the lock. The first makes a unit's descriptor lead to its chunk and heap. The second gives units an
 * owner; 0: none. The third marks grains free that no longer belong to a block. */
void hak_chunk_enter_unit(const hak_user_heap_t *heap, hak_fine_t *fine, hak_unit_t *unit);
void hak_chunk_set_owner(hak_unit_t *units, unsigned count, uint16_t owner);
void hak_chunk_set_free(hak_user_heap_t *heap, hak_fine_t *fine, size_t at, size_t grains);
