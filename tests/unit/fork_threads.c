/* fork_threads.c: which threads and caches the child of a fork has: the lost ones, and that of a thread whose start, end
 * or look at the limits a signal handler's fork has interrupted. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cpu_depot.h"
#include "hakmem.h"
#include "os/cpu.h"
#include "os/gate.h"
#include "thread/cache_budget.h"
#include "thread/home_group.h"
#include "thread/thread.h"
#include "thread/verify.h"

enum { SECONDS = 60 };

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
static _Atomic(const void *) caches_of_started[STARTED_MOST];
static const char without_cache;
static atomic_bool is_over; /* the interrupted step; then each takes a cache, unless it has one */
static atomic_bool may_go;
static pthread_t threads_started[STARTED_MOST];
static unsigned started_count;

static void *take_cache_and_stay(void *unused) {
    _Atomic(const void *) *cache = unused;
    const void *first = hak_thread_cache();
    atomic_store(cache, first ? first : &without_cache);
    while (!atomic_load(&is_over)) sched_yield();
    hakmem_free(hakmem_malloc(100));
    const void *now = hak_thread_cache();
    CHECK(now && (!first || now == first), "a thread has no cache, or another one");
    atomic_store(cache, now);
    while (!atomic_load(&may_go)) sched_yield();
    return NULL;
}

/* The interrupted step may hold the lock of a group. */
static void start_in_child(void) {
    for (const hak_cache_t *at = hak_thread_caches(); at; at = at->next) {
        const unsigned i = started_count++;
        CHECK(i < STARTED_MOST, "too many caches");
        CHECK(pthread_create(&threads_started[i], NULL, take_cache_and_stay,
                             &caches_of_started[i]) == 0,
              "no thread");
        while (!atomic_load(&caches_of_started[i])) sched_yield();
    }
}

static bool is_taken(const hak_cache_t *cache) {
    bool is_taken = false;
    for (unsigned i = 0; i < started_count; i++)
        is_taken |= atomic_load(&caches_of_started[i]) == cache;
    return is_taken;
}

/* The threads of the child that the handler has started: each with a cache of its own, and counted. */
static void check_started(const hak_cache_t *own) {
    CHECK(!own || !is_taken(own), "a thread that the handler has started has the cache, too");
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < started_count; i++) {
        while (atomic_load(&caches_of_started[i]) == &without_cache) sched_yield();
        for (unsigned j = 0; j < i; j++)
            CHECK(atomic_load(&caches_of_started[j]) != atomic_load(&caches_of_started[i]),
                  "two threads have one cache");
    }
    CHECK(!own || !is_taken(own), "a thread that started later has the cache, too");
    hak_thread_look_at_limits();
    CHECK(hak_thread_count() == started_count + (own != NULL), "%u threads, of %u",
          hak_thread_count(), started_count + (own != NULL));
    atomic_store(&may_go, true);
    for (unsigned i = 0; i < started_count; i++) pthread_join(threads_started[i], NULL);
}

static void step(void) {
    int status = -1;
    if (fork_in == 0 || --fork_in > 0) return;
    pid_t pid = fork();
    is_child = pid == 0;
    if (is_child) alarm(SECONDS * PATIENCE);
    if (is_child && starts_threads) start_in_child();
    if (is_child) return;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with status %#x", status);
}

#define BETWEEN_STEPS(type, name, parameters, arguments) \
    type __real_##name parameters;                       \
    type __wrap_##name parameters;                       \
    type __wrap_##name parameters {                      \
        step();                                          \
        type result = __real_##name arguments;           \
        step();                                          \
        return result;                                   \
    }
#define AROUND_STEP(name, parameters, arguments) \
    void __real_##name parameters;               \
    void __wrap_##name parameters;               \
    void __wrap_##name parameters {              \
        step();                                  \
        __real_##name arguments;                 \
        step();                                  \
    }
BETWEEN_STEPS(unsigned, hak_thread_add, (unsigned more), (more))
BETWEEN_STEPS(bool, hak_group_may_keep, (const hak_cache_t *cache), (cache))

void __real_hak_group_join(hak_cache_t *cache, hak_seat_t seat);
void __wrap_hak_group_join(hak_cache_t *cache, hak_seat_t seat);
static _Thread_local bool allocates, forks_then;

void __wrap_hak_group_join(hak_cache_t *cache, hak_seat_t seat) {
    step();
    __real_hak_group_join(cache, seat);
    if (allocates) { /* as a fork handler of another library, before ours */
        allocates = false;
        hakmem_free(hakmem_malloc(100));
        fork_in = forks_then;
        step();
        return;
    }
    step();
}
AROUND_STEP(hak_group_leave, (hak_cache_t * cache, bool keeps), (cache, keeps))
AROUND_STEP(hak_gate_use, (hak_gate_post_t * post), (post))
AROUND_STEP(hak_gate_take, (hak_gate_post_t * post), (post))
AROUND_STEP(hak_gate_release, (hak_gate_post_t * post), (post))

static void *take_cache(void *cache) {
    *(const hak_cache_t **)cache = hak_thread_cache();
    return NULL;
}

/* In the child of such a fork, when the start or the end is over: the first thread has `own`, or none. */
static _Noreturn void check_threads(const hak_cache_t *own) {
    enum { MORE = 3 };
    check_started(own);
    hak_thread_look_at_limits();
    CHECK(hak_thread_count() == (own != NULL), "%u threads", hak_thread_count());
    CHECK(!own || !hak_gate_is_lost(&own->post), "the thread's own cache is lost");
    for (unsigned i = 0; i < MORE; i++) {
        const hak_cache_t *other = NULL;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, take_cache, &other) == 0, "no thread");
        pthread_join(thread, NULL);
        CHECK(other && other != own, "two threads have one cache");
    }
    CHECK(hak_verify() == 0, "violations");
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
        step();
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

static void *start_and_allocate(void *forks) {
    allocates = true;
    forks_then = forks != NULL;
    const hak_cache_t *cache = hak_thread_cache();
    if (is_child) check_threads(cache);
    CHECK(!allocates, "no join");
    return NULL;
}

static _Noreturn void start_and_end_one(bool forks) {
    pthread_t thread;
    alarm(SECONDS * PATIENCE);
    starts_threads = forks;
    CHECK(pthread_create(&thread, NULL, start_and_allocate, forks ? &starts_threads : NULL) == 0,
          "no thread");
    pthread_join(thread, NULL);
    hak_thread_look_at_limits();
    CHECK(hak_thread_count() == 1, "%u threads", hak_thread_count());
    CHECK(hak_verify() == 0, "violations");
    _exit(0);
}

/* First of all and in a process of its own, so that no cache waits and one is made. */
static void a_fork_handler_allocates_while_its_thread_starts(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    hakmem_free(hakmem_malloc(100));
    for (unsigned forks = 0; forks < 2; forks++) {
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0) start_and_end_one(forks != 0);
        assert_true(waitpid(pid, &status, 0) == pid);
        assert_int_equal(status, 0);
    }
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
        cmocka_unit_test(a_report_may_hold_a_cache_that_was_lost),
        cmocka_unit_test(a_handler_forks_while_its_thread_starts_or_ends),
        cmocka_unit_test(the_handler_starts_threads),
        cmocka_unit_test(a_handler_forks_while_its_thread_looks),
        cmocka_unit_test(the_handler_forks_while_its_thread_empties_a_waiting_cache),
        cmocka_unit_test(a_child_has_the_budgets_of_one_thread),
    };
    watchdog(110, "a fork test hangs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
