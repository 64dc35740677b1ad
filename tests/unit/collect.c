/* collect.c: the statistics hold one lock at a time, and at rest every figure is exact.
 *
 * The test holds each lock in turn. A collection that reaches it waits there. At that time it may hold
 * no other lock of the engine but that of the static place for figures. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "hakmem.h"
#include "large/heap.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/huge_table.h"
#include "live_stats/live.h"
#include "meta/meta.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "stats/collect.h"
#include "stats/stats.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

enum { LOCKS_MAX = 4096, THREADS = 4, WAITED = 2, BLOCKS = 40 };

static struct {
    hak_lock_t *lock;
    const char *name;
    const hak_lock_t *outer; /* may be held meanwhile */
} locks[LOCKS_MAX];
static unsigned lock_count;

static void add(hak_lock_t *lock, const char *name, const hak_lock_t *outer) {
    CHECK(lock_count < LOCKS_MAX, "more than %d locks", LOCKS_MAX);
    locks[lock_count].lock = lock;
    locks[lock_count].name = name;
    locks[lock_count++].outer = outer;
}

static void gather_locks(void) {
    HAK_EACH_SHARD (shard)
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
            add(&hak_bin_of(shard, i)->lock, "a bin's", NULL);
    HAK_EACH_HEAP (i) {
        add(&hak_heap_at(i)->lock, "a large heap's", NULL);
        add(&hak_heap_at(i)->transfer_lock, "a transfer array's", &hak_heap_at(i)->lock);
    }
    add(&hak_pool_lock, "the pool's", NULL);
    add(&hak_region_lock, "the region's", NULL);
    for (unsigned i = 0; i < hak_huge_table_count(); i++)
        add(&hak_huge_table[i].lock, "that of a table of huge blocks", NULL);
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++)
        add(&hak_kept_parts[i].lock, "that of a part of what is kept", NULL);
    add(&hak_meta_lock, "that of records", NULL);
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        add(&cache->stack_lock, "a cache's", NULL);
    add(&hak_thread_list_lock, "that of the list of threads", NULL);
}

/* ---- What asks ------------------------------------------------------------------------------- */

static void ask_for_all(void) { hak_stats_end(hak_stats_begin()); }

static void ask_for_json(void) {
    static char text[1 << 20];
    CHECK(hakmem_stats_json(text, sizeof text) > 0, "no JSON");
}

static void ask_for_mallinfo(void) { (void)hakmem_mallinfo2(); }

static void refresh_live_page(void) { hak_purge_watcher()(true); }

static struct {
    void (*ask)(void);
    const char *name;
} const questions[] = {
    {ask_for_all, "hak_stats_begin"},
    {ask_for_json, "hakmem_stats_json"},
    {ask_for_mallinfo, "mallinfo2"},
    {refresh_live_page, "a refresh of the live page"},
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static _Atomic unsigned question, answered; /* rounds so far */
static _Atomic unsigned asked;              /* which one */

/* Once for each round; the thread is there before a lock is held, which pthread_create may need. */
static void *asker(void *unused) {
    for (unsigned round = 1;; round++) {
        while (atomic_load(&question) < round) sched_yield();
        if (atomic_load(&asked) == QUESTIONS) return unused;
        questions[atomic_load(&asked)].ask();
        atomic_store(&answered, round);
    }
}

/* True when the question had to wait for the lock. Nothing may allocate while it is held. */
static bool ask_with_lock_held(unsigned which, unsigned held, unsigned *second) {
    hak_lock_t *lock = locks[held].lock;
    hak_lock_acquire(lock);
    atomic_store(&asked, which);
    unsigned round = atomic_fetch_add(&question, 1) + 1;
    while (atomic_load(&answered) < round && hak_load_relaxed(&lock->state) != WAITED)
        sched_yield();
    bool waited = atomic_load(&answered) < round;
    for (unsigned i = 0; waited && i < lock_count; i++)
        if (i != held && hak_load_relaxed(&locks[i].lock->state) != 0 &&
            locks[i].lock != locks[held].outer)
            *second = i;
    hak_lock_release(lock);
    while (atomic_load(&answered) < round) sched_yield();
    return waited;
}

/* ---- A heap with all kinds of blocks --------------------------------------------------------- */

static const size_t sizes[] = {16, 48, 200, 1000, 5000, 20000, 60000, 300000, 3000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void *held_blocks[THREADS][SIZES][BLOCKS];

/* A half of what is allocated is freed again, so that blocks lie in the thread's cache. */
static void *fill(void *which) {
    for (unsigned s = 0; s < SIZES; s++) {
        unsigned count = sizes[s] > 100000 ? 2 : BLOCKS;
        void **blocks = held_blocks[(uintptr_t)which][s];
        for (unsigned i = 0; i < count; i++) blocks[i] = hakmem_malloc(sizes[s]);
        for (unsigned i = 0; i < count; i += 2) {
            hakmem_free(blocks[i]);
            blocks[i] = NULL;
        }
    }
    return NULL;
}

static void empty(void) {
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned s = 0; s < SIZES; s++)
            for (unsigned i = 0; i < BLOCKS; i++) hakmem_free(held_blocks[t][s][i]);
    memset(held_blocks, 0, sizeof held_blocks);
}

static void fill_by_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, fill, (void *)i) == 0, "no thread");
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void no_two_locks_are_held_at_once(void **state) {
    (void)state;
    pthread_t thread;
    fill_by_threads();
    assert_int_equal(pthread_create(&thread, NULL, asker, NULL), 0);
    hak_live_start();
    for (unsigned which = 0; which < QUESTIONS; which++) {
        unsigned bins = 0, stacks = 0, others = 0;
        lock_count = 0;
        gather_locks();
        for (unsigned i = 0; i < lock_count; i++) {
            unsigned second = lock_count;
            bool waited = ask_with_lock_held(which, i, &second);
            REQUIRE(second == lock_count, "%s holds %s lock while it waits for %s lock",
                    questions[which].name, locks[second].name, locks[i].name);
            bins += waited && strcmp(locks[i].name, "a bin's") == 0;
            stacks += waited && strcmp(locks[i].name, "a cache's") == 0;
            others += waited;
        }
        REQUIRE(bins >= SIZES - 2 && stacks >= 2 && others > bins + stacks,
                "%s waited for %u bins, %u caches, %u locks in all", questions[which].name, bins,
                stacks, others);
    }
    atomic_store(&asked, QUESTIONS);
    atomic_fetch_add(&question, 1);
    pthread_join(thread, NULL);
    empty();
}

