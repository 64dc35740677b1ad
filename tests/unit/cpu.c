/* cpu.c: the number of shards, and the bytes that may be kept, follow the CPUs and the memory that a process may use. */
#include "unit.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "commit/commit.h"
#include "hakmem.h"
#include "large/large.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/cgroup.h"
#include "os/lock.h"
#include "os/os.h"
#include "shard/shard.h"
#include "stats/collect.h"
#include "stats/stats.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

/* 0: as it is. */
static _Atomic unsigned made_up;
static _Atomic bool has_changed;

unsigned __real_hak_os_cpu_count(void);
bool __real_hak_os_look_at_limits(void);
unsigned __wrap_hak_os_cpu_count(void);
bool __wrap_hak_os_look_at_limits(void);

unsigned __wrap_hak_os_cpu_count(void) {
    return atomic_load(&made_up) ? atomic_load(&made_up) : __real_hak_os_cpu_count();
}

static _Atomic unsigned looks;

bool __wrap_hak_os_look_at_limits(void) {
    atomic_fetch_add(&looks, 1);
    return atomic_load(&made_up) ? atomic_exchange(&has_changed, false)
                                 : __real_hak_os_look_at_limits();
}

/* The limit of a made-up group, as of the last look. */
static _Atomic uint64_t made_up_limit;
uint64_t __wrap_hak_os_memory_limit(void);
uint64_t __wrap_hak_os_memory_limit(void) { return atomic_load(&made_up_limit); }

/* Long after the last look. */
static void look(void) {
    static uint64_t now_ms = 1000000000;
    hak_thread_follow_cpus(now_ms += 60000, true);
}

static void now_there_are(unsigned cpus) {
    atomic_store(&made_up, cpus);
    atomic_store(&has_changed, true);
    look();
}

/* Homes of as many threads that are there at once: each waits for the next one. */
static bool is_home[HAK_SHARDS_MAX];

static void *chain(void *left) {
    pthread_t next;
    hakmem_free(hakmem_malloc(100));
    is_home[hak_thread_cache()->shard] = true;
    if ((uintptr_t)left > 1) {
        CHECK(pthread_create(&next, NULL, chain, (void *)((uintptr_t)left - 1)) == 0, "no thread");
        pthread_join(next, NULL);
    }
    return NULL;
}

static unsigned homes(unsigned threads) {
    pthread_t first;
    unsigned count = 0;
    memset(is_home, 0, sizeof is_home);
    CHECK(pthread_create(&first, NULL, chain, (void *)(uintptr_t)threads) == 0, "no thread");
    pthread_join(first, NULL);
    for (unsigned i = 0; i < HAK_SHARDS_MAX; i++) count += is_home[i];
    return count;
}

/* Started on one CPU, and let on all. */
static void widen(void) {
    cpu_set_t one, all;
    CHECK(sched_getaffinity(0, sizeof one, &one) == 0 && CPU_COUNT(&one) == 1, "more CPUs");
    CHECK(hak_shard_count() == 1 && homes(8) == 1, "%u shards on one CPU", hak_shard_count());
    memset(&all, 0xff, sizeof all);
    CHECK(sched_setaffinity(0, sizeof all, &all) == 0, "no more CPUs");
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0, "no list of CPUs");
    const uint64_t quota = hak_cgroup_limits("/proc/self/cgroup", "/sys/fs/cgroup").cpus;
    if (CPU_COUNT(&all) < 2 || quota == 1) return; /* there are no more, or the time of one */
    look();
    unsigned count = hak_shard_count();
    CHECK(count > 1 && homes(8) == hak_min(count, 8), "%u shards, %u homes", count, homes(8));
}

static void a_process_that_gets_more_cpus_gets_more_shards(void **state) {
    (void)state;
    cpu_set_t before, one;
    struct child_end end;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    const char *const environment[] = {"HAKMEM_PURGE_THREAD=0", NULL};
    unit_rerun("widen", environment, 60, &end);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    REQUIRE(end.in_time && end.status == 0, "%s", end.err);
}

static void confine(int thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    CHECK(sched_setaffinity(thread, sizeof set, &set) == 0, "not on CPU %d", cpu);
}

/* All threads that there are: a sanitizer has one of its own. */
static void confine_process(int cpu) {
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads != NULL, "no list of threads");
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.') confine(atoi(entry->d_name), cpu);
    closedir(threads);
}

static _Atomic bool may_go;
static _Atomic pid_t thread_there;

static void *stay_on(void *cpu) {
    confine(0, (int)(intptr_t)cpu);
    look();
    atomic_store(&thread_there, gettid());
    while (!atomic_load(&may_go)) usleep(1000);
    return NULL;
}

/* A thread that has been joined is in the kernel's list for a while. */
static void wait_until_gone(pid_t thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", thread);
    while (access(path, F_OK) == 0) usleep(1000);
}

