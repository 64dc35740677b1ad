/* many_shards.c - 256 shards and as many large heaps: what is made when, where it is found, and what is done
 * where there is no memory for more. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "commit/commit.h"
#include "hakmem.h"
#include "large/heap.h"
#include "large/large.h"
#include "meta/meta.h"
#include "shard/stats.h"
#include "shard/table.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"
#include "thread/verify.h"
#include "shard_batches.h"

enum { CLASS = HAK_CLASS_14336, FAR = 200, THREADS = 300, ROUNDS = 20, KEPT = 16 };

/* The clock stands: no purge is due, however slow the machine is. */
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return 1000000; }

static const char *const variables[] = {"HAKMEM_SHARDS=256",      "HAKMEM_PURGE_THREAD=0",
                                        "HAKMEM_LIMIT=1G",        "HAKMEM_TRYLOCK_PROBES=2",
                                        "HAKMEM_CACHE_BUDGET=1G", NULL};
static const size_t limit = (size_t)1 << 30;

static unsigned shards_made(void) {
    unsigned count = 0;
    HAK_EACH_SHARD (shard) count++;
    return count;
}

static unsigned heaps_made(void) {
    unsigned count = 0;
    HAK_EACH_HEAP (i) count++;
    return count;
}

/* Each shard and heap is made at its first use, and the first ones take no memory for records. */
static void small_processes_make_little(void **state) {
    (void)state;
    hakmem_free(
        hakmem_malloc(100)); /* the heap's own records; in a sanitizer build it is the first */
    size_t before = hak_meta_bytes();
    hakmem_free(hakmem_malloc(100));
    assert_int_equal(shards_made(), 1);
    assert_int_equal(hak_shard_open(1), 1);
    assert_int_equal(shards_made(), 2);
    assert_int_equal(hak_meta_bytes(), before);
    for (unsigned i = 0; i < 2; i++) {
        assert_null(hak_shard_stock(i));
        assert_null(hak_shard_bitmap_places(i));
        assert_null(hak_shard_cut(i, 16));
    }
    unsigned heaps = heaps_made();
    hak_large_free(7, hak_large_alloc(7, 100000, 1, false));
    assert_int_equal(heaps_made(), heaps + 1);
    assert_non_null(hak_heap_at(7));
    hak_bin_t *bin = hak_bin_of(hak_shard_open(FAR), CLASS);
    assert_int_equal(shards_made(), 3);
    assert_ptr_equal(hak_bin_of(hak_shard_open(FAR), CLASS), bin);
    for (unsigned i = 0; i < 2; i++) { /* now they have what the others have */
        assert_non_null(hak_shard_stock(i));
        assert_non_null(hak_shard_bitmap_places(i));
        assert_non_null(hak_shard_cut(i, 16));
    }
}

/* A search looks at the next shards that are made, round; it passes over those further on. */
static void the_next_shards_are_searched(void **state) {
    (void)state;
    enum { SLABS = 2 };
    void *blocks[SLABS][4], *one[2];
    unit_open_shards(2);
    assert_int_equal(hak_shard_after(1), FAR);
    assert_int_equal(hak_shard_after(FAR), 0);
    for (unsigned i = 0; i < SLABS; i++) take(1, CLASS, 4, blocks[i]); /* a slab of four blocks */
    give(1, CLASS, blocks[0], 3);
    assert_false(hak_bin_lends(1, CLASS)); /* 42 KiB */
    give(1, CLASS, blocks[1], 3);
    assert_true(hak_bin_lends(1, CLASS));
    one[1] = NULL;
    assert_int_equal(hak_shard_take(FAR, CLASS, 1, one, NULL), 1);
    assert_int_equal(hak_owner_shard(slab_of(one[1])->owner), 1); /* the second that it asks */
    hak_shard_flush(FAR, CLASS, &one[1], 1);
    for (unsigned i = 210; i < 220; i++) assert_int_equal(hak_shard_open(i), i);
    assert_int_equal(hak_shard_take(FAR, CLASS, 1, one, NULL), 1);
    assert_int_equal(hak_owner_shard(slab_of(one[1])->owner), FAR); /* now they are too far */
    hak_shard_flush(FAR, CLASS, &one[1], 1);
    give(1, CLASS, &blocks[0][3], 1);
    hak_shard_release_kept(1, CLASS); /* which leaves 42 KiB again */
    assert_false(hak_bin_lends(1, CLASS));
    give(1, CLASS, &blocks[1][3], 1);
    release_all();
}

