/* fine.c: blocks that are cut to measure: those of 1 to 64 KiB where addresses are short, and those of
 * heaps of the program's own. */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "hakmem.h"
#include "large/fine_grain.h"
#include "large/large.h"
#include "large/view.h"
#include "pool/pool.h"
#include "region/region.h"
#include "thread/verify.h"

enum {
    BLOCKS = 2000,
    TURNS = 12000 / UNIT_DIVISOR,
    THREADS = 4,
    GRAIN = 1 << HAK_FINE_SHIFT,
    MOST = 65536
};

/* The longest chunks. */
static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", "HAKMEM_SS_SIZE=2M", NULL};

struct held {
    unsigned char *start;
    size_t size; /* usable */
    unsigned char mark;
};

/* The limit on the address space. The linker sends the engine here (--wrap). */
static size_t address_limit = SIZE_MAX;
size_t __wrap_hak_os_address_limit(void);
size_t __wrap_hak_os_address_limit(void) { return address_limit; }

static void set_limit(size_t bytes) {
    address_limit = bytes;
    hak_region_look_at_limit();
    CHECK(hak_region_is_short() == (bytes != SIZE_MAX), "the limit is not seen");
}

static size_t rounded(size_t size) { return (size + GRAIN - 1) / GRAIN * GRAIN; }

static void check_marks(const struct held *held, size_t size) {
    const unsigned char *start = held->start;
    REQUIRE(start[0] == held->mark && memcmp(start, start + 1, size - 1) == 0,
            "block %p of %zu bytes has changed", (const void *)start, held->size);
}

static size_t found_at(const void *pointer, const void *start) {
    void *found = NULL;
    size_t size = 0;
    return hak_large_find(pointer, &found, &size) && found == start ? size : 0;
}

static void allocate(struct held *held, unsigned random) {
    size_t size = 1025 + random * 7919u % (MOST - 1024), align = (size_t)1 << random % 17;
    held->start = hak_fine_alloc(size, align);
    REQUIRE(held->start && (uintptr_t)held->start % align == 0, "%p for %zu at %zu",
            (void *)held->start, size, align);
    held->size = rounded(size);
    held->mark = (unsigned char)random;
    memset(held->start, held->mark, held->size);
    REQUIRE(found_at(held->start, held->start) == held->size &&
                found_at(held->start + held->size - 1, held->start) == held->size,
            "a block of %zu is not found", held->size);
}

static void release(struct held *held) {
    check_marks(held, held->size);
    REQUIRE(hak_large_free(0, held->start + GRAIN) == 0, "an address in a block is freed");
    REQUIRE(hak_large_free(0, held->start) == held->size, "a block of %zu is not freed",
            held->size);
    held->start = NULL;
}

/* Threads work on blocks of their own, in superslabs that they share. */
static void *work(void *seed) {
    struct held *blocks = calloc(BLOCKS, sizeof *blocks);
    unsigned random = (unsigned)(uintptr_t)seed;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        random = random * 1664525u + 1013904223u;
        struct held *held = &blocks[random / 65536 % BLOCKS];
        if (held->start)
            release(held);
        else
            allocate(held, random >> 9);
        if (turn % 4000 == 0) REQUIRE(hak_verify() == 0, "an invariant does not hold");
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start) release(&blocks[i]);
    free(blocks);
    return NULL;
}

static void blocks_keep_their_contents(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    hak_large_stats_t before = hak_large_stats();
    size_t used = hak_load_relaxed(&hak_pool_stats.used_units);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i * 999331 + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(hak_large_stats().count, before.count);
    assert_int_equal(hak_large_stats().bytes, before.bytes);
    assert_true(hak_load_relaxed(&hak_pool_stats.used_units) < used + hak_superslab_units());
    assert_int_equal(hak_verify(), 0);
}

static size_t units_now(void) { return hak_load_relaxed(&hak_pool_stats.used_units); }

