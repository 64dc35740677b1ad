/* heaps.c - heaps of the caller's own: every function at its edges, what the figures say, and many
 * heaps. Arguments: heaps that are made and destroyed. */
#define _GNU_SOURCE
#include "api.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "child.h"
#include "hakmem.h"
#include "heaps.h"
#include "proc.h"

enum { THREADS = 4, TURNS = 4000, HELD = 500 };

static unsigned long rounds;

static struct hakmem_heap_stat figures(const hakmem_heap_t *heap) {
    struct hakmem_heap_stat stat;
    assert_int_equal(hakmem_heap_stats(heap, &stat, sizeof stat), 0);
    return stat;
}

static uint64_t figure(const char *name) {
    uint64_t value;
    assert_int_equal(hakmem_stats_get(name, &value), 0);
    return value;
}

static void fill(void *block, size_t size, unsigned char mark) { memset(block, mark, size); }

static void assert_filled(const unsigned char *block, size_t size, unsigned char mark) {
    assert_true(size == 0 || (block[0] == mark && memcmp(block, block + 1, size - 1) == 0));
}

/* ---- Functions ------------------------------------------------------------------------------- */

static void every_size_is_served_and_counted(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0), *other = hakmem_heap_new(0);
    void *blocks[BORDER_COUNT];
    size_t live = 0;
    assert_ptr_not_equal(heap, other);
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        const size_t size = border_sizes[i];
        unsigned char *block = blocks[i] =
            i % 2 ? hakmem_heap_malloc(heap, size) : hakmem_heap_calloc(heap, 1, size);
        const size_t usable = API(malloc_usable_size)(block);
        assert_true(block && usable >= size && is_at(block, size > 8 ? 16 : 8));
        assert_true(usable <= size + (size > UNIT ? UNIT : GRAIN));
        if (i % 2 == 0) assert_filled(block, usable, 0);
        fill(block, usable, (unsigned char)i);
        assert_ptr_equal(hakmem_heap_of(block), heap);
        live += usable;
        assert_int_equal(figures(heap).blocks, i + 1);
        assert_int_equal(figures(heap).live_bytes, live);
        assert_true(figures(heap).committed_bytes >= live);
    }
    assert_int_equal(figures(other).committed_bytes, 0);
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        assert_filled(blocks[i], API(malloc_usable_size)(blocks[i]), (unsigned char)i);
        API(free)(blocks[i]);
    }
    const struct hakmem_heap_stat empty = figures(heap);
    assert_int_equal(empty.blocks | empty.live_bytes | empty.committed_bytes | empty.limit, 0);
    assert_int_equal(hakmem_verify(), 0);
    hakmem_heap_destroy(heap);
    hakmem_heap_destroy(other);
}

static void blocks_of_no_bytes_are_unique(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *first = hakmem_heap_malloc(heap, 0), *second = hakmem_heap_calloc(heap, 0, 8);
    assert_true(first && second && first != second);
    API(free)(first);
    hakmem_heap_destroy(heap);
}

/* A block of 0 bytes has 0 usable ones with HAKMEM_PROFILE=HARDENED, and where it is sampled. */
static void blocks_of_no_bytes_come_to_a_heap(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *const empty[] = {API(malloc)(0), API(calloc)(0, 5), API(aligned_alloc)(8192, 0),
                           hakmem_heap_malloc(heap, 0)};
    for (unsigned i = 0; i < 4; i++) {
        void *block = hakmem_heap_realloc(heap, empty[i], 100);
        assert_ptr_equal(hakmem_heap_of(block), heap);
        API(free)(block);
    }
    assert_int_equal(figures(heap).blocks, 0);
    hakmem_heap_destroy(heap);
}

