/* pages.c: the bytes in use of each grain, compared with a sum over the blocks; for slabs of every class and
 * units of large heaps. The program itself lives on shard 0; the tests work on shard 2. */
#include "large/large.h"
#include "large/view.h"
#include "region/region.h"
#include "shard/stats.h"
#include "shard_batches.h"

enum { MOST = 64, LARGE_BLOCKS = 20 };

/* Adds a block of `size` bytes to the sums of the unit at `base`, as far as it lies there. */
static void add_block(uint32_t sums[HAK_UNIT_GRAINS], const char *base, const char *block,
                      size_t size) {
    for (size_t at = 0; at < size; at++) {
        size_t offset = (size_t)(block + at - base);
        if (offset < HAK_UNIT_SIZE) sums[offset / HAK_GRAIN_SIZE]++;
    }
}

static void expect_sums(const uint16_t *used, const uint32_t *sums, size_t size) {
    for (unsigned i = 0; i < HAK_UNIT_GRAINS; i++)
        REQUIRE(used[i] == sums[i], "blocks of %zu: %u bytes in grain %u, not %u", size, used[i], i,
                sums[i]);
}

/* What is in use of the slabs that some of the blocks lie in; others of the slab are not in use. */
static void check_slabs(unsigned class_index, void *const *blocks, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        const hak_unit_t *slab = slab_of(blocks[i]);
        uint16_t used[HAK_UNIT_GRAINS];
        uint32_t sums[HAK_UNIT_GRAINS] = {0};
        for (unsigned k = 0; k < count; k++)
            add_block(sums, slab->base, blocks[k], hak_classes[class_index].size);
        assert_int_equal(hak_shard_used_bytes(slab, used), class_index);
        expect_sums(used, sums, hak_classes[class_index].size);
    }
}

static void slabs_of_every_class(void **state) {
    (void)state;
    for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
        void *blocks[MOST];
        unsigned count =
            hak_classes[class_index].count < MOST ? hak_classes[class_index].count : MOST;
        take(HOME, class_index, count, blocks);
        check_slabs(class_index, blocks, count);
        for (unsigned i = count; i-- > 1;) { /* half of them, anywhere */
            unsigned other = unit_random(i + 1);
            void *block = blocks[i];
            blocks[i] = blocks[other];
            blocks[other] = block;
        }
        give(HOME, class_index, blocks, count / 2);
        check_slabs(class_index, blocks + count / 2, count - count / 2);
        give(HOME, class_index, blocks + count / 2, count - count / 2);
    }
}

/* Freed by another shard's thread and not merged yet: no longer in use. */
static void remote_frees_count(void **state) {
    enum { CLASS = HAK_CLASS_64, COUNT = 40 };
    void *blocks[COUNT];
    (void)state;
    take(HOME, CLASS, COUNT, blocks);
    give(AWAY, CLASS, blocks, COUNT / 2);
    check_slabs(CLASS, blocks + COUNT / 2, COUNT / 2);
    give(HOME, CLASS, blocks + COUNT / 2, COUNT / 2);
}

static void units_of_large_blocks(void **state) {
    char *blocks[LARGE_BLOCKS];
    size_t sizes[LARGE_BLOCKS];
    uint16_t used[HAK_UNIT_GRAINS];
    (void)state;
    for (unsigned i = 0; i < LARGE_BLOCKS; i++) {
        sizes[i] = (17 + unit_random(200)) * (size_t)HAK_GRAIN_SIZE;
        blocks[i] = hak_large_alloc(HOME, sizes[i], HAK_GRAIN_SIZE, false);
        assert_non_null(blocks[i]);
    }
    for (unsigned i = 0; i < LARGE_BLOCKS; i += 3) {
        assert_true(hak_large_free(HOME, blocks[i]));
        sizes[i] = 0;
    }
    for (unsigned i = 0; i < LARGE_BLOCKS; i++) {
        const hak_unit_t *unit = hak_region_unit_of(blocks[i]);
        uint32_t sums[HAK_UNIT_GRAINS] = {0};
        for (unsigned k = 0; k < LARGE_BLOCKS; k++)
            add_block(sums, unit->base, blocks[k], sizes[k]);
        assert_true(hak_large_used_bytes(unit, used));
        expect_sums(used, sums, sizes[i]);
        assert_int_equal(hak_shard_used_bytes(unit, used), HAK_CLASS_NONE);
    }
    for (unsigned i = 0; i < LARGE_BLOCKS; i++)
        if (sizes[i]) assert_true(hak_large_free(HOME, blocks[i]));
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_SHARDS=4", NULL});
    unit_open_shards(4);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slabs_of_every_class),
        cmocka_unit_test(remote_frees_count),
        cmocka_unit_test(units_of_large_blocks),
    };
    watchdog(100, "a test of pages hangs");
    return cmocka_run_group_tests_name("pages", tests, NULL, NULL);
}
