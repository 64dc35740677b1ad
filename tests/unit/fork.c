/* fork.c: forks while threads allocate at full speed: the child finds no half-done step. */
#include "unit.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cpu_depot.h"
#include "hakmem.h"
#include "large/heap.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/huge_table.h"
#include "large/large.h"
#include "meta/meta.h"
#include "os/cpu.h"
#include "os/gate.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "shard/warm_slab.h"
#include "thread/home_group.h"
#include "thread/thread.h"
#include "thread/verify.h"

enum { THREADS = 6, FORKS = 160 / UNIT_DIVISOR, PASSING = 64, SECONDS = 60 };

static atomic_bool stop;
static _Atomic(void *) passing[PASSING]; /* blocks on their way from thread to thread */

static size_t size_of(unsigned number) {
    static const size_t most[] = {200, 3000, 60000, 400000};
    return 1 + number % most[number / 7 % 4];
}

/* Blocks of three tiers, freed by others; now and then all that is free goes back. */
static void *work(void *argument) {
    unsigned number = (unsigned)(uintptr_t)argument * 7919;
    while (!atomic_load(&stop)) {
        for (unsigned i = 0; i < 500; i++) {
            number = number * 1664525 + 1013904223;
            free(atomic_exchange(&passing[number >> 20 & (PASSING - 1)],
                                 malloc(size_of(number >> 8))));
        }
        if (number >> 28 == 0) malloc_trim(0);
    }
    return NULL;
}

/* ---- In the child ---------------------------------------------------------------------------- */

static void is_free(const hak_lock_t *lock, const char *what) {
    CHECK(lock->state == 0, "a lock of %s is held: %u", what, lock->state);
}

static void check_locks(void) {
    static const char others[] = "the process";
    HAK_EACH_SHARD (shard)
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
            is_free(&hak_bin_of(shard, i)->lock, "a bin");
    HAK_EACH_HEAP (i) {
        is_free(&hak_heap_at(i)->lock, "a large heap");
        is_free(&hak_heap_at(i)->transfer_lock, "a large heap");
    }
    is_free(&hak_pool_lock, others);
    is_free(&hak_region_lock, others);
    for (unsigned i = 0; i < hak_huge_table_count(); i++) is_free(&hak_huge_table[i].lock, others);
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) is_free(&hak_kept_parts[i].lock, others);
    is_free(&hak_meta_lock, others);
    is_free(&hak_thread_list_lock, others);
}

typedef struct {
    size_t used_grains, block_grains; /* of large superslabs */
    size_t used_units;
} sums_t;

static bool is_pending(const hak_unit_t *slab) {
    uint16_t owner = slab->owner;
    const hak_unit_t *at = hak_bin_of(hak_owner_shard(owner), hak_owner_class(owner))->pending;
    while (at && at != slab) at = at->pending_next;
    return at != NULL;
}

/* No remote free is half done, and nobody has a claim. */
static void check_slab(const hak_unit_t *slab) {
    unsigned words = hak_classes[hak_owner_class(slab->owner)].words;
    uint64_t found = 0;
    for (unsigned w = 0; w < words; w++)
        if (hak_slab_remote(slab, words)[w]) found |= (uint64_t)1 << w;
    CHECK(found == slab->remote_words, "remote words %#llx, noted are %#llx",
          (unsigned long long)found, (unsigned long long)slab->remote_words);
    CHECK(!found || is_pending(slab), "remote blocks of a slab that is not pending");
    CHECK(!(slab->owner & HAK_OWNER_WARM) || !(slab->slot->state & 1), "a slab is claimed");
}

static void check_superslab(hak_superslab_t *super, void *context) {
    sums_t *sums = context;
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        const hak_unit_t *unit = &super->units[i];
        bool in_pool = super->free >> i & 1;
        if (super->large) {
            sums->block_grains += hak_large_length(unit->large);
            continue;
        }
        CHECK(in_pool == (unit->owner == 0), "unit %u is lost: owner %#x, %s the pool", i,
              unit->owner, in_pool ? "in" : "not in");
        if (hak_owner_is_bin(unit->owner)) check_slab(unit);
    }
    if (super->large) sums->used_grains += super->used_grains;
    sums->used_units +=
        super->large ? hak_superslab_units() : hak_superslab_units() - hak_bit_count(super->free);
}