/* Blocks of all sizes of one heap: short ones that a sweep finds, and longer ones. */
static void *work_in_heap(void *context) {
    hak_user_heap_t *heap = context;
    struct held *blocks = calloc(BLOCKS, sizeof *blocks);
    unsigned random = (unsigned)(uintptr_t)&random >> 4;
    for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
        random = random * 1664525u + 1013904223u;
        struct held *held = &blocks[random / 65536 % BLOCKS];
        if (held->start) {
            check_marks(held, held->size);
            REQUIRE(hak_large_free(0, held->start) == held->size, "a block of %zu is not freed",
                    held->size);
            held->start = NULL;
            continue;
        }
        size_t size = 1 + (random >> 7) % (random % 8 ? 600 : MOST), align = 1 << (random >> 5) % 8;
        held->start = hak_fine_alloc_in(heap, size, align, false, NULL);
        held->size = (size + 15) / 16 * 16;
        held->mark = (unsigned char)random;
        REQUIRE(held->start && (uintptr_t)held->start % align == 0, "%p for %zu at %zu",
                (void *)held->start, size, align);
        memset(held->start, held->mark, held->size);
        REQUIRE(found_at(held->start + held->size - 1, held->start) == held->size,
                "a block of %zu is not found", held->size);
        if (turn % 8000 == 0) REQUIRE(hak_verify() == 0, "an invariant does not hold");
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start) check_marks(&blocks[i], blocks[i].size);
    free(blocks);
    return NULL;
}

static void heaps_keep_contents_and_let_go(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    size_t used = hak_load_relaxed(&hak_pool_stats.used_units);
    hak_user_heap_t *heap = hak_user_heap_make(0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_in_heap, heap), 0);
    for (unsigned i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    hak_user_heap_stats_t stats = hak_user_heap_stats_of(heap);
    assert_true(stats.blocks > BLOCKS && stats.committed < 2 * stats.bytes);
    hak_fine_free_all(heap, NULL);
    stats = hak_user_heap_stats_of(heap);
    assert_int_equal(stats.blocks | stats.bytes | stats.committed, 0);
    assert_true(hak_load_relaxed(&hak_pool_stats.used_units) < used + hak_superslab_units());
    assert_int_equal(hak_verify(), 0);
    assert_ptr_equal(hak_user_heap_close(hak_user_heap_handle(heap)), heap);
    hak_user_heap_recycle(heap);
}

/* Freeing all has an end though blocks come all the time. */
/* Adds what a view of the units says, each once. */
static size_t viewed(char *const *blocks, unsigned count) {
    size_t sum = 0;
    const hak_unit_t *last = NULL;
    for (unsigned i = 0; i < count; i++) {
        const hak_unit_t *unit = hak_unit_of(blocks[i]);
        uint16_t used[HAK_UNIT_GRAINS];
        if (unit == last) continue;
        assert_true(hak_large_used_bytes(last = unit, used));
        for (unsigned g = 0; g < HAK_UNIT_GRAINS; g++) sum += used[g];
    }
    return sum;
}

/* Bytes of blocks, not the 4 KiB in which one begins. */
static void a_view_counts_bytes(void **state) {
    (void)state;
    enum { COUNT = 8000, LONG = 100 << 10 };
    static char *blocks[COUNT];
    hak_user_heap_t *heap = hak_user_heap_make(0);
    for (unsigned i = 0; i < COUNT; i++)
        assert_non_null(blocks[i] = hak_fine_alloc_in(heap, 48, 1, false, NULL));
    assert_int_equal(viewed(blocks, COUNT), COUNT * 48);
    for (unsigned i = 0; i < COUNT; i++)
        if (i % 50) assert_int_equal(hak_large_free(0, blocks[i]), 48);
    for (unsigned i = 0; i < COUNT; i += 50) blocks[i / 50] = blocks[i];
    assert_int_equal(viewed(blocks, COUNT / 50), COUNT / 50 * 48);
    for (unsigned i = 0; i < COUNT / 50; i++) hak_large_free(0, blocks[i]);
    char *block = hak_fine_alloc_in(heap, LONG, 1, false, NULL);
    assert_int_equal(viewed((char *[]){block, block + HAK_UNIT_SIZE}, 2), 2 * HAK_UNIT_SIZE);
    hak_large_free(0, block);
    block = hak_fine_alloc(20000, 1); /* of the process's heap, which may have more there */
    uint16_t used[HAK_UNIT_GRAINS];
    assert_true(hak_large_used_bytes(hak_unit_of(block), used));
    size_t before = viewed(&block, 1);
    hak_large_free(0, hak_fine_alloc(20000, 1));
    assert_int_equal(viewed(&block, 1), before);
    hak_large_free(0, block);
    hak_user_heap_recycle(hak_user_heap_close(hak_user_heap_handle(heap)));
}

