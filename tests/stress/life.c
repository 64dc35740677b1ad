/* life.c - ends and beginnings at moments that nobody chose, while threads allocate.
 *
 *     life CASE TIMES [LIBRARY]
 *
 *   exit     processes end by exit, return from main, quick_exit, _exit, exit in a thread or exec
 *   forks    processes end by exit while their threads fork
 *   cancel   threads are cancelled between calls, and their cleanup frees what they hold
 *   handler  a timer's handler interrupts any instruction, and makes processes by _Fork and vfork
 *   dlopen   libraries come and go: LIBRARY, whose constructors allocate or which is the allocator */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "load.h"

enum { THREADS = 4 };

static atomic_bool stop;

static void *work(void *number) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)number), .most = 90000};
    while (!atomic_load(&stop)) load_run(&load, 100);
    load_end(&load);
    return NULL;
}

static void start(pthread_t *threads) {
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
}

static void join(const pthread_t *threads) {
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- exit ------------------------------------------------------------------------------------ */

static void some_calls(void) {
    struct load load = {.rng = rng_make(7), .most = 90000};
    load_run(&load, 300);
    load_end(&load);
}

static void *exit_here(void *unused) {
    some_calls();
    exit(unused != NULL);
}

static void end_somehow(const void *way) {
    pthread_t threads[THREADS], last;
    CHECK(atexit(some_calls) == 0 && at_quick_exit(some_calls) == 0, "no atexit");
    start(threads);
    some_calls();
    switch (*(const unsigned long *)way % 5) {
    case 0:
        exit(0);
    case 1:
        quick_exit(0);
    case 2:
        _exit(0);
    case 3:
        CHECK(pthread_create(&last, NULL, exit_here, NULL) == 0, "no thread");
        pthread_join(last, NULL);
        break;
    default:
        execl("/bin/true", "true", (char *)NULL);
        check_failed(__FILE__, __LINE__, "no exec");
    }
}

static void ends(unsigned long times) {
    for (unsigned long i = 0; i < times; i++)
        child_must_succeed(end_somehow, &i, 60, "a process that ends while its threads allocate");
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void *fork_for_ever(void *unused) {
    for (;;) {
        const pid_t pid = fork();
        if (pid == 0) _exit(0);
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    return unused;
}

/* libc removes fork handlers in exit, also those of a fork that is under way. */
static void end_while_forking(const void *number) {
    enum { FORKING = 3, MOST_US = 20000 };
    pthread_t threads[THREADS], forking;
    struct rng rng = rng_make(*(const unsigned long *)number);
    start(threads);
    for (unsigned i = 0; i < FORKING; i++)
        CHECK(pthread_create(&forking, NULL, fork_for_ever, NULL) == 0, "no thread");
    usleep((useconds_t)(5000 + rng_below(&rng, MOST_US)));
    exit(0);
}

static void ends_while_forking(unsigned long times) {
    for (unsigned long i = 0; i < times; i++)
        child_must_succeed(end_while_forking, &i, 20, "a process that ends while its threads fork");
}

/* ---- cancel ---------------------------------------------------------------------------------- */

static void give_back(void *load) { load_end(load); }

static void *until_cancelled(void *number) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)number), .most = 90000};
    pthread_cleanup_push(give_back, &load);
    for (;;) {
        load_run(&load, 20);
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void cancels(unsigned long times) {
    pthread_t threads[THREADS], one;
    size_t before = API(mallinfo2)().uordblks;
    start(threads);
    for (unsigned long i = 0; i < times; i++) {
        void *result = NULL;
        CHECK(pthread_create(&one, NULL, until_cancelled, (void *)(i + 1)) == 0, "no thread");
        for (unsigned long k = i % 7; k > 0; k--) sched_yield();
        CHECK(pthread_cancel(one) == 0 && pthread_join(one, &result) == 0, "not cancelled");
        CHECK(result == PTHREAD_CANCELED, "the thread ended by itself");
    }
    join(threads);
    size_t after = API(mallinfo2)().uordblks;
    CHECK(after < before + (1 << 20), "%zu bytes in use, %zu before", after, before);
}

/* ---- handler --------------------------------------------------------------------------------- */

static atomic_ulong made, failed;

/* _Fork calls no handlers of libraries, so it may interrupt whatever it likes; its child may not
 * allocate. */
static void make_a_process(int signal_number) {
    int saved = errno, status = 1;
    bool by_vfork = atomic_fetch_add(&made, 1) % 4 == 3;
    (void)signal_number;
    pid_t pid = by_vfork ? vfork() : _Fork();
    if (pid == 0) {
        if (by_vfork) execl("/bin/true", "true", (char *)NULL);
        _exit(by_vfork);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) atomic_fetch_add(&failed, 1);
    errno = saved;
}

static void handlers(unsigned long times) {
    struct sigaction action = {.sa_handler = make_a_process, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1500}, {0, 1500}}, never = {{0, 0}, {0, 0}};
    struct load load = {.rng = rng_make(5), .most = 300000};
    pthread_t threads[THREADS];
    start(threads);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0,
          "no timer");
    while (atomic_load(&made) < times) load_run(&load, 50);
    setitimer(ITIMER_REAL, &never, NULL);
    join(threads);
    load_end(&load);
    CHECK(atomic_load(&failed) == 0, "%lu of %lu processes failed", atomic_load(&failed),
          atomic_load(&made));
}

/* ---- dlopen ---------------------------------------------------------------------------------- */

static unsigned count_maps(void) {
    unsigned lines = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no maps");
    for (int c; (c = getc(maps)) != EOF;) lines += c == '\n';
    fclose(maps);
    return lines;
}

static void loads(unsigned long times, const char *path) {
    pthread_t threads[THREADS];
    unsigned early = 0, late = 0;
    start(threads);
    for (unsigned long i = 0; i < times; i++) {
        void *handle = dlopen(path, i % 2 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_LOCAL);
        CHECK(handle != NULL, "dlopen: %s", dlerror());
        void *(*allocate)(size_t) = (void *(*)(size_t))(uintptr_t)dlsym(handle, "hakmem_malloc");
        void (*release)(void *) = (void (*)(void *))(uintptr_t)dlsym(handle, "hakmem_free");
        if (allocate && release) release(allocate(100 + i));
        CHECK(dlclose(handle) == 0, "dlclose: %s", dlerror());
        if (i == times / 4) early = count_maps();
    }
    late = count_maps();
    join(threads);
    CHECK(late < early + 60, "%u mappings after a quarter, %u at the end", early, late);
}

int main(int argc, char **argv) {
    CHECK(argc > 2, "usage: life CASE TIMES [LIBRARY]");
    unsigned long times = argument(argc, argv, 2, 1);
    const char *name = argv[1];
    bool timed = strcmp(name, "handler") == 0; /* it has the timer that a watchdog would use */
    if (!timed) watchdog(100 + (unsigned)(times / 5), name);
    if (timed)
        handlers(times);
    else if (strcmp(name, "exit") == 0)
        ends(times);
    else if (strcmp(name, "forks") == 0)
        ends_while_forking(times);
    else if (strcmp(name, "cancel") == 0)
        cancels(times);
    else if (argc > 3 && strcmp(name, "dlopen") == 0)
        loads(times, argv[3]);
    else
        check_failed(__FILE__, __LINE__, "no case is called \"%s\"", name);
    printf("%s: %lu times\n", name, times);
    return 0;
}
