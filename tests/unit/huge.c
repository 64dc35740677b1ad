/* huge.c: mappings of their own, and the table that finds them. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "large/huge.h"
#include "os/os.h"

enum { BLOCKS = 1500, TURNS = 12000 };

static struct {
    char *start;
    size_t size;
} blocks[BLOCKS];

static void check_sum(void) {
    size_t count = 0, bytes = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        count += blocks[i].start != NULL;
        bytes += blocks[i].start ? blocks[i].size : 0;
    }
    assert_int_equal(hak_huge_stats.block_count, count);
    assert_int_equal(hak_huge_stats.bytes, bytes);
}

/* A block's first and last page say whose it is. */
static void mark(unsigned i) {
    memcpy(blocks[i].start, &i, sizeof i);
    memcpy(blocks[i].start + blocks[i].size - sizeof i, &i, sizeof i);
}

static void check_block(unsigned i) {
    void *start = NULL;
    size_t size = 0;
    char *block = blocks[i].start;
    REQUIRE(hak_huge_size(block) == blocks[i].size, "block %u of %zu bytes has size %zu", i,
            blocks[i].size, hak_huge_size(block));
    REQUIRE(memcmp(block, &i, sizeof i) == 0, "block %u lost its first page", i);
    assert_true(hak_huge_find(block + blocks[i].size / 2, &start, &size));
    assert_ptr_equal(start, block);
    assert_int_equal(size, blocks[i].size);
    assert_true(hak_huge_find(block + blocks[i].size - 1, &start, &size));
    assert_ptr_equal(start, block);
}

static void allocate(unsigned i, size_t page) {
    size_t want = (1 + unit_random(12)) * page - unit_random(100);
    size_t align = (size_t)1 << unit_random(19);
    blocks[i].start = hak_huge_alloc(want, align, true);
    blocks[i].size = hak_align_up(want, page);
    assert_non_null(blocks[i].start);
    REQUIRE((uintptr_t)blocks[i].start % align == 0, "%p is no multiple of %zu",
            (void *)blocks[i].start, align);
    for (size_t k = 0; k < blocks[i].size; k += 512)
        REQUIRE(blocks[i].start[k] == 0, "a new mapping is not zero");
    mark(i);
}

static void resize(unsigned i, size_t page) {
    size_t want = (1 + unit_random(40)) * page - unit_random(100);
    size_t size = hak_align_up(want, page), old_size = blocks[i].size;
    char *old = blocks[i].start, *moved = hak_huge_resize(old, want);
    assert_non_null(moved);
    if (moved != old)
        REQUIRE(hak_huge_size(old) == 0, "the old address %p is still known", (void *)old);
    blocks[i].start = moved;
    blocks[i].size = size;
    unsigned last;
    memcpy(&last, moved + old_size - sizeof i, size >= old_size ? sizeof i : 0);
    if (size >= old_size) REQUIRE(last == i, "block %u lost its last page by a resize", i);
    check_block(i);
    mark(i);
}

static void release(unsigned i) {
    void *start;
    size_t size;
    check_block(i);
    assert_true(hak_huge_free(blocks[i].start));
    assert_false(hak_huge_free(blocks[i].start));
    assert_int_equal(hak_huge_size(blocks[i].start), 0);
    assert_false(hak_huge_find(blocks[i].start, &start, &size));
    blocks[i].start = NULL;
}

/* Grows the table several times, and moves its entries about by removal. */
static void the_table_stays_right(void **state) {
    (void)state;
    size_t page = hak_os_page_size();
    for (unsigned turn = 0; turn < TURNS; turn++) {
        /* The number of blocks swells and ebbs. */
        unsigned i = unit_random(turn / (TURNS / 4) % 2 ? BLOCKS / 8 : BLOCKS);
        if (!blocks[i].start)
            allocate(i, page);
        else if (unit_random(3) == 0)
            resize(i, page);
        else
            release(i);
        if (turn % 1000 == 0) check_sum();
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start) check_block(i);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start) release(i);
    check_sum();
}

static void what_is_no_huge_block_is_not_found(void **state) {
    (void)state;
    size_t page = hak_os_page_size(), size;
    void *start;
    char *block = hak_huge_alloc(4 * page, 1, false);
    const void *const others[] = {NULL,         (void *)1,        &size,    block + 1,
                                  block + page, block + 4 * page, block - 1};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        REQUIRE(hak_huge_size(others[i]) == 0, "%p has a size", others[i]);
        REQUIRE(!hak_huge_free((void *)(uintptr_t)others[i]), "%p is freed", others[i]);
        REQUIRE(!hak_huge_resize((void *)(uintptr_t)others[i], page), "%p is resized", others[i]);
    }
    assert_false(hak_huge_find(block - 1, &start, &size));
    assert_false(hak_huge_find(block + 4 * page, &start, &size));
    assert_true(hak_huge_find(block + 1, &start, &size));
    assert_ptr_equal(start, block);
    assert_true(hak_huge_free(block));
}

static void a_refused_request_changes_nothing(void **state) {
    (void)state;
    size_t page = hak_os_page_size(), too_much = (size_t)1 << 60;
    size_t count = hak_huge_stats.block_count, bytes = hak_huge_stats.bytes;
    assert_null(hak_huge_alloc(too_much, 1, false));
    assert_null(hak_huge_alloc(too_much, (size_t)1 << 40, false));
    char *block = hak_huge_alloc(page, 1, false);
    block[0] = 7;
    assert_null(hak_huge_resize(block, too_much));
    assert_int_equal(hak_huge_size(block), page);
    assert_int_equal(block[0], 7);
    assert_true(hak_huge_free(block));
    assert_int_equal(hak_huge_stats.block_count, count);
    assert_int_equal(hak_huge_stats.bytes, bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_stays_right),
        cmocka_unit_test(what_is_no_huge_block_is_not_found),
        cmocka_unit_test(a_refused_request_changes_nothing),
    };
    return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
