/* novice.c: where threads are many, a new one has no cache: the depot of its CPU serves it until it has made
 * many calls in a short time. */
#include "unit.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "cache/cache.h"
#include "cache/cpu_depot.h"
#include "hakmem.h"
#include "os/cpu.h"
#include "os/os.h"
#include "thread/thread.h"
#include "thread/verify.h"

enum {
    SECONDS = 60,
    CROWD_MOST = 300,
    SIZE = 200,
    WHOLE = 3000,
    PAUSE_MS = 2300,
    FIRST_FREES = 16
};
/* Frees in a row for which a thread that is due gets no cache: see hak_thread_cache_of_free. */

/* A share of the budget is small as soon as there are more threads than CPUs. */
static const char *const variables[] = {"HAKMEM_CACHE_BUDGET=1M", "HAKMEM_PURGE_THREAD=0", NULL};

static pthread_barrier_t all_rest, may_end;

static void *rest(void *unused) {
    hakmem_free(hakmem_malloc(SIZE));
    pthread_barrier_wait(&all_rest);
    pthread_barrier_wait(&may_end);
    return unused;
}

/* More threads than CPUs have a cache, and rest to the end of the process. */
static void crowd(void) {
    pthread_t thread;
    const unsigned count = hak_os_cpu_count() + 2;
    CHECK(count < CROWD_MOST, "%u CPUs are more than this test is made for", count);
    CHECK(hak_depot_novice_calls == 0, "one thread, and novices");
    pthread_barrier_init(&may_end, NULL, count + 1);
    pthread_barrier_init(&all_rest, NULL, 2);
    for (unsigned i = 0; i < count; i++) {
        CHECK(pthread_create(&thread, NULL, rest, NULL) == 0, "no thread");
        pthread_detach(thread);
        pthread_barrier_wait(&all_rest);
    }
    CHECK(hak_depot_novice_calls > 4, "%u calls", (unsigned)hak_depot_novice_calls);
}

