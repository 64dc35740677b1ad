/* spawn.c - posix_spawn, vfork and exec chains from a process whose threads allocate.
 *
 *     spawn [processes]
 *
 * The new programs are this one again ("spawn leaf"), so they run on the allocator too. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load.h"

extern char **environ;

static atomic_bool stop;

static void *allocate_on(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument), .most = 50000};
    while (!atomic_load(&stop)) load_run(&load, 100);
    load_end(&load);
    return NULL;
}

/* A program at the end of a chain of exec: "spawn leaf N" execs itself N times. */
static int leaf(char **argv) {
    struct load load = {.rng = rng_make(3), .most = 50000};
    watchdog(30, "a spawned program");
    load_run(&load, 1000);
    if (argv[2][0] > '0') {
        char shorter[2] = {(char)(argv[2][0] - 1), 0};
        char *next[] = {argv[0], argv[1], shorter, NULL};
        execv("/proc/self/exe", next);
        _exit(3);
    }
    load_end(&load);
    return 0;
}

static void wait_for(pid_t pid, const char *how) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid, "waitpid failed");
    CHECK(status == 0, "a process made by %s ended with status 0x%x", how, (unsigned)status);
}

int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "leaf") == 0) return leaf(argv);
    unsigned long count = argument(argc, argv, 1, 100);
    pthread_t threads[4];
    watchdog(60 + (unsigned)(count / 10), "spawned processes");
    require_hakmem();
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)) == 0, "no thread");
    for (unsigned long i = 0; i < count; i++) {
        char depth[2] = {(char)('0' + i % 3), 0};
        char *arguments[] = {argv[0], (char[]){"leaf"}, depth, NULL};
        pid_t pid;
        CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) == 0,
              "posix_spawn failed");
        wait_for(pid, "posix_spawn");
        pid = vfork();
        CHECK(pid >= 0, "vfork failed");
        if (pid == 0) {
            execv("/proc/self/exe", arguments);
            _exit(3);
        }
        wait_for(pid, "vfork");
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%lu processes by each of two ways\n", count);
    return 0;
}