static void only_blocks_in_use_have_a_heap(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    static const size_t sizes[] = {100, 3000, 100000, 5 * MIB};
    assert_non_null(hakmem_heap_malloc(heap, 100)); /* its unit stays */
    assert_non_null(hakmem_heap_malloc(heap, 3000));
    for (unsigned i = 0; i < 4; i++) {
        char *block = hakmem_heap_malloc(heap, sizes[i]);
        assert_ptr_equal(hakmem_heap_of(block), heap);
        assert_null(hakmem_heap_of(block + 16));
        API(free)(block);
        assert_null(hakmem_heap_of(block));
    }
    hakmem_heap_destroy(heap);
}

static void alignments_are_kept(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    for (size_t align = 1; align <= 4 * MIB; align *= 2)
        for (size_t size = 1; size <= 3 * MIB; size = size * 11 + 5) {
            void *block = hakmem_heap_aligned_alloc(heap, align, size);
            assert_true(block && is_at(block, align));
            fill(block, size, 7);
            if (size % 2) API(free)(block);
        }
    assert_refused(hakmem_heap_aligned_alloc(heap, 48, 100), EINVAL);
    assert_refused(hakmem_heap_aligned_alloc(heap, 0, 100), EINVAL);
    assert_int_equal(hakmem_verify(), 0);
    hakmem_heap_destroy(heap);
}

static void sizes_beyond_all_are_refused(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *block = hakmem_heap_malloc(heap, 100);
    assert_refused(hakmem_heap_malloc(heap, beyond_limit), ENOMEM);
    assert_refused(hakmem_heap_malloc(heap, near_size_max + 64), ENOMEM);
    assert_refused(hakmem_heap_malloc(heap, beyond_limit - 1), ENOMEM);
    assert_refused(hakmem_heap_calloc(heap, near_size_max, 2), ENOMEM);
    assert_refused(hakmem_heap_aligned_alloc(heap, 4096, near_size_max), ENOMEM);
    assert_refused(hakmem_heap_realloc(heap, block, beyond_limit), ENOMEM);
    assert_int_equal(figures(heap).blocks, 1);
    hakmem_heap_destroy(heap);
}

/* realloc keeps a block in its heap; hakmem_heap_realloc brings it to one. */
static void resized_blocks_keep_contents_and_heap(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0), *other = hakmem_heap_new(0);
    for (size_t i = 0; i < BORDER_COUNT; i++)
        for (size_t k = 0; k < BORDER_COUNT; k += 3) {
            const size_t old = border_sizes[i], size = border_sizes[k];
            unsigned char *block = hakmem_heap_malloc(heap, old);
            fill(block, old, (unsigned char)i);
            block = API(realloc)(block, size);
            assert_ptr_equal(hakmem_heap_of(block), heap);
            assert_filled(block, old < size ? old : size, (unsigned char)i);
            block = hakmem_heap_realloc(other, block, old);
            assert_ptr_equal(hakmem_heap_of(block), other);
            assert_filled(block, old < size ? old : size, (unsigned char)i);
            assert_int_equal(figures(heap).blocks, 0);
            assert_null(hakmem_heap_realloc(other, block, 0));
        }
    unsigned char *plain = API(malloc)(1000);
    fill(plain, 1000, 9);
    assert_null(hakmem_heap_of(plain));
    plain = hakmem_heap_realloc(heap, plain, 100000);
    assert_ptr_equal(hakmem_heap_of(plain), heap);
    assert_filled(plain, 1000, 9);
    plain = hakmem_heap_realloc(heap, NULL, 50);
    assert_int_equal(figures(heap).blocks, 2);
    assert_int_equal(figures(other).blocks, 0);
    assert_null(API(realloc)(plain, 0));
    hakmem_heap_destroy(heap);
    hakmem_heap_destroy(other);
    assert_null(hakmem_heap_of(NULL));
    assert_null(hakmem_heap_of(&plain));
}

