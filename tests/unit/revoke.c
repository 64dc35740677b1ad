/* revoke.c: the blocks of threads that rest serve those that run. */
#include "unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "cache/revoke.h"
#include "hakmem.h"
#include "os/os.h"
#include "region/region.h"
#include "thread/thread.h"
#include "thread/verify.h"

enum {
    THREADS = 48,
    BLOCKS = 1000, /* of each thread */
    ROUNDS = 6,
    TURN = 40000,     /* operations of a thread in its turn */
    BUDGET = 4 << 20, /* of all caches together */
    OF_ONE = 2 << 20, /* of one */
    MISSES_MOST = 4,  /* for each 1,000 operations */
    SIZE = 48,
    SOME = 60, /* blocks */
    SECONDS = 120,
};

static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};

/* Threads that take turns: one runs at a time. */
static struct turn {
    sem_t begins;
    void *blocks[BLOCKS];
    uint32_t random;
} turns[THREADS];
static sem_t ended;

static uint32_t next_random(struct turn *turn) {
    return (turn->random = turn->random * 1664525u + 1013904223u) >> 8;
}

static void *take_turns(void *argument) {
    struct turn *turn = argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        while (sem_wait(&turn->begins) != 0) continue;
        for (unsigned i = 0; i < TURN; i++) {
            void **block = &turn->blocks[next_random(turn) % BLOCKS];
            hakmem_free(*block);
            *block = hakmem_malloc(8 + next_random(turn) % 993);
            CHECK(*block != NULL, "no memory");
        }
        sem_post(&ended);
    }
    return NULL;
}

static void give_turns(void) {
    for (unsigned i = 0; i < THREADS; i++) {
        sem_post(&turns[i].begins);
        while (sem_wait(&ended) != 0) continue;
    }
}

static void set_budgets(size_t each, size_t all) {
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++) {
        hak_cache_set_budget((hak_tier_t)tier, each);
        hak_revoke_set_budget((hak_tier_t)tier, all);
    }
}

static uint64_t misses(void) {
    uint64_t sum = 0;
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        for (unsigned band = 0; band < HAK_BAND_COUNT; band++)
            sum += hak_load_relaxed(&hak_cache_counts(cache, (hak_band_t)band)->uc_miss);
    return sum;
}

static size_t cached_bytes(void) {
    size_t sum = 0;
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        for (unsigned i = 1; i <= HAK_CLASS_FIXED; i++)
            sum += hak_cache_count(cache, i) * hak_classes[i].size;
    return sum;
}

/* Each thread has the room of a deep cache in its turn, though all of them together have not. */
static void each_has_all_in_its_turn(const void *unused) {
    static pthread_t threads[THREADS];
    (void)unused;
    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        turns[i].random = i + 1;
        sem_init(&turns[i].begins, 0, 0);
        CHECK(pthread_create(&threads[i], NULL, take_turns, &turns[i]) == 0, "no thread");
    }
    give_turns(); /* each has its cache: a new thread shares the budget anew */
    set_budgets(OF_ONE, BUDGET);
    give_turns();
    give_turns();
    const uint64_t before = misses();
    for (unsigned round = 3; round < ROUNDS; round++) {
        give_turns();
        CHECK(hak_verify() == 0, "round %u: an invariant does not hold", round);
    }
    const uint64_t thousands = (uint64_t)(ROUNDS - 3) * THREADS * TURN / 1000;
    const uint64_t missed = misses() - before;
    CHECK(missed <= thousands * MISSES_MOST, "%llu misses in %llu,000 operations",
          (unsigned long long)missed, (unsigned long long)thousands);
    CHECK(cached_bytes() <= BUDGET, "caches hold %zu KiB", cached_bytes() / KIB);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- One thread at rest ---------------------------------------------------------------------- */

static sem_t may_end;
static hak_cache_t *resting;

/* The first blocks of a class may be of the class above. */
static void *rest_with_blocks(void *is_twice) {
    void *blocks[SOME];
    for (unsigned i = 0; i < SOME; i++)
        CHECK((blocks[i] = hakmem_malloc(SIZE)) != NULL, "no block");
    for (unsigned i = 0; i < SOME; i++) hakmem_free(blocks[i]);
    if (is_twice) hakmem_free(blocks[SOME - 3]);
    if (is_twice) hakmem_free(blocks[SOME - 1]);
    resting = hak_thread_cache();
    sem_post(&ended);
    while (sem_wait(&may_end) != 0) continue;
    return NULL;
}

static size_t count_of(hak_cache_t *cache) { return hak_cache_count(cache, hak_class_of(SIZE)); }

static void revoke_from_one(bool is_twice) {
    pthread_t thread;
    sem_init(&ended, 0, 0);
    sem_init(&may_end, 0, 0);
    CHECK(pthread_create(&thread, NULL, rest_with_blocks, is_twice ? &thread : NULL) == 0,
          "no thread");
    while (sem_wait(&ended) != 0) continue;
    CHECK(count_of(resting) >= 3, "it has %zu blocks", count_of(resting));
    set_budgets(OF_ONE, 0);
    CHECK(!hak_revoke_find_room(hak_thread_cache(), HAK_TINY, 1), "there is room without a budget");
    CHECK(count_of(resting) == 1, "%zu blocks are left", count_of(resting));
    CHECK(hak_verify() == 0, "an invariant does not hold");
    sem_post(&may_end);
    pthread_join(thread, NULL);
}

static void one_loses_all_but_one(const void *unused) {
    (void)unused;
    revoke_from_one(false);
}

static void one_that_freed_twice(const void *unused) {
    (void)unused;
    revoke_from_one(true);
}

static void threads_that_rest_lend(void **state) {
    (void)state;
    unit_child(each_has_all_in_its_turn, NULL, SECONDS, "turns");
}

static void a_revoked_cache_keeps_one_block(void **state) {
    (void)state;
    unit_child(one_loses_all_but_one, NULL, SECONDS, "one that rests");
}

/* A flush finds a block that was freed twice, also when another thread does it. */
static void a_double_free_comes_to_light(void **state) {
    struct child_end end;
    (void)state;
    child_run(one_that_freed_twice, NULL, SECONDS, &end);
    assert_true(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT);
    REQUIRE(strstr(end.err, "double free") != NULL, "it said: %s", end.err);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_rest_lend),
        cmocka_unit_test(a_revoked_cache_keeps_one_block),
        cmocka_unit_test(a_double_free_comes_to_light),
    };
    return cmocka_run_group_tests_name("revoke", tests, NULL, NULL);
}
