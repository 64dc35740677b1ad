/* large.c: blocks above 64 KiB: content, sources, sizes in place, purge, knobs. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "commit/commit.h"
#include "large/heap.h"
#include "large/large.h"
#include "large/view.h"
#include "hakmem.h"
#include "options/load.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/verify.h"
#include "region/region.h"
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

/* A superslab that is wholly free serves small blocks before a new one is made. */
static void free_superslabs_are_lent(void **state) {
    (void)state;
    enum { COUNT = 64 };
    static hak_unit_t *units[4096];
    void *blocks[COUNT];
    bool zeroed;
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, HAK_LARGE_MAX, 1, false);
    for (unsigned i = 0; i < COUNT; i++) assert_true(hak_large_free(0, blocks[i]));
    assert_true(hak_heap_at(0)->lent >= COUNT / 2);
    uint64_t fresh = hak_pool_stats.stage3;
    unsigned count = 0;
    while (hak_heap_at(0)->lent > 0 && count < 4096) units[count++] = hak_pool_take(1, &zeroed);
    assert_int_equal(hak_pool_stats.stage3, fresh);
    while (count > 0) hak_pool_give(units[--count], 1);
}

enum { FIRST_NEW = 100 }; /* from here on heaps have nothing yet */

/* What a pool that has no free unit asks of heaps that are at work: the recent blocks of one of them. */
static void a_borrow_asks_little(const void *unused) {
    enum { HEAPS = 64, WAITING = 200, MISSES = 20 };
    static void *blocks[HEAPS][WAITING + 1];
    bool zeroed;
    (void)unused;
    CHECK(hakmem_option_set("L25_TC_SPILL", "200") == 0, "no option");
    purge_large(0);
    for (unsigned h = 0; h < HEAPS; h++)
        for (unsigned i = 0; i <= WAITING; i++)
            blocks[h][i] = hak_large_alloc(FIRST_NEW + h, LEAST, 1, false);
    for (unsigned h = 0; h < HEAPS; h++) {
        for (unsigned i = 1; i <= WAITING; i++) hak_large_free(0, blocks[h][i]);
        hak_large_free(FIRST_NEW + h, blocks[h][0]); /* beside the next in a superslab */
    }
    for (unsigned miss = 0; miss < MISSES; miss++) {
        unsigned recent = 0;
        uint64_t fresh = hak_pool_stats.stage3;
        while (hak_pool_stats.stage3 == fresh) CHECK(hak_pool_take(1, &zeroed), "no unit");
        for (unsigned h = 0; h < HEAPS; h++) {
            const hak_heap_t *heap = hak_heap_at(FIRST_NEW + h);
            recent += heap->recent.count;
            CHECK(heap->transfer_count == WAITING, "%u of %u blocks wait in heap %u",
                  heap->transfer_count, (unsigned)WAITING, FIRST_NEW + h);
        }
        CHECK(recent + miss + 1 == HEAPS, "%u recent blocks after %u misses", recent, miss + 1);
    }
}

/* A recent block may be all that keeps a superslab, of one heap or another, from the pool. */
static void a_recent_block_keeps_no_superslab(const void *unused) {
    enum { HEAPS = 4 };
    void *blocks[HEAPS];
    bool zeroed;
    (void)unused;
    purge_large(0);
    for (unsigned i = 0; i < HEAPS; i++)
        blocks[i] = hak_large_alloc(FIRST_NEW + i, LEAST, 1, false);
    for (unsigned i = 0; i < HEAPS; i++) hak_large_free(FIRST_NEW + i, blocks[i]);
    uint64_t fresh = hak_pool_stats.stage3;
    unsigned units = HEAPS * hak_superslab_units();
    for (unsigned i = 0; i < units; i++) CHECK(hak_pool_take(1, &zeroed), "no unit");
    CHECK(hak_pool_stats.stage3 == fresh, "%u superslabs are mapped",
          (unsigned)(hak_pool_stats.stage3 - fresh));
}

static void check_about(size_t most) {
    size_t idle = hak_large_idle(), about = hak_large_idle_about();
    CHECK(hak_max(idle, about) - hak_min(idle, about) <= most, "%zu bytes are idle, not about %zu",
          idle, about);
}

