/* user_heap.c: the table of the program's heaps, and what a unit is after it was a large block. */
#include "unit.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "hakmem.h"
#include "large/chunk.h"
#include "large/large.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "thread/verify.h"

enum { HEAPS = 5000 };

static hakmem_heap_t *heaps[HEAPS];

static size_t number_of(const hakmem_heap_t *heap) { return (uint32_t)(uintptr_t)heap; }

/* Sets the access to the whole pages of slots first .. end - 1; these are of one level. */
static void protect(size_t first, size_t end, int how) {
    const uintptr_t page = 4096, begin = ((uintptr_t)hak_user_heap_at(first) + page - 1) & -page;
    const uintptr_t stop = (uintptr_t)(hak_user_heap_at(end - 1) + 1) & -page;
    assert_true(stop > begin + 10 * page);
    assert_int_equal(mprotect((void *)begin, stop - begin, how), 0);
}

static size_t listed(size_t *last) {
    size_t count = 0;
    for (hakmem_heap_t *heap = NULL; (heap = hakmem_heap_next(heap)) != NULL; count++)
        *last = number_of(heap);
    return count;
}

/* Slots of heaps that are no more: whoever looks at one of them gets a signal. */
static void walks_pass_over_heaps_that_were(void **state) {
    (void)state;
    enum { FIRST = 2033, END = 4081 }; /* the eighth level */
    size_t last = 0, count = 0, bytes = 0;
    for (unsigned i = 0; i < HEAPS; i++) assert_non_null(heaps[i] = hakmem_heap_new(0));
    assert_int_equal(number_of(heaps[HEAPS - 1]), HEAPS);
    for (unsigned i = 0; i < HEAPS; i++)
        if (number_of(heaps[i]) >= FIRST - 3 && number_of(heaps[i]) < END)
            hakmem_heap_destroy(heaps[i]);
    const size_t left = HEAPS - (END - FIRST + 3);
    assert_non_null(hakmem_heap_malloc(heaps[4], 100));
    assert_non_null(hakmem_heap_malloc(heaps[HEAPS - 1], 100));
    protect(FIRST, END, PROT_NONE);
    assert_int_equal(listed(&last), left);
    assert_int_equal(last, HEAPS);
    assert_int_equal(hak_user_heap_stats().count, left);
    assert_int_equal(hak_user_heap_stats().blocks, 2);
    hak_fine_add_stats(&count, &bytes);
    assert_int_equal(count, 2);
    protect(FIRST, END, PROT_READ | PROT_WRITE);
    assert_non_null(hakmem_heap_new(0));
    assert_int_equal(listed(&last), left + 1);
    while (hakmem_heap_next(NULL)) hakmem_heap_destroy(hakmem_heap_next(NULL));
    assert_int_equal(hak_user_heap_stats().count, 0);
    assert_int_equal(hak_verify(), 0);
}

/* The heaps at the ends of words, of words of words and of levels. */
static void each_heap_is_found(void **state) {
    (void)state;
    for (unsigned i = 0; i < HEAPS; i++) assert_non_null(heaps[i] = hakmem_heap_new(0));
    for (unsigned i = 0; i < HEAPS; i++)
        if (i % 63 && i % 64) hakmem_heap_destroy(heaps[i]);
    size_t found = 0;
    for (hakmem_heap_t *heap = NULL; (heap = hakmem_heap_next(heap)) != NULL; found++)
        assert_int_equal(hak_user_heap_of_handle(heap)->number, number_of(heap));
    size_t made = 0;
    for (unsigned i = 0; i < HEAPS; i++) made += i % 63 == 0 || i % 64 == 0;
    assert_int_equal(found, made);
    for (unsigned i = 0; i < HEAPS; i++)
        if (i % 63 == 0 || i % 64 == 0) {
            const hak_user_heap_t *heap = hak_user_heap_at(number_of(heaps[i]));
            assert_ptr_equal(hak_user_heap_behind(heap->number - 1), heap);
            hakmem_heap_destroy(heaps[i]);
        }
    assert_null(hakmem_heap_next(NULL));
}

