/* large.c: blocks above 64 KiB: content, sizes in place, purge, what is no block. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "commit/commit.h"
#include "large/heap.h"
#include "large/large.h"
#include "large/view.h"
#include "hakmem.h"
#include "pool/pool.h"
#include "region/verify.h"
#include "purge.h"

enum { BLOCKS = 120, TURNS = 30000 / UNIT_DIVISOR, SHARDS = 8, LEAST = HAK_CLASS_MAX + 1 };

static const char *const variables[] = {"HAKMEM_SHARDS=8", "HAKMEM_PURGE_THREAD=0", NULL};

struct held {
    char *start;
    size_t size; /* usable */
    unsigned mark;
};

static size_t random_size(void) { return LEAST + unit_random(HAK_LARGE_MAX - LEAST + 1); }

static size_t usable(const void *block) {
    void *start = NULL;
    size_t size = 0;
    return hak_large_find(block, &start, &size) && start == block ? size : 0;
}

/* First byte, last byte and one a page in between. */
static void mark(struct held *held, unsigned value) {
    held->mark = value;
    for (size_t k = 0; k < held->size; k += 4096) memcpy(held->start + k, &value, sizeof value);
    held->start[held->size - 1] = (char)value;
}

static void check_prefix(const struct held *held, size_t size) {
    for (size_t k = 0; k < size; k += 4096)
        REQUIRE(memcmp(held->start + k, &held->mark, sizeof held->mark) == 0,
                "block %p lost its page at %zu", (void *)held->start, k);
}

static bool is_zero(const char *start, size_t size) {
    return start[0] == 0 && memcmp(start, start + 1, size - 1) == 0;
}

static void allocate(struct held *held, unsigned value) {
    size_t size = random_size(), align = (size_t)1 << unit_random(22);
    bool zero = unit_random(2) != 0;
    held->start = hak_large_alloc(unit_random(SHARDS), size, align, zero);
    assert_non_null(held->start);
    REQUIRE((uintptr_t)held->start % align == 0, "%p is no multiple of %zu", (void *)held->start,
            align);
    held->size = usable(held->start);
    REQUIRE(held->size >= size && held->size < size + size / 8 + 2 * HAK_GRAIN_SIZE,
            "%zu usable bytes for %zu", held->size, size);
    if (zero) REQUIRE(is_zero(held->start, held->size), "not zero");
    mark(held, value);
}

static void resize(struct held *held) {
    size_t want = random_size(), before = held->size;
    bool done = hak_large_resize(held->start, want);
    held->size = usable(held->start);
    REQUIRE(held->size == (done ? hak_align_up(want, HAK_GRAIN_SIZE) : before),
            "%zu bytes after a resize from %zu to %zu", held->size, before, want);
    if (want <= before) assert_true(done);
    check_prefix(held, hak_min(before, held->size));
    mark(held, held->mark);
}

static void release(struct held *held) {
    check_prefix(held, held->size);
    assert_true(hak_large_free(unit_random(SHARDS), held->start));
    assert_false(hak_large_free(unit_random(SHARDS), held->start));
    held->start = NULL;
}

static void contents_stay(void **state) {
    (void)state;
    static struct held blocks[BLOCKS];
    hak_large_stats_t before = hak_large_stats();
    for (unsigned turn = 0; turn < TURNS; turn++) {
        struct held *held = &blocks[unit_random(BLOCKS)];
        if (!held->start)
            allocate(held, turn);
        else if (unit_random(4) == 0)
            resize(held);
        else
            release(held);
        if (turn % 5000 == 0) purge_large(0);
    }
    size_t count = 0, bytes = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        count += blocks[i].start != NULL;
        bytes += blocks[i].start ? blocks[i].size : 0;
    }
    hak_large_stats_t now = hak_large_stats();
    assert_int_equal(now.count - before.count, count);
    assert_int_equal(now.bytes - before.bytes, bytes);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start) release(&blocks[i]);
    now = hak_large_stats();
    assert_int_equal(now.count, before.count);
    assert_int_equal(now.bytes, before.bytes);
    assert_true(now.local > before.local && now.remote > before.remote);
    assert_true(now.stolen > before.stolen && now.resized > before.resized);
}

/* Bytes charged, but for records, which stay. */
static size_t charged_for_blocks(void) { return hak_commit_bytes() - hak_areas_committed(); }

