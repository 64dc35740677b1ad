/* region.c: reserve, commit in steps, and look up. */
#include "region/region.h"

#include "options/options.h"
#include "os/os.h"
#include "region/commit.h"
#include "region/range.h"

enum {
    STEP_UNITS_MAX = 1024,
    HUGE_MIN_UNITS = 768, /* 48 MiB: a huge page too much is then 4 % of the heap, and falling */
    HUGE_PAGE_UNITS = 32, /* 2 MiB, as x86-64 and AArch64 have with pages of 4 KiB */
};

hak_map_t hak_map;
hak_lock_t hak_region_lock;

/* Filled from low to high under the region lock; `region_count` publishes. */
static hak_region_t regions[HAK_REGIONS_MAX] HAK_APART;
static _Atomic unsigned region_count;

/* Sizes to try for a range, largest first. */
static const size_t range_sizes[] HAK_NEAR = {1024 * GIB, 64 * GIB, 4 * GIB,  1 * GIB, 256 * MIB,
                                              64 * MIB,   32 * MIB, 16 * MIB, 8 * MIB, 4 * MIB};

static const char map_name[] HAK_NEAR = "hakmem: map", heap_name[] HAK_NEAR = "hakmem: heap";

static HAK_COMMON void lay_out(hak_region_t *region, char *base, size_t size) {
    size_t units = size >> HAK_UNIT_SHIFT;
    size_t map_size = hak_align_up(units * sizeof(uint16_t), HAK_UNIT_SIZE);
    size_t slabs_size = hak_align_up(units * sizeof(hak_slab_t), HAK_UNIT_SIZE);
    size_t supers_size =
        hak_align_up((units >> hak_map.super_shift) * sizeof(hak_superslab_t), HAK_UNIT_SIZE);
    size_t head = hak_align_up(map_size + slabs_size + supers_size, hak_superslab_size());
    *region = (hak_region_t){.base = base};
    region->slabs = (hak_slab_t *)(void *)(base + map_size);
    region->supers = (hak_superslab_t *)(void *)(base + map_size + slabs_size);
    region->first_unit = head >> HAK_UNIT_SHIFT;
    hak_store_relaxed(&region->unit_next, region->first_unit);
    region->unit_limit = region->first_unit;
    region->units_end = units;
}

/* Extends an accessible prefix of `area` to at least `want` bytes, in steps that
 * keep the number of calls small. */
static HAK_COMMON bool commit_area(void *area, size_t *committed, size_t want) {
    if (want <= *committed) return true;
    size_t end = hak_align_up(want, HAK_UNIT_SIZE);
    if (!hak_commit_charge(end - *committed)) return false;
    if (!hak_os_commit((char *)area + *committed, end - *committed)) {
        hak_commit_release(end - *committed);
        return false;
    }
    *committed = end;
    return true;
}

/* Makes `count` more superslabs of a region accessible, records first. Pages are still
 * made by the first touch: with `huge`, 2 MiB at a time. */
static HAK_COMMON bool commit_superslabs(hak_region_t *region, size_t count, bool huge) {
    size_t limit = region->unit_limit + (count << hak_map.super_shift);
    size_t used = limit - region->first_unit;
    if (limit > region->units_end) return false;
    if (!commit_area(region->base, &region->map_committed, limit * sizeof(uint16_t)) ||
        !commit_area(region->slabs, &region->slabs_committed, used * sizeof(hak_slab_t)) ||
        !commit_area(region->supers, &region->supers_committed,
                     (used >> hak_map.super_shift) * sizeof(hak_superslab_t)))
        return false;
    char *start = region->base + (region->unit_limit << HAK_UNIT_SHIFT);
    if (!hak_os_commit(start, count * hak_superslab_size())) return false;
    if (huge) hak_os_wish_huge(start, count * hak_superslab_size(), true);
    region->huge = huge;
    region->unit_limit = limit;
    return true;
}

/* Superslabs to add to a step so that it ends where a huge page does. */
static size_t up_to_a_huge_page(const hak_region_t *region, size_t step) {
    size_t end = ((uintptr_t)region->base >> HAK_UNIT_SHIFT) + region->unit_limit +
                 (step << hak_map.super_shift);
    return (-end & (HUGE_PAGE_UNITS - 1)) >> hak_map.super_shift;
}