static void a_limit_holds(void **state) {
    (void)state;
    static void *blocks[64];
    hakmem_heap_t *heap = hakmem_heap_new(2 * UNIT + 3 * MIB);
    assert_int_equal(figures(heap).limit, 2 * UNIT + 3 * MIB);
    unsigned count = 0;
    while (count < 64 && (blocks[count] = hakmem_heap_malloc(heap, 30000)) != NULL) count++;
    assert_int_equal(count, 64);
    hakmem_heap_free_all(heap);
    void *huge = hakmem_heap_malloc(heap, 3 * MIB), *large = hakmem_heap_malloc(heap, 70000);
    assert_true(huge && large);
    assert_refused(hakmem_heap_malloc(heap, 1), ENOMEM);
    assert_refused(hakmem_heap_calloc(heap, 1, 70000), ENOMEM);
    assert_refused(hakmem_heap_realloc(heap, huge, 4 * MIB), ENOMEM);
    assert_ptr_equal(API(realloc)(huge, 100), huge);
    assert_ptr_equal(hakmem_heap_realloc(heap, huge, 100), huge);
    assert_int_equal(figures(heap).committed_bytes, 2 * UNIT + 3 * MIB);
    API(free)(large);
    assert_refused(hakmem_heap_malloc(heap, 3 * MIB), ENOMEM);
    assert_non_null(large = hakmem_heap_malloc(heap, 1));
    API(free)(huge);
    hakmem_heap_set_limit(heap, UNIT);
    assert_refused(hakmem_heap_malloc(heap, 3 * MIB), ENOMEM);
    assert_non_null(hakmem_heap_malloc(heap, 60000));
    hakmem_heap_set_limit(heap, 0);
    assert_non_null(hakmem_heap_malloc(heap, 3 * MIB));
    hakmem_heap_destroy(heap);
}

/* What a heap's limit refuses makes nobody else give memory back: the caches stay as they are. */
/* What is asked for when the heap may have no more units lies in those that are cut, and never beside a
 * longer block. */
static void a_full_heap_gives_what_it_has(void **state) {
    (void)state;
    enum { UNITS = 3, SIZE = 64, MOST = UNIT / SIZE };
    hakmem_heap_t *heap = hakmem_heap_new((UNITS + 1) * UNIT);
    unsigned char *block, *whole = hakmem_heap_malloc(heap, UNITS * UNIT);
    unsigned count = 0;
    assert_non_null(whole);
    fill(whole, UNITS * UNIT, 1);
    while ((block = hakmem_heap_aligned_alloc(heap, SIZE, SIZE)) != NULL) {
        assert_true(++count <= MOST);
        assert_ptr_equal(hakmem_heap_of(block), heap);
        fill(block, SIZE, 2);
    }
    assert_int_equal(count, MOST);
    assert_filled(whole, UNITS * UNIT, 1);
    hakmem_heap_destroy(heap);
}

static void a_limit_disturbs_nobody(void **state) {
    (void)state;
    enum { SIZE = UNIT + 1000, BLOCKS = 5 };
    void *blocks[HELD];
    hakmem_heap_t *heap = hakmem_heap_new(BLOCKS * 2 * UNIT + SIZE);
    for (unsigned i = 0; i < HELD; i++) assert_non_null(blocks[i] = API(malloc)(64));
    for (unsigned i = 0; i < HELD; i++) API(free)(blocks[i]);
    for (unsigned i = 0; i < BLOCKS; i++) assert_non_null(hakmem_heap_malloc(heap, SIZE));
    const uint64_t cached = figure("total.cached");
    assert_refused(hakmem_heap_malloc(heap, SIZE), ENOMEM); /* a page too much */
    assert_int_equal(figure("total.cached"), cached);
    hakmem_heap_destroy(heap);
}

/* Under the limit of the process memory that is free elsewhere is given back first, and then the request
 * fails; the next finds what was freed. */
