/* verify_world.h - a heap with one of each thing that has invariants, and the engine's static variables;
 * for the tests of verify.c, which break them. */
#pragma once

#include "unit.h"

#include "cache/cache.h"
#include "large/heap_purge.h"
#include "meta/area.h"
#include "shard/bin.h"
#include "shard/warm_slab.h"

/* As in region.c. */
typedef struct {
    char *heap;
    void *supers, *slabs;
    size_t first_unit, window_end;
    hak_area_t areas[3] HAK_ALIGNED(HAK_LINE);
    size_t carved, limit, mapped, pieces;
    void *unmapped;
} region_t;

typedef struct {
    hak_unit_t *slab; /* listed, some of its blocks are free */
    hak_unit_t *warm; /* bound to this thread, by the next */
    hak_warm_slot_t *slot;
    hak_bin_t *bin; /* of the first; it keeps an empty slab, too */
    hak_superslab_t *super, *dirty;
    hak_heap_t *heap;
    hak_unit_t *block, *extent; /* of the large heap: a block in use, free memory */
    hak_magazine_t *magazine;
    void *huge, *kept;
    hak_cache_t *waiting;
    void *record; /* in a list of free records of 64 KiB */
} verify_world_t;

extern verify_world_t world;

/* Makes it, once in a process. */
void make_world(void);

/* Allocates so many blocks and frees them all. */
void free_all_of(size_t size, unsigned count);

/* The static variable of this name and size, of a source file. After make_world. */
void *find_static(const char *file, const char *name, size_t size);
region_t *region(void);
