/* areas.h: the areas with the records of the heap's superslabs and units, and with the map; internal to region/.
 * region.h shows their order. */
#pragma once

#include "error/check.h"
#include "meta/area.h"
#include "os/range.h"

/* Region lock. */
typedef struct {
    hak_area_t supers, units, map;
} hak_areas_t;

enum { HAK_AREAS = sizeof(hak_areas_t) / sizeof(hak_area_t) };

/* Places the areas for a window of `size` bytes one behind the other, from the part of meta.c on. *heap: where the heap
 * begins; units and superslabs are counted from there. Unless the answer is HAK_OS_MAPPED, some have no place. */
hak_os_answer_t hak_areas_place(hak_areas_t *areas, char *window, size_t size, char **heap);

void hak_areas_remove(hak_areas_t *areas);

/* Makes the records of superslabs first .. end - 1 accessible. Those of a hole below `first` can be read, too, but nobody
 * writes to them. `first_unit`: the number of unit 0 in the map. */
bool hak_areas_commit(hak_areas_t *areas, size_t first_unit, size_t first, size_t end);

/* Bytes of the records of holes, which are not charged as committed. */
size_t hak_areas_uncharged(const hak_areas_t *areas);

void hak_areas_each(const hak_areas_t *areas, hak_range_visitor_t visit, void *context);
void hak_areas_check(hak_check_t *check, const hak_areas_t *areas);
