/* warm.c: slabs bound to a thread: binding, carving, giving to and taking back; on one thread
 * step by step, and on several through whole caches. The program itself lives on shard 0. */
#include <pthread.h>
#include <stdio.h>

#include "cache/cache.h"
#include "cache/cpu_depot.h"
#include "cache/warm_cache.h"
#include "policy/policy.h"
#include "shard_batches.h"
#include "shard/flush.h"
#include "shard/sparse.h"
#include "stats/collect.h"
#include "stats/stats.h"
#include "purge.h"

enum { TINY = HAK_CLASS_256, TINY_COUNT = 256, POOL = 4 }; /* 256 bytes: 256 blocks in a slab */

static hak_warm_t *make_warm(void) {
    hak_warm_t *warm = hak_warm_make(0, POOL);
    assert_non_null(warm);
    return warm;
}

static uint64_t count(const hak_warm_t *warm, unsigned counter) { return warm->counts[counter]; }

static unsigned bound(const hak_warm_t *warm) {
    unsigned sum = 0;
    for (unsigned i = 0; i < warm->count; i++) {
        const hak_unit_t *slab = (const hak_unit_t *)warm->slots[i].state;
        if (!slab) continue;
        assert_true(hak_owner_is_warm(slab->owner, hak_owner(HOME, TINY)));
        assert_ptr_equal(slab->slot, &warm->slots[i]);
        assert_false(slab->listed);
        assert_int_equal(warm->slots[i].ready, hak_bin_ready(slab, &hak_classes[TINY]));
        check_slab(slab);
        sum++;
    }
    return sum;
}

/* As a thread whose cache is empty. The last call's blocks come first in `blocks`. */
static void refill(hak_warm_t *warm, unsigned want, void **blocks) {
    while (want) {
        unsigned taken = hak_warm_take(warm, HOME, TINY, want, top, false);
        if (!taken) taken = hak_shard_take_warm(HOME, TINY, want, top, warm);
        REQUIRE(taken >= 1 && taken <= want, "%u blocks for %u", taken, want);
        want -= taken;
        memcpy(blocks + want, top + 1, taken * sizeof *top);
    }
}

/* A few slabs of shard HOME with every other block free, in `kept` the blocks in use. */
static void make_half_used(unsigned slabs, void **kept) {
    void *blocks[BATCH_MAX], *others[BATCH_MAX];
    unsigned used = 0, given = 0;
    take(HOME, TINY, slabs * TINY_COUNT, blocks);
    for (unsigned i = 0; i < slabs * TINY_COUNT; i++) {
        if ((uintptr_t)blocks[i] / hak_classes[TINY].size % 2)
            kept[used++] = blocks[i];
        else
            others[given++] = blocks[i];
    }
    give(HOME, TINY, others, given);
    check_bin(HOME, TINY, 0);
}

static void end(hak_warm_t *warm, unsigned before) {
    hak_warm_release(warm, HOME, TINY);
    assert_int_equal(bound(warm), 0);
    release_all();
    check_bin(HOME, TINY, 0);
    assert_int_equal(used_units(), before);
    assert_int_equal(hak_warm_slabs(TINY), 0);
}

static void a_carve_needs_no_lock(void **state) {
    (void)state;
    void *kept[BATCH_MAX], *blocks[64];
    unsigned before = used_units();
    hak_warm_t *warm = make_warm();
    make_half_used(4, kept);
    refill(warm, 1, blocks);
    assert_int_equal(count(warm, HAK_WARM_MISSES), 1);
    assert_int_equal(count(warm, HAK_WARM_ATTEMPTS), 0);
    assert_int_equal(bound(warm), count(warm, HAK_WARM_PREFILLED));
    check_bin(HOME, TINY, 0);
    hak_bin_t *bin = hak_bin_of(HOME, TINY);
    const hak_bin_counts_t counted = *hak_bin_counts(HOME, TINY);
    hak_lock_acquire(&bin->lock); /* whoever waited for it would hang */
    assert_int_equal(hak_warm_take(warm, HOME, TINY, 63, top, false), 63);
    hak_lock_release(&bin->lock);
    assert_memory_equal(&counted, hak_bin_counts(HOME, TINY), sizeof counted);
    for (unsigned i = 1; i <= 63; i++) {
        assert_false(is_free(top[i]));
        assert_true(i == 1 || top[i] < top[i - 1]);
    }
    assert_int_equal(count(warm, HAK_WARM_HITS), 1);
    assert_int_equal(count(warm, HAK_WARM_CARVED), 1);
    assert_int_equal(count(warm, HAK_WARM_TAKEN), 63);
    bound(warm);
    memcpy(blocks + 1, top + 1, 63 * sizeof *top);
    give(HOME, TINY, blocks, 64);
    give(HOME, TINY, kept, 4 * TINY_COUNT / 2);
    end(warm, before);
}