/* After a purge nothing free has pages, and what had them is no longer charged. */
static void a_purge_leaves_nothing(void **state) {
    (void)state;
    void *blocks[40];
    purge_large(0);
    size_t charged = charged_for_blocks();
    for (unsigned i = 0; i < 40; i++) {
        blocks[i] = hak_large_alloc(i % SHARDS, 700000, 1, false);
        memset(blocks[i], 1, 700000);
    }
    assert_true(charged_for_blocks() >= charged + 40 * 700000);
    for (unsigned i = 0; i < 40; i++) assert_true(hak_large_free(i % SHARDS, blocks[i]));
    assert_true(hak_large_idle() >= 30 * 700000);
    assert_int_equal(purge_large(1000000), 0); /* not old enough */
    assert_true(purge_large(0) >= 40 * 700000);
    assert_int_equal(hak_large_idle(), 0);
    assert_int_equal(hak_large_idle_about() / HAK_UNIT_SIZE, 0);
    REQUIRE(charged_for_blocks() <= charged, "%zu bytes charged before, %zu after", charged,
            charged_for_blocks());
}

/* A block that its own CPU frees serves the next request of its length, also where a shorter gap fits. */
static void a_freed_block_stays_whole(void **state) {
    (void)state;
    enum { HOME = 3, SHORT = 70000, OTHER = 90000, LONG = 100000 };
    purge_large(0);
    char *blocks[6];
    for (unsigned i = 0; i < 6; i++) blocks[i] = hak_large_alloc(HOME, SHORT, 1, false);
    memset(blocks[2], 1, SHORT);
    hak_large_stats_t before = hak_large_stats();
    for (unsigned i = 1; i < 4; i++) assert_true(hak_large_free(HOME, blocks[i]));
    assert_false(hak_large_free(HOME, blocks[2])); /* twice */
    assert_int_equal(usable(blocks[2]), 0);
    hak_large_stats_t now = hak_large_stats();
    assert_int_equal(now.count, before.count - 3);
    assert_int_equal(now.bytes, before.bytes - 3 * hak_align_up(SHORT, HAK_GRAIN_SIZE));
    assert_true(now.idle_bytes >= before.idle_bytes + 3 * (size_t)SHORT);
    assert_ptr_equal(hak_large_alloc(HOME, SHORT, 1, false), blocks[3]); /* the newest first */
    char *zero = hak_large_alloc(HOME, SHORT, 1, true);
    assert_ptr_equal(zero, blocks[2]);
    assert_true(is_zero(zero, SHORT));
    assert_int_equal(hak_large_stats().local, now.local + 2);
    assert_ptr_not_equal(hak_large_alloc(HOME, OTHER, 1, false), blocks[1]);
    /* The one that is left merges when a block in front of it grows, and the purge takes the next. */
    assert_true(hak_large_resize(blocks[0], OTHER));
    assert_true(hak_large_free(HOME, blocks[5]));
    purge_large(0);
    assert_int_equal(hak_large_idle(), 0);
    char *longer = hak_large_alloc(HOME, LONG, 1, false); /* too long to stay */
    assert_true(hak_large_free(HOME, longer));
    assert_int_equal(hak_load_relaxed(&hak_heap_at(HOME)->recent.grains), 0);
}

static void a_block_grows_and_shrinks_in_place(void **state) {
    (void)state;
    purge_large(0);
    char *first = hak_large_alloc(0, 300000, 1, false), *second = NULL;
    assert_true(hak_large_resize(first, HAK_LARGE_MAX) || hak_large_resize(first, 300000));
    assert_true(hak_large_resize(first, 150000));
    assert_int_equal(usable(first), hak_align_up(150000, HAK_GRAIN_SIZE));
    second = hak_large_alloc(0, 100000, 1, false); /* the best fit is the tail or lies elsewhere */
    assert_false(hak_large_resize(first, 1000));
    assert_false(hak_large_resize(first, HAK_LARGE_MAX + 1));
    assert_true(hak_large_free(0, second));
    assert_true(hak_large_resize(first, 200000));
    assert_true(hak_large_free(0, first));
}

