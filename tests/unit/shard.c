/* shard.c: taking and giving batches, the list of slabs, remote frees.
 *
 * The program itself lives on shard 0; the tests work on shards 2 and 3. Concurrent
 * threads are the subject of tests/interleave/ and tests/stress/. */
#include "options/options.h"
#include "shard/bin.h"
#include "shard/stats.h"
#include "shard/flush.h"
#include "shard/sparse.h"
#include "shard_batches.h"
#include "purge.h"

/* Classes by the number of blocks in a slab. */
enum {
    ONE = HAK_CLASS_65536,
    TWO = HAK_CLASS_32768,
    FOUR = HAK_CLASS_14336,
    TWO_WORDS = HAK_CLASS_960,
    SMALLEST = HAK_CLASS_8
}; /* FOUR has colours */

/* ---- Local ----------------------------------------------------------------------------------- */

static void a_slab_is_taken_whole(void **state) {
    (void)state;
    static const unsigned classes[] = {ONE, TWO, FOUR, TWO_WORDS, SMALLEST};
    for (unsigned i = 0; i < sizeof classes / sizeof *classes; i++) {
        void *blocks[BATCH_MAX];
        unsigned count = blocks_of(classes[i]), before = used_units();
        take(HOME, classes[i], count, blocks);
        assert_int_equal(used_units(), before + 1);
        const hak_unit_t *slab = slab_of(blocks[0]);
        for (unsigned k = 0; k < count; k++) assert_ptr_equal(slab_of(blocks[k]), slab);
        check_slab(slab);
        assert_int_equal(slab->free_count, 0);
        assert_int_equal(slab->free_count + remote_count(slab), 0);
        assert_int_equal(slab->owner, hak_owner(HOME, classes[i]));
        give(HOME, classes[i], blocks, count);
        release_all();
        assert_int_equal(used_units(), before);
    }
}

/* Where a slab is one block, a take of several locks the bin once, and brings half of them. */
static void slabs_of_one_block_come_together(void **state) {
    (void)state;
    enum { WANT = 8, COME = WANT / 2 };
    void *top_of[1 + WANT], *blocks[COME];
    unsigned before = used_units();
    const hak_bin_counts_t *counts = hak_bin_counts(HOME, ONE);
    unsigned locks = counts->counts[HAK_SHARD_LOCKS];
    assert_int_equal(hak_shard_take(HOME, ONE, WANT, top_of, NULL), COME);
    assert_int_equal(counts->counts[HAK_SHARD_LOCKS], locks + 1);
    assert_int_equal(used_units(), before + COME);
    for (unsigned i = 0; i < COME; i++) {
        blocks[i] = top_of[1 + i];
        check_slab(slab_of(blocks[i]));
        for (unsigned k = 0; k < i; k++)
            assert_ptr_not_equal(slab_of(blocks[k]), slab_of(blocks[i]));
    }
    locks = counts->counts[HAK_SHARD_LOCKS];
    give(HOME, ONE, blocks, COME);
    assert_int_equal(counts->counts[HAK_SHARD_LOCKS], locks + 1);
    assert_int_equal(used_units(), before + 1); /* one is kept */
    release_all();
    assert_int_equal(used_units(), before);
}

static void given_blocks_are_taken_again_lowest_first(void **state) {
    (void)state;
    void *blocks[68], *again[3];
    take(HOME, TWO_WORDS, 68, blocks);
    /* blocks[67] is the lowest. */
    void *some[] = {blocks[3], blocks[60], blocks[31], blocks[1]};
    give(HOME, TWO_WORDS, some, 4);
    check_slab(slab_of(some[0]));
    assert_int_equal(slab_of(some[0])->free_count, 4);
    take(HOME, TWO_WORDS, 3, again);
    assert_ptr_equal(again[2], blocks[60]);
    assert_ptr_equal(again[1], blocks[31]);
    assert_ptr_equal(again[0], blocks[3]);
    take(HOME, TWO_WORDS, 1, again);
    assert_ptr_equal(again[0], blocks[1]);
    give(HOME, TWO_WORDS, blocks, 68);
    release_all();
}