/* The lock of a bin is left to its CPU while the bin lists only a slab of which no block was ever handed out, and while
 * it has only a few used blocks: each that goes to another CPU costs lines for as long as it is used there. */
static void a_bin_without_used_blocks_is_left_alone(void **state) {
    enum { SMALL = HAK_CLASS_352 };
    void *ours[2], *theirs[2];
    (void)state;
    hak_purge_all(); /* so the pool has no unit with pages */
    assert_int_equal(hak_shard_open(1), 1);
    assert_int_equal(hak_shard_take(1, SMALL, 1, theirs, NULL), 1);
    const hak_bin_t *bin = hak_bin_of(1, SMALL);
    assert_true(hak_load_relaxed(&bin->listed_count) > 0);
    assert_int_equal(hak_load_relaxed(&bin->spare), 0);
    const hak_bin_counts_t *counts = hak_bin_counts(1, SMALL);
    const unsigned locks = hak_load_relaxed(&counts->counts[HAK_SHARD_LOCKS]);
    assert_int_equal(hak_shard_take(0, SMALL, 1, ours, NULL), 1);
    assert_int_equal(hak_owner_shard(slab_of(ours[1])->owner), 0);
    assert_int_equal(hak_load_relaxed(&counts->counts[HAK_SHARD_LOCKS]), locks);
    hak_shard_flush(1, SMALL, &theirs[1], 1); /* now it has one */
    const unsigned after = hak_load_relaxed(&counts->counts[HAK_SHARD_LOCKS]);
    void *third[2];
    assert_int_equal(hak_shard_take(0, SMALL, 1, third, NULL), 1);
    assert_int_equal(hak_owner_shard(slab_of(third[1])->owner), 0);
    assert_int_equal(hak_load_relaxed(&counts->counts[HAK_SHARD_LOCKS]), after);
    hak_shard_flush(0, SMALL, &third[1], 1);
    hak_shard_flush(0, SMALL, &ours[1], 1);
    release_all();
}

/* Where nothing else is left, a thread takes what any other shard has; and without memory for a shard
 * of its own it is at home in the first one. */
static void without_memory_others_serve(void **state) {
    (void)state;
    void *blocks[4], *one[2];
    enum { MORE = 64, LAST = HAK_SHARDS_MAX - 1 };
    take(FAR, CLASS, 4, blocks);
    give(FAR, CLASS, blocks, 3);
    size_t room = limit - hak_commit_bytes();
    assert_true(hak_commit_charge(room));
    for (size_t size = 16 * KIB; size >= 4 * KIB;
         size /= 2) /* the rest of the last step of records */
        while (hak_meta_alloc(size)) continue;
    unsigned refused = 0;
    for (unsigned i = MORE; i < LAST; i++) refused += hak_shard_open(i) != i;
    REQUIRE(refused > 0, "no shard is refused at the limit");
    assert_int_equal(hak_shard_open(LAST), 0);
    assert_false(hak_shard_is_made(LAST));
    assert_int_equal(hak_heap_open(LAST), 0);
    hak_unit_t *units[64];
    unsigned count = 0;
    bool zeroed;
    while (count < 64 && (units[count] = hak_pool_take(1, &zeroed)) != NULL) count++;
    REQUIRE(count < 64, "the pool has too many units with pages");
    assert_int_equal(hak_shard_take(0, CLASS, 1, one, NULL), 1); /* many shards further on */
    while (count > 0) hak_pool_give(units[--count], 1);
    hak_commit_release(room);
    assert_int_equal(hak_owner_shard(slab_of(one[1])->owner), FAR);
    give(0, CLASS, &one[1], 1);
    give(FAR, CLASS, &blocks[3], 1);
    assert_int_equal(hak_shard_open(LAST), LAST);
    release_all();
}

/* Owner words of all shards and heaps differ from each other, and from those of other blocks. */
static void each_number_owns_its_blocks(void **state) {
    (void)state;
    void *large[HAK_HEAPS_MAX], *small[HAK_SHARDS_MAX][1];
    void *idle = hak_large_alloc(7, 100000, 1, false); /* else it would serve heap 0 */
    for (unsigned i = 0; i < HAK_HEAPS_MAX; i++) {
        large[i] = hak_large_alloc(i, 100000, 1, false);
        assert_int_equal(slab_of(large[i])->owner, hak_owner(i, HAK_CLASS_LARGE));
        assert_int_equal(hak_shard_open(i), i);
        take(i, CLASS, 1, small[i]);
    }
    for (unsigned i = 0; i < HAK_HEAPS_MAX; i++) {
        size_t size;
        void *start;
        assert_true(hak_large_find(large[i], &start, &size) && start == large[i]);
        assert_true(hak_large_free((i + 1) % HAK_HEAPS_MAX, large[i]) != 0);
        assert_false(hak_large_free(i, large[i]));
        give((i + 1) % HAK_SHARDS_MAX, CLASS, small[i], 1);
    }
    assert_true(hak_large_free(7, idle) != 0);
    assert_int_equal(hak_verify(), 0);
    release_all();
}

