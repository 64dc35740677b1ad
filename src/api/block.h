/* block.h: what a pointer is.
 *
 * The hot paths of malloc and free do not use it. Every other function that gets a pointer asks here,
 * once: first whose memory it is in, then which block. A free of a large or huge block needs the
 * first answer only, since the owner of the memory finds out whether a block in use begins there. */
#pragma once

#include "base/base.h"
#include "region/region.h"

typedef enum {
    HAK_KIND_CACHED,  /* block of a size class */
    HAK_KIND_LARGE,   /* large block */
    HAK_KIND_HUGE,    /* huge block: a mapping of its own */
    HAK_KIND_SAMPLED, /* block on a page of its own (hardened/guard_sample.h) */
    HAK_KIND_FREED,   /* in memory of HAKMEM that is not in use */
    HAK_KIND_INSIDE,  /* in a block, not at its start */
    HAK_KIND_FOREIGN, /* not in HAKMEM's memory, or there in no block */
} hak_kind_t;

/* Whose memory a pointer is in. */
typedef struct {
    hak_unit_t *unit;     /* NULL outside the heap */
    unsigned class_index; /* of the unit; NONE: of the pool, or outside the heap */
} hak_place_t;

HAK_FAST_PATH hak_place_t hak_block_place(const void *pointer) {
    hak_unit_t *unit = hak_region_unit_of(pointer);
    return (hak_place_t){unit, unit ? hak_owner_class(hak_load_acquire(&unit->owner)) : 0};
}

typedef struct {
    hak_kind_t kind;
    unsigned class_index; /* as in hak_place_t, as is `unit` */
    hak_unit_t *unit;
    void *start; /* of the block; NULL when FREED or FOREIGN */
    size_t size; /* usable bytes; 0 when FOREIGN, or when FREED and the size is unknown */
} hak_block_t;

/* The block at a pointer. The second finds the place itself. */
hak_block_t hak_block_in(hak_place_t place, const void *pointer);
hak_block_t hak_block_of(const void *pointer);

HAK_FAST_PATH bool hak_block_usable(const hak_block_t *block) {
    return block->kind <= HAK_KIND_SAMPLED;
}

/* True when a debug record at the block's start may belong to the block, or to the previous block
 * there. False outside the region; in a slab of tiny blocks, where the record may belong to an older
 * mid block that began at the same address; and for a fine block of at most HAK_TINY_MAX bytes, since
 * other blocks begin in the same 2 KiB. */
bool hak_block_has_record(const hak_block_t *block);