static void one_empty_slab_is_kept_the_next_released(void **state) {
    (void)state;
    void *first[4], *second[4], *again[4];
    unsigned before = used_units();
    const hak_bin_t *bin = hak_bin_of(HOME, FOUR);
    take(HOME, FOUR, 4, first);
    take(HOME, FOUR, 4, second);
    hak_unit_t *kept = slab_of(first[0]), *released = slab_of(second[0]);
    assert_int_equal(used_units(), before + 2);
    give(HOME, FOUR, first, 4);
    assert_ptr_equal(bin->empty, kept);
    assert_int_equal(used_units(), before + 2);
    give(HOME, FOUR, second, 4);
    assert_int_equal(used_units(), before + 1);
    assert_int_equal(released->owner, 0);
    assert_int_equal(kept->owner, hak_owner(HOME, FOUR));
    /* Kept for this: no unit of the pool, and it is counted as stage 1. */
    const _Atomic uint32_t *stage1 = &hak_bin_rare(HOME, FOUR)->stage1;
    uint32_t before_stage1 = *stage1;
    take(HOME, FOUR, 4, again);
    assert_ptr_equal(slab_of(again[0]), kept);
    assert_int_equal(*stage1, before_stage1 + 1);
    assert_int_equal(used_units(), before + 1);
    give(HOME, FOUR, again, 4);
    release_all();
    assert_int_equal(used_units(), before);
    assert_null(bin->empty);
    assert_int_equal(bin->listed_count, 0);
}

/* What a thread gives up of a class that it has left, with the next slab of the heap. Such a class is known from its
 * first slab on. */
static void the_kept_slab_serves_other_classes(void **state) {
    (void)state;
    void *blocks[4];
    hak_bin_t *bin = hak_bin_of(HOME, FOUR);
    take(HOME, FOUR, 4, blocks);
    give(HOME, FOUR, blocks, 4);
    assert_non_null(bin->empty);
    hak_shard_release_kept(HOME, FOUR);
    assert_null(bin->empty);
    for (unsigned i = 0; i < HAK_SHARD_CLASS_WORDS * 64; i++) {
        const bool has = i <= HAK_CLASS_COUNT && hak_shard_has_slabs(HOME, i);
        assert_int_equal(hak_shard_classes(HOME, i / 64) >> i % 64 & 1, has);
    }
}

static void a_sweep_spares_a_slab_that_was_just_kept(void **state) {
    (void)state;
    void *blocks[4];
    unsigned before = used_units();
    release_all();
    take(HOME, FOUR, 4, blocks);
    give(HOME, FOUR, blocks, 4);
    hak_shard_release_idle();
    assert_int_equal(used_units(), before + 1);
    hak_shard_release_idle();
    assert_int_equal(used_units(), before);
}

static void a_zeroed_block_is_zero(void **state) {
    (void)state;
    void *blocks[12];
    unsigned found = 0;
    bool zeroed;
    release_all();
    purge_pool(0, true); /* a slab is zero when its unit was */
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(hak_shard_take(HOME, FOUR, 1, top, &zeroed), 1);
        char *block = blocks[i] = top[1];
        size_t size = hak_classes[FOUR].size;
        for (size_t k = 0; zeroed && k < size; k++)
            REQUIRE(block[k] == 0, "a block said to be zero is not, at %zu", k);
        found += zeroed;
        memset(block, 1, size);
        if (i % 3 == 2) give(HOME, FOUR, &blocks[i - 1], 1);
    }
    REQUIRE(found >= 6, "only %u of 12 blocks are known to be zero", found);
    for (unsigned i = 0; i < 12; i++)
        if (i % 3 != 1) give(HOME, FOUR, &blocks[i], 1);
    release_all();
}

/* Whole words go out and come back by another path than single blocks. */
static void whole_words_in_both_directions(void **state) {
    (void)state;
    static void *blocks[4096], *turned[4096];
    unsigned before = used_units();
    for (unsigned skip = 0; skip < 3; skip++) {
        take(HOME, SMALLEST, 4096, blocks);
        const hak_unit_t *slab = slab_of(blocks[0]);
        for (unsigned i = 0; i < 4096; i++) turned[i] = blocks[4095 - i];
        void **batch = skip == 1 ? turned : blocks;
        unsigned alone = skip == 2; /* the words begin in the middle of the batch */
        give(HOME, SMALLEST, batch + alone, 4000);
        check_slab(slab);
        assert_int_equal(slab->free_count, 4000);
        for (unsigned i = 0; i < 4096; i++)
            assert_int_equal(is_free(batch[i]), i >= alone && i < alone + 4000);
        if (alone) give(HOME, SMALLEST, batch, 1);
        give(HOME, SMALLEST, batch + alone + 4000, 96 - alone);
        release_all();
        assert_int_equal(used_units(), before);
    }
}

