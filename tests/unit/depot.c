/* depot.c: what leaves a full magazine comes to another thread's on the same CPU, and to the shards when
 * nobody uses it. */
#include "cache_calls.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include "cache/cpu_depot.h"
#include "child.h"
#include "os/os.h"
#include "shard/bin.h"
#include "shard/stats.h"

enum {
    CLASS = HAK_CLASS_1024,
    MOST = 64,
    SHARE = 64 * 1024,
    SHARDS = 4
}; /* 1024 bytes; the depot holds 64 KiB */

static unsigned looks; /* for the number of the CPU */
unsigned __real_hak_shard_here(void);
unsigned __wrap_hak_shard_here(void);
unsigned __wrap_hak_shard_here(void) {
    looks++;
    return __real_hak_shard_here();
}

/* Depots are open, and all calls come from one CPU. */
static hak_cache_t *begin(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    hak_depot_set_share(SHARE, true);
    return make_cache(8 * 1024);
}

static void sweep_within(bool all, unsigned *patience) {
    hak_walk_t walk = {0};
    hak_budget_t budget = HAK_BUDGET_ALL;
    assert_true(hak_depot_sweep(&walk, all, patience, &budget));
}

static void sweep(bool all) {
    unsigned patience = 0;
    sweep_within(all, &patience);
}

static void end(hak_cache_t *cache) {
    sweep(true);
    hak_depot_set_share(SHARE, false);
    drop_cache(cache);
}

static void open_while_shares_are_small_and_threads_many(void **state) {
    (void)state;
    hak_depot_set_share(SHARE, true);
    assert_true(hak_depot_is_open());
    hak_depot_set_share(SHARE, false);
    assert_false(hak_depot_is_open());
    hak_depot_set_share(512 * 1024, true);
    assert_false(hak_depot_is_open());
}

static void a_closed_depot_gets_nothing(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(8 * 1024);
    swing(cache, CLASS, 200);
    assert_int_equal(hak_depot_count(CLASS), 0);
    drop_cache(cache);
}

static void another_cache_gets_the_blocks(void **state) {
    (void)state;
    static void *blocks[2 * MOST], *again[2 * MOST];
    hak_cache_t *giver = begin(), *taker = make_cache(8 * 1024);
    for (unsigned i = 0; i < MOST; i++) blocks[i] = take(giver, CLASS);
    for (unsigned i = 0; i < MOST; i++) give(giver, blocks[i]);
    const size_t there = hak_depot_count(CLASS);
    assert_in_range(there, MOST / 2, MOST);
    const uint64_t taken = hak_depot_taken();
    const uint64_t locks = hak_shard_stats(CLASS).counts[HAK_SHARD_LOCKS];
    for (unsigned i = 0; i < there; i++) {
        again[i] = take(taker, CLASS);
        unsigned k = 0;
        while (k < MOST && blocks[k] != again[i]) k++;
        REQUIRE(k < MOST, "block %u comes from elsewhere", i);
        blocks[k] = NULL; /* so no block comes twice */
    }
    assert_int_equal(hak_shard_stats(CLASS).counts[HAK_SHARD_LOCKS], locks);
    assert_int_equal(hak_depot_taken() - taken, there);
    assert_int_equal(hak_depot_count(CLASS), 0);
    for (unsigned i = 0; i < there; i++) give(giver, again[i]);
    drop_cache(taker);
    end(giver);
}

/* What one thread leaves at its end serves the next one there, without a lock of a shard. */
static void the_end_of_a_thread_fills_it(void **state) {
    (void)state;
    static void *blocks[MOST];
    hak_cache_t *ending = begin(), *next = make_cache(64 * 1024);
    for (unsigned i = 0; i < MOST / 2; i++) blocks[i] = take(ending, CLASS);
    for (unsigned i = 0; i < MOST / 2; i++) give(ending, blocks[i]);
    const size_t held = hak_cache_count(ending, CLASS), there = hak_depot_count(CLASS);
    REQUIRE(held > 1, "%zu blocks are no test", held);
    const uint64_t locks = hak_shard_stats(CLASS).counts[HAK_SHARD_LOCKS];
    hak_cache_pass_on(ending);
    assert_int_equal(hak_cache_count(ending, CLASS), 0);
    assert_int_equal(hak_depot_count(CLASS), there + held);
    for (unsigned i = 0; i < there + held; i++) blocks[i] = take(next, CLASS);
    assert_int_equal(hak_shard_stats(CLASS).counts[HAK_SHARD_LOCKS], locks);
    for (unsigned i = 0; i < there + held; i++) give(next, blocks[i]);
    drop_cache(next);
    end(ending);
    assert_int_equal(hak_shard_in_use(CLASS), 0);
}

static void a_closed_depot_gets_nothing_at_the_end(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(8 * 1024);
    give(cache, take(cache, CLASS));
    hak_cache_pass_on(cache);
    assert_int_equal(hak_cache_count(cache, CLASS) + hak_depot_count(CLASS), 0);
    drop_cache(cache);
}

