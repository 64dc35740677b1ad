/* shard.c: taking and giving batches, the list of slabs, remote frees, double frees, fork.
 *
 * The program itself lives on shard 0; the tests work on shards 2 and 3. What many threads do at
 * once is in tests/interleave/ and tests/stress/. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"

enum { HOME = 2, AWAY = 3, BATCH_MAX = 5000, SECONDS = 20 };

/* Classes by the number of blocks in a slab. */
enum { ONE = 81, TWO = 73, FOUR = 65, TWO_WORDS = 32, SMALLEST = 1 };

static void *top[BATCH_MAX + 1];

static unsigned blocks_of(unsigned class_index) { return hak_classes[class_index].count; }

static unsigned used_units(void) { return (unsigned)hak_pool_stats.used_units; }

static hak_slab_t *slab_of(const void *block) { return hak_region_slab_of(block); }

/* The equations at the top of slab.h. */
static void check_slab(const hak_slab_t *slab) {
    const hak_class_t *info = &hak_classes[hak_owner_class(slab->owner)];
    unsigned count = 0;
    for (unsigned w = 0; w < info->words; w++) {
        count += (unsigned)__builtin_popcountll(slab->bits[w]);
        REQUIRE((slab->words_free >> w & 1) == (slab->bits[w] != 0),
                "words_free is wrong for word %u", w);
    }
    REQUIRE(count == slab->free_count, "free_count is %u, the bits say %u", slab->free_count,
            count);
}

/* The equations of touched and spare at the top of shard.h, over the listed slabs and the kept one;
 * `full` are blocks in slabs that are not listed. */
static void check_bin(unsigned shard, unsigned class_index, unsigned full) {
    const hak_shard_bin_t *bin = hak_bin_of(shard, class_index);
    const hak_class_t *info = &hak_classes[class_index];
    unsigned touched = full, spare = 0;
    for (const hak_slab_t *slab = bin->head; slab; slab = slab->next) {
        unsigned purged = hak_bin_purged_blocks(slab, info);
        touched += slab->fresh - purged;
        spare += slab->free_count - (info->count - slab->fresh) - purged;
    }
    if (bin->empty) {
        unsigned some = bin->empty->fresh - hak_bin_purged_blocks(bin->empty, info);
        touched += some;
        spare += some;
    }
    REQUIRE(bin->touched == touched, "touched is %u, the slabs have %u", bin->touched, touched);
    REQUIRE(bin->spare == spare, "spare is %u, the slabs have %u", bin->spare, spare);
}

static bool is_free(const void *block) {
    const hak_slab_t *slab = slab_of(block);
    const hak_class_t *info = &hak_classes[hak_owner_class(slab->owner)];
    unsigned offset = (unsigned)((const char *)block - slab->base);
    unsigned index = hak_block_index(offset, info->reciprocal);
    return slab->bits[index / 64] >> index % 64 & 1;
}

/* The whole batch, as one or more calls; the last call's blocks come first in `blocks`. */
static void take(unsigned home, unsigned class_index, unsigned want, void **blocks) {
    size_t size = hak_classes[class_index].size;
    while (want) {
        unsigned taken = hak_shard_take(home, class_index, want, top, NULL);
        REQUIRE(taken >= 1 && taken <= want, "%u blocks for %u", taken, want);
        want -= taken;
        memcpy(blocks + want, top + 1, taken * sizeof *top);
        for (unsigned i = 1; i <= taken; i++) {
            const hak_slab_t *slab = slab_of(top[i]);
            assert_non_null(slab);
            assert_int_equal(hak_owner_class(slab->owner), class_index);
            assert_int_equal((size_t)((char *)top[i] - slab->base) % size, 0);
            REQUIRE(!is_free(top[i]), "%p is handed out and free", top[i]);
            if (i > 1 && slab == slab_of(top[i - 1]))
                REQUIRE(top[i] < top[i - 1], "the lowest address of a slab is not the last");
        }
    }
}

static void give(unsigned home, unsigned class_index, void *const *blocks, unsigned count) {
    hak_shard_give(home, class_index, blocks, count);
}

/* All slabs of a class go back to the pool: the sweep after the next one drops the kept one. */
static void release_all(void) {
    for (int i = 0; i < 3; i++) hak_shard_sweep();
}

/* ---- Local ----------------------------------------------------------------------------------- */