/* Words in which some blocks are in use go out lowest first, and nothing is written below the room for a batch. */
static void words_with_holes(void **state) {
    (void)state;
    static void *blocks[4096], *some[4096];
    static const unsigned apart[] = {2, 3, 5, 13, 31, 64, 100}, wants[] = {100, 64, 63, 200, 65};
    void *guard;
    for (unsigned i = 0; i < sizeof apart / sizeof *apart; i++) {
        unsigned count = 0, done = 0;
        take(HOME, SMALLEST, 4096, blocks);
        for (unsigned k = 0; k < 4096; k++)
            if (k % apart[i] != 1) some[count++] = blocks[4095 - k]; /* the lowest first */
        give(HOME, SMALLEST, some, count);
        for (unsigned batch = 0; done < count; batch++) {
            const unsigned want = (unsigned)hak_min(wants[batch % 5], count - done);
            top[0] = &guard;
            assert_int_equal(hak_shard_take(HOME, SMALLEST, want, top, NULL), want);
            assert_ptr_equal(top[0], &guard);
            for (unsigned k = 0; k < want; k++) assert_ptr_equal(top[want - k], some[done + k]);
            done += want;
            check_slab(slab_of(blocks[0]));
        }
        give(HOME, SMALLEST, blocks, 4096);
        release_all();
    }
}

/* ---- Remote ---------------------------------------------------------------------------------- */

static void a_remote_block_waits_for_a_drain(void **state) {
    (void)state;
    void *blocks[68], *again[2];
    take(HOME, TWO_WORDS, 68, blocks);
    hak_unit_t *slab = slab_of(blocks[0]);
    hak_bin_t *bin = hak_bin_of(HOME, TWO_WORDS);
    assert_null(bin->pending);
    give(AWAY, TWO_WORDS, &blocks[67], 1); /* of the first word */
    assert_ptr_equal(bin->pending, slab);
    give(AWAY, TWO_WORDS, &blocks[0], 1); /* of the second */
    give(AWAY, TWO_WORDS, &blocks[66], 1);
    assert_int_equal(slab->remote_words, 3);
    assert_int_equal(slab->free_count, 0);
    assert_int_equal(slab->free_count + remote_count(slab), 3);
    check_slab(slab);
    take(HOME, TWO_WORDS, 2, again);
    assert_ptr_equal(again[1], blocks[67]);
    assert_ptr_equal(again[0], blocks[66]);
    assert_null(bin->pending);
    assert_int_equal(slab->remote_words, 0);
    assert_int_equal(slab->free_count, 1);
    check_slab(slab);
    give(AWAY, TWO_WORDS, blocks, 0);
    give(AWAY, TWO_WORDS, blocks + 1, 67);
    release_all();
    assert_int_equal(slab->owner, 0);
}

static void set(hak_option_t option, const char *value) {
    assert_true(hak_option_assign(option, (hak_text_t){value, strlen(value)}, HAK_SOURCE_PROGRAM));
}

/* The slabs that a bounded drain does not come to stay linked as they are: it has not walked over
 * them. */
static void a_bounded_drain_leaves_the_rest_alone(void **state) {
    enum { SLABS = 200 };
    (void)state;
    void *blocks[SLABS * 2], *again[2];
    unsigned before = used_units();
    hak_bin_t *bin = hak_bin_of(HOME, TWO);
    take(HOME, TWO, SLABS * 2, blocks);
    for (unsigned i = 0; i < SLABS * 2; i += 2) give(AWAY, TWO, &blocks[i], 1);
    hak_unit_t *first = bin->pending, *second = first->pending_next, *third = second->pending_next;
    set(HAK_OPTION_POOL_DRAIN_MAX, "1");
    take(HOME, TWO, 1, again);
    assert_ptr_equal(slab_of(again[0]), first);
    assert_ptr_equal(bin->pending, second);
    assert_ptr_equal(second->pending_next, third);
    take(HOME, TWO, 1, again + 1);
    assert_ptr_equal(slab_of(again[1]), second);
    assert_ptr_equal(bin->pending, third);
    set(HAK_OPTION_POOL_DRAIN_MAX, "4096");
    unsigned pending = 0;
    for (const hak_unit_t *slab = bin->pending; slab; slab = slab->pending_next) pending++;
    assert_int_equal(pending, SLABS - 2);
    for (unsigned i = 1; i < SLABS * 2; i += 2) give(AWAY, TWO, &blocks[i], 1);
    give(AWAY, TWO, again, 2);
    release_all();
    assert_int_equal(used_units(), before);
}

