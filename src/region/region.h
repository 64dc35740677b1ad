/* region.h: reserved address ranges, and the flat map from any pointer to its class.
 *
 * One large range is reserved without access and made accessible in growing steps
 * from low to high; only the map can be read from the start:
 *
 *   base: | map: 2 bytes a unit | slabs: 64 bytes a unit | superslabs | units ... |
 *
 * A unit's number counts from `base`, the map's own address, so one pointer gives
 * both the number and the entry. An entry holds the class as the byte offset of
 * its bin in a thread's cache; 0 = not ours. Units below the first are 0 too.
 *
 * Where the address space is limited the range is small, and further ones follow
 * when it is full; only the first is on the hot path, the others are searched. */
#ifndef HAK_REGION_H
#define HAK_REGION_H

#include "base/base.h"
#include "os/lock.h"
#include "region/slab.h"
#include "region/superslab.h"

enum {
    HAK_BIN_SHIFT = 5, /* log2 of the size of a cache bin */
    HAK_REGIONS_MAX = 128,
};

typedef struct {
    char *base;               /* constant after the region is published */
    size_t unit_limit;        /* region lock; units [first, limit) are accessible */
    size_t first_unit;        /* constant */
    size_t units_end;         /* constant; end of the reservation */
    size_t map_committed;     /* region lock; bytes */
    size_t slabs_committed;   /* region lock; bytes */
    size_t supers_committed;  /* region lock; bytes */
    bool huge;                /* region lock; huge pages were asked for in the last step */
    _Atomic size_t unit_next; /* written under the region lock; next never used unit */
    hak_slab_t *slabs;        /* constant; by unit - first_unit */
    hak_superslab_t *supers;  /* constant; by (unit - first_unit) / units of a superslab */
} hak_region_t;

/* What free reads. All zero until the first region exists, so that before it every
 * pointer is foreign; constant after that. hak_region_prepare() runs before a second
 * thread can, so no atomics are needed. */
typedef struct {
    _Atomic uint16_t *entries; /* = base of the first region */
    size_t unit_end;           /* readable entries */
    uintptr_t slabs;           /* of unit 0, if it had one: no subtraction to find a slab */
    uintptr_t supers;          /* the same of superslabs */
    unsigned super_shift;      /* log2 of the units of a superslab, by SS_SIZE */
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

/* Makes the first region, unless it is there. Called before threads are. */
void hak_region_prepare(void);

/* A fresh superslab: accessible, zero, all units free. NULL without memory. `dense`: what
 * is there is in use; should more have to be made accessible, then with huge pages. */
hak_superslab_t *hak_region_take_superslab(bool dense);

/* Gives pages of a superslab back; see hak_os_purge. It has no huge pages from then on,
 * since the kernel would fill the gap again to make one. */
bool hak_region_purge(hak_superslab_t *super, void *start, size_t size);

/* No more huge pages in a superslab: it is not known to become dense. */
void hak_region_refuse_huge(hak_superslab_t *super);

/* Descriptor of the unit that any address lies in, NULL when no region has it. */
hak_slab_t *hak_region_slab_of(const void *addr);

/* The same for an address known to be in a unit of some region. */
HAK_FAST_PATH hak_slab_t *hak_slab_of(const void *block) {
    size_t unit = ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
    if (HAK_LIKELY(unit < hak_map.unit_end))
        return (hak_slab_t *)(hak_map.slabs + unit * sizeof(hak_slab_t));
    return hak_region_slab_of(block);
}

hak_superslab_t *hak_region_superslab_of(const hak_slab_t *slab);

/* The record of the superslab that a block lies in. */
HAK_FAST_PATH hak_superslab_t *hak_superslab_of(const void *block) {
    size_t unit = ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
    if (HAK_LIKELY(unit < hak_map.unit_end))
        return (hak_superslab_t *)(hak_map.supers +
                                   (unit >> hak_map.super_shift) * sizeof(hak_superslab_t));
    return hak_region_superslab_of(hak_region_slab_of(block));
}

/* True when the record behind this one is that of the next superslab, already handed out. */
bool hak_region_superslab_follows(const hak_superslab_t *super);

/* Enters the class of `count` units from `slab` on in the map. */
void hak_region_set_class(const hak_slab_t *slab, unsigned count, unsigned class_index);

/* Calls `visit` for every superslab there is. */
void hak_region_each_superslab(void (*visit)(hak_superslab_t *super, void *context), void *context);

#endif
