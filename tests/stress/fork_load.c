/* fork_load.c - forks from a process whose threads allocate at full speed.
 *
 *     fork_load [forks [threads]]
 *
 * Each child allocates, resizes and frees, also inherited blocks; every eighth one starts a thread. An
 * alarm ends a child that hangs, and the test fails. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load.h"
#include "proc.h"

#define CHILD_SECONDS 20
#define INHERITED 64
#define THREAD_LIMIT 64

static atomic_bool stop;
static _Atomic(void *) passing[16]; /* blocks on their way from thread to thread */

static void *allocate_on(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument), .most = 100000};
    while (!atomic_load(&stop)) {
        load_run(&load, 100);
        void *block = API(malloc)(1 + rng_below(&load.rng, 5000));
        API(free)(atomic_exchange(&passing[rng_below(&load.rng, 16)], block));
    }
    load_end(&load);
    return NULL;
}

static void *thread_of_child(void *argument) {
    struct load load = {.rng = rng_make(7), .most = 5000};
    load_run(&load, 2000);
    load_end(&load);
    return argument;
}

static void child(unsigned long index, void **inherited) {
    signal(SIGALRM, SIG_DFL); /* the parent's watchdog would speak */
    alarm(CHILD_SECONDS * PATIENCE);
    struct load load = {.rng = rng_make(index), .most = 200000};
    load_run(&load, 400);
    for (size_t i = 0; i < INHERITED; i++)
        API(free)(API(realloc)(inherited[i], 1 + rng_below(&load.rng, 3000)));
    load_end(&load);
    if (index % 8 == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, thread_of_child, NULL) == 0, "no thread in a child");
        pthread_join(thread, NULL);
    }
    if (index % 16 == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) {
            load_run(&load, 100);
            _exit(0);
        }
        int status;
        waitpid(grandchild, &status, 0);
        CHECK(status == 0, "a grandchild ended with status %d", status);
    }
    /* Both ways out: with and without exit handlers. */
    if (index % 2 == 0) exit(0);
    _exit(0);
}

int main(int argc, char **argv) {
    unsigned long count = argument(argc, argv, 1, 200);
    unsigned long thread_count = argument(argc, argv, 2, 8);
    pthread_t threads[THREAD_LIMIT];
    CHECK(thread_count <= THREAD_LIMIT, "at most %d threads", THREAD_LIMIT);
    watchdog(60 + (unsigned)(count / 10), "forks under load");
    require_hakmem();
    proc_no_core_files();
    for (size_t i = 0; i < thread_count; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)) == 0, "no thread");
    for (unsigned long index = 0; index < count; index++) {
        void *inherited[INHERITED];
        for (size_t i = 0; i < INHERITED; i++) inherited[i] = API(malloc)(i * 17 + 1);
        pid_t pid = fork();
        CHECK(pid >= 0, "fork %lu failed", index);
        if (pid == 0) child(index, inherited);
        for (size_t i = 0; i < INHERITED; i++) API(free)(inherited[i]);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid, "waitpid failed");
        CHECK(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM), "child %lu hung", index);
        CHECK(status == 0, "child %lu ended with status 0x%x", index, (unsigned)status);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    printf("%lu forks under %lu allocating threads\n", count, thread_count);
    return 0;
}