/* A shard without blocks takes what another one has, before a fresh unit. */
static void other_shards_are_searched(void **state) {
    (void)state;
    void *blocks[4], *again[1];
    take(AWAY, FOUR, 4, blocks);
    give(AWAY, FOUR, blocks, 2);
    unsigned before = used_units();
    take(HOME, FOUR, 1, again);
    assert_int_equal(used_units(), before);
    assert_ptr_equal(slab_of(again[0]), slab_of(blocks[0]));
    assert_int_equal(slab_of(again[0])->owner, hak_owner(AWAY, FOUR));
    give(HOME, FOUR, again, 1); /* remote again */
    give(AWAY, FOUR, blocks + 2, 2);
    release_all();
    assert_int_equal(slab_of(blocks[0])->owner, 0);
}

/* TINY_PROFILE=larson_guard: used blocks stay in their shard, an empty slab moves as a whole. */
static void only_empty_slabs_move(void **state) {
    (void)state;
    void *blocks[8], *again[4];
    set(HAK_OPTION_TINY_PROFILE, "larson_guard");
    take(AWAY, FOUR, 8, blocks);
    hak_unit_t *empty = slab_of(blocks[0]), *part = slab_of(blocks[4]);
    give(AWAY, FOUR, blocks, 4);
    give(AWAY, FOUR, blocks + 4, 2);
    assert_ptr_equal(hak_bin_of(AWAY, FOUR)->empty, empty);
    unsigned before = used_units(), there = slab_count(AWAY);
    unsigned here = slab_count(HOME);
    uint64_t adopted = hak_shard_adopted_empty();
    take(HOME, FOUR, 1, again);
    assert_ptr_equal(slab_of(again[0]), empty);
    assert_int_equal(empty->owner, hak_owner(HOME, FOUR));
    assert_int_equal(used_units(), before);
    assert_int_equal(slab_count(AWAY), there - 1);
    assert_int_equal(slab_count(HOME), here + 1);
    assert_int_equal(hak_shard_adopted_empty(), adopted + 1);
    assert_null(hak_bin_of(AWAY, FOUR)->empty);
    check_bin(AWAY, FOUR, 0);
    check_bin(HOME, FOUR, 0);
    /* The other slab has free blocks; here a new one is taken. */
    take(HOME, FOUR, 3, again + 1);
    void *fresh[1];
    take(HOME, FOUR, 1, fresh);
    assert_ptr_not_equal(slab_of(fresh[0]), part);
    assert_int_equal(used_units(), before + 1);
    set(HAK_OPTION_TINY_PROFILE, "full");
    give(HOME, FOUR, again, 4);
    give(HOME, FOUR, fresh, 1);
    give(AWAY, FOUR, blocks + 6, 2);
    release_all();
}

/* SS_BUDGET: what is empty or came back goes first, but no request fails. */
static void at_its_budget_a_shard_reclaims(void **state) {
    (void)state;
    static void *blocks[HAK_SUPERSLAB_UNITS_MAX + 4];
    void *other[4], *more[1];
    unsigned budget = hak_superslab_units();
    release_all();
    assert_int_equal(slab_count(HOME), 0);
    take(HOME, FOUR, 4, other);
    give(HOME, FOUR, other, 4); /* kept empty */
    take(HOME, ONE, budget - 1, blocks);
    assert_int_equal(slab_count(HOME), budget);
    set(HAK_OPTION_SS_BUDGET, "1");
    uint64_t hits = hak_shard_budget_hits();
    take(HOME, ONE, 1, blocks + budget - 1);
    assert_int_equal(hak_shard_budget_hits(), hits + 1);
    assert_null(hak_bin_of(HOME, FOUR)->empty);
    assert_int_equal(slab_count(HOME), budget);
    /* Nothing is left to reclaim: another shard's used block comes before one more slab. */
    take(AWAY, TWO, 2, other);
    give(AWAY, TWO, other, 1);
    set(HAK_OPTION_TRYLOCK_PROBES, "0");
    take(HOME, TWO, 1, more);
    assert_ptr_equal(more[0], other[0]);
    assert_int_equal(hak_shard_budget_hits(), hits + 2);
    take(HOME, ONE, 1, blocks + budget);
    assert_int_equal(slab_count(HOME), budget + 1);
    assert_int_equal(hak_shard_budget_hits(), hits + 3);
    set(HAK_OPTION_TRYLOCK_PROBES, "1");
    set(HAK_OPTION_SS_BUDGET, "0");
    give(HOME, ONE, blocks, budget + 1);
    give(AWAY, TWO, other, 2);
    release_all();
    assert_int_equal(slab_count(HOME), 0);
}

