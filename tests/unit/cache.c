/* cache.c: stacks that grow and shrink within a budget, and never lose or mix a block.
 *
 * The test makes its own caches and leaves that of the program alone. */
#include "cache_calls.h"

#include "classes/dyn.h"
#include "pool/pool.h"

/* The equations at the top of cache.h, and the sum of the stacks. */
static void check_cache(hak_cache_t *cache) {
    size_t capacity[HAK_CACHED_TIERS] = {0};
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        const hak_magazine_t *magazine = &cache->magazines[i];
        void **top = hak_load_relaxed(&magazine->top);
        capacity[hak_tier_of_class(i)] += (size_t)magazine->slots * hak_classes[i].size;
        if (!magazine->slots) {
            REQUIRE(*top == NULL && hak_cache_is_full(magazine, top),
                    "magazine %u without a stack is not both", i);
            continue;
        }
        REQUIRE(hak_is_pow2(magazine->slots), "magazine %u has %u slots", i, magazine->slots);
        REQUIRE(magazine->base[0] == NULL, "magazine %u has no sentinel", i);
        void **limit = hak_class_is_coloured(&hak_classes[i]) ? NULL : last_slot(magazine);
        REQUIRE(magazine->limit == (uint32_t)(uintptr_t)limit, "magazine %u ends elsewhere", i);
        REQUIRE(top >= magazine->base && top <= last_slot(magazine), "magazine %u: top is outside",
                i);
        REQUIRE(hak_cache_count(cache, i) == (size_t)(top - magazine->base),
                "magazine %u is miscounted", i);
        for (void **at = magazine->base + 1; at <= top; at++)
            REQUIRE(*at != NULL, "magazine %u holds NULL", i);
    }
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++)
        REQUIRE(cache->capacity[tier] == capacity[tier], "capacity is %zu, the stacks have %zu",
                cache->capacity[tier], capacity[tier]);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void a_new_cache_is_empty(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(1 * MIB);
    check_cache(cache);
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        assert_null(hak_cache_pop(cache, i));
        assert_int_equal(hak_cache_count(cache, i), 0);
    }
    for (size_t size = 0; size <= HAK_SMALL_MAX; size++) {
        const hak_magazine_t *magazine = hak_cache_magazine(cache, cache->route[(size + 7) / 8]);
        REQUIRE(magazine == &cache->magazines[hak_class_of(size)], "size %zu has a wrong route",
                size);
    }
    drop_cache(cache);
}

static void the_shared_caches_are_empty_and_full(void **state) {
    (void)state;
    const hak_cache_t *const shared[] = {&hak_cache_none, &hak_cache_dead};
    for (unsigned k = 0; k < 2; k++) {
        assert_null(*hak_load_relaxed(&shared[k]->magazines[0].top));
        for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++)
            assert_true(hak_cache_is_full(&shared[k]->magazines[i],
                                          hak_load_relaxed(&shared[k]->magazines[i].top)));
        for (unsigned i = 0; i <= HAK_SMALL_MAX / 8; i++) assert_int_equal(shared[k]->route[i], 0);
    }
}

static void without_a_cache_blocks_go_one_by_one(void **state) {
    (void)state;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        void *block = hak_cache_refill(NULL, i, NULL);
        assert_non_null(block);
        hak_cache_overflow(NULL, class_of(block), block);
    }
    for (int i = 0; i < 3; i++) hak_shard_release_idle();
}

static void blocks_come_back_in_the_other_order(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(1 * MIB);
    for (unsigned class_index = 41; class_index <= HAK_CLASS_COUNT; class_index += 5) {
        void *first = take(cache, class_index), *second = take(cache, class_index);
        assert_ptr_not_equal(first, second);
        give(cache, first);
        assert_ptr_equal(take(cache, class_index), first);
        give(cache, second);
        assert_ptr_equal(take(cache, class_index), second);
        give(cache, first);
        give(cache, second);
        check_cache(cache);
    }
    drop_cache(cache);
}

/* A program that takes more than the stack holds and gives it back gets a deeper one, until the
 * budget or the greatest depth is reached. */
