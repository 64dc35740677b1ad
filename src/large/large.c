/* large.c: runs of units, straight from the pool. */
#include "large/large.h"

#include "pool/pool.h"
#include "region/region.h"

static _Atomic size_t block_count, unit_count; /* anyone writes */

hak_large_stats_t hak_large_stats(void) {
    size_t units = hak_load_relaxed(&unit_count);
    return (hak_large_stats_t){hak_load_relaxed(&block_count), units << HAK_UNIT_SHIFT};
}

static void count_run(size_t blocks, size_t units) {
    hak_add_relaxed(&block_count, blocks);
    hak_add_relaxed(&unit_count, units);
}

void *hak_large_alloc(size_t size, bool *zeroed) {
    unsigned units = (unsigned)((size + HAK_UNIT_SIZE - 1) >> HAK_UNIT_SHIFT);
    hak_slab_t *slab = hak_pool_take(units, zeroed);
    if (!slab) return NULL;
    for (unsigned i = 0; i < units; i++) {
        slab[i].run_units = (uint16_t)(i == 0 ? units : 0);
        slab[i].run_offset = (uint16_t)i;
        hak_store_release(&slab[i].owner, hak_owner(0, HAK_CLASS_RUN));
    }
    hak_region_set_class(slab, units, HAK_CLASS_RUN);
    count_run(1, units);
    return slab->base;
}

bool hak_large_free(hak_slab_t *slab) {
    /* One of two racing frees wins, and the other touches nothing. */
    uint16_t run = hak_owner(0, HAK_CLASS_RUN);
    if (!hak_cas_acquire(&slab->owner, &run, 0)) return false;
    unsigned units = slab->run_units;
    count_run(-(size_t)1, -(size_t)units);
    hak_region_set_class(slab, units, HAK_CLASS_NONE);
    for (unsigned i = 1; i < units; i++) hak_store_relaxed(&slab[i].owner, 0);
    hak_pool_give(slab, units);
    return true;
}