/* Each grows into the place behind it, which then is another's: without room each step would be a move. */
static void blocks_that_grow_in_turn_seldom_move(void **state) {
    enum { COUNT = 100, STEP = HAK_GRAIN_SIZE, MOST = HAK_LARGE_MAX / 8 * 7, MOVES_MOST = 35 };
    static char *blocks[COUNT];
    unsigned moves = 0;
    (void)state;
    for (size_t size = LEAST + STEP; size <= MOST; size += STEP)
        for (unsigned i = 0; i < COUNT; i++) {
            char *old = blocks[i];
            blocks[i] = hakmem_realloc(old, size);
            assert_non_null(blocks[i]);
            assert_true(!old || blocks[i][0] == (char)i);
            blocks[i][0] = (char)i;
            moves += old && blocks[i] != old;
        }
    REQUIRE(moves <= COUNT * MOVES_MOST, "%u moves in %u steps", moves,
            (unsigned)(COUNT * ((MOST - LEAST) / STEP)));
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = hakmem_realloc(blocks[i], LEAST);
        assert_int_equal(hakmem_malloc_usable_size(blocks[i]), hak_align_up(LEAST, HAK_GRAIN_SIZE));
        hakmem_free(blocks[i]);
    }
}

static void what_is_no_block_is_not_freed(void **state) {
    (void)state;
    void *start;
    size_t size;
    char *block = hak_large_alloc(0, 200000, 1, false);
    const ptrdiff_t inside[] = {1, 16, 4096, 65536, 131072, 199999};
    for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++) {
        assert_false(hak_large_free(0, block + inside[i]));
        assert_true(hak_large_find(block + inside[i], &start, &size));
        assert_ptr_equal(start, block);
    }
    assert_true(hak_large_free(0, block));
    assert_false(hak_large_find(block, &start, &size));
    assert_false(hak_large_find(block + 4096, &start, &size));
    assert_false(hak_large_free(0, block));
}

/* A thread frees a block once more, and its unit is a slab by now: the counts of a slab are no block's length. Others
 * are in user_heap.c. */
static void what_is_a_slab_now_is_not_freed(void **state) {
    (void)state;
    static const struct {
        uint16_t free_count, fresh;
    } words[] = {{0, 1}, {0, 40}, {64, 4096}, {4096, 4096}, {543, 0}};
    assert_true(hak_large_free(0, hak_large_alloc(0, 200000, 1, false)));
    hak_unit_t *unit = hak_pool_take(1, &(bool){false});
    assert_non_null(unit);
    hak_store_relaxed(&unit->owner, hak_owner(0, 5));
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        unit->free_count = words[i].free_count;
        unit->fresh = words[i].fresh;
        for (size_t at = 0; at < HAK_UNIT_SIZE; at += HAK_GRAIN_SIZE)
            assert_int_equal(hak_large_free(0, unit->base + at), 0);
        assert_int_equal(unit->free_count, words[i].free_count);
        assert_int_equal(unit->fresh, words[i].fresh);
    }
    hak_store_relaxed(&unit->large, 0);
    hak_store_relaxed(&unit->owner, 0);
    hak_pool_give(unit, 1);
}

/* ---- threads ---- */

static _Atomic(void *) boxes[64];

static void *trade(void *argument) {
    unsigned home = (unsigned)(uintptr_t)argument;
    uint32_t random = 2463534242u + home;
    for (unsigned turn = 0; turn < 4000; turn++) {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        size_t size = LEAST + random % 400000;
        void *block = hak_large_alloc(home, size, 1, false);
        CHECK(block != NULL, "no block");
        memcpy(block, &block, sizeof block);
        memcpy((char *)block + size - sizeof block, &block, sizeof block);
        void *old = hak_exchange_acq_rel(&boxes[random % 64], block);
        if (old) {
            size_t old_size = usable(old);
            CHECK(old_size && memcmp(old, &old, sizeof old) == 0, "a block has changed");
            if (random >> 28 == 0) hak_large_resize(old, LEAST + old_size / 4);
            CHECK(hak_large_free(home, old), "a block is not known");
        }
        if (turn % 512 == 0) purge_large(0);
    }
    return NULL;
}

static void threads_trade_blocks(void **state) {
    (void)state;
    pthread_t threads[4];
    size_t live = hak_large_stats().bytes;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, trade, (void *)(i * 2)), 0);
    for (unsigned i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 64; i++)
        if (boxes[i]) assert_true(hak_large_free(0, boxes[i]));
    assert_int_equal(hak_large_stats().bytes, live);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_stay),
        cmocka_unit_test(a_purge_leaves_nothing),
        cmocka_unit_test(a_freed_block_stays_whole),
        cmocka_unit_test(a_block_grows_and_shrinks_in_place),
        cmocka_unit_test(what_is_no_block_is_not_freed),
        cmocka_unit_test(what_is_a_slab_now_is_not_freed),
        cmocka_unit_test(threads_trade_blocks),
        cmocka_unit_test(blocks_that_grow_in_turn_seldom_move),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