/* What shards write lies in cache lines of their own, so that no CPU waits for another's. Two shards take
 * slabs in turn. */
static void bitmaps_of_shards_share_no_line(void **state) {
    (void)state;
    enum { SHARDS = 2, SLABS = 40 };
    const unsigned small = hak_class_of(16), count = hak_classes[CLASS].count;
    uintptr_t lines[SHARDS][SLABS];
    static void *blocks[SHARDS][SLABS][64];
    for (unsigned i = 0; i < SLABS; i++) {
        for (unsigned k = 0; k < SHARDS; k++) {
            take(hak_shard_open(FAR + k), CLASS, count, blocks[k][i]);
            lines[k][i] = (uintptr_t)hak_slab_bits(slab_of(blocks[k][i][0])) / HAK_LINE;
        }
    }
    for (unsigned i = 0; i < SLABS; i++)
        for (unsigned k = 0; k < SLABS; k++)
            REQUIRE(lines[0][i] != lines[1][k], "bitmaps %u and %u share a line", i, k);
    void *large[1]; /* a bitmap of 1 KiB, which is not in the same line as another one */
    take(FAR, small, 1, large);
    assert_int_equal((uintptr_t)hak_slab_bits(slab_of(large[0])) % HAK_LINE, 0);
    give(FAR, small, large, 1);
    for (unsigned i = 0; i < SLABS; i++)
        for (unsigned k = 0; k < SHARDS; k++) give(FAR + k, CLASS, blocks[k][i], count);
    assert_int_equal(hak_verify(), 0);
    release_all();
}

/* Slabs that come and go in a shard with memory of its own need no more records than the first ones did. */
static void records_of_slabs_are_used_again(void **state) {
    (void)state;
    enum { TINY = 1, CYCLES = 400, FIRST = 100 }; /* a KiB each */
    const unsigned count = hak_classes[TINY].count, shard = hak_shard_open(FAR + 5);
    static void *blocks[HAK_UNIT_SIZE / 16];
    size_t before = 0;
    hak_purge_all();
    for (unsigned i = 0; i < CYCLES; i++) {
        if (i == FIRST) before = hak_meta_bytes();
        take(shard, TINY, count, blocks);
        give(shard, TINY, blocks, count);
        hak_shard_release_kept(shard, TINY);
    }
    assert_int_equal(hak_meta_bytes(), before);
    release_all();
}

/* A shard takes untouched units ahead, what a line of the map has at most; they have no pages, belong to nobody, and a
 * pass gives them back. */
static void a_shard_that_grows_has_a_stock(void **state) {
    (void)state;
    enum { SLABS = 40, MOST = HAK_MAP_LINE_UNITS - 1 };
    const unsigned count = hak_classes[CLASS].count, shard = hak_shard_open(FAR + 2);
    static void *blocks[SLABS][64];
    hak_purge_all();
    size_t used = used_units(), committed = hak_commit_bytes();
    unsigned asked = 0, ahead = 0, longest = 0;
    for (unsigned i = 0; i < SLABS; i++) {
        hak_unit_t *stock = hak_shard_stock(shard)->untouched;
        asked += stock == NULL;
        take(shard, CLASS, count, blocks[i]);
        if (stock) assert_ptr_equal(slab_of(blocks[i][0]), stock);
        ahead = 0;
        for (const hak_unit_t *unit = hak_shard_stock(shard)->untouched; unit;
             unit = unit->next, ahead++)
            assert_true(unit->stocked && unit->owner == 0);
        assert_true(ahead <= MOST);
        if (ahead > longest) longest = ahead;
        assert_int_equal(used_units(), used + i + 1 + ahead);
    }
    REQUIRE(asked <= 4, "the pool was asked %u times for %u slabs", asked, SLABS);
    REQUIRE(longest > 0, "no stock in %u slabs", SLABS);
    assert_int_equal(hak_verify(), 0);
    hak_shard_release_idle();
    assert_null(hak_shard_stock(shard)->untouched);
    assert_int_equal(hak_verify(), 0);
    assert_int_equal(used_units(), used + SLABS);
    for (unsigned i = 0; i < SLABS; i++) give(shard, CLASS, blocks[i], count);
    hak_purge_all();
    assert_int_equal(used_units(), used);
    assert_int_equal(hak_commit_bytes(), committed);
}

