/* meta.c: memory for records: alignment, reuse, no overlap. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "meta/meta.h"
#include "os/os.h"

enum { BLOCK_COUNT = 4000, SIZE_MAX_TRIED = 9000 };

static struct {
    unsigned char *start;
    size_t size;
} blocks[BLOCK_COUNT];

static void blocks_are_aligned_to_their_power_of_two(void **state) {
    (void)state;
    for (size_t size = 1; size <= 4 * 65536; size += size < 300 ? 1 : size / 7) {
        void *block = hak_meta_alloc(size);
        assert_non_null(block);
        size_t align = hak_min(hak_max(hak_ceil_pow2(size), 16), hak_os_page_size());
        REQUIRE((uintptr_t)block % align == 0, "%zu bytes at %p, not a multiple of %zu", size,
                block, align);
        memset(block, 0xA5, size);
        hak_meta_free(block, size);
    }
}

static void check_content(unsigned i) {
    for (size_t k = 0; k < blocks[i].size; k++)
        REQUIRE(blocks[i].start[k] == (unsigned char)i,
                "block %u of %zu bytes at %p was overwritten at %zu", i, blocks[i].size,
                (void *)blocks[i].start, k);
}

/* Each block is filled with its number, and looked at before it is given back. */
static void blocks_do_not_overlap(void **state) {
    (void)state;
    for (unsigned turn = 0; turn < 4 * BLOCK_COUNT; turn++) {
        unsigned i = unit_random(BLOCK_COUNT);
        if (blocks[i].start) {
            check_content(i);
            hak_meta_free(blocks[i].start, blocks[i].size);
        }
        /* Mostly small, as records are. */
        blocks[i].size = 1 + unit_random(unit_random(4) ? 200 : SIZE_MAX_TRIED);
        blocks[i].start = hak_meta_alloc(blocks[i].size);
        assert_non_null(blocks[i].start);
        memset(blocks[i].start, (int)i, blocks[i].size);
    }
    for (unsigned i = 0; i < BLOCK_COUNT; i++) {
        if (!blocks[i].start) continue;
        check_content(i);
        hak_meta_free(blocks[i].start, blocks[i].size);
    }
}

static void a_freed_block_is_used_again(void **state) {
    (void)state;
    for (size_t size = 1; size <= 65536; size *= 3) {
        void *first = hak_meta_alloc(size), *second = hak_meta_alloc(size);
        hak_meta_free(first, size);
        assert_ptr_equal(hak_meta_alloc(size), first);
        hak_meta_free(second, size);
        /* Any size of the same power of two will do. */
        assert_ptr_equal(hak_meta_alloc(hak_max(hak_ceil_pow2(size), 16)), second);
        hak_meta_free(first, size);
        hak_meta_free(second, size);
    }
    hak_meta_free(NULL, 100);
}

static void repetition_takes_no_new_memory(void **state) {
    (void)state;
    size_t before = hak_meta_bytes();
    for (unsigned turn = 0; turn < 20000; turn++) {
        size_t size = 1 + unit_random(SIZE_MAX_TRIED);
        hak_meta_free(hak_meta_alloc(size), size);
    }
    REQUIRE(hak_meta_bytes() - before <= (size_t)1 << 20, "%zu bytes for one block at a time",
            hak_meta_bytes() - before);
}

/* More than a chunk, and the rest of the chunk before it is not lost. */
static void a_large_block_has_its_own_chunk(void **state) {
    (void)state;
    size_t size = 12 * MIB, before = hak_meta_bytes();
    unsigned char *block = hak_meta_alloc(size);
    assert_non_null(block);
    assert_true(hak_meta_bytes() - before >= size);
    block[0] = block[size - 1] = 1;
    size_t after = hak_meta_bytes();
    void *small = hak_meta_alloc(100);
    assert_true(hak_meta_bytes() == after);
    hak_meta_free(small, 100);
    hak_meta_free(block, size);
    assert_ptr_equal(hak_meta_alloc(size), block);
    hak_meta_free(block, size);
}

/* Records lie close together, whatever comes after what. */
static void little_is_left_over(void **state) {
    (void)state;
    size_t before = hak_meta_bytes(), sum = 0;
    for (unsigned i = 0; i < 400; i++) {
        size_t size = (size_t)1 << (4 + unit_random(17));
        REQUIRE(hak_meta_alloc(size) != NULL, "no memory");
        sum += size;
    }
    REQUIRE(hak_meta_bytes() - before <= sum + sum / 16 + 4 * MIB, "%zu bytes for %zu",
            hak_meta_bytes() - before, sum);
    assert_int_equal(hak_meta_mappings(), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_to_their_power_of_two),
        cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(a_freed_block_is_used_again),
        cmocka_unit_test(repetition_takes_no_new_memory),
        cmocka_unit_test(a_large_block_has_its_own_chunk),
        cmocka_unit_test(little_is_left_over),
    };
    return cmocka_run_group_tests_name("meta", tests, NULL, NULL);
}
