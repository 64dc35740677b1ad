/* waiting.c: caches that wait for a thread. Caches that still hold blocks are used first, however many empty
 * ones wait. Threads start and end without a lock of the process. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/cache.h"
#include "classes/dyn.h"
#include "hakmem.h"
#include "os/cpu.h"
#include "os/os.h"
#include "pool/pool.h"
#include "shard/bin.h"
#include "thread/thread.h"
#include "thread/verify.h"

enum { SIZE = 48, SWINGS = 12, MORE = 20, SECONDS = 60, CLASS = HAK_CLASS_14336, HELD_MS = 50 };

static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};

static pthread_barrier_t all_work;

/* A thread whose cache holds blocks when it ends. */
static void *work(void *unused) {
    void *block = hakmem_malloc(SIZE);
    CHECK(block != NULL, "no block");
    pthread_barrier_wait(&all_work);
    hakmem_free(block);
    return unused;
}

static void *look(void *cache) {
    *(const hak_cache_t **)cache = hak_thread_cache();
    return NULL;
}

/* More threads than caches may wait with blocks, at once: the last that end leave empty ones. */
static void a_new_thread_gets_blocks(const void *unused) {
    unsigned count = hak_os_cpu_count() + MORE, holding = 0;
    pthread_t *threads = calloc(count, sizeof *threads), next;
    const hak_cache_t **with_blocks = calloc(count, sizeof *with_blocks), *given = NULL;
    bool is_one = false;
    (void)unused;
    pthread_barrier_init(&all_work, NULL, count);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "no thread");
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (const hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        if (cache->holds) with_blocks[holding++] = cache;
    CHECK(holding == hak_os_cpu_count(), "%u caches wait with blocks", holding);
    CHECK(pthread_create(&next, NULL, look, &given) == 0, "no thread");
    pthread_join(next, NULL);
    for (unsigned i = 0; i < holding; i++) is_one |= with_blocks[i] == given;
    CHECK(is_one, "an empty cache served although %u wait with blocks", holding);
    free(with_blocks);
    free(threads);
}

/* A thread more than these is no reason to share the budget anew. On one CPU so many are a crowd, in which a new one
 * has no cache at first. */
static void starts_and_ends_wait_for_nobody(const void *unused) {
    enum { AT_REST = 16 };
    pthread_t resting[AT_REST], other;
    const hak_cache_t *own = NULL;
    (void)unused;
    look(&own); /* under a sanitizer's malloc this thread has none before */
    CHECK(own != NULL, "no cache");
    pthread_barrier_init(&all_work, NULL, AT_REST + 1);
    for (unsigned i = 0; i < AT_REST; i++)
        CHECK(pthread_create(&resting[i], NULL, work, NULL) == 0, "no thread");
    while (hak_thread_count() < AT_REST + 1) hak_os_sleep_ms(1);
    hak_lock_acquire(&hak_thread_list_lock);
    for (unsigned i = 0; i < MORE; i++) {
        const hak_cache_t *given = NULL;
        CHECK(pthread_create(&other, NULL, look, &given) == 0, "no thread");
        pthread_join(other, NULL);
        CHECK(given != NULL || hak_os_cpu_count() == 1, "a thread without a cache");
    }
    hak_lock_release(&hak_thread_list_lock);
    pthread_barrier_wait(&all_work);
    for (unsigned i = 0; i < AT_REST; i++) pthread_join(resting[i], NULL);
    CHECK(hak_verify() == 0, "violations");
}

static void *use_all_classes(void *unused) {
    for (size_t size = 16; size <= 65536; size *= 2) hakmem_free(hakmem_malloc(size));
    return unused;
}

/* One call of malloc_trim, or a call that would fail, also gives back the last slabs of blocks that waited. */
static void nothing_of_a_thread_stays(const void *unused) {
    pthread_t user;
    size_t before, after;
    (void)unused;
    for (unsigned i = 0; i < 3; i++) hakmem_malloc_trim(0);
    before = atomic_load(&hak_pool_stats.used_units);
    CHECK(pthread_create(&user, NULL, use_all_classes, NULL) == 0, "no thread");
    pthread_join(user, NULL);
    hakmem_malloc_trim(0);
    after = atomic_load(&hak_pool_stats.used_units);
    CHECK(after <= before + 1, "%zu units in use, then %zu", before, after); /* libc's own */
}

