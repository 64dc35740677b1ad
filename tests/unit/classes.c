/* classes.c: for every size its class, and for every offset in a slab its block. */
#include "unit.h"

#include "classes/classes.h"

static void sizes_find_the_smallest_class_that_fits(void **state) {
    (void)state;
    for (size_t size = 0; size <= HAK_CLASS_MAX; size++) {
        unsigned index = hak_class_of(size);
        REQUIRE(index >= 1 && index <= HAK_CLASS_FIXED, "size %zu has class %u", size, index);
        REQUIRE(hak_classes[index].size >= size, "size %zu does not fit class %u of %u bytes", size,
                index, hak_classes[index].size);
        REQUIRE(hak_classes[index - 1].size < size || index == 1,
                "size %zu would fit class %u of %u bytes, but has %u", size, index - 1,
                hak_classes[index - 1].size, index);
    }
}

static void waste_is_at_most_an_eighth(void **state) {
    (void)state;
    for (size_t size = 128; size <= HAK_CLASS_MAX; size++) {
        size_t block = hak_classes[hak_class_of(size)].size;
        REQUIRE(block * 8 <= size * 9, "size %zu gets %zu bytes, more than 12.5 %% too many", size,
                block);
    }
}

/* As a slab begins at a multiple of 64 KiB, a block is aligned as its size is. */
static void blocks_are_aligned(void **state) {
    (void)state;
    for (size_t size = 1; size <= HAK_CLASS_MAX; size++) {
        size_t block = hak_classes[hak_class_of(size)].size;
        size_t align = size > 8 ? 16 : 8;
        REQUIRE(block % align == 0, "size %zu gets blocks of %zu bytes, not aligned to %zu", size,
                block, align);
        if (hak_is_pow2(size) && size >= 8)
            REQUIRE(block == size, "the power of two %zu is no class", size);
    }
}

static bool keeps(const hak_class_t *row, size_t align) {
    return row->size % align == 0 && (align <= HAK_COLOUR_STEP || row->colours == 1);
}

/* What hak_allocate_aligned relies on: the smallest class that does, or above 2 KiB and 128
 * bytes of alignment the power of two. */
static void every_alignment_has_a_class_for_every_size(void **state) {
    (void)state;
    for (size_t align = 1; align <= HAK_UNIT_SIZE; align *= 2) {
        for (size_t size = align < 16 ? 16 : 1; size <= HAK_CLASS_MAX; size += 1 + size / 500) {
            unsigned index = hak_class_of_aligned(size, align), wanted = hak_class_of(size);
            while (!keeps(&hak_classes[wanted], align)) wanted++;
            if (align > HAK_COLOUR_STEP && hak_align_up(size, align) > HAK_TINY_MAX)
                wanted = hak_class_of(hak_ceil_pow2(hak_max(size, align)));
            REQUIRE(index == wanted, "class %u, not %u, for size %zu at multiples of %zu", index,
                    wanted, size, align);
            REQUIRE(index <= HAK_CLASS_FIXED && keeps(&hak_classes[index], align) &&
                        hak_classes[index].size >= size,
                    "class %u for size %zu at multiples of %zu", index, size, align);
        }
    }
}

/* What the fast path of the aligned functions relies on; the class above may lend its first
 * blocks to an even one. */
static void a_rounded_size_has_an_aligned_class(void **state) {
    (void)state;
    for (size_t align = 1; align <= HAK_SMALL_MAX; align *= 2) {
        for (size_t size = align; size <= HAK_SMALL_MAX; size += align) {
            unsigned index = hak_class_of(size);
            REQUIRE(hak_classes[index].size % align == 0, "%zu bytes aligned to %zu have class %u",
                    size, align, index);
            REQUIRE(index % 2 || hak_classes[index + 1].size % align == 0,
                    "%zu bytes aligned to %zu may be lent by class %u", size, align, index + 1);
        }
    }
}

static void table_rows_are_consistent(void **state) {
    (void)state;
    for (unsigned index = 1; index <= HAK_CLASS_FIXED; index++) {
        const hak_class_t *row = &hak_classes[index];
        unsigned count = HAK_UNIT_SIZE / row->size;
        if (count > HAK_BLOCKS_MAX) count = HAK_BLOCKS_MAX;
        REQUIRE(row->size > hak_classes[index - 1].size, "class %u is not above the one below",
                index);
        REQUIRE(row->count == count, "class %u has %u blocks, not %u", index, row->count, count);
        REQUIRE(row->words == (count + 63) / 64 && row->words <= HAK_WORDS_MAX,
                "class %u has %u words", index, row->words);
        REQUIRE(row->reciprocal == 0x100000000u / row->size + 1, "class %u has a wrong reciprocal",
                index);
    }
    assert_int_equal(hak_classes[HAK_CLASS_FIXED].size, HAK_CLASS_MAX);
    assert_int_equal(hak_classes[HAK_CLASS_NONE].size, 0);
    assert_int_equal(hak_classes[HAK_CLASS_LARGE].size, 0);
}