/* ---- The figures ----------------------------------------------------------------------------- */

typedef struct {
    uint64_t slabs, free, remote;
} counted_t;

static counted_t counted[HAK_CLASS_COUNT + 1];

static void count_superslab(hak_superslab_t *super, void *unused) {
    (void)unused;
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        const hak_unit_t *slab = &super->units[i];
        if (!hak_owner_is_bin(slab->owner)) continue;
        const hak_class_t *info = &hak_classes[hak_owner_class(slab->owner)];
        counted_t *sum = &counted[hak_owner_class(slab->owner)];
        sum->slabs++;
        sum->free += slab->free_count;
        for (unsigned w = 0; w < info->words; w++)
            sum->remote += (unsigned)__builtin_popcountll(hak_slab_remote(slab, info->words)[w]);
    }
}

/* Slab by slab, which the statistics do not do. */
static void figures_are_those_of_the_slabs(const char *when) {
    const hak_stats_t *stats = hak_stats_begin();
    memset(counted, 0, sizeof counted);
    hak_region_each_superslab(count_superslab, NULL);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        const uint64_t *rows = stats->classes[i];
        const counted_t *sum = &counted[i];
        uint64_t cached = 0;
        for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
            cached += hak_cache_count(cache, i);
        uint64_t free = sum->free + sum->remote;
        CHECK(rows[HAK_CLASS_STAT_slabs] == sum->slabs, "%s: class %u: %llu slabs, not %llu", when,
              i, (unsigned long long)rows[HAK_CLASS_STAT_slabs], (unsigned long long)sum->slabs);
        CHECK(rows[HAK_CLASS_STAT_free] == free, "%s: class %u: %llu free blocks, not %llu", when,
              i, (unsigned long long)rows[HAK_CLASS_STAT_free], (unsigned long long)free);
        CHECK(rows[HAK_CLASS_STAT_remote_frees] - rows[HAK_CLASS_STAT_drained] == sum->remote,
              "%s: class %u: %llu remote frees, %llu drained, %llu pending", when, i,
              (unsigned long long)rows[HAK_CLASS_STAT_remote_frees],
              (unsigned long long)rows[HAK_CLASS_STAT_drained], (unsigned long long)sum->remote);
        CHECK(rows[HAK_CLASS_STAT_live] + cached + free == sum->slabs * hak_classes[i].count,
              "%s: class %u: live, cached and free blocks are not all that there are", when, i);
    }
    hak_stats_end(stats);
}

static void figures_at_rest_are_exact(void **state) {
    (void)state;
    figures_are_those_of_the_slabs("at first");
    fill_by_threads();
    figures_are_those_of_the_slabs("with blocks of dead threads");
    empty(); /* of other shards' slabs: remote frees */
    figures_are_those_of_the_slabs("freed by another thread");
    hak_shard_release_idle();
    figures_are_those_of_the_slabs("after a sweep");
    fill_by_threads();
    empty();
    hak_purge_all();
    figures_are_those_of_the_slabs("after a trim");
}

int main(int argc, char **argv) {
    static const char *const variables[] = {"HAKMEM_SHARDS=4", "HAKMEM_PURGE_THREAD=0",
                                            "HAKMEM_TINY_POLICY_PROFILE=tinyplus_all", NULL};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_at_rest_are_exact),
        cmocka_unit_test(no_two_locks_are_held_at_once),
    };
    (void)argc;
    unit_need_environment(argv, variables);
    unit_open_shards(4);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
