/* sparse.c: on request, pages of free blocks go back from slabs with blocks in use, and those blocks keep
 * their contents. The program itself lives on shard 0; the tests work on shard 2. */
#include <sys/mman.h>

#include "os/os.h"
#include "shard/sparse.h"
#include "shard_batches.h"
#include "purge.h"

enum {
    SMALL = HAK_CLASS_64,
    SLABS = 16,
    SMALL_BLOCKS = SLABS * 1024,
    PAGE_LEAST = 4096,
    TAKES = 1000
};

/* More than one call can take. */
static void take_many(void **blocks, unsigned count) {
    for (unsigned i = 0; i < count; i += 1023)
        take(HOME, SMALL, count - i < 1023 ? count - i : 1023, blocks + i);
}

static size_t resident_pages(const hak_unit_t *slab) {
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

/* A unit became a slab: the visit that may be due for that. */
static size_t take_one(void) {
    hak_budget_t budget = HAK_BUDGET_ALL;
    return hak_shard_count_taken(1) ? hak_shard_visit(&budget) : 0;
}

static size_t grow_by(size_t bytes) {
    hak_budget_t budget = HAK_BUDGET_ALL;
    return hak_shard_purge_grown(bytes, &budget);
}

/* A pass, in pieces that look at one slab each. */
static size_t pass(uint32_t delay_ms) {
    hak_walk_t walk = {0};
    size_t bytes = 0;
    for (hak_budget_t one = {1, SIZE_MAX};
         !hak_shard_purge_piece(&walk, HAK_SPARSE_IDLE, delay_ms, &one, &bytes); one.looks = 1)
        assert_int_equal(one.looks, 0);
    return bytes;
}

static void growth_takes_pages_of_sparse_slabs(void **state) {
    (void)state;
    void *kept[SLABS], *more[1024];
    make_sparse(kept);
    size_t pages = HAK_UNIT_SIZE / hak_os_page_size();
    /* Half of what is there, in whole slabs; each keeps the page of its block. */
    size_t bytes = grow_by(SLABS / 2 * (HAK_UNIT_SIZE - hak_os_page_size()));
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
    assert_int_equal(grow_by(SIZE_MAX), 0); /* half: not most of them */
    for (unsigned i = 0; i < TAKES; i++) assert_int_equal(take_one(), 0);
    assert_int_not_equal(purge_sparse(), 0); /* but that one does not ask */
    check_bin(HOME, SMALL, 0);
    give(HOME, SMALL, blocks + count, SMALL_BLOCKS - count);
    release_all();
}

static unsigned rests(void) { return hak_load_relaxed(&hak_bin_of(HOME, SMALL)->rests); }

/* The clock is slabs that are taken for other classes. */
static void resting_bins_pay_for_slabs(void **state) {
    (void)state;
    void *kept[SLABS], *one[1];
    make_sparse(kept);
    assert_int_equal(rests(), 0);
    for (unsigned i = 0; i < TAKES && rests() == 0; i++) assert_int_equal(take_one(), 0);
    assert_int_equal(rests(), 1);
    take(HOME, SMALL, 1, one); /* it does not rest */
    give(HOME, SMALL, one, 1);
    assert_int_equal(rests(), 0);
    for (unsigned i = 0; i < TAKES && rests() < 2; i++) assert_int_equal(take_one(), 0);
    assert_int_equal(rests(), 2);
    size_t bytes = 0;
    for (unsigned i = 0; i < TAKES; i++) bytes += take_one();
    assert_int_equal(bytes, SLABS * (HAK_UNIT_SIZE - hak_os_page_size()));
    for (unsigned i = 0; i < SLABS; i++) assert_int_equal(resident_pages(slab_of(kept[i])), 1);
    check_bin(HOME, SMALL, 0);
    give_kept(kept);
}

/* Most blocks are free, but no page is: it would be searched in vain. */
static void blocks_on_every_page_are_left_alone(void **state) {
    (void)state;
    static void *blocks[SMALL_BLOCKS], *kept[SMALL_BLOCKS];
    unsigned count = 0, left = 0;
    take_many(blocks, SMALL_BLOCKS);
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) {
        size_t in_page = (uintptr_t)blocks[i] % hak_os_page_size();
        if (in_page < 128)
            kept[left++] = blocks[i];
        else
            blocks[count++] = blocks[i];
    }
    give(HOME, SMALL, blocks, count);
    for (unsigned i = 0; i < TAKES; i++) assert_int_equal(take_one(), 0);
    assert_int_equal(rests(), 0);
    give(HOME, SMALL, kept, left);
    release_all();
}

