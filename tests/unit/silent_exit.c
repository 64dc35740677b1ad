/* silent_exit.c: threads that end without a word to the engine, and threads that only seem to have ended
 * (src/thread/silent_exit.h): no cache stays with the former, none is taken from the latter. */
#include "unit.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cache.h"
#include "hakmem.h"
#include "thread/silent_exit.h"
#include "thread/cache_budget.h"
#include "thread/thread.h"
#include "thread/verify.h"

/* So much that no thread is a novice. */
static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", "HAKMEM_CACHE_BUDGET=4G", NULL};

enum { SECONDS = 60, MANY = 600, MOST = 4, AT_ONCE = 32, SMALL_STACK = 256 * 1024 };

static unsigned count_caches(void) {
    unsigned count = 0;
    for (const hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) count++;
    return count;
}

static void need_no_sanitizer(void) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip();
#endif
}

static void allocate(void) {
    void *block = hakmem_malloc(100);
    CHECK(block != NULL, "no block");
    hakmem_free(block);
}

/* ---- Threads that are gone ------------------------------------------------------------------------ */

static pthread_key_t last_key;

/* Allocates in its thread's last round of destructors only. */
static void wait_for_last_round(void *rounds_left) {
    const uintptr_t left = (uintptr_t)rounds_left;
    if (left == 1)
        allocate();
    else
        CHECK(pthread_setspecific(last_key, (void *)(left - 1)) == 0, "no key");
}

static void *allocate_at_last(void *unused) {
    CHECK(pthread_setspecific(last_key, (void *)(uintptr_t)PTHREAD_DESTRUCTOR_ITERATIONS) == 0,
          "no key");
    return unused;
}

static void *end_by_system_call(void *unused) {
    allocate();
    syscall(SYS_exit, 0);
    return unused;
}

static void run_many(const void *body) {
    void *(*const *run)(void *) = body;
    allocate();
    CHECK(pthread_key_create(&last_key, wait_for_last_round) == 0, "no key");
    const unsigned before = count_caches();
    for (unsigned i = 0; i < MANY; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, *run, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    hak_thread_look_at_limits();
    const unsigned more = count_caches() - before;
    CHECK(more <= MOST, "%u threads leave %u caches", MANY, more);
    CHECK(hak_thread_count() <= 1 + more, "%u threads count", hak_thread_count());
    CHECK(hak_verify() == 0, "violations");
}

static void the_last_round_of_destructors(void **state) {
    void *(*const run)(void *) = allocate_at_last;
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* its own destructor ends the thread for it in that round */
#endif
    unit_child(run_many, &run, SECONDS, "threads that allocate at last");
}

static void a_thread_ends_by_the_system_call(void **state) {
    void *(*const run)(void *) = end_by_system_call;
    (void)state;
    need_no_sanitizer(); /* they keep a record of such a thread */
    unit_child(run_many, &run, SECONDS, "threads that end by the system call");
}

static void *end_in_order(void *place) {
    allocate();
    *(uintptr_t *)place = hak_os_thread();
    return NULL;
}

/* A start at the place of a thread that ended in order has no cache to look at, which by then is another thread's. */
static void end_many_in_order(const void *unused) {
    (void)unused;
    allocate();
    for (unsigned i = 0; i < AT_ONCE; i++) {
        pthread_t thread;
        uintptr_t place = 0;
        CHECK(pthread_create(&thread, NULL, end_in_order, &place) == 0, "no thread");
        pthread_join(thread, NULL);
        CHECK(place && !hak_load_relaxed(hak_place_of(place)), "an orderly end leaves an entry");
    }
}

static void an_orderly_end_leaves_no_entry(void **state) {
    (void)state;
    unit_child(end_many_in_order, NULL, SECONDS, "orderly ends");
}

/* ---- What such a thread leaves to the next one on its stack ---------------------------------------- */

static void *allocate_and_tell(void *cache) {
    allocate();
    *(const hak_cache_t **)cache = hak_thread_cache();
    return NULL;
}

static void *do_nothing(void *unused) { return unused; }

static pthread_t begin(size_t stack, void *(*run)(void *), void *argument) {
    pthread_t thread;
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, stack) == 0,
          "no attributes");
    CHECK(pthread_create(&thread, &attributes, run, argument) == 0, "no thread");
    pthread_attr_destroy(&attributes);
    return thread;
}