static unsigned shard_of(const void *block) {
    return hak_owner_shard(hak_region_unit_of(block)->owner);
}

/* The same cache, at home in another shard than that of the CPU. */
static unsigned leave_home(hak_cache_t *cache) {
    const unsigned here = hak_shard_here();
    cache->shard = (uint8_t)((here + 1) % SHARDS);
    return here;
}

static uint64_t remote_of(unsigned shard) {
    return hak_load_relaxed(&hak_bin_rare(shard, CLASS)->remote);
}
static uint64_t locks_of(unsigned shard) {
    return hak_load_relaxed(&hak_bin_counts(shard, CLASS)->counts[HAK_SHARD_LOCKS]);
}

/* Blocks come from the shard of the CPU, and go back to it; the home's bins are left alone. */
static void the_shard_of_the_cpu_serves(void **state) {
    (void)state;
    static void *blocks[4 * MOST];
    hak_cache_t *cache = begin();
    const unsigned here = leave_home(cache);
    const uint64_t locks = locks_of(cache->shard),
                   remote = remote_of(cache->shard) + remote_of(here);
    for (unsigned i = 0; i < 4 * MOST; i++) {
        blocks[i] = take(cache, CLASS);
        assert_int_equal(shard_of(blocks[i]), here);
    }
    for (unsigned i = 0; i < 4 * MOST; i++) give(cache, blocks[i]);
    hak_cache_flush_all(cache);
    assert_int_equal(locks_of(cache->shard), locks);
    assert_int_equal(remote_of(cache->shard) + remote_of(here), remote);
    end(cache);
    assert_int_equal(hak_shard_in_use(CLASS), 0);
}

/* To ask for the number costs a part of a slow call. */
static void a_slow_call_asks_for_the_cpu_once(void **state) {
    (void)state;
    static void *blocks[4 * MOST];
    hak_cache_t *cache = begin();
    looks = 0;
    for (unsigned i = 0; i < 4 * MOST; i++) blocks[i] = take(cache, CLASS);
    assert_int_equal(looks, cache->slow_count);
    for (unsigned i = 0; i < 4 * MOST; i++) give(cache, blocks[i]);
    assert_in_range(looks, 1, cache->slow_count); /* some only make the stack deeper */
    end(cache);
}

/* With closed depots, the home's. */
static void the_home_serves_where_depots_are_closed(void **state) {
    (void)state;
    hak_cache_t *cache = begin();
    leave_home(cache);
    hak_depot_set_share(SHARE, false);
    void *block = take(cache, CLASS);
    assert_int_equal(shard_of(block), cache->shard);
    give(cache, block);
    end(cache);
    assert_int_equal(hak_shard_in_use(CLASS), 0);
}

static void it_holds_no_more_than_its_slots(void **state) {
    (void)state;
    hak_cache_t *cache = begin();
    swing(cache, CLASS, 10 * MOST);
    assert_int_equal(hak_depot_count(CLASS), MOST);
    end(cache);
    assert_int_equal(hak_shard_in_use(CLASS), 0);
}

static void what_nobody_uses_goes_to_the_shards(void **state) {
    (void)state;
    hak_cache_t *cache = begin();
    swing(cache, CLASS, 10 * MOST);
    sweep(false);
    assert_int_equal(hak_depot_count(CLASS), MOST); /* was used since the last sweep */
    void *block = take(cache, CLASS);
    give(cache, block);
    sweep(false);
    assert_int_equal(hak_depot_count(CLASS), 0);
    swing(cache, CLASS, 10 * MOST);
    sweep(true);
    assert_int_equal(hak_depot_count(CLASS), 0);
    end(cache);
}

static void a_sweep_keeps_to_its_budget(void **state) {
    (void)state;
    enum { LOOKS = 10 };
    hak_cache_t *cache = begin();
    hak_walk_t walk = {0};
    unsigned patience = 0;
    swing(cache, CLASS, 10 * MOST);
    for (unsigned left = MOST; left >= LOOKS; left -= LOOKS) {
        hak_budget_t budget = {LOOKS, SIZE_MAX};
        assert_int_equal(hak_depot_count(CLASS), left);
        assert_false(hak_depot_sweep(&walk, true, &patience, &budget));
    }
    end(cache);
}

static hak_depot_t *the_depot(void) {
    hak_depot_t *depot = NULL;
    for (unsigned cpu = 0; cpu < HAK_SHARDS_MAX; cpu++)
        if (hak_depot_row(cpu) && hak_depot_row(cpu)[CLASS].count)
            depot = &hak_depot_row(cpu)[CLASS];
    assert_non_null(depot);
    return depot;
}