static uintptr_t line_of_map(const void *block) {
    return ((uintptr_t)block - (uintptr_t)hak_map.entries) / HAK_UNIT_SIZE / HAK_MAP_LINE_UNITS;
}

/* Two shards that grow in turn share hardly a line of the map, which each free reads. */
static void shards_that_grow_have_lines_of_their_own(void **state) {
    (void)state;
    enum { SLABS = 64 };
    const unsigned count = hak_classes[CLASS].count;
    const unsigned shards[2] = {hak_shard_open(FAR + 9), hak_shard_open(FAR + 10)};
    static void *blocks[2][SLABS][64];
    unsigned shared = 0;
    hak_purge_all();
    for (unsigned i = 0; i < 2 * SLABS; i++)
        take(shards[i % 2], CLASS, count, blocks[i % 2][i / 2]);
    for (unsigned i = 0; i < SLABS; i++) {
        const uintptr_t line = line_of_map(blocks[0][i][0]);
        unsigned k = 0;
        while (k < SLABS && line_of_map(blocks[1][k][0]) != line) k++;
        shared += k < SLABS;
    }
    /* 14 where earlier cases have left gaps; all 64 when a line has superslabs of both. */
    REQUIRE(shared <= SLABS / 4, "%u slabs of %u lie in lines of both", shared, SLABS);
    assert_int_equal(hak_verify(), 0);
    for (unsigned i = 0; i < 2 * SLABS; i++)
        give(shards[i % 2], CLASS, blocks[i % 2][i / 2], count);
    release_all();
}

/* A few units with pages in the pool come and go all the time: they send no shard with a stock to the pool's lock.
 * Many do, since pages that are there come first. */
static void a_few_units_with_pages_are_left_to_others(void **state) {
    (void)state;
    enum { SLABS = 300, FEW = 1, MANY = 8 };
    const unsigned count = hak_classes[CLASS].count, shard = hak_shard_open(FAR + 7);
    static void *blocks[SLABS + 16][64];
    hak_unit_t *units[MANY];
    unsigned made = 0;
    bool zeroed;
    hak_purge_all();
    while (made < SLABS || !hak_shard_stock(shard)->untouched)
        take(shard, CLASS, count, blocks[made++]);
    for (unsigned i = 0; i < MANY; i++) units[i] = hak_pool_take(1, &zeroed);
    assert_int_equal(hak_pool_stats.dirty_units, 0);
    for (unsigned i = 0; i < FEW; i++) hak_pool_give(units[i], 1);
    const hak_unit_t *first = hak_shard_stock(shard)->untouched;
    take(shard, CLASS, count, blocks[made]);
    assert_ptr_equal(slab_of(blocks[made++][0]), first);
    while (!hak_shard_stock(shard)->untouched) take(shard, CLASS, count, blocks[made++]);
    for (unsigned i = FEW; i < MANY; i++) hak_pool_give(units[i], 1);
    first = hak_shard_stock(shard)->untouched;
    take(shard, CLASS, count, blocks[made]);
    assert_ptr_not_equal(slab_of(blocks[made++][0]), first);
    assert_ptr_equal(hak_shard_stock(shard)->untouched, first);
    assert_int_equal(hak_verify(), 0);
    while (made--) give(shard, CLASS, blocks[made], count);
    release_all();
}

/* A slab that the program leaves becomes the shard's next one of another class. Few are kept, and
 * a pass gives them back with their pages. */