/* Confined to one CPU while it runs, as a whole or each thread to its own, and let on all again. */
static void confine_and_widen(const void *context) {
    const cpu_set_t *all = context;
    pthread_t thread;
    int cpus[2], found = 0;
    for (int i = 0; found < 2; i++)
        if (CPU_ISSET(i, all)) cpus[found++] = i;
    look();
    const unsigned before = hak_os_cpu_count();
    confine_process(cpus[0]);
    look();
    CHECK(hak_os_cpu_count() == 1, "%u CPUs, not 1", hak_os_cpu_count());
    CHECK(hak_shard_homes() == 1 && hak_os_this_cpu() == 0, "%u homes", hak_shard_homes());
    CHECK(pthread_create(&thread, NULL, stay_on, (void *)(intptr_t)cpus[1]) == 0, "no thread");
    while (!atomic_load(&thread_there)) usleep(1000);
    CHECK(hak_os_cpu_count() == hak_min(before, 2), "%u CPUs, not 2", hak_os_cpu_count());
    look();
    CHECK(hak_os_cpu_count() == hak_min(before, 2), "%u CPUs later", hak_os_cpu_count());
    atomic_store(&may_go, true);
    pthread_join(thread, NULL);
    wait_until_gone(thread_there);
    look();
    CHECK(hak_os_cpu_count() == 1, "%u CPUs without the thread", hak_os_cpu_count());
    CHECK(sched_setaffinity(0, sizeof *all, all) == 0, "not on all CPUs");
    look();
    CHECK(hak_os_cpu_count() == before, "%u CPUs, not %u", hak_os_cpu_count(), before);
}

static void a_process_that_is_confined_later_gets_fewer(void **state) {
    (void)state;
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) return; /* there is nothing to lose */
    unit_child(confine_and_widen, &all, 60, "a process that is confined later");
}

static void homes_follow_the_number(void **state) {
    (void)state;
    now_there_are(6);
    assert_int_equal(hak_shard_count(), 6);
    assert_int_equal(homes(12), 6);
    now_there_are(2);
    assert_int_equal(hak_shard_homes(), 2);
    assert_int_equal(hak_shard_count(), 6); /* whose slabs there still are */
    assert_int_equal(homes(12), 2);
    now_there_are(100);
    assert_int_equal(hak_shard_count(), 100);
    /* The group of this machine's CPUs takes 16 threads beyond its share, which the last one lacks. */
    assert_in_range(homes(140), 96, 100);
    now_there_are(1000);
    assert_int_equal(hak_shard_count(), HAK_SHARDS_MAX);
}

static _Atomic bool done;

static void *work(void *unused) {
    void *blocks[64] = {NULL};
    for (unsigned i = 0; !atomic_load(&done); i++) {
        unsigned slot = i * 7 % 64;
        hakmem_free(blocks[slot]);
        blocks[slot] = hakmem_malloc((size_t)16 << i % 13);
        CHECK(blocks[slot] != NULL, "no block");
        memset(blocks[slot], (int)i, 16);
    }
    for (unsigned i = 0; i < 64; i++) hakmem_free(blocks[i]);
    return unused;
}

static void fork_once(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        for (unsigned i = 0; i < 64; i++) hakmem_free(hakmem_malloc((size_t)16 << i % 13));
        hak_stats_end(hak_stats_begin());
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child failed");
}

/* With forks and statistics, which go through all locks. */
static void the_number_changes_while_threads_work(const void *unused) {
    enum { THREADS = 4, ROUNDS = 20 };
    pthread_t threads[THREADS];
    (void)unused;
    now_there_are(1);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "no thread");
    for (unsigned i = 0; i < ROUNDS; i++) {
        now_there_are(i < 17 ? i + 1 : 1 + i % 3);
        CHECK(homes(3) <= 3, "more homes than threads");
        fork_once();
        hak_stats_end(hak_stats_begin());
        hak_purge_all();
    }
    atomic_store(&done, true);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(hak_shard_count() == 17, "%u shards", hak_shard_count());
}

static void shards_grow_under_load(void **state) {
    (void)state;
    unit_child(the_number_changes_while_threads_work, NULL, 60, "growth");
}

static void budget_and_soft_limit_follow_the_memory(void **state) {
    (void)state;
    size_t by_cpus = (size_t)hak_os_cpu_count() * HAK_BUDGET_PER_CPU;
    assert_int_equal(hak_thread_budget(), by_cpus);
    assert_int_equal(hak_option(HAK_OPTION_LIMIT_SOFT), HAK_SOFT_AUTO);
    assert_int_equal(hak_commit_soft(), 0);
    atomic_store(&made_up_limit, 96 * MIB);
    assert_int_equal(hak_thread_budget(), 12 * MIB);
    assert_int_equal(hak_commit_soft(), 64 * MIB);
    atomic_store(&made_up_limit, (uint64_t)1 << 40);
    assert_int_equal(hak_thread_budget(), by_cpus);
    assert_in_range(hak_commit_soft(), ((uint64_t)1 << 40) / 3 * 2, (uint64_t)1 << 40);
    atomic_store(&made_up_limit, UINT64_MAX); /* looked at, and none */
    assert_int_equal(hak_thread_budget(), by_cpus);
    assert_int_equal(hak_commit_soft_near(), 0);
    assert_int_equal(hakmem_option_set("LIMIT_SOFT", "48M"), 0);
    assert_int_equal(hak_commit_soft(), 48 * MIB);
    assert_int_equal(hak_commit_soft_near(), 48 * MIB);
    assert_int_equal(hakmem_option_set("CACHE_BUDGET", "1M"), 0);
    assert_int_equal(hak_thread_budget(), MIB);
    assert_int_equal(hakmem_option_set("CACHE_BUDGET", "0"), 0);
    assert_int_equal(hakmem_option_set("LIMIT_SOFT", "0"), 0);
    assert_int_equal(hak_commit_soft(), 0);
    assert_int_equal(hak_commit_soft_near(), 0);
    assert_int_equal(hakmem_option_set("LIMIT_SOFT", "auto"), 0);
    atomic_store(&made_up_limit, 0);
}

