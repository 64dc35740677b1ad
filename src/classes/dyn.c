/* dyn.c: a size becomes a class: its row, then its routes. */
#include "classes/dyn.h"

enum { NONE, CHOOSING };
static _Atomic uint32_t state;
static _Atomic uint32_t chosen; /* bytes; 0 while there is none */

size_t hak_dyn_size(void) { return hak_load_acquire(&chosen); } /* partner: C4 */

static size_t first_of_entry(size_t entry) { return (entry - 1) * HAK_ROUTE_STEP + 1; }

/* Reads routes as they were before the choice. */
size_t hak_dyn_first(size_t size) {
    size_t entry = size / HAK_ROUTE_STEP, count = HAK_UNIT_SIZE / size;
    for (; first_of_entry(entry - 1) > HAK_TINY_MAX; entry--) {
        const hak_class_t *below = &hak_classes[hak_class_of(first_of_entry(entry - 1))];
        if (below->count > count || size * 8 > first_of_entry(entry - 1) * 9) break;
    }
    return first_of_entry(entry);
}

size_t hak_dyn_choose(size_t size) {
    uint32_t none = NONE;
    size = hak_align_up(size, HAK_ROUTE_STEP);
    if (!hak_cas_acquire(&state, &none, CHOOSING)) return 0; /* C1 */
    size_t first = hak_dyn_first(size), count = HAK_UNIT_SIZE / size;
    hak_classes[HAK_CLASS_DYN] = (hak_class_t){
        .size = (uint32_t)size, /* C2 */
        .reciprocal = (uint32_t)((((uint64_t)1 << 32) + size - 1) / size),
        .count = (uint16_t)count,
        .words = (uint16_t)((count + 63) / 64),
        .colours = (uint16_t)HAK_COLOURS_OF(size),
        .step_shift = HAK_STEP_SHIFT_OF(size),
    };
    for (size_t at = first; at <= size; at += HAK_ROUTE_STEP)
        hak_store_release(&hak_class_by_128[(at + 127) >> 7], HAK_CLASS_DYN); /* C3 */
    hak_store_release(&chosen, (uint32_t)size);                               /* C4 */
    return size;
}

#if HAKMEM_DEBUG
/* A class whose size is a multiple of the alignment has every block aligned, if the first
 * ones are, which colours shift. */
static bool is_aligned(const hak_class_t *info, size_t align) {
    return !(info->size & (align - 1)) &&
           (align <= HAK_COLOUR_STEP || !hak_class_is_coloured(info));
}
#endif

/* No search, since how far it went would be hard to foresee for the CPU. The fixed class of
 * a multiple of the alignment is itself one: an eighth of its power of two, or more, is. Of
 * those above 2 KiB that have no colours nearly all are powers of two. The dynamic class is a
 * multiple of HAK_COLOUR_STEP, and serves no power of two but its own size: the class of one
 * below it has more blocks in a slab (hak_dyn_first). */
unsigned hak_dyn_class_aligned(size_t size, size_t align) {
    size = hak_align_up(size, align);
    if (align > HAK_COLOUR_STEP && size > HAK_TINY_MAX) size = hak_ceil_pow2(size);
    unsigned class_index = hak_class_of(size);
    HAK_ASSERT(is_aligned(&hak_classes[class_index], align));
    return class_index;
}