static void *take_cache_and_wait(void *place);
static atomic_bool may_end;
static const hak_cache_t *_Atomic given[AT_ONCE];

/* A thread on another stack gets a cache; one on the stack of the first one ends without having had any, though libc has
 * the former one's for it. */
static void use_its_stack(void) {
    const hak_cache_t *last = NULL;
    pthread_t lives = begin(4 * SMALL_STACK, take_cache_and_wait, (void *)&given[0]);
    while (!atomic_load(&given[0])) sched_yield();
    pthread_join(begin(SMALL_STACK, do_nothing, NULL), NULL);
    pthread_join(begin(2 * SMALL_STACK, allocate_and_tell, &last), NULL);
    CHECK(last && last != atomic_load(&given[0]), "two threads have one cache");
    atomic_store(&may_end, true);
    pthread_join(lives, NULL);
    CHECK(hak_verify() == 0, "violations");
}

static void leave_a_stack(const void *forks) {
    int status = 0;
    allocate();
    pthread_join(begin(SMALL_STACK, end_by_system_call, NULL), NULL);
    const pid_t pid = *(const bool *)forks ? fork() : 0;
    if (pid == 0) use_its_stack();
    if (pid == 0 && *(const bool *)forks) _exit(0);
    if (pid) CHECK(waitpid(pid, &status, 0) == pid && status == 0, "status %#x", (unsigned)status);
}

static void its_value_for_the_next_thread(void **state) {
    (void)state;
    need_no_sanitizer();
    for (int forks = 0; forks < 2; forks++)
        unit_child(leave_a_stack, &(bool){forks}, SECONDS, "the stack of a thread that is gone");
}

/* The next thread on its stack has its cache, with its blocks, also where another cache waits: if it took that one, none
 * would look for its own again. */
static void go_on_with_its_cache(const void *waits) {
    const hak_cache_t *first = NULL, *next = NULL;
    pthread_t another = pthread_self();
    allocate();
    CHECK(pthread_key_create(&last_key, wait_for_last_round) == 0, "no key");
    if (*(const bool *)waits) {
        another = begin(4 * SMALL_STACK, take_cache_and_wait, (void *)&given[0]);
        while (!atomic_load(&given[0])) sched_yield();
    }
    pthread_join(begin(SMALL_STACK, allocate_at_last, NULL), NULL);
    const unsigned before = count_caches();
    first = hak_thread_caches();
    atomic_store(&may_end, true);
    if (*(const bool *)waits) pthread_join(another, NULL);
    pthread_join(begin(SMALL_STACK, allocate_and_tell, &next), NULL);
    CHECK(next == first && count_caches() == before, "another cache is taken");
}

static void its_cache_for_the_next_thread(void **state) {
    (void)state;
    need_no_sanitizer();
    for (int waits = 0; waits < 2; waits++)
        unit_child(go_on_with_its_cache, &(bool){waits}, SECONDS,
                   "the cache of a thread that is gone");
}

/* ---- Threads that only seem to be ----------------------------------------------------------------- */

static atomic_uint begun;

static void *take_cache_and_wait(void *place) {
    const hak_cache_t *_Atomic *cache = place;
    allocate();
    atomic_store(cache, hak_thread_cache());
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&may_end)) sched_yield();
    return NULL;
}

/* Starts more threads than there are caches; each needs one, and none may get that of a thread that is alive. */
static void start_others(const hak_cache_t *own) {
    pthread_t threads[AT_ONCE];
    CHECK(own && own != &hak_cache_none && count_caches() < AT_ONCE, "no cache, or too many");
    for (unsigned i = 0; i < AT_ONCE; i++)
        CHECK(pthread_create(&threads[i], NULL, take_cache_and_wait, (void *)&given[i]) == 0,
              "no thread");
    while (atomic_load(&begun) < AT_ONCE) sched_yield();
    for (unsigned i = 0; i < AT_ONCE; i++) {
        CHECK(given[i] && given[i] != own, "a thread has no cache, or that of a living one");
        for (unsigned j = 0; j < i; j++) CHECK(given[i] != given[j], "two threads have one cache");
    }
    atomic_store(&may_end, true);
    for (unsigned i = 0; i < AT_ONCE; i++) pthread_join(threads[i], NULL);
    CHECK(hak_verify() == 0, "violations");
}

static int is_gone[2]; /* a pipe: the thread that forked has ended */

