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
