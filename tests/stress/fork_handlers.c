/* fork_handlers.c - forks with handlers of another library that allocate, registered before ours.
 *
 *     fork_handlers [forks [mutex|threads]]
 *
 * Handlers of the earliest registration run last before a fork, and first after it: if the allocator
 * registers later, they run while it holds its locks. With `mutex` they also wait for a lock that another
 * thread holds while it allocates. That thread can go on only if the allocator registers first. With `threads` they start threads in the child, which allocate
 * while the allocator has not had its own handler yet. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fork_plugin.h"
#include "figures.h"
#include "load.h"

enum { THREADS = 3, CHILD_SECONDS = 20 };

static atomic_bool stop;

static void *allocate_on(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument), .most = 2000000};
    while (!atomic_load(&stop)) {
        load_run(&load, 50);
        plugin_work();
    }
    load_end(&load);
    return NULL;
}

/* ---- threads of the child's handler ---- */

enum { STARTED = 4 };
static pthread_t started[STARTED];
static pid_t parent;

static void *allocate_some(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument + 7), .most = 200000};
    load_run(&load, 300);
    load_end(&load);
    return NULL;
}

static void start_in_child(void) {
    for (size_t i = 0; getpid() != parent && i < STARTED; i++)
        CHECK(pthread_create(&started[i], NULL, allocate_some, (void *)i) == 0, "no thread");
}

/* Each of them counts once, and no longer than it lives; the child can fork again. */
static void check_started(void) {
    int status;
    size_t (*verify)(void) = LIBRARY(hakmem_verify);
    for (size_t i = 0; i < STARTED; i++) pthread_join(started[i], NULL);
    CHECK(verify != NULL && verify() == 0, "the child's heap is damaged");
    parent = getpid();
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child's child");
}

static void child(unsigned long calls) {
    alarm(CHILD_SECONDS * PATIENCE);
    struct load load = {.rng = rng_make(5), .most = 2000000};
    CHECK(plugin_calls() == calls + 2, "the child ran %lu handlers", plugin_calls() - calls);
    load_run(&load, 100);
    load_end(&load);
    if (parent) check_started();
    plugin_work();
    _exit(0);
}

int main(int argc, char **argv) {
    unsigned long forks = argument(argc, argv, 1, 100);
    pthread_t threads[THREADS];
    watchdog(100, "a fork with handlers that allocate");
    require_hakmem();
    if (argc > 2 && strcmp(argv[2], "mutex") == 0) plugin_hold_mutex();
    if (argc > 2 && strcmp(argv[2], "threads") == 0) {
        parent = getpid();
        plugin_set_extra(start_in_child);
    }
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)) == 0, "no thread");
    for (unsigned long i = 0; i < forks; i++) {
        int status;
        unsigned long calls = plugin_calls();
        pid_t pid = fork();
        CHECK(pid >= 0, "fork %lu failed", i);
        if (pid == 0) child(calls);
        CHECK(plugin_calls() == calls + 2, "the parent ran %lu handlers", plugin_calls() - calls);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %lu: status %#x", i,
              (unsigned)status);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("%lu forks\n", forks);
    return 0;
}
