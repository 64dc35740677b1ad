/* fork_asks.c - fork handlers that ask for the statistics, or for a check of the whole heap, while another thread does.
 *
 *     fork_asks stats|verify FORKS
 *
 * The handler is registered before the allocator's: it runs when the gate is closed, and the other thread may wait there
 * with a lock that the question needs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

static size_t (*verify)(void);
static size_t violations, least_used;

static void ask(void) {
    if (verify)
        violations += verify();
    else
        CHECK(mallinfo2().uordblks >= least_used, "a fork handler is told of no blocks");
}

static void *ask_for_ever(void *unused) {
    for (;;) verify ? (void)verify() : (void)mallinfo2();
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    CHECK(argc > 2, "usage: fork_asks stats|verify FORKS");
    CHECK(pthread_atfork(ask, ask, ask) == 0, "no fork handler");
    watchdog(60, "a question in a fork handler");
    require_hakmem();
    CHECK(malloc(100000) != NULL, "no block");
    least_used = 100000;
    if (strcmp(argv[1], "verify") == 0) {
        *(void **)&verify = dlsym(RTLD_DEFAULT, "hakmem_verify");
        CHECK(verify != NULL, "no hakmem_verify");
    }
    CHECK(pthread_create(&thread, NULL, ask_for_ever, NULL) == 0, "no thread");
    for (unsigned long left = argument(argc, argv, 2, 1); left > 0; left--) {
        int status;
        const pid_t pid = fork();
        if (pid == 0) _exit(violations != 0);
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a child: %#x",
              (unsigned)status);
    }
    CHECK(violations == 0, "%zu violations", violations);
    printf("fork_asks: %s\n", argv[1]);
    _exit(0);
}