static hak_user_heap_t *emptied;
static unsigned came;
static void allocate_another(const void *unused) {
    (void)unused;
    if (came++ < 100) assert_non_null(hak_fine_alloc_in(emptied, (size_t)4 << 20, 1, false, NULL));
}

static void what_comes_meanwhile_stays(void **state) {
    (void)state;
    hak_flight_t flight = {0};
    emptied = hak_user_heap_make(0);
    for (unsigned i = 0; i < 3; i++) allocate_another(NULL);
    came = 0;
    assert_int_equal(hak_fine_free_all(emptied, allocate_another), 3);
    assert_int_equal(came, 3);
    assert_int_equal(hak_user_heap_stats_of(emptied).blocks, 3);
    assert_int_equal(hak_fine_free_all(emptied, NULL), 3);
    /* Of a chunk only what is in flight stays. */
    void *block = hak_fine_alloc_in(emptied, 5000, 1, false, &flight);
    assert_non_null(hak_fine_alloc_in(emptied, 5000, 1, false, NULL));
    assert_int_equal(hak_fine_free_all(emptied, NULL), 1);
    assert_ptr_equal(hak_fine_heap_of(block), emptied);
    hak_user_heap_land(&flight);
    assert_int_equal(hak_verify(), 0);
    assert_int_equal(hak_fine_free_all(emptied, NULL), 1);
    assert_int_equal(hak_user_heap_stats_of(emptied).committed, 0);
    hak_user_heap_recycle(hak_user_heap_close(hak_user_heap_handle(emptied)));
}

static size_t peak_of_churn(unsigned turns) {
    static void *blocks[5000];
    size_t peak = 0;
    hak_user_heap_t *heap = hak_user_heap_make(0);
    for (unsigned turn = 0, random = 1; turn < turns; turn++) {
        random = random * 1664525u + 1013904223u;
        void **block = &blocks[random / 65536 % 5000];
        if (*block) {
            hak_large_free(0, *block);
            *block = NULL;
            continue;
        }
        *block = hak_fine_alloc_in(heap, 16 + (random >> 7) % 500, 1, false, NULL);
        hak_user_heap_stats_t stats = hak_user_heap_stats_of(heap);
        if (stats.committed > peak) peak = stats.committed;
    }
    REQUIRE(peak < hak_user_heap_stats_of(heap).bytes * 2, "%zu bytes for %zu", peak,
            hak_user_heap_stats_of(heap).bytes);
    hak_fine_free_all(heap, NULL);
    memset(blocks, 0, sizeof blocks);
    hak_user_heap_recycle(hak_user_heap_close(hak_user_heap_handle(heap)));
    return peak;
}

/* Holes between blocks are found again: a heap does not grow with time. */
static void heaps_do_not_creep(void **state) {
    (void)state;
    size_t young = peak_of_churn(50000), old = peak_of_churn(1000000);
    REQUIRE(old < young * 5 / 4, "%zu bytes at first, later %zu", young, old);
}

/* What is full to the last grain is left alone, and what is freed in it is found again. */
static void blocks_are_packed(void **state) {
    (void)state;
    static void *blocks[BLOCKS];
    for (size_t size = 1025; size < MOST; size += 4093) {
        size_t units = units_now(), count = ((size_t)32 << 20) / size;
        if (count > BLOCKS) count = BLOCKS;
        hak_large_stats_t before = hak_large_stats();
        for (size_t i = 0; i < count; i++) assert_non_null(blocks[i] = hak_fine_alloc(size, 1));
        size_t used = (units_now() - units) * HAK_UNIT_SIZE;
        REQUIRE(used <= count * size * 110 / 100 + 2 * hak_superslab_size(),
                "%zu blocks of %zu bytes in %zu", count, size, used);
        assert_int_equal(hak_large_stats().count - before.count, count);
        assert_int_equal(hak_large_stats().bytes - before.bytes, count * rounded(size));
        for (size_t i = 0; i < count; i += 2) assert_int_not_equal(hak_large_free(0, blocks[i]), 0);
        for (size_t i = 0; i < count; i += 2) assert_non_null(blocks[i] = hak_fine_alloc(size, 1));
        assert_int_equal((units_now() - units) * HAK_UNIT_SIZE, used);
        for (size_t i = 0; i < count; i++) assert_int_not_equal(hak_large_free(0, blocks[i]), 0);
        assert_int_equal(units_now(), units);
    }
}

