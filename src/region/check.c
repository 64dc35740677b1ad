/* check.c: the invariant of an area, and what other checks ask of the map. */
#include "region/check.h"

#include "region/range.h"
#include "region/region.h"

void hak_area_check(hak_check_t *check, const hak_area_t *area) {
    size_t sizes = area->committed | area->reserved | area->limit, page = hak_os_page_size();
    hak_check_that(check, "area", area, "committed + a page <= reserved",
                   area->committed + page <= area->reserved);
    hak_check_that(check, "area", area, "reserved <= limit", area->reserved <= area->limit);
    hak_check_that(check, "area", area, "all are multiples of a page", sizes % page == 0);
}

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
    return bytes;
}
