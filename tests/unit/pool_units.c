/* pool_units.c: units that a test of the pool holds. */
#include "pool_units.h"

#include <string.h>
#include <sys/mman.h>

#include "os/os.h"
#include "region/region.h"

counts_t counts(void) {
    return (counts_t){
        hak_pool_stats.stage2,       hak_pool_stats.stage3,      hak_pool_stats.purge_calls,
        hak_pool_stats.purged_units, hak_pool_stats.dirty_units, hak_pool_stats.used_units,
    };
}

hak_unit_t *take_units(unsigned count, bool *zeroed) {
    hak_unit_t *slab = hak_pool_take(count, zeroed);
    REQUIRE(slab != NULL, "no memory for %u units", count);
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(slab[i].owner == 0, "unit %u of %u is handed out although it is in use", i, count);
        REQUIRE(slab[i].base == slab->base + i * (size_t)HAK_UNIT_SIZE, "%u units are not in a row",
                count);
        slab[i].owner = hak_owner(0, HAK_CLASS_LARGE);
    }
    hak_superslab_t *super = hak_region_superslab_of(slab);
    REQUIRE(hak_region_superslab_of(&slab[count - 1]) == super, "%u units of two superslabs",
            count);
    return slab;
}

hak_unit_t *take(unsigned count) {
    bool zeroed;
    return take_units(count, &zeroed);
}

void give(hak_unit_t *slab, unsigned count) {
    for (unsigned i = 0; i < count; i++) slab[i].owner = 0;
    hak_pool_give(slab, count);
}

void fill(hak_unit_t *slab, unsigned count) {
    memset(slab->base, 0xEE, (size_t)count * HAK_UNIT_SIZE);
}

bool is_zero(const hak_unit_t *slab, unsigned count) {
    for (size_t i = 0; i < (size_t)count * HAK_UNIT_SIZE; i++)
        if (slab->base[i] != 0) return false;
    return true;
}

unsigned resident_pages(const hak_unit_t *slab, unsigned count) {
    unsigned char pages[HAK_SUPERSLAB_SIZE_MAX / 4096];
    unsigned resident = 0;
    size_t size = (size_t)count * HAK_UNIT_SIZE;
    assert_int_equal(mincore(slab->base, size, pages), 0);
    for (size_t i = 0; i < size / hak_os_page_size(); i++) resident += pages[i] & 1;
    return resident;
}
