/* pages.c: how much of each page of a large heap's unit is in use. */
#include "large/heap.h"
#include "large/large.h"

bool hak_large_used_bytes(const hak_unit_t *unit, uint16_t used[HAK_UNIT_GRAINS]) {
    if (hak_owner_class(hak_load_acquire(&unit->owner)) != HAK_CLASS_LARGE) return false;
    for (unsigned i = 0; i < HAK_UNIT_GRAINS; i++) {
        void *start;
        size_t size;
        bool found = hak_large_find(unit->base + (size_t)i * HAK_GRAIN_SIZE, &start, &size);
        used[i] = found ? HAK_GRAIN_SIZE : 0;
    }
    return true;
}
