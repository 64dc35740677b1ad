/* verify.h: the invariants of slabs, of shard bins, and of what is bound to threads. */
#pragma once

#include "classes/classes.h"
#include "error/check.h"
#include "region/unit.h"

/* The equations of unit.h. Nobody else has the slab's bitmap: its bin is locked and no thread has
 * claimed it, or every thread is outside the engine. */
void hak_slab_check(hak_check_t *check, const hak_unit_t *slab);

/* A bin's list and rings, slab by slab. Every thread is outside the engine. */
void hak_bin_check(hak_check_t *check, unsigned shard, unsigned class_index);

/* All slabs and all bins, with every thread outside the engine. `carved` gets, of each class, the
 * blocks that threads have carved so far: the sum of HAK_WARM_TAKEN of all caches. */
void hak_shard_check(hak_check_t *check, uint64_t carved[HAK_CLASS_COUNT + 1]);

void hak_bin_check_at_release(const void *lock);
