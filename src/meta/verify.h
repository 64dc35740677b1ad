/* verify.h: the invariants of the memory for records. */
#pragma once

#include "error/check.h"
#include "meta/area.h"

void hak_area_check(hak_check_t *check, const hak_area_t *area);

/* Walks over all free records, with every thread outside the engine. Defined in meta.c, beside the
 * data. */
void hak_meta_check(hak_check_t *check);

void hak_meta_check_at_release(const void *lock);