static void a_slab_is_taken_whole(void **state) {
    (void)state;
    static const unsigned classes[] = {ONE, TWO, FOUR, TWO_WORDS, SMALLEST};
    for (unsigned i = 0; i < sizeof classes / sizeof *classes; i++) {
        void *blocks[BATCH_MAX];
        unsigned count = blocks_of(classes[i]), before = used_units();
        take(HOME, classes[i], count, blocks);
        assert_int_equal(used_units(), before + 1);
        const hak_slab_t *slab = slab_of(blocks[0]);
        for (unsigned k = 0; k < count; k++) assert_ptr_equal(slab_of(blocks[k]), slab);
        check_slab(slab);
        assert_int_equal(slab->free_count, 0);
        assert_int_equal(slab->free_count + hak_shard_remote_count(slab), 0);
        assert_int_equal(slab->owner, hak_owner(HOME, classes[i]));
        give(HOME, classes[i], blocks, count);
        release_all();
        assert_int_equal(used_units(), before);
    }
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
    const hak_shard_bin_t *bin = hak_bin_of(HOME, FOUR);
    take(HOME, FOUR, 4, first);
    take(HOME, FOUR, 4, second);
    hak_slab_t *kept = slab_of(first[0]), *released = slab_of(second[0]);
    assert_int_equal(used_units(), before + 2);
    give(HOME, FOUR, first, 4);
    assert_ptr_equal(bin->empty, kept);
    assert_int_equal(used_units(), before + 2);
    give(HOME, FOUR, second, 4);
    assert_int_equal(used_units(), before + 1);
    assert_int_equal(released->owner, 0);
    assert_int_equal(kept->owner, hak_owner(HOME, FOUR));
    /* Kept for this: no unit of the pool, and it is counted as stage 1. */
    uint32_t stage1 = bin->stage1;
    take(HOME, FOUR, 4, again);
    assert_ptr_equal(slab_of(again[0]), kept);
    assert_int_equal(bin->stage1, stage1 + 1);
    assert_int_equal(used_units(), before + 1);
    give(HOME, FOUR, again, 4);
    release_all();
    assert_int_equal(used_units(), before);
    assert_null(bin->empty);
    assert_int_equal(bin->listed_count, 0);
}

static void a_sweep_spares_a_slab_that_was_just_kept(void **state) {
    (void)state;
    void *blocks[4];
    unsigned before = used_units();
    release_all();
    take(HOME, FOUR, 4, blocks);
    give(HOME, FOUR, blocks, 4);
    hak_shard_sweep();
    assert_int_equal(used_units(), before + 1);
    hak_shard_sweep();
    assert_int_equal(used_units(), before);
}