static void slabs_that_are_left_serve_other_classes(void **state) {
    (void)state;
    enum { SLABS = 20, MOST = 16, BUSY = 2 * MOST, OTHER = CLASS - 1 };
    const unsigned count = hak_classes[CLASS].count, shard = hak_shard_open(FAR + 6);
    static void *blocks[SLABS + BUSY][64], *others[64];
    hak_purge_all();
    const size_t used = used_units();
    for (unsigned i = 0; i < SLABS + BUSY; i++) take(shard, CLASS, count, blocks[i]);
    hak_stock_release(shard); /* what was taken ahead */
    for (unsigned i = 0; i < SLABS; i++) give(shard, CLASS, blocks[i], count);
    unsigned former = 0;
    const hak_unit_t *first = hak_shard_stock(shard)->former;
    for (const hak_unit_t *unit = first; unit; unit = unit->next, former++)
        assert_true(unit->stocked && unit->owner == 0);
    assert_int_equal(former, MOST);
    assert_int_equal(used_units(), used + BUSY + 1 + MOST); /* one is kept by the bin */
    assert_int_equal(hak_verify(), 0);
    const uint64_t stage2 = hak_pool_stats.stage2;
    take(shard, OTHER, hak_classes[OTHER].count, others);
    assert_ptr_equal(slab_of(others[0]), first);
    assert_false(first->stocked);
    assert_int_equal(hak_pool_stats.stage2, stage2);
    give(shard, OTHER, others, hak_classes[OTHER].count);
    assert_int_equal(hak_verify(), 0);

    /* One stays with a shard that has two slabs. */
    for (unsigned i = SLABS; i < SLABS + BUSY; i++) give(shard, CLASS, blocks[i], count);
    first = hak_shard_stock(shard)->former;
    assert_true(!first || !first->next);
    release_all();
    assert_int_equal(used_units(), used);
    REQUIRE(hak_load_relaxed(&hak_pool_stats.dirty_units) >= SLABS, "%zu units with pages",
            hak_load_relaxed(&hak_pool_stats.dirty_units));
    assert_int_equal(hak_verify(), 0);
}

/* The helper closes the stocks before it sleeps. */
static void a_closed_stock_keeps_nothing(void **state) {
    (void)state;
    enum { SLABS = 20 };
    const unsigned count = hak_classes[CLASS].count, shard = hak_shard_open(FAR + 6);
    static void *blocks[SLABS][64];
    for (unsigned i = 0; i < SLABS; i++) take(shard, CLASS, count, blocks[i]);
    for (unsigned i = 0; i < 4; i++) give(shard, CLASS, blocks[i], count);
    assert_non_null(hak_shard_stock(shard)->former);
    hak_stock_close();
    assert_null(hak_shard_stock(shard)->former);
    for (unsigned i = 4; i < 8; i++) give(shard, CLASS, blocks[i], count);
    assert_null(hak_shard_stock(shard)->former);
    hak_stock_open();
    for (unsigned i = 8; i < SLABS; i++) give(shard, CLASS, blocks[i], count);
    release_all();
}

/* A unit of the stock that becomes a slab has its pages made as any other one under SS_PREFAULT. */
static void units_of_a_stock_are_populated(void **state) {
    (void)state;
    enum { SLABS = 12 };
    const unsigned count = hak_classes[CLASS].count, shard = hak_shard_open(FAR + 3);
    static void *blocks[SLABS][64];
    hak_purge_all();
    uint64_t before = hak_pool_stats.populated_units;
    assert_int_equal(hakmem_option_set("SS_PREFAULT", "1"), 0);
    take(shard, CLASS, count, blocks[0]);
    bool is_served = hak_pool_stats.populated_units > before; /* not by an older kernel */
    for (unsigned i = 1; i < SLABS; i++) take(shard, CLASS, count, blocks[i]);
    assert_int_equal(hakmem_option_set("SS_PREFAULT", "0"), 0);
    assert_int_equal(hak_pool_stats.populated_units - before, is_served ? SLABS : 0);
    for (unsigned i = 0; i < SLABS; i++) give(shard, CLASS, blocks[i], count);
    release_all();
}

/* What lies in stocks counts under the limit; a request that would fail gets it. */
static void at_the_limit_stocks_are_given_back(void **state) {
    (void)state;
    enum { SLABS = 12 };
    const unsigned count = hak_classes[CLASS].count, shard = hak_shard_open(FAR + 4);
    static void *blocks[SLABS][64];
    void *small = hakmem_malloc(1);
    unsigned used = 0;
    while (!hak_shard_stock(shard)->untouched && used < SLABS)
        take(shard, CLASS, count, blocks[used++]);
    REQUIRE(hak_shard_stock(shard)->untouched != NULL, "no stock of %u slabs", used);
    hak_unit_t *stock = atomic_exchange(&hak_shard_stock(shard)->untouched, NULL);
    for (unsigned i = 0; i < 2; i++) hak_purge_all(); /* all else that is free */
    atomic_store(&hak_shard_stock(shard)->untouched, stock);
    size_t room = limit - hak_commit_bytes();
    assert_true(hak_commit_charge(room));
    void *large = hakmem_malloc(HAK_UNIT_SIZE);
    hak_commit_release(room);
    assert_non_null(large);
    assert_null(hak_shard_stock(shard)->untouched);
    hakmem_free(large);
    hakmem_free(small);
    for (unsigned i = 0; i < used; i++) give(shard, CLASS, blocks[i], count);
    release_all();
}