/* The ways through the public functions, for sizes whose classes have no block left over. */
static void calls_are_served(void **state) {
    (void)state;
    static char *blocks[BLOCKS];
    set_limit(MIB);
    hak_large_stats_t before = hak_large_stats();
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 100 + (size_t)i * 31 % (MOST - 100), align = (size_t)1 << i % 17;
        blocks[i] = i % 3 == 0   ? hakmem_malloc(size)
                    : i % 3 == 1 ? hakmem_calloc(1, size)
                                 : hakmem_aligned_alloc(align, size);
        size_t usable = hakmem_malloc_usable_size(blocks[i]);
        REQUIRE(blocks[i] && usable >= size, "%zu usable bytes for %zu", usable, size);
        if (i % 3 == 2) assert_int_equal((uintptr_t)blocks[i] % align, 0);
        for (size_t k = 0; i % 3 == 1 && k < usable; k++) assert_int_equal(blocks[i][k], 0);
        memset(blocks[i], (int)i, usable);
    }
    assert_true(hak_large_stats().count - before.count > BLOCKS / 2);
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 500 + (size_t)i * 97 % 100000, old = hakmem_malloc_usable_size(blocks[i]);
        blocks[i] = hakmem_realloc(blocks[i], size);
        assert_non_null(blocks[i]);
        for (size_t k = 0; k < size && k < old; k += 100)
            assert_int_equal((unsigned char)blocks[i][k], (unsigned char)i);
    }
    set_limit(SIZE_MAX);
    for (unsigned i = 0; i < BLOCKS; i++) hakmem_free(blocks[i]);
    assert_int_equal(hak_large_stats().count, before.count);
    assert_int_equal(hak_verify(), 0);
}

/* The heap has much that is free when the limit comes. That is not used up before the limit is seen:
 * it takes 16 MiB, and no growth. */
static void a_late_limit_is_seen(void **state) {
    enum { UNITS = 256 };
    hak_unit_t *units[UNITS];
    unsigned taken = 0;
    bool zeroed;
    (void)state;
    size_t superslabs = hak_region_mapped_superslabs();
    address_limit = MIB;
    assert_false(hak_region_is_short());
    while (!hak_region_is_short() && taken < UNITS) units[taken++] = hak_pool_take(1, &zeroed);
    assert_true(hak_region_is_short());
    assert_int_equal(hak_region_mapped_superslabs(), superslabs);
    for (unsigned i = 0; i < taken; i++) hak_pool_give(units[i], 1);
    set_limit(SIZE_MAX);
}

static void free_twice(const void *unused) {
    (void)unused;
    set_limit(MIB);
    void *block = hak_fine_alloc(3000, 1), *stays = hak_fine_alloc(3000, 1);
    CHECK(block && stays, "no block");
    hakmem_free(block);
    hakmem_free(block);
}

static void freed_blocks_are_known(void **state) {
    (void)state;
    struct child_end end;
    child_run(free_twice, NULL, 20, &end);
    REQUIRE(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT &&
                unit_line_count(end.err) == 1 && strstr(end.err, "double free"),
            "no line about a double free: %s", end.err);
}

static void allocate_in_child(const void *block) {
    void *own = hak_fine_alloc(5000, 1);
    CHECK(own && hak_large_free(0, own) != 0, "a child's block is lost");
    CHECK(hak_large_free(0, (void *)(uintptr_t)block) != 0, "the parent's block is lost");
    CHECK(hak_verify() == 0, "an invariant does not hold in a child");
}

static void a_child_goes_on(void **state) {
    (void)state;
    void *block = hak_fine_alloc(20000, 1);
    unit_child(allocate_in_child, block, 20, "a child");
    assert_int_not_equal(hak_large_free(0, block), 0);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_keep_their_contents),
                                       cmocka_unit_test(blocks_are_packed),
                                       cmocka_unit_test(heaps_keep_contents_and_let_go),
                                       cmocka_unit_test(a_view_counts_bytes),
                                       cmocka_unit_test(what_comes_meanwhile_stays),
                                       cmocka_unit_test(heaps_do_not_creep),
                                       cmocka_unit_test(calls_are_served),
                                       cmocka_unit_test(a_late_limit_is_seen),
                                       cmocka_unit_test(freed_blocks_are_known),
                                       cmocka_unit_test(a_child_goes_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