static void a_zeroed_block_is_zero(void **state) {
    (void)state;
    void *blocks[12];
    unsigned found = 0;
    bool zeroed;
    release_all();
    hak_pool_purge(0); /* a slab is zero when its unit was */
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
        const hak_slab_t *slab = slab_of(blocks[0]);
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

/* ---- Remote ---------------------------------------------------------------------------------- */

static void a_remote_block_waits_for_a_drain(void **state) {
    (void)state;
    void *blocks[68], *again[2];
    take(HOME, TWO_WORDS, 68, blocks);
    hak_slab_t *slab = slab_of(blocks[0]);
    hak_shard_bin_t *bin = hak_bin_of(HOME, TWO_WORDS);
    assert_null(bin->pending);
    give(AWAY, TWO_WORDS, &blocks[67], 1); /* of the first word */
    assert_ptr_equal(bin->pending, slab);
    give(AWAY, TWO_WORDS, &blocks[0], 1); /* of the second */
    give(AWAY, TWO_WORDS, &blocks[66], 1);
    assert_int_equal(slab->remote_words, 3);
    assert_int_equal(slab->free_count, 0);
    assert_int_equal(slab->free_count + hak_shard_remote_count(slab), 3);
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

/* ---- Free already ---------------------------------------------------------------------------- */

/* Which of four blocks are given, by whom, one call after the other. The last is free already. */
typedef struct {
    const char *what;
    unsigned homes[3];
    unsigned count;
    bool drain_between, one_batch;
} twice_t;

static const twice_t twice_rows[] = {
    {"two local frees", {HOME, HOME}, 2, false, false},
    {"two local frees in one batch", {HOME}, 1, false, true},
    {"two remote frees", {AWAY, AWAY}, 2, false, false},
    {"two remote frees in one batch", {AWAY}, 1, false, true},
    {"a remote and a local free", {AWAY, HOME}, 2, false, false},
    {"a local and a remote free", {HOME, AWAY}, 2, false, false},
    {"two remote frees with a drain between", {AWAY, AWAY}, 2, true, false},
    {"a remote and a local free with a drain between", {AWAY, HOME}, 2, true, false},
    {"three local frees", {HOME, HOME, HOME}, 3, false, false},
};

static void free_twice(const void *context) {
    const twice_t *row = context;
    void *blocks[4];
    CHECK(hak_shard_take(HOME, FOUR, 4, top, NULL) == 4, "no slab of four blocks");
    memcpy(blocks, top + 1, sizeof blocks);
    hak_slab_t *slab = slab_of(blocks[0]);
    fprintf(stderr, "%p\n", blocks[1]);
    for (unsigned i = 0; i < row->count; i++) {
        void *batch[] = {blocks[1], blocks[1], blocks[2]};
        hak_shard_give(row->homes[i], FOUR, batch, row->one_batch ? 3 : 1);
        if (row->drain_between) hak_shard_sweep();
    }
    hak_shard_sweep();
    /* It is free once, its slab is right, and the class goes on. */
    unsigned free_count = row->one_batch ? 2 : 1;
    CHECK(slab->free_count == free_count, "%u blocks are free, not %u", slab->free_count,
          free_count);
    CHECK(slab->bits[0] == slab->words_free * slab->bits[0], "words_free is wrong");
    CHECK(hak_shard_take(HOME, FOUR, 1, top, NULL) == 1, "the class is out of memory");
    CHECK(slab_of(top[1]) == slab, "the free block is not found again");
}

static void a_double_free_is_reported(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof twice_rows / sizeof *twice_rows; i++) {
        const twice_t *row = &twice_rows[i];
        struct child_end end;
        void *block;
        char line[200];
        child_run(free_twice, row, SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "%s: status %#x, %s", row->what,
                (unsigned)end.status, end.err);
        assert_int_equal(sscanf(end.err, "%p\n", &block), 1);
        snprintf(line, sizeof line,
                 "hakmem: free(): double free: %p is a 16384-byte block that is already free\n",
                 block);
        REQUIRE(strstr(end.err, line) != NULL, "%s: no report in: %s", row->what, end.err);
        unsigned reports = unit_line_count(end.err) - 1;
        unsigned expected = row->count > 2 ? 2 : 1;
        REQUIRE(reports == expected, "%s: %u reports: %s", row->what, reports, end.err);
    }
}

/* Room behind the last block looks like the start of a block to the hot path. */
static void give_behind_last(const void *context) {
    const unsigned *home = context;
    CHECK(hak_shard_take(HOME, SMALLEST, 1, top, NULL) == 1, "no block");
    hak_slab_t *slab = slab_of(top[1]);
    void *batch[] = {slab->base + 40000, top[1], slab->base + 65528, slab->base + 32768};
    hak_shard_give(*home, SMALLEST, batch, 4);
    hak_shard_sweep();
    CHECK(slab->owner == 0 || slab->free_count == 4096, "%u of 4096 blocks are free",
          slab->free_count);
}

static void a_block_behind_the_last_is_reported(void **state) {
    (void)state;
    static const unsigned homes[] = {HOME, AWAY};
    for (unsigned i = 0; i < 2; i++) {
        struct child_end end;
        child_run(give_behind_last, &homes[i], SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "from shard %u: status %#x, %s", homes[i],
                (unsigned)end.status, end.err);
        REQUIRE(strstr(end.err, "hakmem: free(): ") != NULL, "no report in: %s", end.err);
    }
}

/* ---- Fork ------------------------------------------------------------------------------------ */

static _Atomic uint64_t *remote_word(hak_slab_t *slab, unsigned word) {
    return &hak_slab_remote(slab, hak_classes[hak_owner_class(slab->owner)].words)[word];
}

/* A freer that died after F1, after F2, and after F3; and a unit whose owner is gone. */
static void a_rebuild_finds_half_finished_frees(void **state) {
    (void)state;
    void *blocks[2 * 68];
    take(HOME, TWO_WORDS, 68, blocks);
    take(HOME, TWO_WORDS, 68, blocks + 68);
    hak_slab_t *one = slab_of(blocks[0]), *two = slab_of(blocks[68]);
    assert_ptr_not_equal(one, two);
    hak_bin_of(HOME, TWO_WORDS)->lock.state = 1; /* and its lock was held */
    *remote_word(one, 0) |= 6;
    *remote_word(one, 1) |= 1;
    *remote_word(two, 1) |= 2;
    two->remote_words = 2;
    hak_shard_rebuild();
    assert_int_equal(hak_bin_of(HOME, TWO_WORDS)->lock.state, 0);
    assert_int_equal(one->remote_words, 3);
    assert_int_equal(two->remote_words, 2);
    hak_shard_sweep();
    assert_int_equal(one->free_count, 3);
    assert_int_equal(two->free_count, 1);
    check_slab(one);
    check_slab(two);
    assert_null(hak_bin_of(HOME, TWO_WORDS)->pending);
    void *again[4];
    take(HOME, TWO_WORDS, 4, again);
    give(AWAY, TWO_WORDS, blocks, 2 * 68);
    release_all();
    assert_int_equal(one->owner, 0);
}

static void a_rebuild_clears_units_of_the_pool(void **state) {
    (void)state;
    void *blocks[4];
    release_all();
    take(HOME, FOUR, 4, blocks);
    hak_slab_t *slab = slab_of(blocks[0]);
    give(HOME, FOUR, blocks, 4);
    release_all();
    assert_int_equal(slab->owner, 0);
    slab->remote_words = 1;
    hak_shard_rebuild();
    assert_int_equal(slab->remote_words, 0);
}

static void all_locks_are_taken_and_let_go(void **state) {
    (void)state;
    hak_shard_lock_all();
    for (unsigned shard = 0; shard < hak_shard_count(); shard++)
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
            CHECK(hak_bin_of(shard, i)->lock.state != 0, "bin %u of shard %u is not locked", i,
                  shard);
    hak_shard_unlock_all();
    for (unsigned shard = 0; shard < hak_shard_count(); shard++)
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
            assert_int_equal(hak_bin_of(shard, i)->lock.state, 0);
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
        if (turn % 500 == 0) hak_shard_sweep();
        if (turn % 700 == 0) hak_shard_purge_all();
    }
    for (unsigned kind = 0; kind < KINDS; kind++) {
        for (unsigned i = 0; i < held[kind].count; i++) check_slab(slab_of(held[kind].blocks[i]));
        give(HOME, classes[kind], held[kind].blocks, held[kind].count);
    }
    release_all();
    assert_int_equal(used_units(), before);
}