static void stacks_grow_within_the_budget(void **state) {
    (void)state;
    enum { CLASS = HAK_CLASS_512 };
    static const size_t budgets[] = {64 * KIB, 256 * KIB, 1 * MIB};
    for (unsigned k = 0; k < 3; k++) {
        hak_cache_t *cache = make_cache(budgets[k]);
        unsigned first = 0, grown;
        for (unsigned turn = 0; turn < 40; turn++) {
            swing(cache, CLASS, HELD_MAX);
            check_cache(cache);
            if (!first) first = cache->magazines[CLASS].slots;
            REQUIRE(cache->capacity[hak_tier_of_class(CLASS)] <= budgets[k],
                    "%zu bytes with a budget of %zu", cache->capacity[hak_tier_of_class(CLASS)],
                    budgets[k]);
        }
        grown = cache->magazines[CLASS].slots;
        REQUIRE(grown > first && grown * 2u * hak_classes[CLASS].size > budgets[k] / 4,
                "with %zu bytes the stack stays at %u slots", budgets[k], grown);
        drop_cache(cache);
    }
}

/* Both in one go: whoever is slow more often has the room. `wraps`: the clock goes round
 * in between. */
static void take_room_from_colder(bool wraps) {
    enum { COLD = 13, HOT = 17 }; /* odd: none is lent from the class above */
    size_t budget = 128 * KIB;
    hak_cache_t *cache = make_cache(budget);
    for (unsigned turn = 0; turn < 30; turn++) swing(cache, COLD, HELD_MAX);
    unsigned cold = cache->magazines[COLD].slots, hot = 0;
    assert_true(cold >= 64);
    if (wraps) cache->clock[hak_tier_of_class(COLD)] = cache->used_at[COLD] = UINT32_MAX;
    for (unsigned turn = 0; turn < 400; turn++) {
        swing(cache, HOT, 1000 + unit_random(1000));
        if (!hot) hot = cache->magazines[HOT].slots;
        check_cache(cache);
        REQUIRE(cache->capacity[hak_tier_of_class(HOT)] <= budget, "%zu bytes with a budget of %zu",
                cache->capacity[hak_tier_of_class(HOT)], budget);
    }
    REQUIRE(cache->magazines[HOT].slots > hot, "the hot magazine stays at %u slots", hot);
    REQUIRE(cache->magazines[COLD].slots < cold, "the cold magazine keeps its %u slots", cold);
    drop_cache(cache);
}

static void room_comes_from_colder_bins(void **state) {
    (void)state;
    take_room_from_colder(false);
    take_room_from_colder(true);
}

/* Blocks whose first stack has two slots, under the least budget: no magazine has room to give. */
static void use_big_classes_only(const void *unused) {
    (void)unused;
    set_budget(64 * KIB);
    hak_cache_t *cache = hak_cache_make();
    CHECK(cache, "no memory");
    for (unsigned turn = 0; turn < 100; turn++)
        for (unsigned class_index = 66; class_index <= HAK_CLASS_COUNT; class_index++)
            swing(cache, class_index, 8);
}

static void a_budget_that_is_used_up_hangs_nobody(void **state) {
    (void)state;
    unit_child(use_big_classes_only, NULL, SECONDS, "big classes, small budget");
}

/* A full stack gives its oldest blocks to the shard and keeps the newest. */
static void the_oldest_blocks_are_flushed(void **state) {
    (void)state;
    enum { CLASS = HAK_CLASS_1024 };
    hak_cache_t *cache = make_cache(64 * KIB);
    static void *blocks[HELD_MAX];
    for (unsigned turn = 0; turn < 20; turn++) swing(cache, CLASS, 600);
    unsigned count = 0, slots = cache->magazines[CLASS].slots;
    while (count < 4 * slots) blocks[count++] = take(cache, CLASS);
    while (hak_cache_count(cache, CLASS)) blocks[count++] = take(cache, CLASS);
    unsigned given = 0, before = 0;
    do {
        before = (unsigned)hak_cache_count(cache, CLASS);
        give(cache, blocks[given++]);
    } while (hak_cache_count(cache, CLASS) > before || cache->magazines[CLASS].slots != slots);
    /* What is left are the last ones that were given, in their order. */
    unsigned left = (unsigned)hak_cache_count(cache, CLASS);
    REQUIRE(left >= 1 && left >= slots / 2 - 1, "%u of %u slots are left", left, slots);
    for (unsigned i = 0; i < left; i++)
        REQUIRE(cache->magazines[CLASS].base[1 + i] == blocks[given - left + i],
                "slot %u of %u does not hold the block given %u ago", i, left, left - i);
    while (given < count) give(cache, blocks[given++]);
    check_cache(cache);
    drop_cache(cache);
}

