/* stacks.c: stacks of magazines never overlap, are used again, and cost few takes of records. */
#include "cache_calls.h"

#include <string.h>

#include "cache/stacks.h"
#include "meta/meta.h"
#include "rng.h"

void *__real_hak_meta_alloc(size_t size);
void *__wrap_hak_meta_alloc(size_t size);

static unsigned takes; /* of records */
static void *record;   /* the last one */
static bool has_no_memory;

void *__wrap_hak_meta_alloc(size_t size) {
    if (has_no_memory) return NULL;
    takes++;
    return record = __real_hak_meta_alloc(size);
}

static void stacks_do_not_overlap(void **state) {
    (void)state;
    enum { HELD = 64, STEPS = 20000 };
    static struct {
        void **stack;
        unsigned slots;
    } held[HELD];
    hak_stacks_t *stacks = NULL;
    struct rng rng = rng_make(1);
    takes = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)rng_below(&rng, HELD);
        if (held[i].stack) {
            for (unsigned slot = 0; slot < held[i].slots; slot++)
                REQUIRE(held[i].stack[slot] == &held[i], "step %u: slot %u of %u is another's",
                        step, slot, held[i].slots);
            hak_stacks_put(stacks, held[i].stack, held[i].slots);
            held[i].stack = NULL;
            continue;
        }
        held[i].slots = 2u << rng_below(&rng, 11);
        held[i].stack = hak_stacks_take(&stacks, 0, held[i].slots);
        assert_non_null(held[i].stack);
        for (unsigned slot = 0; slot < held[i].slots; slot++) held[i].stack[slot] = &held[i];
    }
    unsigned before = takes; /* 64 stacks at once need hardly more than the largest sum so far */
    assert_true(before < 11 * HELD);
    takes = 0;
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].stack) hak_stacks_put(stacks, held[i].stack, held[i].slots);
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].stack) assert_non_null(hak_stacks_take(&stacks, 0, held[i].slots));
    assert_int_equal(takes, 0);
    memset(held, 0, sizeof held);
}

/* The word in front of a stack is read, so it must not be one that another CPU writes. */
static void no_small_stack_begins_a_record(void **state) {
    (void)state;
    hak_stacks_t *stacks = NULL;
    for (unsigned i = 0; i < 2000; i++) {
        void **stack = hak_stacks_take(&stacks, 0, 2u << i % 5);
        REQUIRE(stack != record, "stack %u of %u slots begins its record", i, 2u << i % 5);
    }
}

static void without_memory_all_stays(void **state) {
    (void)state;
    hak_stacks_t *stacks = NULL;
    has_no_memory = true;
    assert_null(hak_stacks_take(&stacks, 0, 2));
    assert_null(stacks);
    has_no_memory = false;
    void **small = hak_stacks_take(&stacks, 0, 2);
    assert_non_null(small);
    has_no_memory = true;
    assert_null(hak_stacks_take(&stacks, 0, 2048));
    assert_non_null(hak_stacks_take(&stacks, 0, 2)); /* of the chunk that is there */
    hak_stacks_put(stacks, small, 2);
    assert_ptr_equal(hak_stacks_take(&stacks, 0, 2), small);
    has_no_memory = false;
}

/* Grows the stacks of all tiny classes as far as the budget goes. A lock of the process for each
 * stack would be two for each doubling. */
static void growth_takes_few_records(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(4 * MIB);
    static void *blocks[1024];
    size_t doublings = 0;
    takes = 0;
    for (unsigned i = 1; i <= HAK_CLASS_TINY; i++) {
        for (unsigned round = 0; round < 24; round++) {
            for (unsigned k = 0; k < 1024; k++) blocks[k] = take(cache, i);
            for (unsigned k = 0; k < 1024; k++) give(cache, blocks[k]);
        }
        for (unsigned slots = cache->magazines[i].slots; slots > 2; slots /= 2) doublings++;
    }
    assert_true(doublings > 100);
    /* Bitmaps of slabs are counted apart; what is left is chunks of at most 32 KiB. */
    REQUIRE(takes <= doublings / 4, "%u takes of records for %zu doublings", takes, doublings);
    drop_cache(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_do_not_overlap),
        cmocka_unit_test(no_small_stack_begins_a_record),
        cmocka_unit_test(without_memory_all_stays),
        cmocka_unit_test(growth_takes_few_records),
    };
    unit_open_shards(HOME + 1);
    watchdog(100, "a test of stacks hangs");
    return cmocka_run_group_tests_name("stacks", tests, NULL, NULL);
}