/* One batch of blocks of several slabs and shards, in random order. */
static void a_mixed_batch_finds_its_way(void **state) {
    (void)state;
    static void *blocks[900];
    unsigned before = used_units();
    for (unsigned shard = 1; shard <= 3; shard++)
        take(shard, TWO_WORDS, 300, blocks + (shard - 1) * 300);
    for (unsigned i = 899; i > 0; i--) {
        unsigned k = unit_random(i + 1);
        void *other = blocks[i];
        blocks[i] = blocks[k];
        blocks[k] = other;
    }
    give(HOME, TWO_WORDS, blocks, 900);
    release_all();
    assert_int_equal(used_units(), before);
}

/* ---- At random ------------------------------------------------------------------------------- */

enum { KINDS = 4, HELD_MAX = 3000 };
static struct {
    void *blocks[HELD_MAX];
    unsigned count;
} held[KINDS];

static void take_or_give_at_random(const unsigned *classes) {
    unsigned kind = unit_random(KINDS), home = 1 + unit_random(3);
    unsigned want = 1 + unit_random(80), count = held[kind].count;
    if (unit_random(2) && count + want <= HELD_MAX) {
        take(home, classes[kind], want, held[kind].blocks + count);
        held[kind].count += want;
    } else if (count) {
        unsigned from = unit_random(count);
        unsigned some = count - from < want ? count - from : want;
        give(home, classes[kind], held[kind].blocks + from, some);
        memmove(held[kind].blocks + from, held[kind].blocks + from + some,
                (count - from - some) * sizeof(void *));
        held[kind].count -= some;
    }
}

static void many_batches(void **state) {
    (void)state;
    static const unsigned classes[KINDS] = {TWO, FOUR, TWO_WORDS, 60};
    unsigned before = used_units();
    for (unsigned turn = 0; turn < 30000; turn++) {
        take_or_give_at_random(classes);
        if (turn % 500 == 0) hak_shard_release_idle();
        if (turn % 700 == 0) purge_sparse();
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (unsigned i = 0; i < held[kind].count; i++) check_slab(slab_of(held[kind].blocks[i]));
        give(HOME, classes[kind], held[kind].blocks, held[kind].count);
    }
    release_all();
    assert_int_equal(used_units(), before);
}

/* 2^32 blocks of 16 bytes are 64 GiB. */
static void more_blocks_than_32_bits_are_counted(void **state) {
    (void)state;
    const size_t many = (size_t)1 << 32;
    void *blocks[1];
    hak_bin_t *bin = hak_bin_of(HOME, FOUR);
    take(HOME, FOUR, 1, blocks);
    uint64_t used = hak_shard_stats(FOUR).used;
    size_t in_use = hak_shard_in_use(FOUR);
    bin->touched += many;
    assert_int_equal(hak_shard_stats(FOUR).used, used + many);
    assert_int_equal(hak_shard_in_use(FOUR), in_use + many);
    give(HOME, FOUR, blocks, 1);
    assert_int_equal(hak_shard_stats(FOUR).used, used + many - 1);
    bin->touched -= many;
    release_all();
}

int main(int argc, char **argv) {
    (void)argc;
    begin_with_four_shards(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slab_is_taken_whole),
        cmocka_unit_test(slabs_of_one_block_come_together),
        cmocka_unit_test(given_blocks_are_taken_again_lowest_first),
        cmocka_unit_test(one_empty_slab_is_kept_the_next_released),
        cmocka_unit_test(the_kept_slab_serves_other_classes),
        cmocka_unit_test(a_sweep_spares_a_slab_that_was_just_kept),
        cmocka_unit_test(a_zeroed_block_is_zero),
        cmocka_unit_test(whole_words_in_both_directions),
        cmocka_unit_test(words_with_holes),
        cmocka_unit_test(a_remote_block_waits_for_a_drain),
        cmocka_unit_test(a_bounded_drain_leaves_the_rest_alone),
        cmocka_unit_test(other_shards_are_searched),
        cmocka_unit_test(only_empty_slabs_move),
        cmocka_unit_test(at_its_budget_a_shard_reclaims),
        cmocka_unit_test(a_mixed_batch_finds_its_way),
        cmocka_unit_test(many_batches),
        cmocka_unit_test(more_blocks_than_32_bits_are_counted),
    };
    watchdog(100, "a shard test hangs");
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}
