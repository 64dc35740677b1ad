/* alone.c - a program that starts no thread stays without one, however large its heap.
 *
 *     alone [forks]
 *
 *   threads    /proc/self/task shows one thread while a large heap is made, freed and made again
 *   namespace  unshare(CLONE_NEWUSER), which the kernel refuses to a process with threads, says the
 *              same with a large heap as with none
 *   handler    forks in the handler of a timer, which interrupts forks, do not hang */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

enum { BLOCKS = 40000, SIZE = 4000, ROUNDS = 3, ROUND_MS = 300, TIMER_US = 2000 };

static unsigned long forks;
static volatile sig_atomic_t forked;

static void *blocks[BLOCKS];

static void make_heap(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = API(malloc)(SIZE);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, SIZE);
    }
}

static void free_heap(void) {
    for (size_t i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
}

static void check_threads(const void *unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        make_heap();
        proc_sleep_ms(ROUND_MS);
        CHECK(proc_threads() == 1, "there are %u threads", proc_threads());
        free_heap();
        CHECK(proc_threads() == 1, "there are %u threads", proc_threads());
    }
}

/* Ends with the error of unshare, or 0. */
static void unshare_user(const void *with_heap) {
    if (with_heap) make_heap();
    proc_sleep_ms(ROUND_MS);
    int error = unshare(CLONE_NEWUSER) == 0 ? 0 : errno;
    _exit(error);
}

static void check_namespace(void) {
    struct child_end small, large;
    child_run(unshare_user, NULL, 20, &small);
    child_run(unshare_user, &small, 20, &large);
    CHECK(small.in_time && large.in_time && WIFEXITED(small.status) && WIFEXITED(large.status),
          "a child did not end by itself");
    CHECK(WEXITSTATUS(large.status) != EINVAL && large.status == small.status,
          "unshare says \"%s\", and \"%s\" without a heap", strerror(WEXITSTATUS(large.status)),
          strerror(WEXITSTATUS(small.status)));
}

static void fork_here(int unused) {
    (void)unused;
    int saved = errno;
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    if (pid > 0) waitpid(pid, NULL, 0);
    forked++;
    errno = saved;
}

static void check_handler(const void *unused) {
    (void)unused;
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    make_heap();
    proc_sleep_ms(ROUND_MS);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0, "no handler");
    for (unsigned long i = 0; i < forks; i++) { /* the signal comes a little later each time */
        struct itimerval once = {{0, 0}, {0, 1 + (suseconds_t)(i * 37 % TIMER_US)}};
        CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0, "no timer");
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        int status = -1;
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
        CHECK(pid < 0 || status == 0, "a child ended with 0x%x", status);
    }
    CHECK(forked > 0, "the timer interrupted nothing");
}

int main(int argc, char **argv) {
    forks = argument(argc, argv, 1, 400);
    watchdog(100, "a program without threads");
    require_hakmem();
    child_must_succeed(check_threads, NULL, 30, "threads");
    check_namespace();
    child_must_succeed(check_handler, NULL, 60, "forks in a handler");
    return 0;
}
