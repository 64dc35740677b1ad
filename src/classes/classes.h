/* classes.h: size -> size class, and offset in a slab -> block index.
 *
 * A slab is one unit of 64 KiB that starts at a multiple of 64 KiB and holds
 * blocks of one class, so the low 16 bits of a pointer are its offset in its slab.
 * Tiny blocks, and those of a power of two, lie from the first byte on.
 *
 * COLOURS. Blocks of some KiB that all began at the same few offsets would meet in the
 * same few sets of a CPU's cache: a thousand of them push each other out of a cache that
 * has room for all. So the first block of a mid slab lies further in, as far as the room
 * behind the last block allows: the colour of the slab, found from its address alone. The
 * steps are of 128 bytes, which may cost a full slab one page more; above 32 KiB, where
 * that is a tenth of the block, they are of 4 KiB. */
#ifndef HAK_CLASSES_H
#define HAK_CLASSES_H

#include "base/base.h"

enum {
    HAK_UNIT_SHIFT = 16,
    HAK_UNIT_SIZE = 1 << HAK_UNIT_SHIFT,
    HAK_CLASS_TINY = 41,   /* classes 1..41 are the tiny tier */
    HAK_CLASS_FIXED = 81,  /* classes 1..81 are those of classes.def */
    HAK_CLASS_DYN = 82,    /* the dynamic class, of the mid tier; see dyn.h */
    HAK_CLASS_COUNT = 82,  /* classes 1..82 */
    HAK_CLASS_NONE = 0,    /* foreign, NULL, or not in use */
    HAK_CLASS_LARGE = 83,  /* units of a large block: known, but never cached */
    HAK_CLASS_LIMIT = 84,  /* one bin for each of the above */
    HAK_ROUTE_STEP = 128,  /* bytes between two entries of the second routing table */
    HAK_SMALL_MAX = 1024,  /* largest size of the first routing table */
    HAK_TINY_MAX = 2048,   /* largest size of the tiny tier */
    HAK_CLASS_MAX = 65536, /* largest size of a size class */
    HAK_LARGE_MAX = 1 << 20,
    HAK_LARGE_ALIGN_MAX = 2 << 20, /* of large blocks; beyond, a mapping */
    HAK_BLOCKS_MAX = 4096,         /* most blocks in a slab, which bounds its bitmap */
    HAK_WORDS_MAX = HAK_BLOCKS_MAX / 64,
    HAK_COLOUR_STEP = 128, /* what every block of a mid class is aligned to, at least */
};

/* The step of a class of `size` bytes, and its colours. The last one leaves a step of the
 * room unused: so no place before the first block passes as the start of one behind the last. */
#define HAK_STEP_SHIFT_OF(size) ((size) <= HAK_UNIT_SIZE / 2 ? 7 : 12)
#define HAK_COLOURS_OF(size)                                        \
    ((size) > HAK_TINY_MAX && ((size) & ((size)-1)) != 0 &&         \
             HAK_UNIT_SIZE % (size) >> HAK_STEP_SHIFT_OF(size) != 0 \
         ? HAK_UNIT_SIZE % (size) >> HAK_STEP_SHIFT_OF(size)        \
         : 1)

/* The tiers that have size classes. */
typedef enum { HAK_TINY, HAK_MID, HAK_CACHED_TIERS } hak_tier_t;

/* The eight ranges of the tiny tier, and one for all mid classes. */
typedef enum {
    HAK_BAND_C0,
    HAK_BAND_C1,
    HAK_BAND_C2,
    HAK_BAND_C3,
    HAK_BAND_C4,
    HAK_BAND_C5,
    HAK_BAND_C6,
    HAK_BAND_C7,
    HAK_BAND_MID,
    HAK_BAND_COUNT
} hak_band_t;

extern const uint8_t hak_bands[HAK_CLASS_LIMIT]; /* hak_band_t of a class */