/* In each slab a block on each page, and MORE besides on page 0. Those of each slab lie side by side in `kept`: the
 * others on page 0 first, then page by page. */
enum { MORE = 4, PAGES = HAK_UNIT_SIZE / PAGE_LEAST, PAGED = MORE + PAGES };
static void keep_pages(void *(*kept)[PAGED]) {
    static void *blocks[SMALL_BLOCKS];
    const char *bases[SLABS] = {NULL};
    unsigned count = 0;
    take_many(blocks, SMALL_BLOCKS);
    for (unsigned i = 0; i < SMALL_BLOCKS; i++) {
        const char *base = slab_of(blocks[i])->base;
        const size_t at = (size_t)((char *)blocks[i] - base), in_page = at % PAGE_LEAST / 64;
        unsigned slab = 0;
        while (bases[slab] && bases[slab] != base) slab++;
        bases[slab] = base;
        if (in_page == 0)
            kept[slab][MORE + at / PAGE_LEAST] = blocks[i];
        else if (at < PAGE_LEAST && in_page <= MORE)
            kept[slab][in_page - 1] = blocks[i];
        else
            blocks[count++] = blocks[i];
    }
    assert_int_equal(count, SMALL_BLOCKS - SLABS * PAGED);
    give(HOME, SMALL, blocks, count);
}

static void give_of_each(void *(*kept)[PAGED], unsigned first, unsigned count) {
    for (unsigned i = 0; i < SLABS; i++) give(HOME, SMALL, &kept[i][first], count);
}

/* Then a slab is passed until distinctly fewer of its blocks are in use. A pass looks at each slab. */
static void a_look_in_vain_is_not_repeated_soon(void **state) {
    (void)state;
    enum { TWO_PAGES = SLABS * 2 * PAGE_LEAST };
    void *kept[SLABS][PAGED], *one[1];
    if (hak_os_page_size() != PAGE_LEAST) skip();
    for (int is_pass = 0; is_pass < 2; is_pass++) {
        keep_pages(kept);
        assert_int_equal(grow_by(SIZE_MAX), 0);
        for (unsigned i = 0; i < SLABS; i++) assert_int_not_equal(slab_of(kept[i][0])->looked, 0);
        give_of_each(kept, PAGED - 2, 2);
        assert_int_equal(grow_by(SIZE_MAX), 0); /* 18 in use, not 20 */
        if (!is_pass) give_of_each(kept, 0, MORE - 1);
        assert_int_equal(is_pass ? purge_sparse() : grow_by(SIZE_MAX), TWO_PAGES);
        check_bin(HOME, SMALL, 0);
        take(HOME, SMALL, 1, one);
        assert_int_equal(slab_of(one[0])->looked, 0);
        give(HOME, SMALL, one, 1);
        const unsigned first = is_pass ? 0 : MORE - 1;
        give_of_each(kept, first, PAGED - 2 - first);
        release_all();
    }
}