static void assert_no_block(const hak_unit_t *unit) {
    const uint32_t word = unit->large;
    for (size_t at = 0; at < HAK_UNIT_SIZE; at += HAK_GRAIN_SIZE)
        assert_int_equal(hak_large_free(0, unit->base + at), 0);
    assert_int_equal(unit->large, word);
}

/* A thread frees a large block once more. It has seen its owner before the unit was another's. */
static void a_chunk_is_no_large_block(void **state) {
    (void)state;
    for (unsigned i = 0; i < HEAPS; i++) assert_non_null(heaps[i] = hakmem_heap_new(0));
    for (unsigned i = 0; i < HEAPS; i += 7) {
        void *block = hakmem_heap_malloc(heaps[i], 5000);
        hak_unit_t *unit = hak_region_unit_of(block);
        assert_true(hak_fine_is(unit));
        hak_store_relaxed(&unit->owner, hak_owner(0, HAK_CLASS_LARGE));
        assert_no_block(unit);
        hak_store_relaxed(&unit->owner, HAK_FINE_OWNER);
        assert_ptr_equal(hakmem_heap_of(block), heaps[i]);
    }
    while (hakmem_heap_next(NULL)) hakmem_heap_destroy(hakmem_heap_next(NULL));
}

/* Of a unit that was zero, and of any other, before its first batch. */
static void a_slab_is_no_large_block_from_its_making_on(void **state) {
    (void)state;
    assert_true(hak_large_free(0, hak_large_alloc(0, 200000, 1, false)));
    hak_unit_t *unit = hak_pool_take(1, &(bool){false});
    for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
        if (!hak_classes[class_index].size) continue;
        for (unsigned zeroed = 0; zeroed < 2; zeroed++) {
            assert_true(hak_slab_make(unit, 0, class_index, zeroed));
            hak_store_relaxed(&unit->owner, hak_owner(0, class_index));
            assert_no_block(unit);
            assert_int_equal(unit->free_count, hak_classes[class_index].count);
            hak_store_relaxed(&unit->owner, 0);
        }
    }
    hak_store_relaxed(&unit->large, 0);
    hak_pool_give(unit, 1);
}

static struct {
    char *start;
    size_t size;
    unsigned inside, depth; /* the depth at the gate; inside: of the test */
    int faults;
} zeroes;

static void note_depth(int signal_number) {
    (void)signal_number;
    zeroes.depth = hak_gate_thread.depth - zeroes.inside;
    zeroes.faults++;
    mprotect(zeroes.start, zeroes.size, PROT_READ | PROT_WRITE);
}

/* The first write of a zero to memory that was used before gets a signal: there the thread is outside the gate, and the
 * block is in flight. */
static void no_fork_waits_for_zeroes(void **state) {
    (void)state;
    static const size_t sizes[] = {256 << 10, 1 << 20, 3 << 20};
    hakmem_heap_t *heap = hakmem_heap_new(0);
    zeroes.inside = hak_gate_thread.depth;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        zeroes.size = sizes[i];
        assert_non_null(zeroes.start = hakmem_heap_malloc(heap, zeroes.size));
        memset(zeroes.start, 1, zeroes.size);
        hakmem_free(zeroes.start);
        assert_int_equal(mprotect(zeroes.start, zeroes.size, PROT_NONE), 0);
        zeroes.faults = 0;
        void (*before)(int) = signal(SIGSEGV, note_depth);
        char *block = hakmem_heap_calloc(heap, 1, zeroes.size);
        signal(SIGSEGV, before);
        assert_ptr_equal(block, zeroes.start);
        assert_int_equal(zeroes.faults, 1);
        assert_int_equal(zeroes.depth, 0);
        assert_true(block[0] == 0 && memcmp(block, block + 1, zeroes.size - 1) == 0);
    }
    hakmem_heap_destroy(heap);
    assert_int_equal(hak_verify(), 0);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_THREAD=0", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_pass_over_heaps_that_were),
        cmocka_unit_test(each_heap_is_found),
        cmocka_unit_test(no_fork_waits_for_zeroes),
        cmocka_unit_test(a_chunk_is_no_large_block),
        cmocka_unit_test(a_slab_is_no_large_block_from_its_making_on),
    };
    return cmocka_run_group_tests_name("user_heap", tests, NULL, NULL);
}