typedef struct {
    const char *shards, *argument;
} case_t;

static void rerun_each(const case_t *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *const variables_of[] = {cases[i].shards, "HAKMEM_PURGE_THREAD=0",
                                            "HAKMEM_CACHE_BUDGET=1G", NULL};
        struct child_end end;
        unit_rerun(cases[i].argument, variables_of, SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "%s, %s: status %#x: %s", cases[i].shards,
                cases[i].argument, (unsigned)end.status, end.err);
    }
}

static void a_trim_takes_what_waits(void **state) {
    (void)state;
    unit_child(nothing_of_a_thread_stays, NULL, SECONDS, "a trim");
}

static sem_t is_held;

static void *hold_a_bin(void *bin) {
    hak_lock_t *lock = &((hak_bin_t *)bin)->lock;
    hak_lock_acquire(lock);
    sem_post(&is_held);
    hak_os_sleep_ms(HELD_MS);
    hak_lock_release(lock);
    return NULL;
}

/* The holder of a bin's lock may have lost its CPU: the empty slab that the bin keeps goes back all the same. */
static void nothing_of_a_held_bin_stays(const void *unused) {
    pthread_t holder;
    void *top[2];
    (void)unused;
    const unsigned shard = hak_thread_cache()->shard; /* made by now */
    hak_bin_t *const bin = hak_bin_of(shard, CLASS);
    CHECK(hak_shard_take(shard, CLASS, 1, top, NULL) == 1, "no block");
    hak_shard_flush(shard, CLASS, &top[1], 1);
    CHECK(bin->empty != NULL, "the bin keeps no empty slab");
    CHECK(sem_init(&is_held, 0, 0) == 0, "no semaphore");
    CHECK(pthread_create(&holder, NULL, hold_a_bin, bin) == 0, "no thread");
    sem_wait(&is_held);
    hakmem_malloc_trim(0);
    CHECK(bin->empty == NULL, "the empty slab of a bin that was held is still there");
    pthread_join(holder, NULL);
    CHECK(hak_verify() == 0, "violations");
}

static void a_trim_waits_for_bins(void **state) {
    (void)state;
    unit_child(nothing_of_a_held_bin_stays, NULL, SECONDS, "a trim beside a bin that is held");
}

static unsigned caches_with_blocks(void) {
    unsigned holding = 0;
    for (const hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        holding += cache->holds;
    return holding;
}

/* With many shards there are many groups, and in each of them caches may wait with blocks: more than there are CPUs. */
static int several_groups(void) {
    const unsigned cpus = hak_os_cpu_count(), count = 2 * cpus + 64;
    pthread_t *threads = calloc(count, sizeof *threads);
    hakmem_free(hakmem_malloc(SIZE));
    pthread_barrier_init(&all_work, NULL, count);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "no thread");
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    CHECK(caches_with_blocks() > cpus, "%u caches wait with blocks", caches_with_blocks());
    hakmem_malloc_trim(0);
    CHECK(caches_with_blocks() == 0, "a trim has left the blocks of %u caches",
          caches_with_blocks());
    CHECK(hak_verify() == 0, "violations");
    free(threads);
    return 0;
}

static void a_trim_takes_what_waits_in_each_group(void **state) {
    (void)state;
    static const case_t many = {"HAKMEM_SHARDS=64", "groups"};
    rerun_each(&many, 1);
}

static size_t bytes_of(hak_cache_t *cache) {
    size_t bytes = 0;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
        bytes += hak_cache_count(cache, i) * hak_dyn_size_of(i);
    return bytes;
}

static size_t held; /* in the cache of a thread that ends */

/* Takes and frees so many blocks of all sizes that its cache becomes large. */
static void *fill_a_cache(void *unused) {
    enum { BLOCKS = 400, ROUNDS = 8 };
    static void *blocks[BLOCKS];
    for (unsigned round = 0; round < ROUNDS; round++)
        for (size_t size = 16; size <= 16384; size *= 2) {
            for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = hakmem_malloc(size);
            for (unsigned i = 0; i < BLOCKS; i++) hakmem_free(blocks[i]);
        }
    held = bytes_of(hak_thread_cache());
    CHECK(held > HAK_WAITING_BYTES, "the cache holds %zu bytes", held);
    return unused;
}