static size_t tiny_budget_of(unsigned threads) {
    const unsigned before = hak_thread_count();
    hak_thread_recount(threads);
    hak_lock_acquire(&hak_thread_list_lock);
    hak_thread_share();
    const size_t tiny = hak_cache_budget(HAK_TINY);
    hak_thread_recount(before);
    hak_thread_share();
    hak_lock_release(&hak_thread_list_lock);
    return tiny;
}

/* However many threads there are, unless the user or a control group allows less. */
static void the_default_has_a_least_share(void **state) {
    enum { THREADS = 20000 };
    (void)state;
    const uint64_t total = hak_thread_budget();
    assert_int_equal(tiny_budget_of(THREADS), 192 * KIB);
    atomic_store(&made_up_limit, UINT64_MAX);
    assert_int_equal(tiny_budget_of(THREADS), 192 * KIB);
    atomic_store(&made_up_limit, 8 * (total + (uint64_t)THREADS * 100 * KIB));
    assert_in_range(tiny_budget_of(THREADS), 99 * KIB, 100 * KIB);
    atomic_store(&made_up_limit, 8 * total);
    assert_int_equal(tiny_budget_of(THREADS), 64 * KIB);
    atomic_store(&made_up_limit, UINT64_MAX);
    assert_int_equal(hakmem_option_set("CACHE_BUDGET", "60M"), 0);
    assert_int_equal(tiny_budget_of(THREADS), 64 * KIB);
    assert_int_equal(hakmem_option_set("CACHE_BUDGET", "0"), 0);
    atomic_store(&made_up_limit, 0);
}

/* What `auto` has found counts ahead of its time from its half on. */
static void a_found_limit_is_near_from_its_half_on(void **state) {
    (void)state;
    size_t before = hak_commit_bytes(), half = 256 * MIB;
    atomic_store(&made_up_limit, 768 * MIB);
    assert_int_equal(hak_commit_soft(), 2 * half);
    assert_true(hak_commit_charge(half - before));
    assert_int_equal(hak_commit_soft_near(), 0);
    assert_true(hak_commit_charge(4096));
    assert_int_equal(hak_commit_soft_near(), 2 * half);
    hak_commit_release(half - before + 4096);
    atomic_store(&made_up_limit, 0);
}

/* The first growth beyond a small heap calls for a look at the groups: after the call, not in the charge. No
 * growth does so after a look, nor where no limit is wanted. */
static void growth_calls_for_one_look(void **state) {
    (void)state;
    static const struct {
        const char *soft;
        uint64_t limit;
        size_t bytes;
        unsigned looks;
    } rows[] = {
        {"auto", 0, HAK_COMMIT_SMALL, 0},
        {"auto", 0, HAK_COMMIT_SMALL + 1, 1},
        {"auto", UINT64_MAX, 256 * MIB, 0},
        {"auto", (uint64_t)1 << 40, 256 * MIB, 0},
        {"0", 0, 256 * MIB, 0},
        {"512M", 0, 256 * MIB, 0},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t more = rows[i].bytes - hak_commit_bytes();
        hak_commit_pressure();
        assert_int_equal(hakmem_option_set("LIMIT_SOFT", rows[i].soft), 0);
        atomic_store(&made_up_limit, rows[i].limit);
        atomic_store(&looks, 0);
        assert_true(hak_commit_charge(more));
        assert_int_equal(atomic_load(&looks), 0);
        hak_purge_look(0, false);
        hak_commit_release(more);
        REQUIRE(atomic_load(&looks) == rows[i].looks, "row %u: %u looks", i, atomic_load(&looks));
    }
    assert_int_equal(hakmem_option_set("LIMIT_SOFT", "auto"), 0);
    atomic_store(&made_up_limit, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budget_and_soft_limit_follow_the_memory),
        cmocka_unit_test(the_default_has_a_least_share),
        cmocka_unit_test(a_found_limit_is_near_from_its_half_on),
        cmocka_unit_test(growth_calls_for_one_look),
        cmocka_unit_test(a_process_that_gets_more_cpus_gets_more_shards),
        cmocka_unit_test(a_process_that_is_confined_later_gets_fewer),
        cmocka_unit_test(shards_grow_under_load),
        cmocka_unit_test(homes_follow_the_number),
    };
    if (argc > 1 && strcmp(argv[1], "widen") == 0) {
        widen();
        return 0;
    }
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_THREAD=0", NULL});
    return cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
}
