/* areas.c: where the records of the heap lie, and how much of them is accessible. */
#include "region/areas.h"

#include "meta/meta.h"
#include "meta/verify.h"
#include "region/region.h"

enum {
    HEAD_UNITS = 256, /* entries of the map for units in front of the heap, in a small window */
};

static const char map_name[] HAK_NEAR = "hakmem: map";

static char *after(char *start, size_t records) {
    return (char *)hak_align_up((uintptr_t)start + hak_area_span(records), HAK_SUPERSLAB_SIZE_MAX);
}

/* The map begins where a superslab could begin. */
hak_os_answer_t hak_areas_place(hak_areas_t *areas, char *window, size_t size, char **heap) {
    size_t heap_size = size / 2, units = heap_size >> HAK_UNIT_SHIFT;
    size_t supers = (units >> hak_map.super_shift) * sizeof(hak_superslab_t);
    size_t slabs = units * sizeof(hak_unit_t);
    size_t map =
        (units + units / 16 + HEAD_UNITS) * sizeof(uint16_t); /* and for the map's own addresses */
    char *at_supers = window + hak_meta_window_part(size);
    char *at_slabs = after(at_supers, supers);
    char *at_map = after(at_slabs, slabs) + HAK_SUPERSLAB_SIZE_MAX - hak_os_page_size();
    hak_os_answer_t answer = hak_area_place(&areas->supers, at_supers, supers, map_name);
    if (answer == HAK_OS_MAPPED) answer = hak_area_place(&areas->units, at_slabs, slabs, map_name);
    if (answer == HAK_OS_MAPPED) answer = hak_area_place(&areas->map, at_map, map, map_name);
    *heap = after(at_map, map);
    return answer;
}

void hak_areas_remove(hak_areas_t *areas) {
    hak_area_remove(&areas->map);
    hak_area_remove(&areas->units);
    hak_area_remove(&areas->supers);
}

HAK_COMMON bool hak_areas_commit(hak_areas_t *areas, size_t first_unit, size_t first, size_t end) {
    size_t from = first << hak_map.super_shift, to = end << hak_map.super_shift;
    size_t map_from = first_unit + from, map_to = first_unit + to;
    return hak_area_commit(&areas->map, map_from * sizeof(uint16_t), map_to * sizeof(uint16_t)) ==
               HAK_OS_MAPPED &&
           hak_area_commit(&areas->units, from * sizeof(hak_unit_t), to * sizeof(hak_unit_t)) ==
               HAK_OS_MAPPED &&
           hak_area_commit(&areas->supers, first * sizeof(hak_superslab_t),
                           end * sizeof(hak_superslab_t)) == HAK_OS_MAPPED;
}

HAK_BEHIND size_t hak_areas_uncharged(const hak_areas_t *areas) {
    return areas->supers.uncharged + areas->units.uncharged + areas->map.uncharged;
}

HAK_BEHIND void hak_areas_each(const hak_areas_t *areas, hak_range_visitor_t visit, void *context) {
    visit(context, HAK_RANGE_RECORDS, areas->supers.base, areas->supers.committed);
    visit(context, HAK_RANGE_RECORDS, areas->units.base, areas->units.committed);
    visit(context, HAK_RANGE_RECORDS, areas->map.base, areas->map.committed);
}

HAK_BEHIND void hak_areas_check(hak_check_t *check, const hak_areas_t *areas) {
    hak_area_check(check, &areas->supers);
    hak_area_check(check, &areas->units);
    hak_area_check(check, &areas->map);
}