/* A program whose blocks vary in number by up to seven eighths of its stack makes no slow call after a while. */
static void swings_that_fit_end_slow_calls(void **state) {
    (void)state;
    enum { CLASS = HAK_CLASS_128 };
    static const unsigned swings[] = {200, 1030, 1290, 1540, 1600, 1790};
    for (unsigned k = 0; k < sizeof swings / sizeof *swings; k++) {
        hak_cache_t *cache = make_cache(4 * MIB);
        swing(cache, CLASS, HELD_MAX); /* the stack is full */
        for (unsigned turn = 0; turn < 12; turn++) swing(cache, CLASS, swings[k]);
        const uint32_t slow = cache->slow_count;
        for (unsigned turn = 0; turn < 12; turn++) swing(cache, CLASS, swings[k]);
        REQUIRE(cache->slow_count == slow, "swings of %u blocks still make %u slow calls",
                swings[k], cache->slow_count - slow);
        drop_cache(cache);
    }
}

/* Its stack stays small, and is emptied as a whole when it is full. */
static void a_thread_that_only_frees_moves_whole_stacks(void **state) {
    (void)state;
    enum { CLASS = HAK_CLASS_1024, COUNT = HELD_MAX };
    hak_cache_t *taker = make_cache(1 * MIB), *giver = make_cache(1 * MIB);
    static void *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = take(taker, CLASS);
    size_t most = 0, after_last_flush = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        size_t before = hak_cache_count(giver, CLASS);
        give(giver, blocks[i]);
        size_t now = hak_cache_count(giver, CLASS);
        if (now <= before) after_last_flush = now;
        most = hak_max(most, now);
    }
    assert_int_equal(after_last_flush, 1);
    REQUIRE(most >= 8 && most * hak_classes[CLASS].size <= 16 * KIB, "it kept %zu blocks", most);
    drop_cache(taker);
    drop_cache(giver);
}

/* The same the other way: each refill brings what the stack can hold. */
static void a_thread_that_only_allocates_fills_whole_stacks(void **state) {
    (void)state;
    enum { CLASS = HAK_CLASS_1024, COUNT = HELD_MAX };
    hak_cache_t *taker = make_cache(1 * MIB), *giver = make_cache(1 * MIB);
    static void *blocks[COUNT];
    size_t last_refill = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        bool is_empty = hak_cache_count(taker, CLASS) == 0;
        blocks[i] = take(taker, CLASS);
        if (is_empty) last_refill = hak_cache_count(taker, CLASS) + 1;
    }
    assert_int_equal(taker->magazines[CLASS].slots * hak_classes[CLASS].size, 16 * KIB);
    assert_int_equal(last_refill, taker->magazines[CLASS].slots - 1);
    give(taker, take(taker, CLASS)); /* a turn is none yet: the stack has room */
    assert_true(taker->streak[CLASS] >= 16);
    for (unsigned i = 0; i < COUNT; i++) give(i % 2 ? taker : giver, blocks[i]);
    drop_cache(taker);
    drop_cache(giver);
}

/* From the first stack on, each second slow call of one direction doubles it, up to 16 KiB of blocks. */
static void two_slow_calls_of_one_direction_double_a_stack(void **state) {
    (void)state;
    enum { CLASS = 9, COUNT = HELD_MAX };
    hak_cache_t *cache = make_cache(1 * MIB);
    static void *blocks[COUNT];
    const hak_magazine_t *magazine = &cache->magazines[CLASS];
    unsigned slots = 0, doublings = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        blocks[i] = take(cache, CLASS);
        if (slots && magazine->slots > slots) {
            assert_int_equal(magazine->slots, slots * 2);
            doublings++;
            assert_int_equal(cache->slow_count, 1 + 2 * doublings);
        }
        slots = magazine->slots;
    }
    REQUIRE(doublings > 1 && slots * hak_classes[CLASS].size * 2 > 16 * KIB,
            "%u slots after %u doublings", slots, doublings);
    for (unsigned i = 0; i < COUNT; i++) give(cache, blocks[i]);
    drop_cache(cache);
}