static void with_bind_only_the_lock_is_taken(void **state) {
    (void)state;
    void *kept[BATCH_MAX], *blocks[9];
    unsigned before = used_units();
    hak_warm_t *warm = make_warm();
    make_half_used(4, kept);
    refill(warm, 1, blocks);
    unsigned locks = hak_bin_counts(HOME, TINY)->counts[HAK_SHARD_LOCKS];
    unsigned taken = hak_bin_counts(HOME, TINY)->counts[HAK_SHARD_TAKEN];
    assert_int_equal(hak_warm_take(warm, HOME, TINY, 8, top, true), 8);
    assert_int_equal(hak_bin_counts(HOME, TINY)->counts[HAK_SHARD_LOCKS], locks + 1);
    assert_int_equal(hak_bin_counts(HOME, TINY)->counts[HAK_SHARD_TAKEN], taken + 8);
    assert_int_equal(count(warm, HAK_WARM_HITS), 1);
    assert_int_equal(count(warm, HAK_WARM_ATTEMPTS), 0);
    assert_int_equal(count(warm, HAK_WARM_TAKEN), 0);
    memcpy(blocks + 1, top + 1, 8 * sizeof *top);
    give(HOME, TINY, blocks, 9);
    give(HOME, TINY, kept, 4 * TINY_COUNT / 2);
    end(warm, before);
}

/* Never more than half of the list, and never more than there is room for. */
static void a_miss_takes_a_fair_share(void **state) {
    (void)state;
    static const struct {
        unsigned slabs, bound;
    } rows[] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}, {7, 4}, {16, 4}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        static void *kept[BATCH_MAX];
        void *one;
        unsigned before = used_units();
        hak_warm_t *warm = make_warm();
        make_half_used(rows[i].slabs, kept);
        refill(warm, 1, &one);
        REQUIRE(bound(warm) == rows[i].bound, "%u of %u slabs are bound, not %u", bound(warm),
                rows[i].slabs, rows[i].bound);
        assert_int_equal(count(warm, HAK_WARM_PREFILLED), rows[i].bound);
        assert_int_equal(hak_bin_of(HOME, TINY)->listed_count, rows[i].slabs - rows[i].bound);
        give(HOME, TINY, &one, 1);
        give(HOME, TINY, kept, rows[i].slabs * TINY_COUNT / 2);
        end(warm, before);
    }
}

static void used_blocks_come_before_fresh_ones(void **state) {
    (void)state;
    void *fresh[32], *others[32], *theirs[16];
    purge_pool(0, true); /* a unit with pages would count as used */
    unsigned before = used_units();
    hak_warm_t *warm = make_warm();
    refill(warm, 32, fresh); /* one slab, most of it never used */
    hak_unit_t *slab = slab_of(fresh[0]);
    assert_int_equal(slab->fresh, 32);
    assert_int_equal(bound(warm), 0);
    /* Another shard has used ones. */
    take(AWAY, TINY, 32, others);
    give(AWAY, TINY, others + 8, 16);
    refill(warm, 16, theirs);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(hak_owner_shard(slab_of(theirs[i])->owner), AWAY);
    assert_int_equal(slab->fresh, 32);
    give(AWAY, TINY, theirs, 16);
    give(AWAY, TINY, others, 8);
    give(AWAY, TINY, others + 24, 8);
    give(HOME, TINY, fresh, 32);
    end(warm, before);
}

/* Blocks that come back to a warm slab are carved again, whoever's they were. */
static void a_give_goes_to_the_bound_slab(void **state) {
    (void)state;
    void *kept[BATCH_MAX], *blocks[TINY_COUNT];
    unsigned before = used_units();
    hak_warm_t *warm = make_warm();
    make_half_used(1, kept);
    refill(warm, TINY_COUNT / 2, blocks);
    hak_unit_t *slab = slab_of(blocks[0]);
    assert_int_equal(slab->free_count, 0);
    give(HOME, TINY, kept, 10);
    assert_int_equal(slab->free_count, 10);
    assert_int_equal(slab->remote_words, 0);
    assert_int_equal(bound(warm), hak_owner_is_warm(slab->owner, hak_owner(HOME, TINY)));
    void *again[10];
    refill(warm, 10, again);
    assert_int_equal(slab->free_count, 0);
    give(HOME, TINY, again, 10);
    /* From another shard; a drain brings them. */
    give(AWAY, TINY, kept + 10, 5);
    assert_int_equal(remote_count(slab), 5);
    hak_shard_release_idle();
    assert_int_equal(slab->remote_words, 0);
    assert_int_equal(slab->free_count, 15);
    check_slab(slab);
    /* The last one: the slab is wholly free, and no longer bound. */
    give(HOME, TINY, kept + 15, TINY_COUNT / 2 - 15);
    give(HOME, TINY, blocks, TINY_COUNT / 2);
    assert_int_equal(bound(warm), 0);
    end(warm, before);
}