/* What is freed is in a transfer array: each such block is counted there. */
static void check_heap(const void *unused) {
    sums_t sums = {0, 0, 0};
    size_t live = 0;
    (void)unused;
    check_locks();
    hak_region_each_superslab(check_superslab, &sums);
    HAK_EACH_HEAP (i) live += hak_heap_at(i)->live;
    CHECK(sums.used_grains == sums.block_grains, "%zu grains are used, those of blocks are %zu",
          sums.used_grains, sums.block_grains);
    CHECK(live == sums.block_grains, "%zu grains are live, those of blocks are %zu", live,
          sums.block_grains);
    CHECK(hak_pool_stats.used_units == sums.used_units, "%zu units are used, counted are %zu",
          sums.used_units, (size_t)hak_pool_stats.used_units);
    malloc_trim(0);
}

static void a_child_finds_no_half_done_step(void **state) {
    pthread_t threads[THREADS];
    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < FORKS; i++) unit_child(check_heap, NULL, SECONDS, "the child's heap");
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < PASSING; i++) free(atomic_exchange(&passing[i], NULL));
}

/* ---- A fork of a thread that is inside -------------------------------------------------------- */

static void *be_inside(void *unused) {
    (void)unused;
    hak_gate_enter();
    usleep(100000);
    hak_gate_leave();
    return NULL;
}

static void go_on_inside(const void *unused) {
    (void)unused;
    CHECK(hak_pool_lock.state == 1, "the interrupted step is not ours");
    hak_lock_release(&hak_pool_lock);
    check_locks();
    free(malloc(100000));
}

/* As in a signal handler that interrupted malloc: the child ends what its thread had begun. */
static void a_thread_that_is_inside_forks(void **state) {
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, be_inside, NULL), 0);
    pthread_detach(thread); /* the child cannot join it, and has it on its sanitizer's list */
    hak_lock_acquire(&hak_pool_lock);
    unit_child(go_on_inside, NULL, SECONDS, "a fork inside");
    hak_lock_release(&hak_pool_lock);
}

/* ---- A fork beside one that began alone ---------------------------------------------------------- */

static enum { AT_REST, ALONE, CLOSED, ENDED } _Atomic phase;
static pthread_t first, beside;

static void await(unsigned end) {
    while (atomic_load(&phase) != end) sched_yield();
}

static void *fork_beside(void *unused) {
    (void)unused;
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    return NULL;
}

/* The first thread forks alone, and this starts another one, which forks as well. That fork has closed the
 * gate, and waits here until the first one is over. */
static void start_beside(void) {
    if (atomic_load(&phase) == AT_REST) return;
    if (pthread_equal(pthread_self(), first)) {
        if (pthread_create(&beside, NULL, fork_beside, NULL) == 0) await(CLOSED);
    } else {
        atomic_store(&phase, CLOSED);
        await(ENDED);
    }
}

/* Before the engine's own, so it runs after that. */
__attribute__((constructor(101))) static void register_first(void) {
    pthread_atfork(start_beside, NULL, NULL);
}

/* A sanitizer's own thread is one more. */
static void a_fork_alone_leaves_the_gate_to_another_one(void **state) {
    int status = -1;
    (void)state;
    hakmem_free(hakmem_malloc(100));
    if (!hak_os_is_single_threaded()) skip();
    first = pthread_self();
    atomic_store(&phase, ALONE);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(SECONDS);
        for (unsigned i = 0; i < 3; i++) hakmem_free(hakmem_malloc(100000 << i));
        _exit(hak_gate_is_awaited());
    }
    bool is_closed = hak_gate_is_awaited();
    atomic_store(&phase, ENDED);
    pthread_join(beside, NULL);
    atomic_store(&phase, AT_REST);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    REQUIRE(is_closed, "a fork that began alone opens the gate of another one");
    REQUIRE(!hak_gate_is_awaited(), "the gate stays closed");
    fclose(fopen("/dev/null", "r")); /* takes libc's list of streams */
}

/* ---- A cache that was lost ------------------------------------------------------------------------ */

static atomic_bool has_begun, may_begin;

static void *allocate_later(void *unused) {
    (void)unused;
    while (!atomic_load(&may_begin)) sched_yield();
    hakmem_free(hakmem_malloc(100));
    return NULL;
}

static void *allocate_and_wait(void *unused) {
    (void)unused;
    hakmem_free(hakmem_malloc(100));
    atomic_store(&has_begun, true);
    while (!atomic_load(&may_begin)) sched_yield();
    return NULL;
}

