/* classes.c: the tables of the size classes, made from classes.def. Tables that the dynamic
 * class changes are writable data; the others lie next to them (HAK_NEAR), so that no process
 * needs a page for either of them alone. */
#include "classes/classes.h"

#define COUNT_OF(size) \
    (HAK_UNIT_SIZE / (size) < HAK_BLOCKS_MAX ? HAK_UNIT_SIZE / (size) : HAK_BLOCKS_MAX)

#define IF_TINY(size, value) ((size) <= HAK_TINY_MAX ? (value) : 0)

hak_class_t hak_classes[HAK_CLASS_LIMIT] HAK_ALIGNED(HAK_LINE) = {
#define CLASS_ROW(bytes)                                                                        \
    [HAK_CLASS_##bytes] = {.size = (bytes),                                                     \
                           .reciprocal = HAK_RECIPROCAL_OF(bytes),                              \
                           .count = COUNT_OF(bytes),                                            \
                           .words = (COUNT_OF(bytes) + 63) / 64,                                \
                           .level = (COUNT_OF(bytes) > HAK_BLOCKS_FEW) +                        \
                                    (COUNT_OF(bytes) > HAK_BLOCKS_SOME),                        \
                           .colours = HAK_COLOURS_OF(bytes),                                    \
                           .step_shift = HAK_STEP_SHIFT_OF(bytes),                              \
                           .start_test = HAK_START_TEST_OF((uint32_t)(bytes), COUNT_OF(bytes)), \
                           .stay_least = IF_TINY(bytes, HAK_STAY_LEAST_OF(bytes)),              \
                           .stays = IF_TINY(bytes, (bytes)-HAK_STAY_LEAST_OF(bytes) + 1),       \
                           .tiny_test = IF_TINY(bytes, HAK_TINY_TEST_OF(bytes, COUNT_OF(bytes)))},
#define CLASS_BY_8(bytes, below, band) CLASS_ROW(bytes)
#define CLASS_BY_128(bytes, below, band) CLASS_ROW(bytes)
#include "classes/classes.def"
#undef CLASS_BY_8
#undef CLASS_BY_128
};

const uint8_t hak_bands[HAK_CLASS_LIMIT] HAK_NEAR = {
#define CLASS_BY_8(bytes, below, band) [HAK_CLASS_##bytes] = HAK_BAND_##band,
#define CLASS_BY_128(bytes, below, band) [HAK_CLASS_##bytes] = HAK_BAND_##band,
#include "classes/classes.def"
#undef CLASS_BY_8
#undef CLASS_BY_128
    [HAK_CLASS_DYN] = HAK_BAND_MID,
};

const uint8_t hak_class_by_8[HAK_SMALL_MAX / 8 + 1] HAK_NEAR = {
#define CLASS_BY_8(bytes, below, band) [(below) / 8 + 1 ...(bytes) / 8] = HAK_CLASS_##bytes,
#define CLASS_BY_128(bytes, below, band)
#include "classes/classes.def"
#undef CLASS_BY_8
#undef CLASS_BY_128
};

_Atomic uint8_t hak_class_by_128[HAK_CLASS_MAX / HAK_ROUTE_STEP + 1] = {
#define CLASS_BY_8(bytes, below, band)
#define CLASS_BY_128(bytes, below, band) [(below) / 128 + 1 ...(bytes) / 128] = HAK_CLASS_##bytes,
#include "classes/classes.def"
#undef CLASS_BY_8
#undef CLASS_BY_128
};

#if HAKMEM_DEBUG
/* True when every block of a class is aligned: the size is a multiple of the alignment, and the
 * first block is aligned, too, which colours guarantee up to HAK_COLOUR_STEP only. */
static bool is_aligned(const hak_class_t *info, size_t align) {
    return !(info->size & (align - 1)) &&
           (align <= HAK_COLOUR_STEP || !hak_class_is_coloured(info));
}
#endif

/* Computed without a search, because the CPU could not predict the length of a search. A size
 * that is a multiple of the alignment has a fixed class that is a multiple, too, since classes
 * are spaced by an eighth of a power of two. Above 2 KiB nearly all classes without colours are
 * powers of two. The dynamic class is a multiple of HAK_COLOUR_STEP. It serves no power of two:
 * its own size would have a fixed class, and the class of a smaller power of two has more blocks
 * in a slab (see hak_dyn_first). */
unsigned hak_class_of_aligned(size_t size, size_t align) {
    size = hak_align_up(size, align);
    if (align > HAK_COLOUR_STEP && size > HAK_TINY_MAX) size = hak_ceil_pow2(size);
    unsigned class_index = hak_class_of(size);
    HAK_ASSERT(is_aligned(&hak_classes[class_index], align));
    return class_index;
}