static void the_limit_of_the_process_holds(void **state) {
    (void)state;
    char value[32];
    hakmem_heap_t *heap = hakmem_heap_new(0);
    API(free)(API(malloc)(40 * MIB));
    snprintf(value, sizeof value, "%zu", (size_t)figure("os.committed_bytes") + 20 * MIB);
    assert_int_equal(hakmem_option_set("LIMIT", value), 0);
    size_t blocks = 0;
    while (blocks < 1000000 && hakmem_heap_malloc(heap, 1000)) blocks++;
    assert_true(blocks > 10000 && blocks < 100000);
    hakmem_heap_free_all(heap);
    for (size_t i = 0; i < blocks - blocks / 10; i++)
        assert_non_null(hakmem_heap_malloc(heap, 1000));
    assert_int_equal(hakmem_option_set("LIMIT", "0"), 0);
    hakmem_heap_destroy(heap);
}

static void all_blocks_are_freed_at_once(void **state) {
    (void)state;
    API(malloc_trim)(0);
    const uint64_t live = figure("total.live"), used = figure("pool.used_units");
    const uint64_t recorded = figure("debug.records");
    hakmem_heap_t *heap = hakmem_heap_new(0);
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < 3000; i++)
            fill(hakmem_heap_malloc(heap, i * 7 % 3000), i * 7 % 3000, 1);
        for (size_t i = 0; i < BORDER_COUNT; i++)
            assert_non_null(hakmem_heap_malloc(heap, border_sizes[i]));
        assert_int_equal(figures(heap).blocks, 3000 + BORDER_COUNT);
        assert_int_equal(figure("total.live"), live + 3000 + BORDER_COUNT);
        assert_int_equal(figure("heaps.blocks"), 3000 + BORDER_COUNT);
        assert_int_equal(figure("heaps.live_bytes"), figures(heap).live_bytes);
        assert_int_equal(figure("heaps.committed_bytes"), figures(heap).committed_bytes);
        assert_true(figure("heaps.count") == 1);
        hakmem_heap_free_all(heap);
        assert_int_equal(figures(heap).blocks | figures(heap).committed_bytes, 0);
        assert_int_equal(figure("total.live"), live);
        assert_int_equal(figure("pool.used_units"), used);
        assert_int_equal(figure("debug.records"), recorded);
    }
    hakmem_heap_destroy(heap);
    assert_int_equal(figure("heaps.count"), 0);
    assert_int_equal(hakmem_verify(), 0);
}

static void heaps_are_listed(void **state) {
    (void)state;
    enum { COUNT = 100 };
    hakmem_heap_t *heaps[COUNT];
    assert_null(hakmem_heap_next(NULL));
    for (unsigned i = 0; i < COUNT; i++) heaps[i] = hakmem_heap_new(i);
    for (unsigned i = 0; i < COUNT; i += 2) hakmem_heap_destroy(heaps[i]);
    size_t seen = 0, limits = 0;
    for (hakmem_heap_t *heap = NULL; (heap = hakmem_heap_next(heap)) != NULL; seen++)
        limits += figures(heap).limit;
    assert_int_equal(seen, COUNT / 2);
    assert_int_equal(limits, COUNT * COUNT / 4);
    struct hakmem_heap_stat stat;
    assert_int_equal(hakmem_heap_stats(heaps[0], &stat, sizeof stat), ENOENT);
    assert_int_equal(hakmem_heap_stats(NULL, &stat, sizeof stat), ENOENT);
    struct {
        struct hakmem_heap_stat stat;
        size_t later;
    } longer = {.later = 1};
    assert_int_equal(hakmem_heap_stats(heaps[1], &longer.stat, sizeof longer), 0);
    assert_true(longer.stat.limit == 1 && longer.later == 0);
    for (unsigned i = 1; i < COUNT; i += 2) hakmem_heap_destroy(heaps[i]);
    hakmem_heap_destroy(NULL);
}

/* ---- Threads, processes ---------------------------------------------------------------------- */

static struct {
    hakmem_heap_t *heap;
    _Atomic(unsigned char *) held[HELD];
} shared;

