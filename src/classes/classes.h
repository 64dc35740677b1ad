/* classes.h: size -> size class, and offset in a slab -> block index.
 *
 * A slab is one unit of 64 KiB that starts at a multiple of 64 KiB and holds blocks of one
 * class, so the low 16 bits of a pointer are its offset in its slab. In slabs of tiny classes,
 * and of classes of a power of two, the first block starts at offset 0.
 *
 * COLOURS. If mid blocks of all slabs began at the same few offsets, they would map to the same
 * few sets of a CPU's cache: a thousand of them would evict each other from a cache that has
 * room for all. So the first block of a mid slab starts at an offset that the slab's address
 * determines, the colour of the slab; the room that is left behind the last block bounds it.
 * Colours are 128 bytes apart, which may cost a full slab one page more; above 32 KiB, where a
 * page is a tenth of the block, they are 4 KiB apart. */
#pragma once

#include "base/base.h"

/* The indices of the classes. */
enum {
    HAK_CLASS_NONE, /* foreign, NULL, or not in use */
#define CLASS_BY_8(bytes, below, band) HAK_CLASS_##bytes,
#define CLASS_BY_128(bytes, below, band) HAK_CLASS_##bytes,
#include "classes/classes.def"
#undef CLASS_BY_8
#undef CLASS_BY_128
    HAK_CLASS_DYN,                       /* the dynamic class, of the mid tier; see dyn.h */
    HAK_CLASS_LARGE,                     /* units of large blocks, which threads never cache */
    HAK_CLASS_LIMIT,                     /* entries of a table by class */
    HAK_CLASS_SMALL = HAK_CLASS_1024,    /* the last one of the first routing table */
    HAK_CLASS_TINY = HAK_CLASS_2048,     /* the last one of the tiny tier */
    HAK_CLASS_FIXED = HAK_CLASS_DYN - 1, /* the last one of classes.def */
    HAK_CLASS_COUNT = HAK_CLASS_DYN,     /* the last one that has blocks in slabs */
};

enum {
    HAK_UNIT_SHIFT = 16,
    HAK_UNIT_SIZE = 1 << HAK_UNIT_SHIFT,
    HAK_ROUTE_STEP = 128,  /* bytes between two entries of the second routing table */
    HAK_SMALL_MAX = 1024,  /* largest size of the first routing table */
    HAK_TINY_MAX = 2048,   /* largest size of the tiny tier */
    HAK_CLASS_MAX = 65536, /* largest size of a size class */
    HAK_LARGE_MAX = 1 << 20,
    HAK_LARGE_ALIGN_MAX = 2 << 20, /* strictest alignment of a large block; above, a mapping */
    HAK_BLOCKS_MAX = 4096,         /* most blocks in a slab, which bounds its bitmap */
    HAK_BLOCKS_FEW = 64,
    HAK_BLOCKS_SOME = 1024,
    HAK_WORDS_MAX = HAK_BLOCKS_MAX / 64,
    HAK_COLOUR_STEP = 128, /* every block of a mid class is aligned to this at least */
};

/* log2 of the step between two colours of a class of `size` bytes, and the number of its
 * colours. Even the last colour leaves one step of the room unused, so that no address before
 * the first block can pass as the start of a block behind the last one. */
#define HAK_STEP_SHIFT_OF(size) ((size) <= HAK_UNIT_SIZE / 2 ? 7 : 12)
#define HAK_COLOURS_OF(size)                                        \
    ((size) > HAK_TINY_MAX && ((size) & ((size)-1)) != 0 &&         \
             HAK_UNIT_SIZE % (size) >> HAK_STEP_SHIFT_OF(size) != 0 \
         ? HAK_UNIT_SIZE % (size) >> HAK_STEP_SHIFT_OF(size)        \
         : 1)

/* The tiers that have size classes. */
typedef enum { HAK_TINY, HAK_MID, HAK_CACHED_TIERS } hak_tier_t;

/* Eight ranges of tiny classes, and one band for all mid classes. */
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

/* A number that tells the start of a block by one multiplication: m with m * size = 2^64 + e,
 * where 2^31 / count <= e < 2^31 / count + size. */
#define HAK_START_TEST_OF(size, count) \
    (UINT64_MAX / (size) +             \
     (UINT64_MAX % (size) + (((uint64_t)1 << 31) + (count)-1) / (count) + (size)) / (size))

/* More than 2^32 / size, by less than 1, or by 1. */
#define HAK_RECIPROCAL_OF(size) ((uint32_t)(((uint64_t)1 << 32) / (size) + 1))

/* For hak_is_tiny_start: count * e, where e = reciprocal * size - 2^32, from 1 to `size`. */
#define HAK_TINY_TEST_OF(size, count) ((uint32_t)(size)*HAK_RECIPROCAL_OF(size) * (count))

typedef struct {
    uint32_t size;              /* bytes of a block */
    uint32_t reciprocal;        /* offset to block index by one multiplication */
    uint16_t count;             /* blocks in a slab */
    uint8_t words;              /* 64-bit words of its bitmap */
    uint8_t level;              /* 0, 1, 2: up to BLOCKS_FEW, BLOCKS_SOME or BLOCKS_MAX blocks */
    uint16_t colours;           /* offsets at which the first block may start */
    uint16_t step_shift;        /* log2 of the bytes between two of these */
    uint64_t start_test;        /* for hak_is_block_start */
    uint16_t stay_least;        /* of a tiny class, else all zero: realloc keeps a block for */
    _Atomic uint16_t stays;     /* sizes from stay_least to stay_least + stays - 1, */
    _Atomic uint32_t tiny_test; /* and malloc_usable_size needs no look but hak_is_tiny_start. Both
                                   become 0 when the hardened path is switched on */
} hak_class_t;