/* What a carve that is under way looks like to others. */
static void who_finds_a_slab_claimed_goes_round_it(void **state) {
    (void)state;
    void *kept[BATCH_MAX], *one;
    unsigned before = used_units();
    hak_warm_t *warm = make_warm();
    make_half_used(1, kept);
    refill(warm, 1, &one);
    assert_int_equal(bound(warm), 1);
    hak_unit_t *slab = slab_of(one);
    unsigned free_count = slab->free_count;
    assert_true(hak_warm_claim(slab));
    assert_false(hak_warm_claim(slab));
    assert_int_equal(hak_warm_take(warm, HOME, TINY, 1, top, false), 0);
    give(HOME, TINY, kept, 3);                            /* goes to the remote words */
    give(AWAY, TINY, kept + 3, 3);                        /* so does this */
    for (int i = 0; i < 3; i++) hak_shard_release_idle(); /* nothing drained, nothing taken back */
    assert_int_equal(slab->free_count, free_count);
    assert_int_equal(remote_count(slab), 6);
    assert_ptr_equal(hak_bin_of(HOME, TINY)->pending, slab);
    take(HOME, TINY, 1, kept); /* from elsewhere */
    assert_ptr_not_equal(slab_of(kept[0]), slab);
    assert_int_equal(remote_count(slab), 6);
    hak_bin_t *bin = hak_bin_of(HOME, TINY);
    hak_lock_acquire(&bin->lock);
    assert_false(hak_warm_after_free(bin, slab));
    hak_lock_release(&bin->lock);
    hak_shard_release_idle();
    assert_int_equal(slab->free_count, free_count + 6);
    assert_int_equal(slab->remote_words, 0);
    give(HOME, TINY, &one, 1);
    give(HOME, TINY, kept, 1);
    give(HOME, TINY, kept + 6, TINY_COUNT / 2 - 6);
    end(warm, before);
}

static void idle_bindings_are_taken_back(void **state) {
    (void)state;
    void *kept[BATCH_MAX], *blocks[8];
    unsigned before = used_units();
    hak_warm_t *warm = make_warm();
    make_half_used(4, kept);
    uint64_t unbound = hak_warm_unbound(TINY);
    refill(warm, 1, blocks);
    unsigned many = bound(warm);
    assert_true(many >= 2);
    assert_true(hak_shard_purge_waits(500));
    hak_shard_release_idle();
    assert_int_equal(bound(warm), many);
    refill(warm, 1, blocks + 1); /* keeps the slab that it carves */
    hak_shard_release_idle();
    assert_int_equal(bound(warm), 1);
    hak_shard_release_idle();
    assert_int_equal(bound(warm), 0);
    assert_int_equal(hak_warm_unbound(TINY) - unbound, many);
    check_bin(HOME, TINY, 0);
    give(HOME, TINY, blocks, 2);
    give(HOME, TINY, kept, 4 * TINY_COUNT / 2);
    end(warm, before);
}

/* A take from either shard, when only warm slabs have used blocks. */
static void nothing_is_withheld(void **state) {
    (void)state;
    static const unsigned homes[] = {HOME, HOME - 1}; /* the second one searches the next shard */
    for (unsigned i = 0; i < 2; i++) {
        void *kept[BATCH_MAX], *blocks[2];
        unsigned before = used_units();
        hak_warm_t *warm = make_warm();
        make_half_used(1, kept);
        refill(warm, 1, blocks);
        assert_int_equal(bound(warm), 1);
        unsigned units = used_units();
        take(homes[i], TINY, 1, blocks + 1);
        assert_ptr_equal(slab_of(blocks[1]), slab_of(blocks[0]));
        assert_int_equal(bound(warm), 0);
        assert_int_equal(used_units(), units);
        give(HOME, TINY, blocks, 2);
        give(HOME, TINY, kept, TINY_COUNT / 2);
        end(warm, before);
    }
}

