/* record.c: the debug records that the public functions write, and the names of call sites. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "hakmem.h"
#include "os/module.h"
#include "os/os.h"
#include "debug_record/record.h"
#include "region/region.h"

enum { SECONDS = 10 };

static const char *const variables[] = {"HAKMEM_HDR_LIGHT=0", "HAKMEM_ON_ERROR=report",
                                        "HAKMEM_SS_SIZE=2M", NULL};

extern const char __ehdr_start[]; /* where the program was loaded */

static const size_t sizes[] = {2049, 3000, 65536, 65537, 300000, 1 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void expect(const void *block, hak_record_state_t state, size_t size) {
    hak_record_t record = hak_record_read(block);
    assert_int_equal(record.state, state);
    assert_int_equal(record.size, size);
    assert_non_null(record.site);
}

static void a_record_follows_its_block(void **state) {
    (void)state;
    for (int i = 0; i < SIZES; i++) {
        char *block = hakmem_malloc(sizes[i]);
        expect(block, HAK_RECORD_IN_USE, sizes[i]);
        const void *site = hak_record_read(block).site;
        assert_ptr_equal(hakmem_realloc(block, sizes[i] - 1), block);
        expect(block, HAK_RECORD_IN_USE, sizes[i] - 1);
        assert_ptr_not_equal(hak_record_read(block).site, site);
        hakmem_free(block);
        expect(block, HAK_RECORD_FREE, sizes[i] - 1);
    }
}

static void a_record_is_closed_once(void **state) {
    (void)state;
    void *block = hakmem_malloc(5000);
    assert_int_equal(hak_record_close(block), HAK_RECORD_IN_USE);
    assert_int_equal(hak_record_close(block), HAK_RECORD_FREE);
    hak_record_open(block, 5000, block);
    hakmem_free(block);
}

/* The longest block with a record: a heap of the program gives it all of a superslab of 2 MiB. */
static void a_whole_superslab_has_a_record(void **state) {
    enum { ALL = 2 << 20 };
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *block = hakmem_heap_malloc(heap, ALL);
    expect(block, HAK_RECORD_IN_USE, ALL);
    hakmem_free(block);
    expect(block, HAK_RECORD_FREE, ALL);
    hakmem_heap_destroy(heap);
}

/* Blocks that are neighbours have records of their own. */
static void records_do_not_meet(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) blocks[i] = hakmem_malloc(2049 + (size_t)i % 7 * 300);
    for (int i = 1; i < COUNT; i += 2) hakmem_free(blocks[i]);
    for (int i = 0; i < COUNT; i++) {
        hak_record_state_t wanted = i % 2 ? HAK_RECORD_FREE : HAK_RECORD_IN_USE;
        /* A freed block's slab may be another class's by now. */
        if (i % 2 && hak_record_read(blocks[i]).state != wanted) continue;
        expect(blocks[i], wanted, 2049 + (size_t)i % 7 * 300);
    }
    for (int i = 0; i < COUNT; i += 2) hakmem_free(blocks[i]);
}

static unsigned records_in_use;

static void count(hak_superslab_t *super, void *context) {
    (void)context;
    records_in_use += hak_record_count(super);
}

static unsigned count_all(void) {
    records_in_use = 0;
    hak_region_each_superslab(count, NULL);
    return records_in_use;
}

static void tiny_and_huge_blocks_have_none(void **state) {
    (void)state;
    unsigned before = count_all();
    void *tiny = hakmem_malloc(2048), *huge = hakmem_malloc((1 << 20) + 1);
    assert_int_equal(count_all(), before);
    void *mid = hakmem_malloc(2049), *large = hakmem_malloc(1 << 20);
    assert_int_equal(count_all(), before + 2);
    void *all[] = {tiny, huge, mid, large};
    for (int i = 0; i < 4; i++) hakmem_free(all[i]);
    assert_int_equal(count_all(), before);
}