/* A report holds the lock of a cache that no thread has, when a new thread takes the cache. */
static void take_lost_cache(const void *unused) {
    pthread_t thread;
    hak_cache_t *lost = hak_thread_caches();
    (void)unused;
    while (lost && !hak_gate_is_lost(&lost->post)) lost = lost->next;
    CHECK(lost != NULL, "no cache is lost");
    CHECK(pthread_create(&thread, NULL, allocate_later, NULL) == 0, "no thread");
    hak_lock_acquire(&lost->stack_lock);
    atomic_store(&may_begin, true);
    while (hak_load_relaxed(&lost->stack_lock.state) == 1) sched_yield();
    CHECK(lost->stack_lock.state == 2, "nobody waits for a cache whose lock is held");
    CHECK(hak_gate_is_lost(&lost->post), "a cache has a thread before it has joined");
    hak_lock_release(&lost->stack_lock);
    pthread_join(thread, NULL);
    CHECK(!hak_gate_is_lost(&lost->post), "another cache was taken");
}

static void a_report_may_hold_a_cache_that_was_lost(void **state) {
    pthread_t thread;
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    assert_int_equal(pthread_create(&thread, NULL, allocate_and_wait, NULL), 0);
    while (!atomic_load(&has_begun)) sched_yield();
    unit_child(take_lost_cache, NULL, SECONDS, "a cache that was lost");
    atomic_store(&may_begin, true);
    pthread_join(thread, NULL);
}

/* ---- A fork in the midst of a start or an end of its thread ---------------------------------------- */

static _Thread_local unsigned
    fork_in; /* steps until one forks, as a signal handler would; 0: none */
static _Thread_local bool is_child;
static atomic_uint started;
static atomic_bool may_end;
static pthread_key_t last_key; /* its destructor runs after the engine's */

/* In the child, before the handler returns: as many threads as there are caches, so that all that can be taken are. */
static bool starts_threads;
enum { STARTED_MOST = 64 };
static _Atomic(const hak_cache_t *) caches_of_started[STARTED_MOST];
static unsigned started_count;

static void *take_cache_and_stay(void *cache) {
    atomic_store((_Atomic(const hak_cache_t *) *)cache, hak_thread_cache());
    for (;;) pause();
    return NULL;
}

/* The interrupted step holds no lock: libc allocates for a thread. */
static void start_in_child(void) {
    enum { WAIT_MS = 50 };
    for (const hak_cache_t *at = hak_thread_caches(); at; at = at->next) {
        pthread_t thread;
        CHECK(started_count < STARTED_MOST, "too many caches");
        CHECK(pthread_create(&thread, NULL, take_cache_and_stay,
                             &caches_of_started[started_count]) == 0,
              "no thread");
        for (unsigned i = 0; i < WAIT_MS && !atomic_load(&caches_of_started[started_count]); i++)
            usleep(1000);
        started_count++;
    }
}

/* True when a thread that the handler has started has the cache. */
static bool is_taken(const hak_cache_t *cache) {
    bool is_taken = false;
    for (unsigned i = 0; i < started_count; i++) {
        while (!atomic_load(&caches_of_started[i])) sched_yield();
        is_taken |= atomic_load(&caches_of_started[i]) == cache;
    }
    return is_taken;
}

/* `holds_nothing`: the caller is outside the engine. */
static void step(bool holds_nothing) {
    int status = -1;
    if (fork_in == 0 || --fork_in > 0) return;
    pid_t pid = fork();
    is_child = pid == 0;
    if (is_child) alarm(SECONDS);
    if (is_child && starts_threads && holds_nothing) start_in_child();
    if (is_child) return;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with status %#x", status);
}

#define BETWEEN_STEPS(type, name, parameters, arguments) \
    type __real_##name parameters;                       \
    type __wrap_##name parameters;                       \
    type __wrap_##name parameters {                      \
        step(false);                                     \
        type result = __real_##name arguments;           \
        step(false);                                     \
        return result;                                   \
    }
#define AROUND_STEP(name, parameters, arguments, holds_nothing) \
    void __real_##name parameters;                              \
    void __wrap_##name parameters;                              \
    void __wrap_##name parameters {                             \
        step(holds_nothing);                                    \
        __real_##name arguments;                                \
        step(holds_nothing);                                    \
    }