/* On a large machine, where many caches wait, each keeps few blocks; on a small one all. */
static int waits_with_few(const char *argument) {
    const bool is_large = strcmp(argument, "wait-large") == 0;
    size_t kept = 0;
    pthread_t user;
    hakmem_free(hakmem_malloc(SIZE));
    CHECK(pthread_create(&user, NULL, fill_a_cache, NULL) == 0, "no thread");
    pthread_join(user, NULL);
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        if (cache->holds) kept += bytes_of(cache);
    CHECK(kept > 0, "nothing waits");
    if (is_large)
        CHECK(kept <= HAK_WAITING_BYTES, "%zu bytes wait of %zu", kept, held);
    else
        CHECK(kept == held, "%zu bytes wait of %zu", kept, held);
    CHECK(hak_verify() == 0, "violations");
    return 0;
}

static void a_large_machine_lets_few_blocks_wait(void **state) {
    (void)state;
    static const case_t cases[] = {{"HAKMEM_SHARDS=64", "wait-large"},
                                   {"HAKMEM_SHARDS=8", "wait-small"}};
    rerun_each(cases, sizeof cases / sizeof *cases);
}

/* A thread with a cache, until it may end. */
static sem_t begun, may_end[SWINGS];

static void *rest_until(void *end) {
    hakmem_free(hakmem_malloc(SIZE));
    sem_post(&begun);
    while (sem_wait(end) != 0) continue;
    return NULL;
}

/* How many threads count, of main and SWINGS others in one group, after `ended` have ended. */
static unsigned counted_after(unsigned ended) {
    pthread_t threads[SWINGS];
    hakmem_free(hakmem_malloc(SIZE));
    sem_init(&begun, 0, 0);
    for (unsigned i = 0; i < SWINGS; i++) {
        sem_init(&may_end[i], 0, 0);
        CHECK(pthread_create(&threads[i], NULL, rest_until, &may_end[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < SWINGS; i++)
        while (sem_wait(&begun) != 0) continue;
    CHECK(hak_thread_count() == SWINGS + 1, "%u threads count", hak_thread_count());
    for (unsigned i = 0; i < ended; i++) {
        sem_post(&may_end[i]);
        pthread_join(threads[i], NULL);
    }
    return hak_thread_count();
}

/* `argument`: how many end, and how many count then. */
static int counts(const char *argument) {
    unsigned ended = 0, expected = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sscanf(argument, "%u,%u", &ended, &expected) == 2, "not two numbers");
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "not to one CPU");
    const unsigned counted = counted_after(ended);
    CHECK(counted == expected, "%u threads count after %u ends", counted, ended);
    CHECK(hak_verify() == 0, "violations");
    fflush(stderr);
    _exit(0);
}

/* The process's count stays while the first group has more than half of its threads. */
static void a_swing_changes_no_count(void **state) {
    (void)state;
    static const case_t cases[] = {{"HAKMEM_SHARDS=2", "6,13"}, {"HAKMEM_SHARDS=2", "8,6"}};
    rerun_each(cases, sizeof cases / sizeof *cases);
}

static void no_lock_of_the_process(void **state) {
    (void)state;
    unit_child(starts_and_ends_wait_for_nobody, NULL, SECONDS, "the list's lock");
}

static void caches_with_blocks_serve_first(void **state) {
    (void)state;
    unit_child(a_new_thread_gets_blocks, NULL, SECONDS, "waiting caches");
}

int main(int argc, char **argv) {
    if (argc > 1 && strncmp(argv[1], "wait", 4) == 0) return waits_with_few(argv[1]);
    if (argc > 1) return strchr(argv[1], ',') ? counts(argv[1]) : several_groups();
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_with_blocks_serve_first),
        cmocka_unit_test(no_lock_of_the_process),
        cmocka_unit_test(a_trim_takes_what_waits),
        cmocka_unit_test(a_large_machine_lets_few_blocks_wait),
        cmocka_unit_test(a_trim_waits_for_bins),
        cmocka_unit_test(a_trim_takes_what_waits_in_each_group),
        cmocka_unit_test(a_swing_changes_no_count),
    };
    return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}
