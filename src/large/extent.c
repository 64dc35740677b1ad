/* extent.c: best fit over free extents, and their joining. */
#include "large/extent.h"

#include <string.h>

#include "region/region.h"

enum { WALK_MAX = 8 }; /* extents of a bin that an insertion looks at */

static unsigned grain_of(const char *address) {
    return (unsigned)((uintptr_t)address >> HAK_GRAIN_SHIFT) % HAK_UNIT_GRAINS;
}

static char *end_of(char *start, size_t grains) { return start + (grains << HAK_GRAIN_SHIFT); }

/* The bin that holds extents of this length. */
static unsigned bin_of(size_t grains) {
    if (grains <= HAK_EXTENT_EXACT) return (unsigned)grains;
    unsigned top = hak_highest_bit(grains);
    unsigned quarter = (unsigned)(grains >> (top - 2)) & 3;
    return HAK_EXTENT_EXACT + 1 + (top - 8) * 4 + quarter;
}

size_t hak_extent_in(const hak_slab_t *unit, char **start) {
    *start = unit->base + ((size_t)(unit->extent_first % HAK_UNIT_GRAINS) << HAK_GRAIN_SHIFT);
    return unit->extent_first / HAK_UNIT_GRAINS;
}

static void insert(hak_extents_t *extents, char *start, size_t grains) {
    unsigned bin = bin_of(grains);
    hak_slab_t *unit = hak_slab_of(start), *last = hak_slab_of(end_of(start, grains) - 1);
    hak_slab_t *prev = NULL, *next = extents->bins[bin];
    HAK_ASSERT(!unit->extent_first && !last->extent_last);
    for (int i = 0; i < WALK_MAX && next && next->base < start; i++) {
        prev = next;
        next = next->next;
    }
    unit->prev = prev;
    unit->next = next;
    *(prev ? &prev->next : &extents->bins[bin]) = unit;
    if (next) next->prev = unit;
    extents->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    unit->extent_first = (uint32_t)(grains * HAK_UNIT_GRAINS) | grain_of(start);
    last->extent_last = (uint32_t)(grains * HAK_UNIT_GRAINS) | grain_of(end_of(start, grains) - 1);
}

static void remove_extent(hak_extents_t *extents, char *start, size_t grains) {
    unsigned bin = bin_of(grains);
    hak_slab_t *unit = hak_slab_of(start), *last = hak_slab_of(end_of(start, grains) - 1);
    *(unit->prev ? &unit->prev->next : &extents->bins[bin]) = unit->next;
    if (unit->next) unit->next->prev = unit->prev;
    if (!extents->bins[bin]) extents->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    unit->extent_first = 0;
    last->extent_last = 0;
}

/* First filled bin from `bin` on, 0 when there is none. */
static unsigned filled_bin(const hak_extents_t *extents, unsigned bin) {
    uint64_t word = extents->filled[bin / 64] & ~(uint64_t)0 << bin % 64;
    for (unsigned w = bin / 64;;) {
        if (word) return w * 64 + hak_lowest_bit(word);
        if (++w == HAK_EXTENT_WORDS) return 0;
        word = extents->filled[w];
    }
}

/* Bytes that `start` has to be moved up to be aligned. */
static size_t to_align(const char *start, size_t align_grains) {
    return -(uintptr_t)start & ((align_grains << HAK_GRAIN_SHIFT) - 1);
}

static bool fits(hak_slab_t *unit, size_t grains, size_t align_grains) {
    char *start;
    size_t have = hak_extent_in(unit, &start);
    return have >= grains + (to_align(start, align_grains) >> HAK_GRAIN_SHIFT);
}

/* Bins of one length come first: whatever is in them fits, unless for alignment. */
static hak_slab_t *find(const hak_extents_t *extents, size_t grains, size_t align_grains) {
    unsigned bin = bin_of(grains);
    while ((bin = filled_bin(extents, bin)) != 0) {
        for (hak_slab_t *unit = extents->bins[bin]; unit; unit = unit->next)
            if (HAK_LIKELY(fits(unit, grains, align_grains))) return unit;
        if (++bin == HAK_EXTENT_BINS) break;
    }
    return NULL;
}

/* Takes a part out of an extent; what is before and behind it stays free. */
static void cut(hak_extents_t *extents, char *start, size_t have, char *part, size_t grains) {
    size_t before = (size_t)(part - start) >> HAK_GRAIN_SHIFT;
    remove_extent(extents, start, have);
    if (before) insert(extents, start, before);
    if (have > before + grains) insert(extents, end_of(part, grains), have - before - grains);
}

char *hak_extents_take(hak_extents_t *extents, size_t grains, size_t align_grains) {
    hak_slab_t *unit = find(extents, grains, align_grains);
    if (!unit) return NULL;
    char *start;
    size_t have = hak_extent_in(unit, &start);
    char *block = start + to_align(start, align_grains);
    cut(extents, start, have, block, grains);
    return block;
}

bool hak_extents_take_at(hak_extents_t *extents, char *part, size_t grains) {
    /* The extent around `part` begins in its unit or in one before it. */
    hak_slab_t *unit = hak_region_slab_of(part);
    while (unit && hak_load_relaxed(&unit->owner) == extents->owner) {
        char *start;
        size_t have = hak_extent_in(unit, &start);
        if (have && start <= part) {
            if (end_of(start, have) < end_of(part, grains)) return false;
            cut(extents, start, have, part, grains);
            return true;
        }
        unit = hak_region_slab_of(unit->base - 1);
    }
    return false;
}

/* The unit that `address` lies in, NULL when it is not one of this heap, as that of
 * its neighbour is. */
static hak_slab_t *own_unit(const hak_extents_t *extents, char *address, const char *neighbour) {
    size_t differ = (uintptr_t)address ^ (uintptr_t)neighbour;
    if (HAK_LIKELY(differ >> HAK_UNIT_SHIFT >> hak_map.super_shift == 0))
        return hak_slab_of(address);
    hak_slab_t *unit = hak_region_slab_of(address);
    return unit && hak_load_relaxed(&unit->owner) == extents->owner ? unit : NULL;
}

void hak_extents_give(hak_extents_t *extents, char *start, size_t grains) {
    hak_slab_t *before = own_unit(extents, start - 1, start);
    if (before && before->extent_last &&
        before->extent_last % HAK_UNIT_GRAINS == grain_of(start - 1)) {
        size_t more = before->extent_last / HAK_UNIT_GRAINS;
        start -= more << HAK_GRAIN_SHIFT;
        grains += more;
        remove_extent(extents, start, more);
    }
    hak_slab_t *behind = own_unit(extents, end_of(start, grains), end_of(start, grains) - 1);
    if (behind && behind->extent_first &&
        behind->extent_first % HAK_UNIT_GRAINS == grain_of(end_of(start, grains))) {
        size_t more = behind->extent_first / HAK_UNIT_GRAINS;
        remove_extent(extents, end_of(start, grains), more);
        grains += more;
    }
    insert(extents, start, grains);
}

void hak_extents_reset(hak_extents_t *extents) {
    memset(extents->filled, 0, sizeof extents->filled);
    memset(extents->bins, 0, sizeof extents->bins);
}