BETWEEN_STEPS(unsigned, hak_thread_add, (unsigned more), (more))
BETWEEN_STEPS(bool, hak_group_may_keep, (const hak_cache_t *cache), (cache))

void __real_hak_group_join(hak_cache_t *cache, hak_seat_t seat);
void __wrap_hak_group_join(hak_cache_t *cache, hak_seat_t seat);
static _Thread_local bool allocates;

void __wrap_hak_group_join(hak_cache_t *cache, hak_seat_t seat) {
    step(false);
    __real_hak_group_join(cache, seat);
    if (allocates) { /* as a fork handler of another library, before ours */
        allocates = false;
        hakmem_free(hakmem_malloc(100));
        fork_in = 1;
        step(true);
        return;
    }
    step(false);
}
AROUND_STEP(hak_group_leave, (hak_cache_t * cache, bool keeps), (cache, keeps), false)
AROUND_STEP(hak_gate_use, (hak_gate_post_t * post), (post), true)
AROUND_STEP(hak_gate_take, (hak_gate_post_t * post), (post), false)
AROUND_STEP(hak_gate_release, (hak_gate_post_t * post), (post), false)

static void *take_cache(void *cache) {
    *(const hak_cache_t **)cache = hak_thread_cache();
    return NULL;
}

/* In the child of such a fork, when the start or the end is over: the first thread has `own`, or none. */
static _Noreturn void check_threads(const hak_cache_t *own) {
    enum { MORE = 3 };
    CHECK(!own || !is_taken(own), "a thread that the handler has started has the cache, too");
    if (!starts_threads)
        CHECK(hak_thread_count() == (own != NULL), "%u threads", hak_thread_count());
    CHECK(!own || !hak_gate_is_lost(&own->post), "the thread's own cache is lost");
    for (unsigned i = 0; i < MORE; i++) {
        const hak_cache_t *other = NULL;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, take_cache, &other) == 0, "no thread");
        pthread_join(thread, NULL);
        CHECK(other && other != own && !is_taken(other), "two threads have one cache");
    }
    if (!starts_threads) CHECK(hak_verify() == 0, "violations");
    _exit(0);
}

static void check_end(void *unused) {
    (void)unused;
    if (is_child) check_threads(NULL);
    fork_in = 0;
}

static void *start_and_end(void *step_count) {
    const unsigned *steps = step_count;
    fork_in = steps[0];
    const hak_cache_t *cache = hak_thread_cache();
    if (is_child) check_threads(cache);
    CHECK(!steps[0] || fork_in == 0 || steps[0] > 6, "a start has fewer steps");
    fork_in = steps[1];
    CHECK(pthread_setspecific(last_key, "") == 0, "no key");
    return NULL;
}

static void fork_at_each_step(void) {
    enum { STEPS = 12 };
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    hakmem_free(hakmem_malloc(100));
    if (!last_key) assert_int_equal(pthread_key_create(&last_key, check_end), 0);
    for (unsigned i = 1; i <= 2 * STEPS; i++) {
        const unsigned steps[2] = {i <= STEPS ? i : 0, i <= STEPS ? 0 : i - STEPS};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, start_and_end, (void *)(uintptr_t)steps), 0);
        pthread_join(thread, NULL);
    }
    assert_int_equal(hak_verify(), 0);
}

static void a_handler_forks_while_its_thread_starts_or_ends(void **state) {
    (void)state;
    fork_at_each_step();
}

static void the_handler_starts_threads(void **state) {
    (void)state;
    starts_threads = true;
    fork_at_each_step();
    starts_threads = false;
}

hak_cache_t *__real_hak_group_take_full(void);
hak_cache_t *__wrap_hak_group_take_full(void);

static hak_cache_t *full; /* the last one that was taken to be emptied */

hak_cache_t *__wrap_hak_group_take_full(void) {
    hak_cache_t *cache = __real_hak_group_take_full();
    if (cache) {
        full = cache;
        step(true);
    }
    return cache;
}

static void *be_counted(void *unused) {
    hakmem_free(hakmem_malloc(100));
    return unused;
}

static void *be_counted_and_wait(void *unused) {
    hakmem_free(hakmem_malloc(100));
    atomic_fetch_add(&started, 1);
    while (!atomic_load(&may_end)) sched_yield();
    return unused;
}

