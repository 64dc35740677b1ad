/* pool_units.h: units that a test of the pool takes, fills and gives back. */
#pragma once

#include "unit.h"

#include <stdbool.h>

#include "pool/pool.h"

typedef struct {
    uint64_t stage2, stage3, purge_calls, purged_units;
    size_t dirty, used;
} counts_t;

counts_t counts(void);

/* Adjacent units; each has an owner while the test holds it, as the pool's callers give them one. `*zeroed`
 * as from hak_pool_take. */
hak_unit_t *take_units(unsigned count, bool *zeroed);
hak_unit_t *take(unsigned count);
void give(hak_unit_t *slab, unsigned count);

void fill(hak_unit_t *slab, unsigned count);
bool is_zero(const hak_unit_t *slab, unsigned count);

/* Pages that the kernel has for these units. */
unsigned resident_pages(const hak_unit_t *slab, unsigned count);