/* A quarter of what is accessible, so that the calls grow with the logarithm; where each
 * slab has a superslab of its own, it has its own call too. A step with huge pages ends at
 * a multiple of one, so that none is lost between two steps. */
static HAK_COMMON bool grow(hak_region_t *region, bool dense) {
    size_t have = (region->unit_limit - region->first_unit) >> hak_map.super_shift;
    size_t room = (region->units_end - region->unit_limit) >> hak_map.super_shift;
    if (HAK_UNLIKELY(!hak_option(HAK_OPTION_TINY_USE_SUPERSLAB))) have = 1;
    size_t step =
        hak_min(hak_min(hak_max(have / 4, 1), STEP_UNITS_MAX >> hak_map.super_shift), room);
    if (step == 0) return false;
    bool huge = dense && have << hak_map.super_shift >= HUGE_MIN_UNITS;
    if (huge) step = hak_min(step + up_to_a_huge_page(region, step), room);
    return commit_superslabs(region, step, huge) ||
           (step > 1 && commit_superslabs(region, 1, false));
}

/* Reserves the next range, no more than half of the address space that is left. */
static HAK_COMMON hak_region_t *new_region(void) {
    unsigned count = hak_load_relaxed(&region_count);
    if (count == HAK_REGIONS_MAX) return NULL;
    if (count == 0)
        hak_map.super_shift = HAK_SUPERSLAB_SHIFT_MIN + (unsigned)hak_option(HAK_OPTION_SS_SIZE);
    size_t most = hak_os_address_space_left();
    if (most != SIZE_MAX) most /= 2;
    for (size_t i = 0; i < sizeof range_sizes / sizeof *range_sizes; i++) {
        size_t size = range_sizes[i];
        if (size > most) continue;
        char *base = hak_os_reserve(size, hak_superslab_size());
        if (!base) continue;
        lay_out(&regions[count], base, size);
        size_t head = regions[count].first_unit << HAK_UNIT_SHIFT;
        hak_os_name(base, head, map_name);
        hak_os_name(base + head, size - head, heap_name);
        size_t map_size = regions[count].units_end * sizeof(uint16_t);
        if (!hak_os_make_readable(base, hak_align_up(map_size, hak_os_page_size())) ||
            !grow(&regions[count], false)) {
            hak_commit_release(regions[count].map_committed + regions[count].slabs_committed +
                               regions[count].supers_committed);
            hak_os_unmap(base, size);
            return NULL;
        }
        if (count == 0) {
            hak_map.entries = (_Atomic uint16_t *)(void *)base;
            hak_map.unit_end = regions[count].units_end;
            hak_map.slabs =
                (uintptr_t)regions[count].slabs - regions[count].first_unit * sizeof(hak_slab_t);
            hak_map.supers =
                (uintptr_t)regions[count].supers -
                (regions[count].first_unit >> hak_map.super_shift) * sizeof(hak_superslab_t);
        }
        hak_store_release(&region_count, count + 1);
        return &regions[count];
    }
    return NULL;
}

static hak_superslab_t *carve_superslab(hak_region_t *region) {
    size_t unit = hak_load_relaxed(&region->unit_next);
    size_t index = unit - region->first_unit;
    hak_superslab_t *super = &region->supers[index >> hak_map.super_shift];
    super->slabs = &region->slabs[index];
    super->free = (uint32_t)(((uint64_t)1 << hak_superslab_units()) - 1);
    hak_store_relaxed(&super->huge, region->huge);
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        super->slabs[i].base = region->base + ((unit + i) << HAK_UNIT_SHIFT);
    /* Published last: who looks a pointer up sees filled descriptors below it. */
    hak_store_release(&region->unit_next, unit + hak_superslab_units());
    return super;
}

HAK_COMMON void hak_region_prepare(void) {
    hak_lock_acquire(&hak_region_lock);
    if (!hak_load_relaxed(&region_count)) new_region();
    hak_lock_release(&hak_region_lock);
}