/* What is popped from stays, and so does a block or two for a good while. */
static void bins_at_rest_are_emptied(void **state) {
    (void)state;
    enum { RESTS = 13, BUSY = 17, USED = 21, FEW = 25, TURNS = 60 };
    void *popped[TURNS];
    hak_cache_t *cache = make_cache(16 * MIB);
    for (unsigned turn = 0; turn < 20; turn++) swing(cache, BUSY, HELD_MAX); /* until it is deep */
    for (unsigned turn = 0; turn < 20; turn++) swing(cache, RESTS, 400), swing(cache, USED, 400);
    for (unsigned turn = 0; turn < 3; turn++) swing(cache, FEW, 1);
    const size_t few = hak_cache_count(cache, FEW);
    assert_true(few > 0 && few <= 16);
    assert_true(hak_cache_count(cache, RESTS) >= 64);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        const size_t before = hak_cache_count(cache, USED);
        popped[turn] = hak_cache_pop(cache, USED);
        assert_non_null(popped[turn]);
        const uint32_t calls = cache->slow_count;
        be_slow(cache, BUSY, 20);
        assert_in_range(cache->slow_count - calls, 20, 41); /* at most one look at each magazine */
        assert_int_equal(hak_cache_count(cache, USED), before - 1);
    }
    assert_int_equal(hak_cache_count(cache, RESTS), 0);
    assert_int_equal(hak_cache_count(cache, FEW), few);
    be_slow(cache, BUSY, 70000 / (unsigned)few);
    assert_int_equal(hak_cache_count(cache, FEW), 0);
    assert_int_equal(hak_cache_count(cache, USED), 0);
    for (unsigned turn = 0; turn < TURNS; turn++) give(cache, popped[turn]);
    check_cache(cache);
    drop_cache(cache);
}

/* Blocks that fill a unit each, until the pool has no unit with pages left. */
static unsigned use_up_pages(hak_cache_t *cache, void **blocks) {
    unsigned count = 0;
    while (hak_pool_stats.dirty_units) blocks[count++] = take(cache, HAK_CLASS_FIXED);
    return count;
}

static void give_all(hak_cache_t *cache, void **blocks, unsigned count) {
    while (count) give(cache, blocks[--count]);
}

static void slabs_of_classes_that_were_left_serve_others(void **state) {
    enum { FIRST = 58, LEFT = 8, OTHER = 33 }; /* 64 blocks of 1 KiB in a slab */
    static void *units[HELD_MAX], *blocks[LEFT * 64];
    (void)state;
    hak_cache_t *cache = make_cache(16 * MIB);
    const unsigned count = use_up_pages(cache, units);
    const size_t before = hak_pool_stats.used_units;
    for (unsigned i = 0; i < LEFT; i++) swing(cache, FIRST + i, 1);
    for (unsigned i = 0; i < LEFT * 64; i++) blocks[i] = take(cache, OTHER);
    REQUIRE(hak_pool_stats.used_units <= before + LEFT + 1, "%zu units more than before",
            hak_pool_stats.used_units - before);
    for (unsigned i = 0; i < LEFT; i++) assert_int_equal(hak_cache_count(cache, FIRST + i), 0);
    give_all(cache, blocks, LEFT * 64);
    give_all(cache, units, count);
    drop_cache(cache);
}

/* With so many other slow calls in each round. */
static void take_turns(unsigned others) {
    enum { FIRST = HAK_CLASS_9216, CLASSES = 4, OTHER = HAK_CLASS_1024, ROUNDS = 40 };
    static void *units[HELD_MAX];
    hak_cache_t *cache = make_cache(16 * MIB);
    const unsigned count = use_up_pages(cache, units);
    uint64_t settled = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2) settled = hak_pool_stats.stage2 + hak_pool_stats.stage3;
        for (unsigned i = 0; i < CLASSES; i++) {
            swing(cache, FIRST + i, 1);
            hak_cache_flush_all(cache);
        }
        for (unsigned i = 0; i < others; i++) {
            swing(cache, OTHER, 1);
            hak_cache_flush_all(cache);
        }
    }
    assert_int_equal(hak_pool_stats.stage2 + hak_pool_stats.stage3, settled);
    give_all(cache, units, count);
    drop_cache(cache);
}