/* The rows of classes.def name their neighbour and table; these must be true. */
static void definition_rows_are_consistent(void **state) {
    (void)state;
#define CLASS_ROW(index, bytes, below, least, most)                           \
    assert_int_equal(hak_classes[index].size, bytes);                         \
    assert_true((index) == 1 || (below) == (int)hak_classes[(index)-1].size); \
    assert_true((bytes) > (least) && (bytes) <= (most));
#define CLASS_BY_8(bytes, below, band) CLASS_ROW(HAK_CLASS_##bytes, bytes, below, 0, HAK_SMALL_MAX)
#define CLASS_BY_128(bytes, below, band) \
    CLASS_ROW(HAK_CLASS_##bytes, bytes, below, HAK_SMALL_MAX, HAK_CLASS_MAX)
#include "classes/classes.def"
#undef CLASS_BY_8
#undef CLASS_BY_128
#undef CLASS_ROW
}

static void offsets_find_their_block(void **state) {
    (void)state;
    for (unsigned index = 1; index <= HAK_CLASS_FIXED; index++) {
        uint32_t size = hak_classes[index].size, reciprocal = hak_classes[index].reciprocal;
        uint32_t count = hak_classes[index].count;
        uint64_t start_test = HAK_START_TEST_OF(size, count);
        for (uint32_t offset = 0; offset < HAK_UNIT_SIZE; offset++) {
            REQUIRE(hak_block_index(offset, reciprocal) == offset / size,
                    "class %u: offset %u is in block %u, not %u", index, offset, offset / size,
                    hak_block_index(offset, reciprocal));
            bool is_start = offset % size == 0 && offset / size < count;
            uint32_t by_test;
            REQUIRE(hak_is_block_index(offset, start_test, &by_test) == is_start &&
                        (!is_start || by_test == offset / size),
                    "class %u: by the test block %u starts at %u", index, by_test, offset);
            REQUIRE(hak_is_block_start(offset, start_test) == is_start,
                    "class %u: offset %u is %sthe start of a block", index, offset,
                    is_start ? "" : "not ");
            REQUIRE(hak_is_tiny_start(offset, &hak_classes[index]) ==
                        (is_start && index <= HAK_CLASS_TINY),
                    "class %u: offset %u is %sthe start of a tiny block", index, offset,
                    is_start && index <= HAK_CLASS_TINY ? "" : "not ");
        }
    }
}

/* For every class and colour: which offsets are in which block, by division. */
static void colours_move_all_blocks(void **state) {
    (void)state;
    unsigned coloured = 0;
    for (unsigned index = 1; index <= HAK_CLASS_FIXED; index++) {
        const hak_class_t *row = &hak_classes[index];
        if (!hak_class_is_coloured(row)) {
            REQUIRE(index <= HAK_CLASS_TINY || HAK_UNIT_SIZE % row->size < 2u << row->step_shift,
                    "class %u has room, but no colours", index);
            continue;
        }
        coloured++;
        uint64_t start_test = HAK_START_TEST_OF(row->size, row->count);
        REQUIRE(index > HAK_CLASS_TINY, "the tiny class %u has colours", index);
        for (uintptr_t unit = 0; unit < 300; unit++) {
            uintptr_t start = (unit + 77) << HAK_UNIT_SHIFT;
            uint32_t first = hak_first_offset(start, row), end = first + row->count * row->size;
            REQUIRE(first % (row->size > 32768 ? 4096 : 128) == 0 && end <= HAK_UNIT_SIZE,
                    "class %u: blocks lie from %u to %u", index, first, end);
            for (uint32_t at = 0; at < HAK_UNIT_SIZE; at += 8) {
                uint32_t offset = hak_block_offset(start + at, row);
                uint32_t found = hak_block_index(offset, row->reciprocal);
                uint32_t wanted =
                    at < first ? row->count : hak_min((at - first) / row->size, row->count);
                REQUIRE(hak_min(found, row->count) == wanted,
                        "class %u, colour %u: %u is in block %u", index, first, at, found);
                bool is_start = wanted < row->count && (at - first) % row->size == 0;
                REQUIRE(hak_is_block_start(offset, start_test) == is_start,
                        "class %u, colour %u: %u is %sa block's start", index, first, at,
                        is_start ? "" : "not ");
            }
        }
    }
    REQUIRE(coloured == 34, "%u classes have colours", coloured);
}

/* The slabs of one superslab have many colours, and each about as often as the others. */
static void colours_are_spread(void **state) {
    (void)state;
    for (unsigned index = 1; index <= HAK_CLASS_FIXED; index++) {
        const hak_class_t *row = &hak_classes[index];
        unsigned used[HAK_UNIT_SIZE / HAK_COLOUR_STEP] = {0}, different = 0, most = 0;
        for (uintptr_t unit = 1000; unit < 1064; unit++) {
            unsigned *of = &used[hak_first_offset(unit << HAK_UNIT_SHIFT, row) / HAK_COLOUR_STEP];
            different += ++*of == 1;
            most = *of > most ? *of : most;
        }
        REQUIRE(different >= hak_min(row->colours, 64) * 5 / 8, "class %u: %u of %u colours", index,
                different, row->colours);
        REQUIRE(most <= 2 * (64u / row->colours) + 2, "class %u: a colour has %u of 64 slabs",
                index, most);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_find_the_smallest_class_that_fits),
        cmocka_unit_test(waste_is_at_most_an_eighth),
        cmocka_unit_test(blocks_are_aligned),
        cmocka_unit_test(every_alignment_has_a_class_for_every_size),
        cmocka_unit_test(a_rounded_size_has_an_aligned_class),
        cmocka_unit_test(table_rows_are_consistent),
        cmocka_unit_test(definition_rows_are_consistent),
        cmocka_unit_test(offsets_find_their_block),
        cmocka_unit_test(colours_move_all_blocks),
        cmocka_unit_test(colours_are_spread),
    };
    return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
