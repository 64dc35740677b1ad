/* verify.h: the invariants of the heap's addresses. */
#pragma once

#include "error/check.h"
#include "region/unit.h"

/* Walks over all superslabs, with every thread outside the engine. Defined in region.c, beside the
 * data. */
void hak_region_check(hak_check_t *check);

/* The class that the map has for a unit. */
unsigned hak_map_class(const hak_unit_t *unit);

/* Bytes of all areas that are charged as committed. */
size_t hak_areas_committed(void);

void hak_region_check_at_release(const void *lock);