static void classes_in_turn_get_a_slab_each(void **state) {
    (void)state;
    for (unsigned others = 0; others < 5; others++) take_turns(others);
}

/* Blocks of calloc come one by one where they are known to be zero: no refill says that the
 * class is in use. */
static void a_zeroed_block_is_a_use(void **state) {
    (void)state;
    enum { CLASS = HAK_CLASS_4096, BUSY = HAK_CLASS_8192 };
    hak_cache_t *cache = make_cache(64 * MIB);
    swing(cache, CLASS, 20);
    be_slow(cache, BUSY, 100);
    assert_true(cache->clock[HAK_MID] - cache->used_at[CLASS] >= 100);
    bool zeroed;
    void *block = hak_cache_refill(cache, CLASS, &zeroed);
    assert_non_null(block);
    assert_int_equal(cache->used_at[CLASS], cache->clock[HAK_MID]);
    give(cache, block);
    drop_cache(cache);
}

static void a_flush_empties_all(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(1 * MIB);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) swing(cache, i, 10);
    hak_cache_flush_all(cache);
    check_cache(cache);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) assert_int_equal(hak_cache_count(cache, i), 0);
    swing(cache, 9, 10); /* it can be used on */
    drop_cache(cache);
}

static void a_reset_forgets_all(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(1 * MIB);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) swing(cache, i, 10);
    hak_cache_reset(cache);
    check_cache(cache);
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++)
        assert_int_equal(cache->capacity[tier], 0);
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        assert_null(hak_cache_pop(cache, i));
        assert_int_equal(hak_cache_count(cache, i), 0);
    }
    swing(cache, 9, 10);
    drop_cache(cache);
}

/* Many classes in random order under a small budget; no block is handed out twice. */
static void blocks_are_never_mixed(void **state) {
    (void)state;
    static struct {
        unsigned *block;
        unsigned class_index;
    } held[HELD_MAX];
    hak_cache_t *cache = make_cache(96 * KIB);
    for (unsigned turn = 0; turn < 200000; turn++) {
        unsigned i = unit_random(HELD_MAX);
        if (held[i].block) {
            REQUIRE(*held[i].block == i, "block %u of class %u was handed out twice", i,
                    held[i].class_index);
            give(cache, held[i].block);
            held[i].block = NULL;
        } else {
            held[i].class_index = 1 + unit_random(unit_random(3) ? 30 : 60);
            held[i].block = take(cache, held[i].class_index);
            *held[i].block = i;
        }
        if (turn % 5000 == 0) check_cache(cache);
    }
    for (unsigned i = 0; i < HELD_MAX; i++)
        if (held[i].block) give(cache, held[i].block);
    check_cache(cache);
    drop_cache(cache);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(
        argv, (const char *const[]){"HAKMEM_SHARDS=4", "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    unit_open_shards(4);
    hak_dyn_choose(14464); /* so that it is one of all classes here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_cache_is_empty),
        cmocka_unit_test(the_shared_caches_are_empty_and_full),
        cmocka_unit_test(without_a_cache_blocks_go_one_by_one),
        cmocka_unit_test(blocks_come_back_in_the_other_order),
        cmocka_unit_test(stacks_grow_within_the_budget),
        cmocka_unit_test(room_comes_from_colder_bins),
        cmocka_unit_test(a_budget_that_is_used_up_hangs_nobody),
        cmocka_unit_test(the_oldest_blocks_are_flushed),
        cmocka_unit_test(swings_that_fit_end_slow_calls),
        cmocka_unit_test(a_thread_that_only_frees_moves_whole_stacks),
        cmocka_unit_test(a_thread_that_only_allocates_fills_whole_stacks),
        cmocka_unit_test(two_slow_calls_of_one_direction_double_a_stack),
        cmocka_unit_test(bins_at_rest_are_emptied),
        cmocka_unit_test(slabs_of_classes_that_were_left_serve_others),
        cmocka_unit_test(classes_in_turn_get_a_slab_each),
        cmocka_unit_test(a_zeroed_block_is_a_use),
        cmocka_unit_test(a_flush_empties_all),
        cmocka_unit_test(a_reset_forgets_all),
        cmocka_unit_test(blocks_are_never_mixed),
    };
    watchdog(100, "a cache test hangs");
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
