/* routes.c: a wider class serves the first blocks of a class, and no more than those. */
#include "cache_calls.h"

#include <pthread.h>
#include <stdlib.h>

#include "child.h"
#include "hakmem.h"

enum { EACH = 3, FIRST = HAK_CLASS_144, CLASSES = 40, PAGE = 4096, MANY = 3000, FEW = 100 };

static unsigned serves(const hak_cache_t *cache, size_t size) {
    return hak_class_of_magazine(cache->route[(size + 7) / 8]);
}

/* As malloc does. */
static void *take_size(hak_cache_t *cache, size_t size) {
    void *block = size <= HAK_SMALL_MAX ? hak_cache_pop(cache, serves(cache, size)) : NULL;
    if (!block) block = take(cache, hak_class_of(size));
    REQUIRE(hak_classes[class_of(block)].size >= size, "%u bytes for %zu",
            hak_classes[class_of(block)].size, size);
    return block;
}

static int compare(const void *a, const void *b) {
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static unsigned distinct(uintptr_t *values, size_t count) {
    unsigned found = count > 0;
    qsort(values, count, sizeof *values, compare);
    for (size_t i = 1; i < count; i++) found += values[i] != values[i - 1];
    return found;
}

/* Pages that few blocks of many classes touch, and slabs that they lie in. */
static void use_few_of_many(hak_cache_t *cache, unsigned *pages, unsigned *slabs) {
    static uintptr_t page[EACH * CLASSES * 8], slab[EACH * CLASSES];
    void *blocks[EACH * CLASSES];
    size_t count = 0, touched = 0;
    for (unsigned round = 0; round < EACH; round++) {
        for (unsigned i = FIRST; i < FIRST + CLASSES; i++) {
            const size_t size = hak_classes[i].size;
            char *block = blocks[count] = take_size(cache, size);
            slab[count++] = (uintptr_t)block / HAK_UNIT_SIZE;
            for (uintptr_t at = (uintptr_t)block / PAGE; at <= ((uintptr_t)block + size - 1) / PAGE;
                 at++)
                page[touched++] = at;
        }
    }
    *pages = distinct(page, touched);
    *slabs = distinct(slab, count);
    while (count) give(cache, blocks[--count]);
}

static void few_blocks_of_many_classes_share_pages(void **state) {
    (void)state;
    unsigned pages, slabs, own_pages, own_slabs;
    hak_cache_t *cache = make_cache(1 * MIB);
    use_few_of_many(cache, &own_pages, &own_slabs);
    drop_cache(cache);
    cache = make_new_cache(1 * MIB);
    use_few_of_many(cache, &pages, &slabs);
    REQUIRE(own_slabs >= CLASSES && slabs <= CLASSES / 2 && pages + 15 <= own_pages,
            "%u pages in %u slabs, and %u in %u where each class has its own", pages, slabs,
            own_pages, own_slabs);
    drop_cache(cache);
}

/* Bytes that lending adds to the first blocks of a class: a page, or two for the longest. */
static void no_class_is_lent_to_for_ever(void **state) {
    (void)state;
    static void *blocks[MANY];
    for (unsigned i = 1; i <= HAK_CLASS_FIXED; i++) {
        if (hak_lenders[i] == i) continue;
        hak_cache_t *cache = make_new_cache(1 * MIB);
        const uint32_t size = hak_classes[i].size;
        const unsigned count = size <= HAK_SMALL_MAX ? MANY : FEW;
        size_t more = 0;
        for (unsigned k = 0; k < count; k++) {
            blocks[k] = take_size(cache, size);
            more += hak_classes[class_of(blocks[k])].size - size;
        }
        REQUIRE(more > 0 && more <= 2 * PAGE, "%zu bytes more for blocks of %u", more, size);
        assert_int_equal(cache->lent[i], 0);
        if (size <= HAK_SMALL_MAX) assert_int_equal(serves(cache, size), i);
        assert_int_equal(class_of(blocks[count - 1]), i);
        for (unsigned k = 0; k < count; k++) give(cache, blocks[k]);
        drop_cache(cache);
    }
}

/* Each route leads to the class, or to its lender while that lends. */
static void check_routes(const hak_cache_t *cache) {
    for (size_t size = 0; size <= HAK_SMALL_MAX; size++) {
        const unsigned own = hak_class_of(size);
        assert_int_equal(serves(cache, size), cache->lent[own] ? hak_lenders[own] : own);
    }
}

static void a_class_leaves_its_lender_with_all_its_sizes(void **state) {
    (void)state;
    hak_cache_t *cache = make_new_cache(1 * MIB);
    check_routes(cache);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        hak_routes_own(cache, i);
        check_routes(cache);
    }
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) assert_int_equal(cache->lent[i], 0);
    drop_cache(cache);
}

