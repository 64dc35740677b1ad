/* region.h: the heap's addresses, and the flat map from any pointer to its class.
 *
 * The heap grows in one window of addresses (os/place.h) of which nothing is reserved: superslabs
 * are mapped step by step from low to high, and so are the records that describe them, each kind
 * in an area of its own with inaccessible ends (area.h):
 *
 *   | records of meta.c | superslabs | units: 64 bytes each | map: 2 bytes a unit | units ... |
 *                                                             ^hak_map.entries      ^heap
 *
 * A unit's number counts from the map's own address, so one pointer gives both the number and the
 * entry. An entry holds the class as the byte offset of its magazine in a thread's cache; 0 = not
 * ours. Units below the first are 0 too. `hak_map.unit_end` bounds what can be read, and grows.
 *
 * WHAT THE WINDOW MAY HOLD BESIDES. Somebody else may have mapped what lies behind the heap. Then
 * the heap goes on behind that: the superslabs in between are holes, which have records and
 * entries (all zero) but no memory. So all of the heap is in one map, and every free takes the
 * same path. A superslab that is wholly free can become a hole as well: where the address space is
 * limited, and where the heap was much larger once. It is mapped again before the heap grows;
 * where somebody else has taken its place meanwhile, it stays a hole.
 *
 *   mapped superslabs = those carved and not holes + those below `limit` that are not carved yet
 *   pieces = runs of neighbouring mapped superslabs <= HAK_PIECES_MAX
 *
 * Mappings, as the kernel counts them: pieces + borders of zones (zone.h) + 3 for each area. */
#ifndef HAK_REGION_H
#define HAK_REGION_H

#include "base/base.h"
#include "os/lock.h"
#include "region/unit.h"
#include "region/superslab.h"

enum {
    HAK_MAGAZINE_SHIFT = 5, /* log2 of the size of a magazine */
    HAK_PIECES_MAX = 256,   /* beyond, no superslab becomes a hole that makes one more */
};

/* What free reads. All zero until there is a region, so that before it every pointer is foreign.
 * hak_region_prepare() runs before a second thread can, so only what changes later is atomic. */
typedef struct {
    _Atomic uint16_t *entries; /* constant, as the next two */
    uintptr_t units;           /* of unit 0, if it had one: no subtraction to find a slab */
    uintptr_t supers;          /* the same of superslabs */
    _Atomic size_t unit_end;   /* readable entries; only grows, under the region lock. Whoever has
                                  a block was given it after the growth, and sees that */
    unsigned super_shift;      /* constant; log2 of the units of a superslab, by SS_SIZE */
} hak_map_t;

extern hak_map_t hak_map HAK_ALIGNED(HAK_LINE);
extern hak_lock_t hak_region_lock;

/* Of a superslab, once there is a region. */
HAK_FAST_PATH unsigned hak_superslab_units(void) { return 1u << hak_map.super_shift; }
HAK_FAST_PATH size_t hak_superslab_size(void) {
    return (size_t)HAK_UNIT_SIZE << hak_map.super_shift;
}
HAK_FAST_PATH unsigned hak_superslab_grains(void) { return HAK_UNIT_GRAINS << hak_map.super_shift; }
HAK_FAST_PATH unsigned hak_superslab_words(void) { return hak_superslab_grains() / 64; }

/* Makes the region, unless it is there. Called before threads are. */
void hak_region_prepare(void);

/* A fresh superslab: accessible, zero, all units free. NULL without memory. `dense`: what
 * is there is in use; should more have to be made accessible, then with huge pages. */
hak_superslab_t *hak_region_take_superslab(bool dense);

/* A superslab that was unmapped, mapped again: as a fresh one. NULL when there is none. The second
 * is for a certain one, perhaps beyond the first or the last: false when it is no such. */
hak_superslab_t *hak_region_take_unmapped(void);
bool hak_region_map_again(hak_superslab_t *super);
bool hak_region_has_unmapped(void);

/* Unmaps a superslab of which nothing is in use; nobody may have it in a list. False when that
 * would make too many pieces, or the kernel refuses: then nothing has changed. */
bool hak_region_unmap(hak_superslab_t *super);

/* Gives pages of a superslab back; see hak_os_purge. It has no huge pages from then on,
 * since the kernel would fill the gap again to make one. */
bool hak_region_purge(hak_superslab_t *super, void *start, size_t size);

/* True when huge pages are asked for where a superslab lies. */
bool hak_region_wishes_huge(const hak_superslab_t *super);

/* Descriptor of the unit that any address lies in, NULL when it is none of the heap. */
hak_unit_t *hak_region_unit_of(const void *addr);

/* The same for an address known to be in a unit. */
HAK_FAST_PATH hak_unit_t *hak_unit_of(const void *block) {
    size_t unit = ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
    if (HAK_LIKELY(hak_is_below(unit, &hak_map.unit_end)))
        return (hak_unit_t *)(hak_map.units + unit * sizeof(hak_unit_t));
    return hak_region_unit_of(block);
}

/* True when an address lies in a superslab that was unmapped, and was not mapped again. */
bool hak_region_was_unmapped(const void *addr);

hak_superslab_t *hak_region_superslab_of(const hak_unit_t *slab);

/* The record of the superslab that a block lies in. */
HAK_FAST_PATH hak_superslab_t *hak_superslab_of(const void *block) {
    size_t unit = ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
    if (HAK_LIKELY(hak_is_below(unit, &hak_map.unit_end)))
        return (hak_superslab_t *)(hak_map.supers +
                                   (unit >> hak_map.super_shift) * sizeof(hak_superslab_t));
    return hak_region_superslab_of(hak_region_unit_of(block));
}

/* True when the record behind this one is that of the next superslab, already handed out. */
bool hak_region_superslab_follows(const hak_superslab_t *super);

/* True when the next fresh superslab will be the one behind this one, if that is free. */
bool hak_region_superslab_is_last(const hak_superslab_t *super);

/* True of a superslab that was handed out and is no hole; it may be beyond the first or the last. */
bool hak_region_is_mapped(const hak_superslab_t *super);

/* The superslab before this one, NULL when that is a hole or there is none. */
hak_superslab_t *hak_region_superslab_before(hak_superslab_t *super);

/* Enters the class of `count` units from `slab` on in the map. */
void hak_region_set_class(const hak_unit_t *slab, unsigned count, unsigned class_index);

/* Calls `visit` for every superslab there is. */
void hak_region_each_superslab(void (*visit)(hak_superslab_t *super, void *context), void *context);

/* Superslabs that are mapped; mappings that the region is to the kernel, at most. */
size_t hak_region_mapped_superslabs(void);
size_t hak_region_mappings(void);

#endif