hak_superslab_t *hak_region_take_superslab(bool dense) {
    hak_lock_acquire(&hak_region_lock);
    unsigned count = hak_load_relaxed(&region_count);
    hak_region_t *region = count ? &regions[count - 1] : NULL;
    /* Only a full range is followed by another: a refusal may be gone the next time. */
    if (!region || region->units_end - hak_load_relaxed(&region->unit_next) < hak_superslab_units())
        region = new_region();
    else if (hak_load_relaxed(&region->unit_next) == region->unit_limit && !grow(region, dense))
        region = NULL;
    hak_superslab_t *super = region ? carve_superslab(region) : NULL;
    hak_lock_release(&hak_region_lock);
    return super;
}

static hak_region_t *region_of(const void *addr) {
    unsigned count = hak_load_acquire(&region_count);
    for (unsigned i = 0; i < count; i++) {
        size_t offset = (size_t)((uintptr_t)addr - (uintptr_t)regions[i].base);
        if (offset < regions[i].units_end << HAK_UNIT_SHIFT) return &regions[i];
    }
    return NULL;
}

hak_slab_t *hak_region_slab_of(const void *addr) {
    hak_region_t *region = region_of(addr);
    if (!region) return NULL;
    size_t unit = ((uintptr_t)addr - (uintptr_t)region->base) >> HAK_UNIT_SHIFT;
    if (unit < region->first_unit || unit >= hak_load_acquire(&region->unit_next)) return NULL;
    return &region->slabs[unit - region->first_unit];
}

/* Descriptors lie in the region they describe. */
hak_superslab_t *hak_region_superslab_of(const hak_slab_t *slab) {
    hak_region_t *region = region_of(slab);
    return &region->supers[(size_t)(slab - region->slabs) >> hak_map.super_shift];
}

bool hak_region_superslab_follows(const hak_superslab_t *super) {
    hak_region_t *region = region_of(super);
    size_t next = (size_t)(super - region->supers + 1) << hak_map.super_shift;
    return region->first_unit + next < hak_load_acquire(&region->unit_next);
}

void hak_region_set_class(const hak_slab_t *slab, unsigned count, unsigned class_index) {
    hak_region_t *region = region_of(slab);
    if (region != &regions[0]) return;
    size_t unit = region->first_unit + (size_t)(slab - region->slabs);
    _Atomic uint16_t *map = (_Atomic uint16_t *)(void *)region->base;
    for (unsigned i = 0; i < count; i++)
        hak_store_relaxed(&map[unit + i], (uint16_t)(class_index << HAK_BIN_SHIFT));
}

void hak_region_refuse_huge(hak_superslab_t *super) {
    if (HAK_LIKELY(!hak_load_relaxed(&super->huge))) return;
    hak_store_relaxed(&super->huge, false); /* two threads may both ask; no harm */
    hak_os_wish_huge(super->slabs[0].base, hak_superslab_size(), false);
}

bool hak_region_purge(hak_superslab_t *super, void *start, size_t size) {
    hak_region_refuse_huge(super);
    return hak_os_purge(start, size);
}

void hak_region_each_superslab(void (*visit)(hak_superslab_t *super, void *context),
                               void *context) {
    unsigned count = hak_load_acquire(&region_count);
    for (unsigned i = 0; i < count; i++) {
        size_t end = hak_load_acquire(&regions[i].unit_next);
        size_t used = (end - regions[i].first_unit) >> hak_map.super_shift;
        for (size_t s = 0; s < used; s++) visit(&regions[i].supers[s], context);
    }
}

void hak_region_each_range(hak_range_visitor_t visit, void *context) {
    unsigned count = hak_load_acquire(&region_count);
    for (unsigned i = 0; i < count; i++) {
        const hak_region_t *region = &regions[i];
        size_t head = region->first_unit << HAK_UNIT_SHIFT;
        size_t end = hak_load_acquire(&region->unit_next) << HAK_UNIT_SHIFT;
        visit(context, HAK_RANGE_RECORDS, region->base, head);
        visit(context, HAK_RANGE_HEAP, region->base + head, end - head);
    }
}