static void go_on_in_child(const hak_cache_t *own) {
    char byte;
    alarm(SECONDS * PATIENCE);
    CHECK(read(is_gone[0], &byte, 1) == 1, "no word from the parent");
    CHECK(hak_thread_cache() == own, "the only thread has another cache than before");
    start_others(own);
    _exit(0);
}

/* No fork handler runs in such a child. */
static pid_t fork_without_handlers(unsigned flags) {
    return flags ? (pid_t)syscall(SYS_clone, (unsigned long)flags, 0, 0, 0, 0) : _Fork();
}

static void *fork_and_end(void *flags_and_pid) {
    int *place = flags_and_pid;
    allocate();
    const hak_cache_t *own = hak_thread_cache();
    const pid_t pid = fork_without_handlers((unsigned)*place);
    if (pid == 0) go_on_in_child(own);
    *place = pid;
    return NULL;
}

/* A thread that is not the first one forks and ends. Its number is that of no thread then, also in a new namespace,
 * whose numbers begin anew. */
static void fork_in_thread(const void *flags) {
    int place = *(const int *)flags, status = -1;
    pthread_t thread;
    allocate();
    CHECK(pipe(is_gone) == 0, "no pipe");
    for (unsigned i = 0; i < 2 * AT_ONCE; i++) {
        CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    CHECK(pthread_create(&thread, NULL, fork_and_end, &place) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(place > 0, "no child");
    CHECK(write(is_gone[1], "", 1) == 1, "no word to the child");
    CHECK(waitpid(place, &status, 0) == place && status == 0, "a child ended with status %#x",
          (unsigned)status);
}

static void the_child_of_fork_without_handlers(void **state) {
    const int flags = 0;
    (void)state;
    need_no_sanitizer(); /* they allow no threads in such a child */
    unit_child(fork_in_thread, &flags, SECONDS, "_Fork");
}

static void the_child_of_clone(void **state) {
    const int flags = SIGCHLD;
    (void)state;
    need_no_sanitizer(); /* they allow no threads in such a child */
    unit_child(fork_in_thread, &flags, SECONDS, "clone");
}

/* Process number 1 makes a process number 1. */
static void clone_from_first_process(const void *flags) {
    int status = -1;
    const pid_t pid = fork_without_handlers(*(const unsigned *)flags);
    if (pid == 0) {
        CHECK(getpid() == 1, "not the first process");
        fork_in_thread(flags);
        _exit(0);
    }
    if (pid < 0) return; /* not allowed */
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with status %#x",
          (unsigned)status);
}

static void a_clone_into_a_new_pid_namespace(void **state) {
    const unsigned flags = SIGCHLD | CLONE_NEWPID;
    (void)state;
    need_no_sanitizer(); /* they allow no threads in such a child */
    unit_child(clone_from_first_process, &flags, SECONDS, "a new pid namespace");
}

/* The first allocation of the thread is made by its vfork's child, which has other numbers. */
static void *allocate_in_vfork(void *unused) {
    int status = -1;
    const pid_t pid = vfork();
    if (pid == 0) {
        hakmem_free(hakmem_malloc(100));
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with status %#x",
          (unsigned)status);
    const hak_cache_t *own = hak_cache;
    start_others(own);
    CHECK(hak_thread_cache() == own, "the thread has lost its cache");
    return unused;
}

static void vfork_in_thread(const void *unused) {
    pthread_t thread;
    (void)unused;
    CHECK(pthread_create(&thread, NULL, allocate_in_vfork, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void the_child_of_vfork(void **state) {
    (void)state;
    need_no_sanitizer(); /* they allow no threads in such a child */
    unit_child(vfork_in_thread, NULL, SECONDS, "vfork");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_round_of_destructors),
        cmocka_unit_test(a_thread_ends_by_the_system_call),
        cmocka_unit_test(an_orderly_end_leaves_no_entry),
        cmocka_unit_test(its_value_for_the_next_thread),
        cmocka_unit_test(its_cache_for_the_next_thread),
        cmocka_unit_test(the_child_of_fork_without_handlers),
        cmocka_unit_test(the_child_of_clone),
        cmocka_unit_test(a_clone_into_a_new_pid_namespace),
        cmocka_unit_test(the_child_of_vfork),
    };
    watchdog(110, "a test of abandoned caches hangs");
    return cmocka_run_group_tests_name("abandoned", tests, NULL, NULL);
}