/* What leaves a heap, or merges in it, when the pool borrows is published as by any other call. */
static void a_borrow_is_published(const void *unused) {
    enum { COUNT = 64, WAITING = 200, HEAP = 3, MOST = 4 << 20 };
    void *blocks[WAITING];
    bool zeroed;
    (void)unused;
    CHECK(hakmem_option_set("L25_TC_SPILL", "200") == 0, "no option");
    purge_large(0);
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, HAK_LARGE_MAX, 1, false);
    for (unsigned i = 0; i < COUNT; i++) hak_large_free(0, blocks[i]);
    CHECK(hak_heap_at(0)->lent >= COUNT / 2, "%zu superslabs", (size_t)hak_heap_at(0)->lent);
    while (hak_heap_at(0)->lent > 0) {
        CHECK(hak_pool_take(1, &zeroed), "no unit");
        check_about(MOST);
    }
    for (unsigned i = 0; i < WAITING; i++)
        blocks[i] = hak_large_alloc(HEAP, HAK_LARGE_MAX, 1, false);
    for (unsigned i = 0; i < WAITING; i++) hak_large_free(HEAP + 1, blocks[i]);
    for (unsigned i = 0; i < 2 * hak_superslab_units(); i++) {
        CHECK(hak_pool_take(1, &zeroed), "no unit");
        check_about(2 * MOST);
    }
}

static void heaps_lend_in_small_steps(void **state) {
    (void)state;
    unit_child(a_borrow_asks_little, NULL, 60, "little");
    unit_child(a_recent_block_keeps_no_superslab, NULL, 60, "recent");
    unit_child(a_borrow_is_published, NULL, 60, "published");
}

/* A heap that its own CPU works with keeps free memory, half as much as it has in use; one that
 * another CPU worked with last keeps none. */
static void a_busy_heap_keeps_some(const void *unused) {
    enum { COUNT = 300, SIZE = 2 * HAK_UNIT_SIZE, WANTED = 100, RUN = 16 };
    (void)unused;
    void *blocks[COUNT];
    purge_large(0);
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, SIZE, 1, false);
    for (unsigned i = 1; i < COUNT; i += 4) hak_large_free(0, blocks[i]);
    uint64_t stolen = hak_large_stats().stolen, runs = hak_large_stats().runs;
    while (hak_large_stats().runs == runs) {
        CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
        CHECK(hak_large_stats().stolen == stolen, "a block of a heap that has a third to spare");
    }
    for (unsigned i = 2; i < COUNT; i += 4) hak_large_free(0, blocks[i]);
    for (unsigned i = 0; i < WANTED; i++) CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
    stolen = hak_large_stats().stolen - stolen;
    CHECK(stolen >= WANTED - RUN, "%u of %u blocks", (unsigned)stolen, (unsigned)WANTED);
    hak_large_free(0, blocks[3]); /* its own CPU works with it again */
    runs = hak_large_stats().runs;
    for (unsigned i = 0; i < 2 * RUN && hak_large_stats().runs == runs; i++)
        CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
    CHECK(hak_large_stats().runs > runs, "a heap takes from one that is worked with again");
}

/* What another CPU has freed serves that CPU, before fresh memory does. */
static void what_came_back_serves(const void *unused) {
    enum { COUNT = 4, SIZE = HAK_LARGE_MAX - HAK_UNIT_SIZE };
    (void)unused;
    void *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, SIZE, 1, false);
    for (unsigned i = 0; i < COUNT; i++) CHECK(hak_large_free(1, blocks[i]), "not known");
    const uint64_t stolen = hak_large_stats().stolen, runs = hak_large_stats().runs;
    for (unsigned i = 0; i < COUNT; i++) CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
    CHECK(hak_large_stats().runs == runs, "fresh memory beside %u free blocks", (unsigned)COUNT);
    CHECK(hak_large_stats().stolen == stolen + COUNT, "not all came from the other heap");
}

static void *no_work(void *unused) { return unused; }

static void one_thread_has_one_heap(const void *unused) {
    (void)unused;
    stay_on_cpu(1);
    CHECK(hak_large_home() == 0, "heap %u", hak_large_home());
}

