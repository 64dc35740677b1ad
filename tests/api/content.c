/* content.c - bytes: realloc keeps them across every tier border, calloc clears them even
 * in reused memory, and a program may use all of malloc_usable_size. */
#define _GNU_SOURCE
#include "api.h"

#include "proc.h"

#define MIB ((size_t)1 << 20)
#define HUGE_SIZE (100 * MIB)

/* Large blocks are checked in steps. The step divides no power of two, so it meets every page. */
static size_t step_for(size_t size) { return size <= 65536 ? 1 : 1021; }

static void fill(unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i += step_for(size)) bytes[i] = (unsigned char)(i * 31 + 7);
    bytes[size - 1] = 99;
}

/* Does a block that was filled with size bytes still begin with the first kept ones of them? */
static bool is_filled(const unsigned char *bytes, size_t size, size_t kept) {
    for (size_t i = 0; i < kept; i += step_for(size))
        if (bytes[i] != (i == size - 1 ? 99 : (unsigned char)(i * 31 + 7))) return false;
    return kept < size || bytes[size - 1] == 99;
}

static void check_resize(size_t from, size_t to) {
    unsigned char *block = API(malloc)(from);
    assert_non_null(block);
    fill(block, from);
    unsigned char *moved = API(realloc)(block, to);
    assert_non_null(moved);
    assert_true(API(malloc_usable_size)(moved) >= to);
    assert_true(is_at(moved, to > 8 ? 16 : 8));
    CHECK(is_filled(moved, from, from < to ? from : to), "realloc from %zu to %zu lost bytes", from,
          to);
    fill(moved, to);
    API(free)(moved);
}

static void realloc_keeps_bytes_between_any_two_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < BORDER_COUNT; i++)
        for (size_t k = 0; k < BORDER_COUNT; k++) check_resize(border_sizes[i], border_sizes[k]);
}

static void realloc_keeps_bytes_of_a_huge_block(void **state) {
    (void)state;
    for (size_t i = 0; i < BORDER_COUNT; i += 4) {
        check_resize(border_sizes[i], HUGE_SIZE);
        check_resize(HUGE_SIZE, border_sizes[i]);
    }
    check_resize(HUGE_SIZE, HUGE_SIZE + 1);
    check_resize(HUGE_SIZE, HUGE_SIZE / 3);
}

static void realloc_step_by_step_keeps_all(void **state) {
    (void)state;
    unsigned char *block = API(malloc)(1);
    size_t size = 1;
    fill(block, size);
    while (size < HUGE_SIZE) {
        size_t next = size + size / 2 + 1;
        block = API(realloc)(block, next);
        assert_non_null(block);
        CHECK(is_filled(block, size, size), "growth from %zu to %zu lost bytes", size, next);
        size = next;
        fill(block, size);
    }
    while (size > 1) {
        size_t next = size * 2 / 3;
        block = API(realloc)(block, next);
        CHECK(is_filled(block, size, next), "shrinking from %zu to %zu lost bytes", size, next);
        size = next;
        fill(block, size);
    }
    API(free)(block);
}

static void growth_of_a_huge_block_copies_nothing(void **state) {
    (void)state;
    unsigned char *block = API(malloc)(HUGE_SIZE);
    memset(block, 3, HUGE_SIZE);
    long before = proc_minor_faults();
    block = API(realloc)(block, 2 * HUGE_SIZE);
    long faults = proc_minor_faults() - before;
    assert_non_null(block);
    assert_int_equal(block[HUGE_SIZE - 1], 3);
    /* A copy would touch 25,600 new pages, or 50 huge ones. */
    CHECK(faults < 40, "realloc of 100 MiB to 200 MiB caused %ld page faults", faults);
    API(free)(block);
}

static void check_zero_after_dirt(size_t size) {
    enum { COUNT = 64 };
    unsigned char *blocks[COUNT];
    size_t count = size > 65536 ? 6 : COUNT;
    for (int round = 0; round < 3; round++) {
        for (size_t k = 0; k < count; k++) {
            blocks[k] = API(calloc)(1, size);
            assert_non_null(blocks[k]);
            CHECK(blocks[k][0] == 0 && memcmp(blocks[k], blocks[k] + 1, size - 1) == 0,
                  "calloc of %zu bytes is not zero in round %d", size, round);
        }
        for (size_t k = 0; k < count; k++) {
            memset(blocks[k], 0xff, API(malloc_usable_size)(blocks[k]));
            API(free)(blocks[k]);
        }
    }
}

static void calloc_clears_reused_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < BORDER_COUNT; i++) check_zero_after_dirt(border_sizes[i]);
    check_zero_after_dirt(16 * MIB);
}

static void calloc_clears_after_trim(void **state) {
    (void)state;
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        check_zero_after_dirt(border_sizes[i]);
        API(malloc_trim)(0);
        check_zero_after_dirt(border_sizes[i]);
    }
}

static void usable_bytes_belong_to_the_block(void **state) {
    (void)state;
    enum { COUNT = 40 };
    unsigned char *blocks[COUNT];
    size_t usable[COUNT];
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        size_t count = border_sizes[i] > 65536 ? 4 : COUNT;
        for (size_t k = 0; k < count; k++) {
            blocks[k] = API(malloc)(border_sizes[i]);
            usable[k] = API(malloc_usable_size)(blocks[k]);
            assert_true(usable[k] >= border_sizes[i]);
            memset(blocks[k], (int)k + 1, usable[k]);
        }
        for (size_t k = 0; k < count; k++) {
            assert_int_equal(API(malloc_usable_size)(blocks[k]), usable[k]);
            CHECK(blocks[k][0] == k + 1 && memcmp(blocks[k], blocks[k] + 1, usable[k] - 1) == 0,
                  "the usable bytes of two blocks of %zu bytes overlap", border_sizes[i]);
            API(free)(blocks[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(realloc_keeps_bytes_between_any_two_sizes),
        cmocka_unit_test(realloc_keeps_bytes_of_a_huge_block),
        cmocka_unit_test(realloc_step_by_step_keeps_all),
        cmocka_unit_test(growth_of_a_huge_block_copies_nothing),
        cmocka_unit_test(calloc_clears_reused_memory),
        cmocka_unit_test(calloc_clears_after_trim),
        cmocka_unit_test(usable_bytes_belong_to_the_block),
    };
    return run_group(tests);
}