/* ---- Sparse slabs ---------------------------------------------------------------------------- */

enum { SMALL = 5, SLABS = 16, SMALL_BLOCKS = SLABS * 1024, PAGE_LEAST = 4096 };

/* More than one call can take. */
static void take_many(void **blocks, unsigned count) {
    for (unsigned i = 0; i < count; i += 1023)
        take(HOME, SMALL, count - i < 1023 ? count - i : 1023, blocks + i);
}

static size_t resident_pages(const hak_slab_t *slab) {
    unsigned char pages[HAK_UNIT_SIZE / PAGE_LEAST];
    size_t count = 0, page_size = hak_os_page_size();
    assert_int_equal(mincore(slab->base, HAK_UNIT_SIZE, pages), 0);
    for (size_t i = 0; i < HAK_UNIT_SIZE / page_size; i++) count += pages[i] & 1;
    return count;
}

/* All blocks of SLABS slabs of 64 bytes, written, of which one in each slab is kept. */
static void make_sparse(void **kept) {
    static void *blocks[SMALL_BLOCKS];
    unsigned count = 0;
    assert_int_equal(hak_classes[SMALL].size, 64);
    take_many(blocks, SMALL_BLOCKS);
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) memset(blocks[i], 0x5a, 64);
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) {
        if ((char *)blocks[i] == slab_of(blocks[i])->base + 64 * 100)
            *kept++ = blocks[i];
        else
            blocks[count++] = blocks[i];
    }
    assert_int_equal(count, SMALL_BLOCKS - SLABS);
    give(HOME, SMALL, blocks, count);
    check_bin(HOME, SMALL, 0);
}

static void give_kept(void **kept) {
    for (unsigned i = 0; i < SLABS; i++)
        for (unsigned k = 0; k < 64; k++) assert_int_equal(((unsigned char *)kept[i])[k], 0x5a);
    give(HOME, SMALL, kept, SLABS);
    check_bin(HOME, SMALL, 0);
    release_all();
    check_bin(HOME, SMALL, 0);
}

static void growth_takes_pages_of_sparse_slabs(void **state) {
    (void)state;
    void *kept[SLABS], *more[1024];
    make_sparse(kept);
    size_t pages = HAK_UNIT_SIZE / hak_os_page_size();
    /* Half of what is there, in whole slabs; each keeps the page of its block. */
    size_t bytes = hak_shard_purge_grown(SLABS / 2 * (HAK_UNIT_SIZE - hak_os_page_size()));
    assert_int_equal(bytes, SLABS / 2 * (HAK_UNIT_SIZE - hak_os_page_size()));
    check_bin(HOME, SMALL, 0);
    unsigned purged = 0;
    for (unsigned i = 0; i < SLABS; i++) {
        size_t resident = resident_pages(slab_of(kept[i]));
        REQUIRE(resident == 1 || resident == pages, "%zu pages are resident", resident);
        purged += resident == 1;
        check_slab(slab_of(kept[i]));
    }
    assert_int_equal(purged, SLABS / 2);
    /* Blocks with pages are taken first. */
    take(HOME, SMALL, 1023, more);
    for (unsigned i = 0; i < 1023; i++) assert_int_equal(slab_of(more[i])->purged, 0);
    check_bin(HOME, SMALL, 1024); /* that slab is full, with the block that was kept */
    give(HOME, SMALL, more, 1023);
    give_kept(kept);
}