/* Of 4,096 blocks a slab a tenth of what was in use at the last look is left, on one page. */
static void a_slab_of_many_blocks_is_looked_at_again(void **state) {
    enum { TINY = HAK_CLASS_16, TINY_SLABS = 16, BLOCKS = 4096 * TINY_SLABS, BATCH = 1024 };
    enum { OF_FIRST_PAGE = 200, OF_OTHERS = 100 };
    static void *blocks[BLOCKS], *spread[BLOCKS], *last[BLOCKS];
    unsigned spread_count = 0, last_count = 0, count = 0;
    const unsigned size = hak_classes[TINY].size;
    (void)state;
    for (unsigned i = 0; i < BLOCKS; i += BATCH) take(HOME, TINY, BATCH, blocks + i);
    for (unsigned i = 0; i < BLOCKS; i++) {
        const size_t at = (size_t)((char *)blocks[i] - slab_of(blocks[i])->base);
        const size_t in_page = at % PAGE_LEAST / size;
        if (at < PAGE_LEAST && in_page < OF_FIRST_PAGE)
            last[last_count++] = blocks[i];
        else if (in_page < OF_OTHERS)
            spread[spread_count++] = blocks[i];
        else
            blocks[count++] = blocks[i];
    }
    give(HOME, TINY, blocks, count);
    assert_int_equal(grow_by(SIZE_MAX), 0);
    give(HOME, TINY, spread, spread_count);
    size_t given = 0;
    for (unsigned i = 0; i < TINY_SLABS; i++) given += grow_by(SIZE_MAX);
    assert_in_range(given, TINY_SLABS * 8 * PAGE_LEAST, SIZE_MAX);
    give(HOME, TINY, last, last_count);
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
        size_t now = pass(500);
        REQUIRE(now == 0 || sweep >= 2, "sweep %u already purges", sweep);
        bytes += now;
    }
    assert_int_equal(bytes, all);
    assert_false(hak_shard_purge_waits(500));
    check_bin(HOME, SMALL, 0);
    give_kept(kept);
}

/* A page that goes back may hold blocks that were never handed out: those have no pages to lose. */
static void no_more_is_purged_than_was_touched(void **state) {
    (void)state;
    enum { KEPT = 10 };
    size_t of_page = hak_os_page_size() / 64, count = hak_min(2 * of_page + 1, 1023);
    void *blocks[1024];
    release_all();
    purge_pool(0, true);                        /* the slab's unit is a fresh one */
    take(HOME, SMALL, (unsigned)count, blocks); /* lowest address last */
    hak_unit_t *slab = slab_of(blocks[0]);
    memset(hak_slab_first(slab, &hak_classes[SMALL]), 1, count * 64);
    give(HOME, SMALL, blocks, (unsigned)count - KEPT);
    const hak_bin_t *bin = hak_bin_of(HOME, SMALL);
    purge_sparse();
    assert_int_equal(slab->fresh, count);
    REQUIRE(hak_bin_purged_blocks(slab, &hak_classes[SMALL]) <= count - KEPT,
            "%u blocks purged of %zu", hak_bin_purged_blocks(slab, &hak_classes[SMALL]),
            count - KEPT);
    REQUIRE(bin->spare <= bin->touched && bin->touched <= count, "touched is %zu, spare %zu",
            bin->touched, bin->spare);
    check_bin(HOME, SMALL, 0);
    give(HOME, SMALL, blocks + count - KEPT, KEPT);
    release_all();
}

static void purged_blocks_come_back_after_the_others(void **state) {
    (void)state;
    static void *blocks[SMALL_BLOCKS];
    void *kept[SLABS];
    make_sparse(kept);
    assert_int_equal(purge_sparse(), SLABS * (HAK_UNIT_SIZE - hak_os_page_size()));
    take_many(blocks, SMALL_BLOCKS - SLABS); /* every one of them */
    check_bin(HOME, SMALL, SMALL_BLOCKS);
    for (unsigned i = 0; i < SMALL_BLOCKS - SLABS; i++) memset(blocks[i], 1, 64);
    give(HOME, SMALL, blocks, SMALL_BLOCKS - SLABS);
    give_kept(kept);
}

/* A bin that is locked costs a look, and a slab that goes another one. */
static void a_piece_of_a_sweep_is_bounded(void **state) {
    (void)state;
    enum { LOOKS = 8 };
    void *one[1];
    release_all();
    const unsigned before = slab_count(HOME);
    for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
        if (!hak_classes[class_index].size) continue;
        take(HOME, class_index, 1, one);
        give(HOME, class_index, one, 1);
    }
    hak_shard_release_idle(); /* the first sweep that they see */
    assert_true(slab_count(HOME) > before + HAK_CLASS_COUNT / 2);
    hak_walk_t walk = {0};
    for (bool is_done = false; !is_done;) {
        const unsigned slabs = slab_count(HOME);
        hak_budget_t budget = {LOOKS, SIZE_MAX};
        is_done = hak_shard_release_piece(&walk, NULL, &budget);
        assert_true(is_done || budget.looks == 0);
        REQUIRE(slabs - slab_count(HOME) <= LOOKS / 2, "%u slabs for %u looks",
                slabs - slab_count(HOME), LOOKS);
    }
    assert_int_equal(slab_count(HOME), before);
}