static void free_twice(const void *context) {
    const bool *merged = context;
    void *kept[BATCH_MAX], *one;
    hak_warm_t *warm = make_warm();
    make_half_used(1, kept);
    refill(warm, 1, &one);
    give(*merged ? HOME : AWAY, TINY, &one, 1);
    give(HOME, TINY, &one, 1);
    CHECK(slab_of(one)->free_count == (*merged ? TINY_COUNT / 2 : TINY_COUNT / 2 - 1),
          "%u blocks are free", slab_of(one)->free_count);
}

static void a_double_free_is_found_in_a_bound_slab(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct child_end end;
        bool merged = i;
        child_run(free_twice, &merged, SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "status %#x, %s", (unsigned)end.status, end.err);
        REQUIRE(unit_line_count(end.err) == 1 && strstr(end.err, "double free"), "said: %s",
                end.err);
    }
}

/* ---- Whole caches ---------------------------------------------------------------------------- */

enum { BANDS_ALL = (1 << HAK_BAND_MID) - 1, HELD = 3000, CLASS_MOST = HAK_CLASS_TINY };

typedef struct {
    hak_cache_t *cache;
    unsigned turns, seed;
    struct {
        unsigned *block, class_index;
    } held[HELD];
} worker_t;

static unsigned next_random(worker_t *worker) {
    worker->seed = worker->seed * 1664525u + 1013904223u;
    return worker->seed >> 8;
}

static void give_block(hak_cache_t *cache, void *block) {
    unsigned class_index = hak_owner_class(slab_of(block)->owner);
    hak_magazine_t *bin = &cache->magazines[class_index];
    void **at = hak_load_relaxed(&bin->top);
    if (hak_cache_is_full(bin, at)) {
        hak_cache_overflow(cache, class_index, block);
        return;
    }
    at[1] = block;
    hak_store_relaxed(&bin->top, at + 1);
}