static void a_busy_bin_keeps_its_pages(void **state) {
    (void)state;
    static void *blocks[SMALL_BLOCKS];
    take_many(blocks, SMALL_BLOCKS);
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) memset(blocks[i], 1, 64);
    /* The lower half of each slab stays in use. */
    unsigned count = 0;
    for (unsigned i = 0; i < SMALL_BLOCKS; i++)
        if (slab_of(blocks[i])->base + HAK_UNIT_SIZE / 2 <= (char *)blocks[i]) {
            void *block = blocks[i];
            blocks[i] = blocks[count];
            blocks[count++] = block;
        }
    assert_int_equal(count, SMALL_BLOCKS / 2);
    give(HOME, SMALL, blocks, count);
    assert_int_equal(hak_shard_purge_grown(SIZE_MAX), 0); /* half: not most of them */
    assert_int_not_equal(hak_shard_purge_all(), 0);       /* but that one does not ask */
    check_bin(HOME, SMALL, 0);
    give(HOME, SMALL, blocks + count, SMALL_BLOCKS - count);
    release_all();
}

static void idle_bins_are_purged_once(void **state) {
    (void)state;
    void *kept[SLABS];
    size_t all = SLABS * (HAK_UNIT_SIZE - hak_os_page_size());
    make_sparse(kept);
    assert_true(hak_shard_purge_waits(500));
    size_t bytes = 0;
    for (unsigned sweep = 0; sweep < 10; sweep++) {
        size_t now = hak_shard_purge_idle(500);
        REQUIRE(now == 0 || sweep >= 2, "sweep %u already purges", sweep);
        bytes += now;
    }
    assert_int_equal(bytes, all);
    assert_false(hak_shard_purge_waits(500));
    check_bin(HOME, SMALL, 0);
    give_kept(kept);
}

static void purged_blocks_come_back_after_the_others(void **state) {
    (void)state;
    static void *blocks[SMALL_BLOCKS];
    void *kept[SLABS];
    make_sparse(kept);
    assert_int_equal(hak_shard_purge_all(), SLABS * (HAK_UNIT_SIZE - hak_os_page_size()));
    take_many(blocks, SMALL_BLOCKS - SLABS); /* every one of them */
    check_bin(HOME, SMALL, SMALL_BLOCKS);
    for (unsigned i = 0; i < SMALL_BLOCKS - SLABS; i++) memset(blocks[i], 1, 64);
    give(HOME, SMALL, blocks, SMALL_BLOCKS - SLABS);
    give_kept(kept);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_SHARDS=4", "HAKMEM_ON_ERROR=report",
                                                      "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slab_is_taken_whole),
        cmocka_unit_test(given_blocks_are_taken_again_lowest_first),
        cmocka_unit_test(one_empty_slab_is_kept_the_next_released),
        cmocka_unit_test(a_sweep_spares_a_slab_that_was_just_kept),
        cmocka_unit_test(a_zeroed_block_is_zero),
        cmocka_unit_test(whole_words_in_both_directions),
        cmocka_unit_test(a_remote_block_waits_for_a_drain),
        cmocka_unit_test(other_shards_are_searched),
        cmocka_unit_test(a_mixed_batch_finds_its_way),
        cmocka_unit_test(a_double_free_is_reported),
        cmocka_unit_test(a_block_behind_the_last_is_reported),
        cmocka_unit_test(a_rebuild_finds_half_finished_frees),
        cmocka_unit_test(a_rebuild_clears_units_of_the_pool),
        cmocka_unit_test(all_locks_are_taken_and_let_go),
        cmocka_unit_test(many_batches),
        cmocka_unit_test(growth_takes_pages_of_sparse_slabs),
        cmocka_unit_test(a_busy_bin_keeps_its_pages),
        cmocka_unit_test(idle_bins_are_purged_once),
        cmocka_unit_test(purged_blocks_come_back_after_the_others),
    };
    watchdog(100, "a shard test hangs");
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}