/* Threads allocate from one heap and free what others have allocated. */
static void *trade(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        random = random * 1664525u + 1013904223u;
        const size_t size = 1 + (random >> 8 & (random & 64 ? 0x3ff : 0x1ffff));
        unsigned char *block = hakmem_heap_malloc(shared.heap, size);
        CHECK(block, "no block of %zu bytes", size);
        block[0] = block[API(malloc_usable_size)(block) - 1] = (unsigned char)random;
        block = atomic_exchange_explicit(&shared.held[(random >> 7) % HELD], block,
                                         memory_order_acq_rel);
        if (!block) continue;
        CHECK(block[0] == block[API(malloc_usable_size)(block) - 1], "another block's bytes");
        API(free)(block);
    }
    return NULL;
}

static void threads_share_a_heap(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    shared.heap = hakmem_heap_new(0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, trade, (void *)(i * 999331 + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    size_t held = 0, bytes = 0;
    for (unsigned i = 0; i < HELD; i++) {
        unsigned char *block = atomic_load(&shared.held[i]);
        if (block) held++, bytes += API(malloc_usable_size)(block);
    }
    assert_int_equal(figures(shared.heap).blocks, held);
    assert_int_equal(figures(shared.heap).live_bytes, bytes);
    assert_int_equal(hakmem_verify(), 0);
    hakmem_heap_destroy(shared.heap);
}

static void go_on_in_child(const void *block) {
    hakmem_heap_t *heap = hakmem_heap_of(block), *own = hakmem_heap_new(0);
    CHECK(heap && own && heap != own, "no heap in the child");
    CHECK(hakmem_heap_malloc(heap, 100) && hakmem_heap_malloc(own, 100), "no block");
    API(free)((void *)(uintptr_t)block);
    hakmem_heap_destroy(own);
    CHECK(hakmem_verify() == 0, "an invariant does not hold in a child");
    hakmem_heap_destroy(heap);
    CHECK(hakmem_heap_next(NULL) == NULL, "a heap is left");
}

/* Two threads allocate all the time, and what they get may be freed at once. */
static hakmem_heap_t *emptied;
static atomic_bool is_over;
static void *allocate_on(void *unused) {
    while (!atomic_load(&is_over)) {
        assert_non_null(hakmem_heap_calloc(emptied, 1, 60000));
        assert_non_null(hakmem_heap_malloc(emptied, 3000));
        assert_non_null(hakmem_heap_realloc(emptied, API(malloc)(60000), 60001));
    }
    return unused;
}

/* What others write to their blocks of the heap comes to no other block, and freeing all has an end. */
static void a_heap_is_emptied_beside_requests(void **state) {
    (void)state;
    enum { BLOCKS = 40, EMPTIED = 300 };
    pthread_t threads[2];
    unsigned char *blocks[BLOCKS];
    emptied = hakmem_heap_new(0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_on, NULL), 0);
    for (unsigned turn = 0; turn < EMPTIED; turn++) {
        hakmem_heap_free_all(emptied);
        if (turn % 10) continue;
        for (unsigned i = 0; i < BLOCKS; i++) fill(blocks[i] = API(malloc)(60000), 60000, 0xAA);
        hakmem_heap_free_all(emptied);
        for (unsigned i = 0; i < BLOCKS; i++) {
            assert_filled(blocks[i], 60000, 0xAA);
            API(free)(blocks[i]);
        }
    }
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    hakmem_heap_free_all(emptied);
    assert_int_equal(figures(emptied).blocks | figures(emptied).committed_bytes, 0);
    assert_int_equal(hakmem_verify(), 0);
    hakmem_heap_destroy(emptied);
}

static void a_child_has_the_heaps(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *block = hakmem_heap_malloc(heap, 3 * MIB), *small = hakmem_heap_malloc(heap, 3);
    child_must_succeed(go_on_in_child, block, 20, "a child");
    child_must_succeed(go_on_in_child, small, 20, "a child");
    API(free)(small);
    hakmem_heap_destroy(heap);
}

/* ---- Many heaps ------------------------------------------------------------------------------ */

/* A heap with 10 small blocks has one page of blocks and 1.5 KiB of records. */
static void thousands_of_heaps_are_cheap(void **state) {
    (void)state;
    enum { COUNT = 10000, BLOCKS = 10, PAGE_KIB = 4, RECORDS_KIB = 3 };
    static hakmem_heap_t *heaps[COUNT];
    const size_t before = proc_rss_kib();
    for (unsigned i = 0; i < COUNT; i++) {
        heaps[i] = hakmem_heap_new(0);
        for (unsigned k = 0; k < BLOCKS; k++)
            fill(hakmem_heap_malloc(heaps[i], 10 + k * 20), 10 + k * 20, 1);
    }
    const size_t taken = proc_rss_kib() - before, most = COUNT * (PAGE_KIB + RECORDS_KIB);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have shadows */
    if (taken > most) fail_msg("%d heaps have %zu KiB", COUNT, taken);
#endif
    assert_true(taken > 0 && most > 0);
    assert_int_equal(figure("heaps.count"), COUNT);
    assert_int_equal(figure("heaps.blocks"), COUNT * BLOCKS);
    for (unsigned i = 0; i < COUNT; i++) hakmem_heap_destroy(heaps[i]);
    assert_int_equal(figure("heaps.count") | figure("heaps.committed_bytes"), 0);
}

static void nothing_is_left_of_a_heap(void **state) {
    (void)state;
    uint64_t records = 0;
    for (unsigned long i = 0; i < rounds; i++) {
        hakmem_heap_t *heap = hakmem_heap_new(0);
        for (unsigned k = 0; k < 10; k++) assert_non_null(hakmem_heap_malloc(heap, 10 + k * 20));
        if (i % 1000 == 0) assert_non_null(hakmem_heap_malloc(heap, 5 * MIB));
        hakmem_heap_destroy(heap);
        if (i == rounds / 10) records = figure("memory.metadata_bytes");
    }
    assert_int_equal(figure("memory.metadata_bytes"), records);
    assert_int_equal(figure("heaps.count") | figure("heaps.committed_bytes"), 0);
}

int main(int argc, char **argv) {
    rounds = argument(argc, argv, 1, 10000);
    proc_no_core_files();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_served_and_counted),
        cmocka_unit_test(blocks_of_no_bytes_are_unique),
        cmocka_unit_test(blocks_of_no_bytes_come_to_a_heap),
        cmocka_unit_test(only_blocks_in_use_have_a_heap),
        cmocka_unit_test(alignments_are_kept),
        cmocka_unit_test(sizes_beyond_all_are_refused),
        cmocka_unit_test(resized_blocks_keep_contents_and_heap),
        cmocka_unit_test(short_blocks_are_resized_in_place),
        cmocka_unit_test(long_blocks_are_resized_in_place),
        cmocka_unit_test(blocks_that_grow_keep_to_their_superslab),
        cmocka_unit_test(huge_blocks_are_resized_in_place),
        cmocka_unit_test(no_fork_waits_for_a_copy),
        cmocka_unit_test(a_limit_holds),
        cmocka_unit_test(a_full_heap_gives_what_it_has),
        cmocka_unit_test(a_limit_disturbs_nobody),
        cmocka_unit_test(the_limit_of_the_process_holds),
        cmocka_unit_test(all_blocks_are_freed_at_once),
        cmocka_unit_test(heaps_are_listed),
        cmocka_unit_test(misuse_of_heaps_ends_in_a_line),
        cmocka_unit_test(threads_share_a_heap),
        cmocka_unit_test(a_heap_is_emptied_beside_requests),
        cmocka_unit_test(a_child_has_the_heaps),
        cmocka_unit_test(thousands_of_heaps_are_cheap),
        cmocka_unit_test(nothing_is_left_of_a_heap),
    };
    return run_group(tests);
}
