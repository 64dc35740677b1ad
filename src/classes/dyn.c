/* dyn.c: makes a size the dynamic class: writes its row, then its routes. */
#include "classes/dyn.h"

enum { NONE, CHOOSING };
static _Atomic uint32_t state;
static _Atomic uint32_t chosen HAK_READ_OFTEN; /* bytes; 0 while there is none */

size_t hak_dyn_size(void) { return hak_load_acquire(&chosen); } /* partner: C4 */

static size_t first_of_entry(size_t entry) { return (entry - 1) * HAK_ROUTE_STEP + 1; }

/* Valid before the choice only: it reads the routes of the fixed classes. */
size_t hak_dyn_first(size_t size) {
    size_t entry = size / HAK_ROUTE_STEP, count = HAK_UNIT_SIZE / size;
    if (hak_classes[hak_class_of(size)].size == size) return size + 1;
    for (; first_of_entry(entry - 1) > HAK_TINY_MAX; entry--) {
        const hak_class_t *below = &hak_classes[hak_class_of(first_of_entry(entry - 1))];
        if (below->count > count || size * 8 > first_of_entry(entry - 1) * 9) break;
    }
    return first_of_entry(entry);
}

HAK_BEHIND size_t hak_dyn_choose(size_t size) {
    uint32_t none = NONE;
    size = hak_align_up(size, HAK_ROUTE_STEP);
    if (!hak_cas_acquire(&state, &none, CHOOSING)) return 0; /* C1 */
    size_t first = hak_dyn_first(size), count = HAK_UNIT_SIZE / size;
    hak_classes[HAK_CLASS_DYN] = (hak_class_t){
        .size = (uint32_t)size, /* C2 */
        .reciprocal = HAK_RECIPROCAL_OF(size),
        .count = (uint16_t)count,
        .words = (uint16_t)((count + 63) / 64),
        .colours = (uint16_t)HAK_COLOURS_OF(size),
        .step_shift = HAK_STEP_SHIFT_OF(size),
        .start_test = HAK_START_TEST_OF(size, count),
    };
    for (size_t at = first; at <= size; at += HAK_ROUTE_STEP)
        hak_store_release(&hak_class_by_128[(at + 127) >> 7], HAK_CLASS_DYN); /* C3 */
    hak_store_release(&chosen, (uint32_t)size);                               /* C4 */
    return size;
}

#if HAKMEM_DEBUG
/* True when every block of a class is aligned: the size is a multiple of the alignment, and the
 * first block is aligned, too, which colours guarantee up to HAK_COLOUR_STEP only. */
static bool is_aligned(const hak_class_t *info, size_t align) {
    return !(info->size & (align - 1)) &&
           (align <= HAK_COLOUR_STEP || !hak_class_is_coloured(info));
}
#endif

/* Computed without a search, because the CPU could not predict the length of a search. A size
 * that is a multiple of the alignment has a fixed class that is a multiple, too, since classes
 * are spaced by an eighth of a power of two. Above 2 KiB nearly all classes without colours are
 * powers of two. The dynamic class is a multiple of HAK_COLOUR_STEP. It serves no power of two:
 * its own size would have a fixed class, and the class of a smaller power of two has more blocks
 * in a slab (see hak_dyn_first). */
unsigned hak_dyn_class_aligned(size_t size, size_t align) {
    size = hak_align_up(size, align);
    if (align > HAK_COLOUR_STEP && size > HAK_TINY_MAX) size = hak_ceil_pow2(size);
    unsigned class_index = hak_class_of(size);
    HAK_ASSERT(is_aligned(&hak_classes[class_index], align));
    return class_index;
}