static void in_a_thread(void *(*body)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static bool has_cache(void) { return hak_cache != &hak_cache_none; }

static unsigned caches(void) {
    unsigned count = 0;
    for (const hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) count++;
    return count;
}

/* ---- Without a cache, and with one ------------------------------------------------------------ */

static void *call_twice(void *unused) {
    hakmem_free(hakmem_malloc(SIZE));
    CHECK(!has_cache(), "a cache after two calls");
    return unused;
}

static void few_calls_need_none(const void *unused) {
    (void)unused;
    crowd();
    in_a_thread(call_twice);
    const unsigned before = caches(), threads = hak_thread_count();
    for (unsigned i = 0; i < 50; i++) in_a_thread(call_twice);
    CHECK(caches() == before && hak_thread_count() == threads, "novices have caches");
    CHECK(hak_verify() == 0, "violations");
}

static void *call_often(void *unused) {
    const unsigned most = hak_depot_novice_calls;
    void *block = NULL;
    for (unsigned i = 1; i < most; i++) {
        if (i % 2)
            block = hakmem_malloc(SIZE);
        else
            hakmem_free(block);
        CHECK(!has_cache(), "a cache after %u calls of %u", i, most);
    }
    for (unsigned i = 0; i < FIRST_FREES; i++) hakmem_free(hakmem_malloc(SIZE));
    CHECK(has_cache(), "no cache after %u calls", most);
    return unused;
}

static void many_calls_bring_one(const void *unused) {
    (void)unused;
    crowd();
    in_a_thread(call_often);
    CHECK(hak_verify() == 0, "violations");
}

static void *call_seldom(void *unused) {
    const unsigned most = hak_depot_novice_calls;
    for (unsigned i = 0; i < most * 2; i++) {
        if (i == 1 || i == most + 1) hak_os_sleep_ms(PAUSE_MS);
        hakmem_free(hakmem_malloc(0));
        if (i % most == most / 2) hak_os_sleep_ms(PAUSE_MS);
    }
    CHECK(!has_cache(), "a cache for calls at long intervals");
    return unused;
}

static void rare_calls_bring_none(const void *unused) {
    (void)unused;
    crowd();
    in_a_thread(call_seldom);
}

/* ---- Ends ------------------------------------------------------------------------------------- */

enum { LATE = 8, CALLS = 100 };

static pthread_key_t key;
static __thread struct {
    void *blocks[LATE];
    unsigned rounds;
} late;

/* As libc does when all destructors have run: no other round follows. */
static void free_late(void *value) {
    if (++late.rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(key, value);
    else
        for (unsigned i = 0; i < LATE; i++) hakmem_free(late.blocks[i]);
}

static unsigned more_calls;

static void *end_when_due(void *unused) {
    pthread_setspecific(key, &key);
    for (unsigned i = 0; i < LATE; i++) late.blocks[i] = hakmem_malloc(SIZE);
    for (unsigned i = 0; i < FIRST_FREES; i++) hakmem_free(hakmem_malloc(SIZE));
    for (unsigned i = 0; i < more_calls; i++) hakmem_free(hakmem_malloc(SIZE));
    return unused;
}

static void late_frees_make_none(const void *unused) {
    (void)unused;
    crowd();
    CHECK(pthread_key_create(&key, free_late) == 0, "no key");
    hak_depot_novice_calls = CALLS;
    const unsigned before = caches(), threads = hak_thread_count();
    for (more_calls = 0; 2 * more_calls + 2 * FIRST_FREES + LATE < CALLS; more_calls++) {
        in_a_thread(end_when_due);
        CHECK(caches() == before && hak_thread_count() == threads,
              "%u calls more, and an ended thread has left a cache", more_calls);
    }
    CHECK(hak_verify() == 0, "violations");
}

/* Of CALLS calls, after which the thread is due. The blocks that it keeps are the next thread's. */
enum { MALLOCS = 62, FREES_DUE = CALLS - 1 - MALLOCS };
static unsigned frees;

static void *end_with_frees(void *unused) {
    static void *blocks[MALLOCS];
    pthread_setspecific(key, &key);
    for (unsigned i = 0; i < LATE; i++) late.blocks[i] = hakmem_malloc(SIZE);
    for (unsigned i = LATE; i < MALLOCS; i++) blocks[i] = hakmem_malloc(SIZE);
    for (unsigned i = LATE; i < LATE + frees; i++) hakmem_free(blocks[i]);
    return unused;
}

static unsigned exact_count(void) {
    hak_thread_look_at_limits(); /* all groups tell */
    return hak_thread_count();
}

static void late_frees_after_frees_make_none(const void *unused) {
    (void)unused;
    crowd();
    CHECK(pthread_key_create(&key, free_late) == 0, "no key");
    const unsigned threads = exact_count();
    for (frees = FREES_DUE - 1; frees < FREES_DUE + FIRST_FREES; frees++) {
        hak_depot_novice_calls = CALLS; /* a look at the limits changes it */
        in_a_thread(end_with_frees);
        CHECK(exact_count() == threads, "%u frees, and an ended thread is counted", frees);
    }
    CHECK(hak_verify() == 0, "violations");
}

static void *end_with_cache(void *unused) {
    hakmem_free(hakmem_malloc(SIZE));
    CHECK(has_cache(), "a cache waits, and is not taken");
    return unused;
}

/* Those of the crowd have ended. */
static void waiting_caches_are_taken(const void *unused) {
    (void)unused;
    crowd();
    pthread_barrier_wait(&may_end);
    while (hak_thread_count() > 1) hak_os_sleep_ms(1);
    hak_depot_novice_calls = CALLS;
    const unsigned before = caches();
    in_a_thread(end_with_cache);
    CHECK(caches() == before, "one more was made");
}

/* ---- Blocks ----------------------------------------------------------------------------------- */

/* A look at the limits, every few seconds of work, would change the number of calls: on a busy machine there is one
 * before these are over. */
static bool limits_stay;

void __real_hak_thread_follow_cpus(uint64_t now_ms, bool at_once);
void __wrap_hak_thread_follow_cpus(uint64_t now_ms, bool at_once);
void __wrap_hak_thread_follow_cpus(uint64_t now_ms, bool at_once) {
    if (!limits_stay) __real_hak_thread_follow_cpus(now_ms, at_once);
}

static struct {
    unsigned char *start;
    size_t size;
} blocks[WHOLE];

static void *fill_blocks(void *unused) {
    for (unsigned i = 0; i < WHOLE; i++) {
        blocks[i].size = 1 + unit_random(i % 10 ? 1500 : 40000);
        blocks[i].start = i % 7 ? hakmem_malloc(blocks[i].size) : hakmem_calloc(1, blocks[i].size);
        CHECK(blocks[i].start != NULL, "no block");
        for (size_t k = 0; i % 7 == 0 && k < blocks[i].size; k++)
            CHECK(blocks[i].start[k] == 0, "calloc: byte %zu of %zu", k, blocks[i].size);
        memset(blocks[i].start, (int)(i % 251), blocks[i].size);
    }
    CHECK(!has_cache(), "fewer calls, please");
    return unused;
}

static void *free_blocks(void *unused) {
    for (unsigned i = 0; i < WHOLE; i++) {
        for (size_t k = 0; k < blocks[i].size; k++)
            CHECK(blocks[i].start[k] == i % 251, "block %u, byte %zu", i, k);
        hakmem_free(blocks[i].start);
    }
    CHECK(!has_cache(), "fewer calls, please");
    return unused;
}

/* Two times: the second one takes what the depots have kept. */
static void blocks_are_whole(const void *unused) {
    (void)unused;
    crowd();
    limits_stay = true;
    hak_depot_novice_calls = 4 * WHOLE;
    for (unsigned i = 0; i < 2; i++) {
        in_a_thread(fill_blocks);
        in_a_thread(free_blocks);
        CHECK(hak_verify() == 0, "violations");
    }
}

static const unsigned *order; /* of two blocks; ends with 9 */

static void *free_in_order(void *unused) {
    char *two[2] = {hakmem_malloc(SIZE), hakmem_malloc(SIZE)};
    for (const unsigned *which = order; *which < 2; which++) hakmem_free(two[*which]);
    CHECK(!has_cache(), "a cache");
    return unused;
}

static void free_twice(const void *which) {
    order = which;
    crowd();
    in_a_thread(free_in_order);
}

static void a_double_free_is_found(void **state) {
    static const unsigned orders[][4] = {{0, 0, 9}, {0, 1, 0, 9}};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct child_end end;
        child_run(free_twice, orders[i], SECONDS, &end);
        REQUIRE(strstr(end.err, "double free"), "no line about a double free: %s", end.err);
    }
}

static void a_cache_for_many_calls(void **state) {
    (void)state;
    unit_child(many_calls_bring_one, NULL, SECONDS, "many calls");
    unit_child(rare_calls_bring_none, NULL, SECONDS, "rare calls");
}

static void no_cache_at_the_end(void **state) {
    (void)state;
#if !defined(__SANITIZE_THREAD__) /* whose own destructor comes before such a late call */
    unit_child(late_frees_make_none, NULL, SECONDS, "late frees");
    unit_child(late_frees_after_frees_make_none, NULL, SECONDS, "late frees after frees");
#else
    (void)late_frees_make_none, (void)late_frees_after_frees_make_none;
#endif
    unit_child(waiting_caches_are_taken, NULL, SECONDS, "waiting caches");
}

static void no_cache_for_few_calls(void **state) {
    (void)state;
    unit_child(few_calls_need_none, NULL, SECONDS, "few calls");
}

static void the_depot_serves(void **state) {
    (void)state;
    unit_child(blocks_are_whole, NULL, SECONDS, "blocks of novices");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_cache_for_few_calls), cmocka_unit_test(a_cache_for_many_calls),
        cmocka_unit_test(no_cache_at_the_end),    cmocka_unit_test(the_depot_serves),
        cmocka_unit_test(a_double_free_is_found),
    };
    return cmocka_run_group_tests_name("novice", tests, NULL, NULL);
}
