/* check.h: the invariants of the heap's addresses and of the memory for records. Each walks over all
 * there is, with every thread outside the engine. */
#ifndef HAK_REGION_CHECK_H
#define HAK_REGION_CHECK_H

#include "error/check.h"
#include "os/rank.h"
#include "region/area.h"
#include "region/unit.h"

void hak_area_check(hak_check_t *check, const hak_area_t *area);
void hak_region_check(hak_check_t *check); /* in region.c, as what it looks at */
void hak_meta_check(hak_check_t *check);   /* in meta.c */

/* The class that the map has for a unit. */
unsigned hak_map_class(const hak_unit_t *unit);

/* Bytes of all areas that are accessible, and so charged as committed. */
size_t hak_areas_committed(void);

#if HAKMEM_VERIFY
void hak_region_check_at_release(const void *lock);
void hak_meta_check_at_release(const void *lock);
#endif

#endif
