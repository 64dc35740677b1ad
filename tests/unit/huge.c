/* huge.c: blocks with a mapping of their own, and the table that finds them. */
#include "unit.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "large/huge.h"
#include "large/huge_table.h"
#include "meta/meta.h"
#include "os/os.h"
#include "proc.h"

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
    assert_int_equal(hak_huge_count(), count);
    assert_int_equal(hak_huge_bytes(), bytes);
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

/* A longer table is not cleared in the call that needs it: it is fresh memory. */
static void a_long_table_is_fresh_memory(void **state) {
    (void)state;
    enum { SLOTS = 1 << 20 };
    long before = proc_minor_faults();
    hak_slots_t made = hak_huge_table_make(SLOTS);
    assert_non_null(made.slots);
#ifndef __SANITIZE_THREAD__ /* has faults of its own */
    REQUIRE(proc_minor_faults() - before < 16, "%ld page faults", proc_minor_faults() - before);
#else
    (void)before;
#endif
    for (unsigned i = 0; i < SLOTS; i++) assert_int_equal(made.slots[i].start, 0);
    hak_huge_table_unmake(made);
}

/* One that another thread was faster to replace serves the next table of its length. */
static void what_is_made_in_vain_is_made_again(void **state) {
    (void)state;
    enum { SLOTS = 1 << 14, TIMES = 100 };
    size_t before = hak_meta_bytes(), length = SLOTS * sizeof(hak_mapping_t);
    for (unsigned time = 0; time < TIMES; time++) {
        hak_slots_t made = hak_huge_table_make(SLOTS);
        assert_non_null(made.slots);
        for (unsigned i = 0; i < SLOTS; i++) assert_int_equal(made.slots[i].start, 0);
        assert_int_equal(made.slots[0].size, 0);
        hak_huge_table_unmake(made);
    }
    REQUIRE(hak_meta_bytes() - before < TIMES / 4 * length, "%zu bytes more for %u times %zu",
            hak_meta_bytes() - before, TIMES, length);
}

/* Pages in memory of a stretch of records. */
static size_t resident(void *start, size_t size) {
    static unsigned char pages[4096];
    size_t count = size / hak_os_page_size(), found = 0;
    REQUIRE(count <= sizeof pages && mincore(start, size, pages) == 0, "no look at %zu pages",
            count);
    for (size_t i = 0; i < count; i++) found += pages[i] & 1;
    return found;
}

/* Enters a block, as huge.c does; returns the slots that are empty now, which are given back. */
static hak_slots_t enter_in(hak_huge_table_t *table, uintptr_t start) {
    size_t wanted = hak_huge_table_wanted(table);
    hak_slots_t slots = wanted ? hak_huge_table_make(wanted) : (hak_slots_t){NULL, 0, 0};
    if (wanted) hak_huge_table_use(table, &slots);
    hak_huge_table_unmake(slots);
    hak_huge_table_put(table, (hak_mapping_t){start, MIB, 0});
    slots = hak_huge_table_take_empty(table);
    hak_huge_table_unmake(slots);
    return slots;
}

/* A table of its own grows from 16 slots to `most`. Returns the longest table that it left on the way, which must have
 * no pages any more. */
static hak_slots_t grow_table(hak_huge_table_t *table, unsigned most) {
    hak_slots_t former = {NULL, 0, 0};
    memset(table, 0, sizeof *table);
    for (uintptr_t start = MIB; table->current.size < most || table->former.size; start += MIB) {
        const hak_slots_t empty = enter_in(table, start);
        if (empty.slots) former = empty;
        assert_true(hak_huge_table_find(table, start) && hak_huge_table_find(table, MIB));
    }
    return former;
}

/* What a table leaves when it grows has no pages, and serves the next table of that length. */
static void a_table_that_grew_leaves_nothing(void **state) {
    (void)state;
    enum { MOST = 1 << 15, TIMES = 8 };
    static hak_huge_table_t table;
    size_t page = hak_os_page_size(), before = 0;
    for (unsigned time = 0; time < TIMES; time++) {
        hak_slots_t former = grow_table(&table, MOST);
        assert_int_equal(former.size, MOST / 2);
        size_t pages = resident(former.slots, former.size * sizeof *former.slots & ~(page - 1));
        REQUIRE(pages <= 1, "%zu pages of a table that nobody uses", pages);
        hak_huge_table_unmake(table.current);
        if (time == 0) before = hak_meta_bytes();
    }
    assert_int_equal(hak_meta_bytes(), before);
}

enum { STAY = 3000, OTHERS = 60000 };
static unsigned char seen[STAY];

static bool note_seen(const hak_mapping_t *mapping, void *context) {
    const size_t i = mapping->start / MIB - 1;
    (void)context;
    if (i < STAY) seen[i]++;
    return true;
}

/* A walk drops the lock now and then. The blocks that are there all the while are seen once each, while others come, so
 * that the table grows and its entries move over, and go, so that the rest of their clusters moves up. */
static void a_walk_sees_what_stays(void **state) {
    (void)state;
    static hak_huge_table_t table;
    uintptr_t next = STAY + 1, last = STAY + 1;
    unsigned cut = 0;
    for (uintptr_t i = 1; i <= STAY; i++) enter_in(&table, i * MIB);
    while (next < OTHERS) {
        memset(seen, 0, sizeof seen);
        for (size_t at = 0; hak_huge_table_walk(&table, &at, note_seen, NULL); cut++)
            for (unsigned i = 0; i < 300; i++) {
                enter_in(&table, next++ * MIB);
                if (next % 8 == 0) continue;
                hak_huge_table_remove(&table, hak_huge_table_find(&table, last++ * MIB));
                hak_huge_table_unmake(hak_huge_table_take_empty(&table));
            }
        for (unsigned i = 0; i < STAY; i++)
            REQUIRE(seen[i] == 1, "block %u was seen %u times, with %zu others", i, seen[i],
                    (size_t)(next - last));
    }
    assert_true(cut > 10);
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
    size_t count = hak_huge_count(), bytes = hak_huge_bytes();
    assert_null(hak_huge_alloc(too_much, 1, false));
    assert_null(hak_huge_alloc(too_much, (size_t)1 << 40, false));
    char *block = hak_huge_alloc(page, 1, false);
    block[0] = 7;
    assert_null(hak_huge_resize(block, too_much));
    assert_int_equal(hak_huge_size(block), page);
    assert_int_equal(block[0], 7);
    assert_true(hak_huge_free(block));
    assert_int_equal(hak_huge_count(), count);
    assert_int_equal(hak_huge_bytes(), bytes);
}

int main(int argc, char **argv) {
    static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_table_is_fresh_memory),
        cmocka_unit_test(what_is_made_in_vain_is_made_again),
        cmocka_unit_test(a_table_that_grew_leaves_nothing),
        cmocka_unit_test(a_walk_sees_what_stays),
        cmocka_unit_test(the_table_stays_right),
        cmocka_unit_test(what_is_no_huge_block_is_not_found),
        cmocka_unit_test(a_refused_request_changes_nothing),
    };
    return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
