/* verify.c: figures of the map and the areas, for the checks of other folders. */
#include "region/verify.h"

#include "meta/meta.h"
#include "region/region.h"

unsigned hak_map_class(const hak_unit_t *unit) {
    size_t number = ((uintptr_t)unit - hak_map.units) / sizeof *unit;
    return hak_load_relaxed(&hak_map.entries[number]) >> HAK_MAGAZINE_SHIFT;
}

static void add_records(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    (void)start;
    if (kind == HAK_RANGE_RECORDS) *(size_t *)context += size;
}

size_t hak_areas_committed(void) {
    size_t bytes = 0;
    hak_region_each_range(add_records, &bytes);
    hak_meta_each_range(add_records, &bytes);
    return bytes - hak_region_uncharged();
}