/* The map holds the byte offset of a row, which is also that of the magazine in a cache. */
enum { HAK_MAGAZINE_SHIFT = 5 };
_Static_assert(sizeof(hak_class_t) == 1 << HAK_MAGAZINE_SHIFT, "the map holds offsets of rows");

/* A block of up to 64 bytes stays for every smaller size; a larger one, if more than half of it is
 * used. */
#define HAK_STAY_LEAST_OF(size) ((size) <= 64 ? 1 : (size) / 2 + 1)

/* Constant, except for the row of the dynamic class. That row is written once, before the
 * first route leads to it; a thread that got the class from a route or from the slab of a block
 * may read the row. */
extern hak_class_t hak_classes[HAK_CLASS_LIMIT];

/* Class of sizes up to 64 KiB, in steps of 128 bytes: entry (size + 127) / 128. Only dyn.c
 * writes it. */
extern _Atomic uint8_t hak_class_by_128[HAK_CLASS_MAX / HAK_ROUTE_STEP + 1];

/* Class of sizes up to 1024, in steps of 8 bytes: entry (size + 7) / 8. */
extern const uint8_t hak_class_by_8[HAK_SMALL_MAX / 8 + 1];

/* The acquire is the partner of the release in dyn.c. */
HAK_FAST_PATH unsigned hak_class_of(size_t size) {
    HAK_ASSERT(size <= HAK_CLASS_MAX);
    return size <= HAK_SMALL_MAX ? hak_class_by_8[(size + 7) >> 3]
                                 : hak_load_acquire(&hak_class_by_128[(size + 127) >> 7]);
}

/* Smallest class that holds `size` bytes (1 or more) at a multiple of `align`, a power of two
 * up to 64 KiB. Above 2 KiB, and with an alignment above 128, it is the class of the next power
 * of two. */
unsigned hak_class_of_aligned(size_t size, size_t align);

HAK_FAST_PATH hak_tier_t hak_tier_of_class(unsigned class_index) {
    return class_index <= HAK_CLASS_TINY ? HAK_TINY : HAK_MID;
}

/* True when the blocks of a class leave more than a sixteenth of a slab untouched. */
HAK_FAST_PATH bool hak_class_is_ragged(unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    return HAK_UNIT_SIZE - info->count * info->size > HAK_UNIT_SIZE / 16;
}

HAK_FAST_PATH bool hak_class_is_tiny(const hak_class_t *info) { return info->stay_least != 0; }

/* The class's slabs have colours. */
HAK_FAST_PATH bool hak_class_is_coloured(const hak_class_t *info) { return info->colours > 1; }

/* Offset of the first block in the unit that contains an address. The multiplier, the golden
 * ratio times 65536, gives adjacent units colours that are far apart. */
HAK_FAST_PATH uint32_t hak_first_offset(uintptr_t address, const hak_class_t *info) {
    uint32_t mixed = (uint16_t)((uint32_t)(address >> HAK_UNIT_SHIFT) * 40503u);
    return (mixed * info->colours) >> 16 << info->step_shift;
}

/* Offset of an address from the first block of its slab. For an address before the first block
 * the result lies behind the last block. */
HAK_FAST_PATH uint32_t hak_block_offset(uintptr_t address, const hak_class_t *info) {
    return (uint16_t)(address - hak_first_offset(address, info));
}

/* Index of the block that contains `offset`; exact for every offset < 65536, since the reciprocal is at most
 * 1 too large and offset < 2^32 / size: the error stays below 1/size. */
HAK_FAST_PATH uint32_t hak_block_index(uint32_t offset, uint32_t reciprocal) {
    return (uint32_t)(((uint64_t)offset * reciprocal) >> 32);
}

/* True when a block of the slab starts at `offset` < 65536; false inside a block, and behind the
 * last block. Proof: for offset = index * size + remainder the product is
 * index * e + remainder * m modulo 2^64. If the remainder is 0, the product is below 2^31 for
 * every index < count, since (count - 1) * e < 2^31 - 2^31 / count + count * size and
 * count^2 * size < 2^31; from index = count on it is not below 2^31. If the remainder is not 0,
 * the product is at least 2^64 / size, and about as far below 2^64. */
HAK_FAST_PATH bool hak_is_block_start(uint32_t offset, uint64_t start_test) {
    return offset * start_test < (uint64_t)1 << 31;
}

/* The same by the row of a tiny class, while the hardened path is off; false for all others. Proof: for
 * offset = index * size + remainder the product is index * e + remainder * reciprocal modulo 2^32, and
 * index * e < 2^16. If the remainder is 0, that is below count * e exactly for index < count. If not, the product
 * is at least 2^32 / 2048, and remains below 2^32: (size - 1) * reciprocal = 2^32 + e - reciprocal. */
HAK_FAST_PATH bool hak_is_tiny_start(uint32_t offset, const hak_class_t *row) {
    return hak_is_below_32(offset * row->reciprocal, &row->tiny_test);
}

/* As hak_is_block_start, and the index of the block that starts there: what the product has above 2^64. */
HAK_FAST_PATH bool hak_is_block_index(uint32_t offset, uint64_t start_test, uint32_t *index) {
    unsigned __int128 product = (unsigned __int128)offset * start_test;
    *index = (uint32_t)(product >> 64);
    return (uint64_t)product < (uint64_t)1 << 31;
}