static void the_home_is_the_cpus(const void *unused) {
    (void)unused;
    pthread_t thread; /* what a process of one thread does tells nothing */
    CHECK(pthread_create(&thread, NULL, no_work, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    unsigned count = hak_os_cpu_count();
    for (int cpu = 0; cpu < 2; cpu++) {
        stay_on_cpu(cpu);
        CHECK(hak_os_this_cpu() == (unsigned)cpu, "CPU %d of %u is number %u", cpu, count,
              hak_os_this_cpu());
        CHECK(hak_large_home() == (unsigned)cpu, "heap %u", hak_large_home());
    }
}

static void each_cpu_has_a_heap(void **state) {
    (void)state;
    unit_child(the_home_is_the_cpus, NULL, 60, "home");
    if (hak_os_knows_threads()) unit_child(one_thread_has_one_heap, NULL, 60, "one thread");
}

static void other_cpus_take_what_they_freed(void **state) {
    (void)state;
    unit_child(what_came_back_serves, NULL, 60, "came back");
}

static void heaps_share_what_they_can_spare(void **state) {
    (void)state;
    unit_child(a_busy_heap_keeps_some, NULL, 60, "share");
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

/* ---- knobs: this program again, in another environment ---- */

/* Blocks of 100 KiB from heap 0, each freed by who has heap 1: prints the counters. */
static int show_counters(void) {
    void *blocks[42];
    for (unsigned turn = 0; turn < 3; turn++) {
        unsigned count = turn == 0 ? 42 : 21; /* later ones find more than they need */
        for (unsigned i = 0; i < count; i++) blocks[i] = hak_large_alloc(0, 100000, 1, false);
        for (unsigned i = 0; i < count; i++) CHECK(hak_large_free(1, blocks[i]), "not freed");
    }
    hak_large_stats_t stats = hak_large_stats();
    fprintf(stderr, "%llu %llu %llu %llu %llu %llu\n",
            (unsigned long long)stats.run_units / stats.runs, (unsigned long long)stats.transferred,
            (unsigned long long)stats.spilled, (unsigned long long)stats.remote,
            (unsigned long long)stats.purge_calls,
            (unsigned long long)hak_pool_stats.populated_units);
    return 0;
}

typedef struct {
    unsigned long long run, transferred, spilled, remote, purge_calls, populated;
} counters_t;

static counters_t counters_with(const char *setting) {
    struct child_end end;
    counters_t c = {0};
    const char *environment[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0", setting, NULL};
    unit_rerun("counters", environment, 60, &end);
    REQUIRE(end.status == 0 &&
                sscanf(end.err, "%llu %llu %llu %llu %llu %llu", &c.run, &c.transferred, &c.spilled,
                       &c.remote, &c.purge_calls, &c.populated) == 6,
            "%s: status %#x, %s", setting, (unsigned)end.status, end.err);
    return c;
}

static char populated_page[65536] __attribute__((aligned(65536)));

static void every_knob_shows(void **state) {
    (void)state;
    assert_true(counters_with("HAKMEM_L25_RUN_FACTOR=1").run <= 16);
    assert_true(counters_with("HAKMEM_L25_RUN_FACTOR=16").run > 16);
    counters_t none = counters_with("HAKMEM_L25_TC_SPILL=0");
    counters_t few = counters_with("HAKMEM_L25_TC_SPILL=4");
    counters_t many = counters_with("HAKMEM_L25_TC_SPILL=256");
    assert_int_equal(none.transferred, 0);
    assert_true(few.transferred > 0 && few.transferred < many.transferred);
    assert_true(few.spilled > 0);
    assert_int_equal(many.spilled, 0);
    assert_int_equal(many.transferred, 84);
    counters_t local = counters_with("HAKMEM_L25_PREF=local");
    counters_t remote = counters_with("HAKMEM_L25_PREF=remote");
    assert_true(remote.remote > local.remote);
    assert_int_equal(counters_with("HAKMEM_DISABLE_BATCH=0").purge_calls, 0);
    assert_true(counters_with("HAKMEM_DISABLE_BATCH=1").purge_calls >= 80);
    if (!hak_os_populate(populated_page, hak_os_page_size())) return; /* an older kernel */
    assert_int_equal(counters_with("HAKMEM_SS_PREFAULT=0").populated, 0);
    unsigned long long some = counters_with("HAKMEM_SS_PREFAULT=1").populated;
    assert_true(some > 0 && some < counters_with("HAKMEM_SS_PREFAULT=2").populated);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "counters") == 0) {
        hak_options_load();
        return show_counters();
    }
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_cpus_take_what_they_freed), /* first: of heaps that are new */
        cmocka_unit_test(contents_stay),
        cmocka_unit_test(a_purge_leaves_nothing),
        cmocka_unit_test(a_freed_block_stays_whole),
        cmocka_unit_test(a_block_grows_and_shrinks_in_place),
        cmocka_unit_test(what_is_no_block_is_not_freed),
        cmocka_unit_test(what_is_a_slab_now_is_not_freed),
        cmocka_unit_test(free_superslabs_are_lent),
        cmocka_unit_test(heaps_lend_in_small_steps),
        cmocka_unit_test(each_cpu_has_a_heap),
        cmocka_unit_test(heaps_share_what_they_can_spare),
        cmocka_unit_test(threads_trade_blocks),
        cmocka_unit_test(blocks_that_grow_in_turn_seldom_move),
        cmocka_unit_test(every_knob_shows),
    };
    return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