typedef struct {
    uint32_t size;       /* bytes of a block */
    uint32_t reciprocal; /* ceil(2^32 / size): the index of an offset by one multiply */
    uint16_t count;      /* blocks in a slab */
    uint16_t words;      /* 64-bit words of its bitmap */
    uint16_t colours;    /* places where the first block may lie */
    uint16_t step_shift; /* log2 of the bytes between two of them */
} hak_class_t;

/* Constant but for the row of the dynamic class, which is written once, before the first
 * route leads to it: whoever has the class from a route or from a block's slab may read it. */
extern hak_class_t hak_classes[HAK_CLASS_LIMIT];

/* Class of sizes up to 64 KiB, in steps of 128 bytes: entry (size + 127) / 128. Written
 * by dyn.c alone. */
extern _Atomic uint8_t hak_class_by_128[HAK_CLASS_MAX / HAK_ROUTE_STEP + 1];

/* Class of sizes up to 1024, in steps of 8 bytes: entry (size + 7) / 8. */
extern const uint8_t hak_class_by_8[HAK_SMALL_MAX / 8 + 1];

/* The acquire is the partner of the release in dyn.c. */
HAK_FAST_PATH unsigned hak_class_of(size_t size) {
    HAK_ASSERT(size <= HAK_CLASS_MAX);
    return size <= HAK_SMALL_MAX ? hak_class_by_8[(size + 7) >> 3]
                                 : hak_load_acquire(&hak_class_by_128[(size + 127) >> 7]);
}

HAK_FAST_PATH hak_tier_t hak_tier_of_class(unsigned class_index) {
    return class_index <= HAK_CLASS_TINY ? HAK_TINY : HAK_MID;
}

/* True when the blocks of a class leave more than a sixteenth of a slab untouched. */
HAK_FAST_PATH bool hak_class_is_ragged(unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    return HAK_UNIT_SIZE - info->count * info->size > HAK_UNIT_SIZE / 16;
}

/* The class's slabs have colours. */
HAK_FAST_PATH bool hak_class_is_coloured(const hak_class_t *info) { return info->colours > 1; }

/* Offset of the first block in the unit that an address lies in. Units in a row get
 * colours that are far apart (the golden section of 65536). */
HAK_FAST_PATH uint32_t hak_first_offset(uintptr_t address, const hak_class_t *info) {
    uint32_t mixed = (uint16_t)((uint32_t)(address >> HAK_UNIT_SHIFT) * 40503u);
    return (mixed * info->colours) >> 16 << info->step_shift;
}

/* Offset of an address from the first block of its slab; for one that lies before the first
 * block an offset in the room behind the last. */
HAK_FAST_PATH uint32_t hak_block_offset(uintptr_t address, const hak_class_t *info) {
    return (uint16_t)(address - hak_first_offset(address, info));
}

/* Index of the block that contains `offset`; exact for every offset < 65536,
 * since the error of the rounded reciprocal stays below 1/size. */
HAK_FAST_PATH uint32_t hak_block_index(uint32_t offset, uint32_t reciprocal) {
    return (uint32_t)(((uint64_t)offset * reciprocal) >> 32);
}

/* What tells the start of a block by one multiply: a number m with m * size = 2^64 + e, where
 * 2^31 / count <= e < 2^31 / count + size. */
HAK_FAST_PATH uint64_t hak_start_test(uint32_t size, uint32_t count) {
    const uint64_t least = (((uint64_t)1 << 31) + count - 1) / count;
    return UINT64_MAX / size + (UINT64_MAX % size + 1 + least + size - 1) / size;
}

/* True when one of the blocks of a slab starts at `offset` < 65536; false in a block, and in the
 * room behind the last one. For index * size + remainder the product is
 * index * e + remainder * m modulo 2^64. Without a remainder that is below 2^31 up to the last
 * index, since (count - 1) * e < 2^31 - 2^31 / count + count * size and
 * count^2 * size < 2^31, and not below it from index = count on. With a remainder it is at least
 * 2^64 / size, and stays that far below 2^64. */
HAK_FAST_PATH bool hak_is_block_start(uint32_t offset, uint64_t start_test) {
    return offset * start_test < (uint64_t)1 << 31;
}

#endif