/* What other threads have brought is used at once. */
static void a_class_that_has_a_slab_is_not_lent_to(void **state) {
    (void)state;
    hak_cache_t *other = make_cache(1 * MIB), *cache = make_new_cache(1 * MIB);
    void *there = take(other, HAK_CLASS_144), *block = take_size(cache, 144);
    assert_int_equal(class_of(block), HAK_CLASS_144);
    assert_int_equal(serves(cache, 144), HAK_CLASS_144);
    assert_int_equal(serves(cache, 160), HAK_CLASS_192);
    give(other, there);
    give(cache, block);
    drop_cache(other);
    drop_cache(cache);
}

static void a_block_that_came_back_is_used_first(void **state) {
    (void)state;
    hak_cache_t *other = make_cache(1 * MIB), *cache = make_new_cache(1 * MIB);
    other->shard = HOME - 1;
    void *block = take(other, HAK_CLASS_2304);
    give(cache, block);
    assert_ptr_equal(take_size(cache, 2304), block);
    give(cache, block);
    drop_cache(other);
    drop_cache(cache);
}

/* ---- By the functions of the program -------------------------------------------------------- */

static void *come_back[MANY];

static void *allocate_many(void *unused) {
    for (unsigned i = 0; i < MANY; i++) come_back[i] = hakmem_malloc(144);
    return unused;
}

/* The thread's blocks are nearly all of the class, and main's lender serves the size until they come. */
static void check_blocks_of_a_thread(const void *unused) {
    (void)unused;
    pthread_t thread;
    void *first = hakmem_malloc(144);
    CHECK(hakmem_malloc_usable_size(first) == 192, "%zu bytes", hakmem_malloc_usable_size(first));
    CHECK(pthread_create(&thread, NULL, allocate_many, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < MANY; i++) hakmem_free(come_back[i]);
    unsigned own = 0;
    for (unsigned i = 0; i < MANY; i++)
        own += hakmem_malloc_usable_size(come_back[i] = hakmem_malloc(144)) == 144;
    CHECK(own >= MANY - FEW, "%u of %u blocks are of the class", own, MANY);
    for (unsigned i = 0; i < MANY; i++) hakmem_free(come_back[i]);
    hakmem_free(first);
    CHECK(hakmem_verify() == 0, "the heap is broken");
}

static void blocks_of_another_thread_are_used(void **state) {
    (void)state;
    unit_child(check_blocks_of_a_thread, NULL, SECONDS, "blocks of another thread");
}

/* calloc clears, and realloc keeps, all of a block that was lent. */
static void check_lent_blocks(const void *unused) {
    (void)unused;
    for (size_t size = 1; size <= 20000; size += 1 + size / 9) {
        unsigned char *block = hakmem_malloc(size);
        const size_t usable = hakmem_malloc_usable_size(block);
        CHECK(usable >= size, "%zu bytes for %zu", usable, size);
        memset(block, 0xa5, usable);
        CHECK(hakmem_realloc(block, usable) == block, "%zu bytes do not stay", usable);
        hakmem_free(block);
        unsigned char *zeroed = hakmem_calloc(1, size);
        for (size_t i = 0; i < hakmem_malloc_usable_size(zeroed); i++)
            CHECK(zeroed[i] == 0, "byte %zu of %zu", i, size);
        hakmem_free(zeroed);
        for (size_t align = 16; align <= 4096; align *= 2) {
            block = hakmem_aligned_alloc(align, hak_align_up(size, align));
            CHECK((uintptr_t)block % align == 0, "%zu bytes are not aligned to %zu", size, align);
            hakmem_free(block);
        }
    }
    CHECK(hakmem_verify() == 0, "the heap is broken");
}

static void lent_blocks_are_blocks(void **state) {
    (void)state;
    unit_child(check_lent_blocks, NULL, SECONDS, "lent blocks");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(
        argv, (const char *const[]){"HAKMEM_SHARDS=4", "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    unit_open_shards(4);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_blocks_of_many_classes_share_pages),
        cmocka_unit_test(no_class_is_lent_to_for_ever),
        cmocka_unit_test(a_class_leaves_its_lender_with_all_its_sizes),
        cmocka_unit_test(a_class_that_has_a_slab_is_not_lent_to),
        cmocka_unit_test(a_block_that_came_back_is_used_first),
        cmocka_unit_test(blocks_of_another_thread_are_used),
        cmocka_unit_test(lent_blocks_are_blocks),
    };
    watchdog(100, "a test of routes hangs");
    return cmocka_run_group_tests_name("routes", tests, NULL, NULL);
}