/* There is something to tell: a thread that has ended was one of four. */
static void look_and_fork_at(unsigned steps) {
    pthread_t ended;
    assert_int_equal(pthread_create(&ended, NULL, be_counted, NULL), 0);
    pthread_join(ended, NULL);
    fork_in = steps;
    hak_thread_look_at_limits();
    if (!is_child) {
        CHECK(fork_in == 0, "a look has fewer steps");
        return;
    }
    CHECK(hak_thread_count() == 1, "%d threads", (int)hak_thread_count());
    CHECK(hak_verify() == 0, "violations");
    _exit(0);
}

static void a_handler_forks_while_its_thread_looks(void **state) {
    enum { OTHERS = 2, STEPS = 2 };
    pthread_t others[OTHERS];
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    hakmem_free(hakmem_malloc(100));
    for (unsigned i = 0; i < OTHERS; i++)
        assert_int_equal(pthread_create(&others[i], NULL, be_counted_and_wait, NULL), 0);
    while (atomic_load(&started) < OTHERS) sched_yield();
    for (unsigned i = 1; i <= STEPS; i++) look_and_fork_at(i);
    atomic_store(&may_end, true);
    for (unsigned i = 0; i < OTHERS; i++) pthread_join(others[i], NULL);
}

static void the_handler_forks_while_its_thread_empties_a_waiting_cache(void **state) {
    pthread_t thread;
    unsigned left = 1;
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    hakmem_free(hakmem_malloc(100));
    assert_int_equal(pthread_create(&thread, NULL, be_counted, NULL), 0);
    pthread_join(thread, NULL);
    starts_threads = true;
    fork_in = 3; /* the first two are around hak_gate_take, under the group's lock */
    while (!hak_thread_flush_waiting(&left)) {
    }
    assert_non_null(full);
    if (is_child) {
        CHECK(!is_taken(full), "a thread that the handler has started has the cache, too");
        check_threads(hak_thread_cache());
    }
    starts_threads = false;
}

static void *start_and_allocate(void *unused) {
    allocates = true;
    const hak_cache_t *cache = hak_thread_cache();
    if (is_child) check_threads(cache);
    CHECK(!allocates, "no join");
    return unused;
}

/* First of all, so that no cache waits and one is made; and in a process of its own, since the thread that had two has left
 * one behind. */
static void a_fork_handler_allocates_while_its_thread_starts(void **state) {
    int status = -1;
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    hakmem_free(hakmem_malloc(100));
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        alarm(SECONDS);
        starts_threads = true;
        CHECK(pthread_create(&thread, NULL, start_and_allocate, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
        _exit(0);
    }
    assert_true(waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

/* Depots stand for budgets here: they are open where many threads share these. */
static void a_child_has_the_budgets_of_one_thread(void **state) {
    enum { MANY = 24, STACK = 64 * 1024 };
    pthread_t others[MANY];
    pthread_attr_t small;
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    const unsigned cpus = hak_os_cpu_count();
    if (cpus > MANY / 3) skip();
    hakmem_free(hakmem_malloc(100));
    atomic_store(&may_end, false);
    atomic_store(&started, 0);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&others[i], &small, be_counted_and_wait, NULL), 0);
    while (atomic_load(&started) < MANY) sched_yield();
    assert_true(hak_depot_is_open());
    const pid_t pid = fork();
    if (pid == 0) {
        CHECK(hak_thread_count() == 1, "%u threads", hak_thread_count());
        CHECK(!hak_depot_is_open(), "the child has the budgets of its parent");
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    atomic_store(&may_end, true);
    for (unsigned i = 0; i < MANY; i++) pthread_join(others[i], NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_handler_allocates_while_its_thread_starts),
        cmocka_unit_test(a_fork_alone_leaves_the_gate_to_another_one),
        cmocka_unit_test(a_report_may_hold_a_cache_that_was_lost),
        cmocka_unit_test(a_child_finds_no_half_done_step),
        cmocka_unit_test(a_thread_that_is_inside_forks),
        cmocka_unit_test(a_handler_forks_while_its_thread_starts_or_ends),
        cmocka_unit_test(the_handler_starts_threads),
        cmocka_unit_test(a_handler_forks_while_its_thread_looks),
        cmocka_unit_test(the_handler_forks_while_its_thread_empties_a_waiting_cache),
        cmocka_unit_test(a_child_has_the_budgets_of_one_thread),
    };
    watchdog(110, "a fork test hangs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
