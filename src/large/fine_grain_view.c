/* fine_grain_view.c: how much of each 4 KiB of a chunk's unit is in use. */
#include "base/bits.h"
#include "large/chunk.h"

/* Bytes in use of the 4 KiB that begin at a grain: one or more words of the bitmap, or a part of one block. */
static uint16_t used_from(const hak_fine_t *fine, size_t at) {
    if (fine->shift >= HAK_GRAIN_SHIFT) return hak_bits_has(fine->in_use, at) ? HAK_GRAIN_SIZE : 0;
    size_t used = 0, words = ((size_t)HAK_GRAIN_SIZE >> fine->shift) / 64;
    for (size_t w = at / 64; w < at / 64 + words; w++)
        if (fine->in_use[w]) used += hak_bit_count(fine->in_use[w]);
    return (uint16_t)(used << fine->shift);
}

bool hak_fine_used_bytes(const hak_unit_t *unit, uint16_t used[HAK_UNIT_GRAINS]) {
    size_t at;
    hak_user_heap_t *heap;
    const hak_fine_t *fine = hak_chunk_lock_unit(unit, &heap, &at);
    for (size_t i = 0; fine && i < HAK_UNIT_GRAINS; i++)
        used[i] = used_from(fine, at + (i << HAK_GRAIN_SHIFT >> fine->shift));
    hak_lock_release(&heap->lock);
    return fine != NULL;
}
