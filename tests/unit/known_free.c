/* known_free.c: a block is found in each place where a free one may lie, and in none while it is in use. */
#include "thread/known_free.h"

#include "api/malloc.h"
#include "cache_calls.h"
#include "cache/cpu_depot.h"
#include "hakmem.h"
#include "shard/remote.h"

static const unsigned classes[] = {
    1, 4, 20, 40, HAK_CLASS_TINY + 1, HAK_CLASS_TINY + 5, HAK_CLASS_FIXED};
enum { CLASSES = sizeof classes / sizeof *classes };

static hak_unit_t *slab_of_block(const void *block) { return hak_unit_of(block); }

static bool known(hak_cache_t *own, unsigned class_index, const void *block) {
    return hak_known_free(own, slab_of_block(block), class_index, block);
}

static void in_a_magazine(void **state) {
    (void)state;
    for (unsigned i = 0; i < CLASSES; i++) {
        hak_cache_t *cache = make_cache(1 << 20);
        void *block = take(cache, classes[i]);
        const unsigned class_index = class_of(block); /* it may be of the class above */
        assert_false(hak_cache_has(cache, class_index, block));
        assert_false(known(cache, class_index, block));
        give(cache, block);
        assert_true(hak_cache_has(cache, class_index, block));
        assert_true(known(cache, class_index, block));
        hak_store_relaxed(&cache->moves, true);
        assert_false(hak_cache_has(cache, class_index, block));
        hak_store_relaxed(&cache->moves, false);
        void *again = take(cache, class_index);
        assert_ptr_equal(again, block);
        assert_false(hak_cache_has(cache, class_index, block)); /* its address is there still */
        give(cache, block);
        drop_cache(cache);
    }
}

static void in_a_bitmap(void **state) {
    (void)state;
    for (unsigned i = 0; i < CLASSES; i++) {
        void *blocks[3];
        assert_int_equal(hak_shard_take(0, classes[i], 1, blocks, NULL), 1);
        void *kept = blocks[1];
        assert_int_equal(hak_shard_take(0, classes[i], 1, blocks, NULL), 1);
        hak_unit_t *slab = slab_of_block(blocks[1]);
        assert_false(hak_remote_is_free(slab, classes[i], blocks[1]));
        hak_shard_flush(0, classes[i], &blocks[1], 1);
        assert_true(hak_remote_is_free(slab, classes[i], blocks[1]));
        assert_true(known(NULL, classes[i], blocks[1]));
        assert_false(known(NULL, classes[i], kept));
        assert_false(
            hak_remote_is_free(slab, classes[i] + 1, blocks[1])); /* of another class by now */
        hak_shard_flush(0, classes[i], &kept, 1);
    }
}

static void in_a_remote_word(void **state) {
    (void)state;
    for (unsigned i = 0; i < CLASSES; i++) {
        void *block[2], *kept[2];
        assert_int_equal(hak_shard_take(0, classes[i], 1, kept, NULL), 1);
        assert_int_equal(hak_shard_take(0, classes[i], 1, block, NULL), 1);
        hak_shard_flush(1, classes[i], &block[1], 1);
        assert_true(known(NULL, classes[i], block[1]));
        assert_false(known(NULL, classes[i], kept[1]));
        hak_shard_flush(0, classes[i], &kept[1], 1);
    }
}

static void in_a_depot(void **state) {
    (void)state;
    void *block[2], *none = NULL;
    assert_int_equal(hak_shard_take(0, classes[1], 1, block, NULL), 1);
    assert_false(hak_depot_has(classes[1], block[1]));
    assert_int_equal(hak_depot_put(classes[1], &block[1], 1), 1);
    assert_true(hak_depot_has(classes[1], block[1]));
    assert_false(hak_depot_has(classes[1], none));
    assert_false(hak_depot_has(classes[2], block[1]));
    assert_true(known(NULL, classes[1], block[1]));
    assert_int_equal(hak_depot_take(classes[1], block, 1), 1);
    assert_false(hak_depot_has(classes[1], block[1]));
    hak_shard_flush(0, classes[1], &block[1], 1);
}

/* A mid block that begins with 0 may have no page there. */
static void tags_of_mid_blocks(void **state) {
    (void)state;
    static const size_t sizes[] = {2049, 4096, 5000, 8192, 65536};
    const uintptr_t tag = (uintptr_t)hak_map.entries;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (unsigned first = 0; first < 2; first++) {
            volatile uintptr_t *word = hakmem_malloc(sizes[i]);
            *word = first;
            hakmem_free((void *)(uintptr_t)word);
            assert_true(*word == (first ? tag : 0));
        }
    volatile uintptr_t *word = hakmem_malloc(2048);
    *word = 1;
    hakmem_free((void *)(uintptr_t)word);
    assert_true(*word == 1);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(
        argv, (const char *const[]){"HAKMEM_SHARDS=4", "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    unit_open_shards(4);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_magazine),      cmocka_unit_test(in_a_bitmap),
        cmocka_unit_test(in_a_remote_word),   cmocka_unit_test(in_a_depot),
        cmocka_unit_test(tags_of_mid_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