static void what_is_held_is_passed_over(void **state) {
    (void)state;
    hak_cache_t *cache = begin();
    void *block = take(cache, CLASS), *out[2];
    assert_int_equal(hak_depot_put(hak_shard_here(), CLASS, &block, 1), 1);
    hak_depot_t *depot = the_depot();
    hak_lock_acquire(&depot->lock);
    assert_int_equal(hak_depot_put(hak_shard_here(), CLASS, &block, 1), 0);
    assert_int_equal(hak_depot_take(hak_shard_here(), CLASS, out, 1), 0);
    unsigned patience = 3;
    sweep_within(true, &patience);
    assert_int_equal(patience, 0);
    sweep_within(true, &patience); /* waits no more */
    assert_int_equal(hak_depot_count(CLASS), 1);
    hak_lock_release(&depot->lock);
    assert_int_equal(hak_depot_take(hak_shard_here(), CLASS, out, 1), 1);
    assert_ptr_equal(out[1], block);
    give(cache, block);
    end(cache);
}

/* A thread without a cache takes a part of a depot's worth from the shard where the depot is empty, and one
 * block where it is held. */
static void one_block_beside_a_depot_that_is_held(void **state) {
    (void)state;
    hak_cache_t *cache = begin();
    void *first = hak_depot_get(CLASS);
    const size_t there = hak_depot_count(CLASS);
    assert_in_range(there, 2, MOST / 2);
    hak_depot_t *depot = the_depot();
    const uint64_t taken = hak_shard_stats(CLASS).counts[HAK_SHARD_TAKEN];
    assert_true(
        hak_lock_take_free(&depot->lock)); /* by another thread: this one takes locks of bins */
    void *second = hak_depot_get(CLASS);
    hak_store_release(&depot->lock.state, 0);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    assert_int_equal(hak_shard_stats(CLASS).counts[HAK_SHARD_TAKEN], taken + 1);
    assert_int_equal(hak_depot_count(CLASS), there);
    assert_true(hak_depot_give(CLASS, first));
    assert_true(hak_depot_give(CLASS, second));
    end(cache);
    assert_int_equal(hak_shard_in_use(CLASS), 0);
}

static sem_t is_held;

static void *hold_for_a_while(void *depot) {
    hak_depot_t *held = depot;
    hak_lock_acquire(&held->lock);
    sem_post(&is_held);
    hak_os_sleep_ms(20);
    hak_lock_release(&held->lock);
    return NULL;
}

static void a_sweep_of_all_waits_for_a_lock(void **state) {
    (void)state;
    pthread_t thread;
    hak_cache_t *cache = begin();
    void *block = take(cache, CLASS);
    assert_int_equal(hak_depot_put(hak_shard_here(), CLASS, &block, 1), 1);
    assert_int_equal(sem_init(&is_held, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_for_a_while, the_depot()), 0);
    sem_wait(&is_held);
    unsigned patience = 60000;
    sweep_within(true, &patience);
    assert_int_equal(hak_depot_count(CLASS), 0);
    pthread_join(thread, NULL);
    end(cache);
}

/* One copy in a depot, the other in a bitmap; the slab may be of another shard. */
static void give_both(const void *unused) {
    (void)unused;
    hak_cache_t *cache = begin();
    void *block = take(cache, CLASS);
    hak_depot_put(hak_shard_here(), CLASS, &block, 1);
    give(cache, block);
    hak_cache_flush_all(cache);
    sweep(true);
    hak_shard_release_idle();
}

static void a_double_free_comes_to_light_at_the_sweep(void **state) {
    (void)state;
    struct child_end end_of_child;
    child_run(give_both, NULL, 20, &end_of_child);
    REQUIRE(strstr(end_of_child.err, "double free"), "no line about a double free: %s",
            end_of_child.err);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(
        argv, (const char *const[]){"HAKMEM_SHARDS=4", "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    unit_open_shards(SHARDS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_while_shares_are_small_and_threads_many),
        cmocka_unit_test(a_closed_depot_gets_nothing),
        cmocka_unit_test(another_cache_gets_the_blocks),
        cmocka_unit_test(the_end_of_a_thread_fills_it),
        cmocka_unit_test(a_closed_depot_gets_nothing_at_the_end),
        cmocka_unit_test(the_shard_of_the_cpu_serves),
        cmocka_unit_test(a_slow_call_asks_for_the_cpu_once),
        cmocka_unit_test(the_home_serves_where_depots_are_closed),
        cmocka_unit_test(it_holds_no_more_than_its_slots),
        cmocka_unit_test(what_nobody_uses_goes_to_the_shards),
        cmocka_unit_test(a_sweep_keeps_to_its_budget),
        cmocka_unit_test(what_is_held_is_passed_over),
        cmocka_unit_test(one_block_beside_a_depot_that_is_held),
        cmocka_unit_test(a_sweep_of_all_waits_for_a_lock),
        cmocka_unit_test(a_double_free_comes_to_light_at_the_sweep),
    };
    watchdog(100, "a depot test hangs");
    return cmocka_run_group_tests_name("depot", tests, NULL, NULL);
}