/* ---- Threads --------------------------------------------------------------------------------- */

static pthread_barrier_t all_there;
static void *kept[THREADS][KEPT];
static unsigned threads_at[HAK_SHARDS_MAX];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static size_t size_of(unsigned i) { return i % 8 == 7 ? 100000 : (size_t)40 << i % 7; }

/* Takes blocks, and frees those of the thread before it: of another shard. */
static void *work(void *number) {
    unsigned own = (unsigned)(uintptr_t)number;
    for (unsigned i = 0; i < KEPT; i++) {
        kept[own][i] = hakmem_malloc(size_of(i));
        CHECK(kept[own][i] != NULL, "no memory");
        memset(kept[own][i], 1, 16);
    }
    pthread_mutex_lock(&mutex);
    threads_at[hak_thread_cache()->shard]++;
    pthread_mutex_unlock(&mutex);
    pthread_barrier_wait(&all_there);
    for (unsigned i = 0; i < KEPT; i++) hakmem_free(kept[(own + 1) % THREADS][i]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        void *blocks[KEPT];
        for (unsigned i = 0; i < KEPT; i++) blocks[i] = hakmem_malloc(size_of(i + round));
        for (unsigned i = 0; i < KEPT; i++) hakmem_free(blocks[i]);
    }
    pthread_barrier_wait(&all_there);
    return NULL;
}

static void run_threads(void) {
    static pthread_t threads[THREADS];
    pthread_attr_t small;
    memset(threads_at, 0, sizeof threads_at);
    CHECK(pthread_barrier_init(&all_there, NULL, THREADS) == 0, "no barrier");
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 1 << 18) == 0,
          "no small stacks");
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], &small, work, (void *)(uintptr_t)i) == 0, "no thread");
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_attr_destroy(&small);
    pthread_barrier_destroy(&all_there);
}

/* 300 threads and main have a shard each as far as there are any, the second time, too, when their
 * caches served other threads before; and what they free comes back to its own shard. They begin on the few CPUs of this
 * machine: the groups of these take 16 threads beyond their share (SLACK in thread/home_group.c). */
static void threads_spread_over_all_shards(void **state) {
    (void)state;
    const unsigned last_group = ((unsigned)sysconf(_SC_NPROCESSORS_CONF) - 1) / 8;
    for (unsigned round = 0; round < 2; round++) {
        run_threads();
        threads_at[hak_thread_cache()->shard]++;
        for (unsigned i = 0; i < HAK_SHARDS_MAX; i++)
            REQUIRE(threads_at[i] >= 1 && threads_at[i] <= (i / 8 <= last_group ? 6 : 2),
                    "%u threads at home in shard %u", threads_at[i], i);
        assert_int_equal(shards_made(), HAK_SHARDS_MAX);
        assert_int_equal(hak_verify(), 0);
    }
    hak_purge_all();
    uint64_t remote = 0, drained = 0;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        const hak_shard_stats_t counts = hak_shard_stats(i);
        remote += counts.remote;
        drained += counts.counts[HAK_SHARD_DRAINED];
    }
    REQUIRE(remote > 0 && drained == remote, "%llu blocks came back, of %llu",
            (unsigned long long)drained, (unsigned long long)remote);
    assert_int_equal(hak_verify(), 0);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_processes_make_little),
        cmocka_unit_test(the_next_shards_are_searched),
        cmocka_unit_test(a_bin_without_used_blocks_is_left_alone),
        cmocka_unit_test(without_memory_others_serve),
        cmocka_unit_test(each_number_owns_its_blocks),
        cmocka_unit_test(bitmaps_of_shards_share_no_line),
        cmocka_unit_test(records_of_slabs_are_used_again),
        cmocka_unit_test(a_shard_that_grows_has_a_stock),
        cmocka_unit_test(shards_that_grow_have_lines_of_their_own),
        cmocka_unit_test(a_few_units_with_pages_are_left_to_others),
        cmocka_unit_test(slabs_that_are_left_serve_other_classes),
        cmocka_unit_test(a_closed_stock_keeps_nothing),
        cmocka_unit_test(units_of_a_stock_are_populated),
        cmocka_unit_test(at_the_limit_stocks_are_given_back),
        cmocka_unit_test(threads_spread_over_all_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