/* Takes and gives at random; now and then blocks go the way of a thread of another shard. */
static void *work(void *context) {
    worker_t *worker = context;
    for (unsigned turn = 0; turn < worker->turns; turn++) {
        unsigned i = next_random(worker) % HELD, tag = (unsigned)(uintptr_t)worker + i;
        unsigned *block = worker->held[i].block;
        if (block) {
            CHECK(*block == tag, "a block of class %u was handed out twice",
                  worker->held[i].class_index);
            worker->held[i].block = NULL;
            if (next_random(worker) % 8)
                give_block(worker->cache, block);
            else
                hak_shard_flush(worker->cache->shard ^ 1, hak_owner_class(slab_of(block)->owner),
                                (void **)&block, 1);
        } else {
            unsigned class_index = 1 + next_random(worker) % (turn / 4096 % 2 ? CLASS_MOST : 3);
            block = hak_cache_pop(worker->cache, class_index);
            if (!block) block = hak_cache_refill(worker->cache, class_index, NULL);
            CHECK(block != NULL, "no block");
            worker->held[i].block = block;
            worker->held[i].class_index = class_index;
            *block = tag;
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        if (worker->held[i].block) give_block(worker->cache, worker->held[i].block);
    return NULL;
}

static bool done;

/* What other threads do to warm slabs all the time. */
static void *disturb(void *unused) {
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
        hak_stats_end(hak_stats_begin());
        hak_shard_release_idle();
        purge_sparse();
        for (unsigned i = 1; i < HAK_CLASS_DYN; i++) {
            void *block = hak_cache_refill(NULL, i, NULL);
            hak_cache_overflow(NULL, hak_owner_class(slab_of(block)->owner), block);
        }
    }
    return unused;
}

static uint64_t count_of(hak_cache_t *cache, unsigned class_index, unsigned counter) {
    hak_warm_cache_counts_t sum = {0};
    hak_warm_cache_add_counts(cache, class_index, &sum);
    return sum.counts[counter];
}

static void threads_never_mix_blocks(void **state) {
    (void)state;
    enum { THREADS = 4 };
    static worker_t workers[THREADS];
    pthread_t threads[THREADS], other;
    uint64_t carved = 0;
    done = false;
    hak_policy_bands = BANDS_ALL;
    for (unsigned i = 0; i < THREADS; i++) {
        hak_cache_t *cache = hak_cache_make();
        assert_non_null(cache);
        cache->shard = (uint8_t)(HOME + i % 2);
        workers[i] = (worker_t){.cache = cache, .turns = 60000, .seed = i};
    }
    assert_int_equal(pthread_create(&other, NULL, disturb, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    __atomic_store_n(&done, true, __ATOMIC_RELAXED);
    pthread_join(other, NULL);
    hak_policy_bands = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        hak_cache_flush_all(workers[i].cache);
        for (unsigned k = 1; k <= HAK_CLASS_COUNT; k++)
            carved += count_of(workers[i].cache, k, HAK_WARM_CARVED);
        workers[i].cache->next = NULL;
    }
    assert_true(carved > 0);
    release_all();
    for (unsigned shard = HOME; shard <= AWAY; shard++) {
        for (unsigned k = 1; k <= HAK_CLASS_COUNT; k++) {
            check_bin(shard, k, 0);
            assert_int_equal(hak_bin_of(shard, k)->touched, 0);
        }
    }
}

static void take_some(hak_cache_t *cache, void **blocks, unsigned some) {
    for (unsigned i = 0; i < some; i++) {
        blocks[i] = hak_cache_pop(cache, TINY);
        if (!blocks[i]) blocks[i] = hak_cache_refill(cache, TINY, NULL);
    }
}

/* A cache of a class whose band is not promoted binds nothing, and no cache does for a thread
 * that has just got it. */
static void only_promoted_bands_bind(void **state) {
    (void)state;
    hak_cache_t *cache = hak_cache_make();
    assert_non_null(cache);
    cache->shard = HOME;
    static void *blocks[HELD];
    cache->slow_count = 1000;
    hak_policy_bands = 1 << HAK_BAND_C6;
    take_some(cache, blocks, 300);
    assert_null(hak_load_relaxed(&cache->warm));
    cache->born = cache->slow_count;
    hak_policy_bands = 1 << HAK_BAND_C5;
    take_some(cache, blocks + 300, 300);
    assert_null(hak_load_relaxed(&cache->warm));
    cache->born = 0;
    hak_policy_bands = 1 << HAK_BAND_C5;
    take_some(cache, blocks + 600, HELD - 600);
    hak_policy_bands = 0;
    for (unsigned i = 0; i < HELD; i += 2) give_block(cache, blocks[i]);
    hak_policy_bands = 1 << HAK_BAND_C5;
    for (unsigned i = 0; i < HELD / 2; i += 2) take_some(cache, blocks + i, 1);
    hak_policy_bands = 0;
    assert_true(count_of(cache, TINY, HAK_WARM_CARVED) > 0);
    assert_int_equal(count_of(cache, TINY, HAK_WARM_HITS), count_of(cache, TINY, HAK_WARM_CARVED));
    assert_true(hak_warm_slabs(TINY) > 0);
    for (unsigned i = 0; i < HELD; i++)
        if (i % 2 || i < HELD / 2) give_block(cache, blocks[i]);
    hak_cache_flush_all(cache);
    assert_int_equal(hak_warm_slabs(TINY), 0);
    release_all();
}

/* Nor does a cache while depots are open, even if its home is the shard of the CPU. */
static void crowds_bind_nothing(void **state) {
    (void)state;
    enum { TAKEN = 600, SHARE = 64 * 1024 };
    static void *blocks[TAKEN];
    hak_cache_t *cache = hak_cache_make();
    assert_non_null(cache);
    cache->shard = (uint8_t)hak_depot_shard();
    cache->slow_count = 1000;
    hak_policy_bands = 1 << HAK_BAND_C5;
    hak_depot_set_share(SHARE, true);
    take_some(cache, blocks, TAKEN / 2);
    assert_null(hak_load_relaxed(&cache->warm));
    hak_depot_set_share(SHARE, false);
    take_some(cache, blocks + TAKEN / 2, TAKEN / 2);
    assert_non_null(hak_load_relaxed(&cache->warm));
    hak_policy_bands = 0;
    for (unsigned i = 0; i < TAKEN; i++) give_block(cache, blocks[i]);
    hak_cache_flush_all(cache);
    release_all();
}

int main(int argc, char **argv) {
    (void)argc;
    begin_with_four_shards(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_carve_needs_no_lock),
        cmocka_unit_test(with_bind_only_the_lock_is_taken),
        cmocka_unit_test(a_miss_takes_a_fair_share),
        cmocka_unit_test(used_blocks_come_before_fresh_ones),
        cmocka_unit_test(a_give_goes_to_the_bound_slab),
        cmocka_unit_test(who_finds_a_slab_claimed_goes_round_it),
        cmocka_unit_test(idle_bindings_are_taken_back),
        cmocka_unit_test(nothing_is_withheld),
        cmocka_unit_test(a_double_free_is_found_in_a_bound_slab),
        cmocka_unit_test(only_promoted_bands_bind),
        cmocka_unit_test(crowds_bind_nothing),
        cmocka_unit_test(threads_never_mix_blocks),
    };
    watchdog(100, "a test of warm slabs hangs");
    return cmocka_run_group_tests_name("warm", tests, NULL, NULL);
}