/* Of each of these classes a block in each of SLABS slabs is left. */
enum { STREWN = 4 };
static void strew(unsigned class_index, void **kept) {
    static void *blocks[SLABS * 1024];
    const unsigned each = blocks_of(class_index), all = SLABS * each;
    unsigned count = 0;
    for (unsigned i = 0; i < all; i += each) take(HOME, class_index, each, blocks + i);
    for (unsigned i = 0; i < all; i++) {
        if (blocks[i] == hak_slab_first(slab_of(blocks[i]), &hak_classes[class_index]))
            *kept++ = blocks[i];
        else
            blocks[count++] = blocks[i];
    }
    assert_int_equal(count, all - SLABS);
    give(HOME, class_index, blocks, count);
}

static unsigned aged(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < STREWN; i++)
        count += hak_bin_rare(HOME, SMALL + i)->spare_seen != SIZE_MAX;
    return count;
}

/* A bin that is looked at in vain costs a look. */
static void a_piece_that_ages_bins_is_bounded(void **state) {
    (void)state;
    void *kept[STREWN][SLABS];
    for (unsigned i = 0; i < STREWN; i++) strew(SMALL + i, kept[i]);
    for (unsigned i = 0; i < STREWN; i++) hak_bin_rare(HOME, SMALL + i)->spare_seen = SIZE_MAX;
    hak_walk_t walk = {0};
    size_t bytes = 0;
    for (bool is_done = false; !is_done;) {
        const unsigned before = aged();
        hak_budget_t one = {1, SIZE_MAX};
        is_done = hak_shard_purge_piece(&walk, HAK_SPARSE_IDLE, 500, &one, &bytes);
        REQUIRE(aged() - before <= 1, "%u bins for one look", aged() - before);
    }
    assert_int_equal(aged(), STREWN);
    for (unsigned i = 0; i < STREWN; i++) give(HOME, SMALL + i, kept[i], SLABS);
    release_all();
}

static void a_note_of_two_adds_the_one_that_is_missing(void **state) {
    (void)state;
    hak_store_relaxed(&hak_budget_notes, HAK_NOTE_HUGE);
    hak_budget_note(HAK_NOTE_HUGE | HAK_NOTE_ROUND);
    assert_int_equal(hak_load_relaxed(&hak_budget_notes), HAK_NOTE_HUGE | HAK_NOTE_ROUND);
    hak_store_relaxed(&hak_budget_notes, 0);
}

int main(int argc, char **argv) {
    (void)argc;
    begin_with_four_shards(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growth_takes_pages_of_sparse_slabs),
        cmocka_unit_test(a_busy_bin_keeps_its_pages),
        cmocka_unit_test(resting_bins_pay_for_slabs),
        cmocka_unit_test(blocks_on_every_page_are_left_alone),
        cmocka_unit_test(a_look_in_vain_is_not_repeated_soon),
        cmocka_unit_test(a_slab_of_many_blocks_is_looked_at_again),
        cmocka_unit_test(idle_bins_are_purged_once),
        cmocka_unit_test(no_more_is_purged_than_was_touched),
        cmocka_unit_test(purged_blocks_come_back_after_the_others),
        cmocka_unit_test(a_piece_of_a_sweep_is_bounded),
        cmocka_unit_test(a_piece_that_ages_bins_is_bounded),
        cmocka_unit_test(a_note_of_two_adds_the_one_that_is_missing),
    };
    watchdog(100, "a test of sparse slabs hangs");
    return cmocka_run_group_tests_name("sparse", tests, NULL, NULL);
}