static void a_block_that_becomes_short_has_none(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *first = hakmem_heap_malloc(heap, 100), *block = hakmem_heap_malloc(heap, 3000);
    const unsigned before = count_all();
    assert_ptr_equal(hakmem_heap_realloc(heap, block, 1000), block);
    assert_int_equal(count_all(), before - 1);
    assert_ptr_equal(hakmem_heap_realloc(heap, block, 3000), block);
    expect(block, HAK_RECORD_IN_USE, 3000);
    assert_ptr_equal(hakmem_heap_realloc(heap, block, 1000), block);
    hakmem_free(block);
    hakmem_free(first);
    assert_int_equal(count_all(), before - 1);
    hakmem_heap_destroy(heap);
}

/* ---- Damage, in a process of its own ----------------------------------------------------------- */

static void free_a_damaged_record(void) {
    void *block = hakmem_malloc(3000);
    size_t span = ((uintptr_t)block >> 11) % 1024;
    hak_load_relaxed(&hak_superslab_of(block)->records)[span] ^= (uint64_t)1 << 40;
    fprintf(stderr, "%p\n", block);
    hakmem_free(block);
    CHECK(hak_record_read(block).state == HAK_RECORD_DAMAGED, "the record was closed");
}

static void a_damaged_record_is_reported(void **state) {
    (void)state;
    struct child_end end;
    char expected[200], block[40];
    unit_rerun("damaged", variables, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "status %#x: %s", (unsigned)end.status, end.err);
    snprintf(block, sizeof block, "%.*s", (int)strcspn(end.err, "\n"), end.err);
    snprintf(
        expected, sizeof expected,
        "%s\nhakmem: free(): damaged record: %s is a block of 3072 bytes whose debug record was "
        "overwritten\n",
        block, block);
    assert_string_equal(end.err, expected);
}

/* Where a tiny block begins a mid one may have begun before. */
static void free_a_tiny_block_twice(void) {
    char *block;
    do block = hakmem_malloc(64);
    while ((uintptr_t)block % 2048 != 0);
    hak_record_open(block, 3000, block);
    hak_record_close(block);
    fprintf(stderr, "%p\n", (void *)block);
    hakmem_free(block);
    hakmem_free(block);
}

static void an_older_record_is_not_of_a_tiny_block(void **state) {
    (void)state;
    struct child_end end;
    unit_rerun("tiny", variables, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "status %#x: %s", (unsigned)end.status, end.err);
    assert_non_null(strstr(end.err, " is a block of 64 bytes that is already free\n"));
}

/* ---- Modules ----------------------------------------------------------------------------------- */

static void an_address_has_a_module(void **state) {
    char name[64], brief[5];
    uintptr_t offset = 0;
    const char *own = (const char *)(uintptr_t)&an_address_has_a_module;
    (void)state;
    assert_true(hak_os_module_of(own, name, sizeof name, &offset));
    assert_string_equal(name, program_invocation_short_name);
    assert_int_equal(offset, (uintptr_t)(own - __ehdr_start));
    assert_true(hak_os_module_of(__ehdr_start, brief, sizeof brief, &offset));
    assert_int_equal(offset, 0);
    assert_int_equal(strlen(brief), sizeof brief - 1);
    assert_memory_equal(brief, name, sizeof brief - 1);
}

static void what_is_in_no_file_has_none(void **state) {
    char name[64];
    uintptr_t offset;
    char *mapped = hak_os_map(hak_os_page_size(), hak_os_page_size());
    (void)state;
    assert_false(hak_os_module_of(name, name, sizeof name, &offset));
    assert_false(hak_os_module_of(mapped, name, sizeof name, &offset));
    assert_false(hak_os_module_of(NULL, name, sizeof name, &offset));
    hak_os_unmap(mapped, hak_os_page_size());
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "damaged") == 0) {
        free_a_damaged_record();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "tiny") == 0) {
        free_a_tiny_block_twice();
        return 0;
    }
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_follows_its_block),
        cmocka_unit_test(a_record_is_closed_once),
        cmocka_unit_test(a_whole_superslab_has_a_record),
        cmocka_unit_test(records_do_not_meet),
        cmocka_unit_test(tiny_and_huge_blocks_have_none),
        cmocka_unit_test(a_block_that_becomes_short_has_none),
        cmocka_unit_test(a_damaged_record_is_reported),
        cmocka_unit_test(an_older_record_is_not_of_a_tiny_block),
        cmocka_unit_test(an_address_has_a_module),
        cmocka_unit_test(what_is_in_no_file_has_none),
    };
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
