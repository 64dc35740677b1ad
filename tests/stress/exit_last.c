/* exit_last.c - libc runs the handlers of exit() on the process's last thread. That is the program's own, although
 * the heap is so large that the allocator has a helper thread.
 *
 *     exit_last worker|main [rounds]
 *
 * `worker`: main leaves by pthread_exit, and a detached thread ends last; `main`: the other way round. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

enum { BLOCK_SIZE = 65000, BLOCKS = 900, HANDLER_RAN = 7 };

static bool worker_is_last;
static unsigned pause_ms;
static _Atomic long last;

static long thread_number(void) { return syscall(SYS_gettid); }

static void at_exit(void) {
    volatile char stack[1 << 20]; /* more than the helper has */
    memset((char *)stack, 1, sizeof stack);
    CHECK(last == thread_number() && stack[77] == 1,
          "the handler runs on thread %ld; the last one is %ld", thread_number(), (long)last);
    _exit(HANDLER_RAN);
}

/* A large heap of this thread, so a helper; it is at work when the thread ends. */
static void use_memory(void) {
    static unsigned char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = API(malloc)(BLOCK_SIZE);
        CHECK(blocks[i] != NULL, "malloc(%d) gave NULL", BLOCK_SIZE);
        memset(blocks[i], 1, BLOCK_SIZE);
    }
    for (size_t i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
}

static void *work(void *unused) {
    proc_sleep_ms(30);
    if (worker_is_last) {
        last = thread_number();
        use_memory();
        proc_sleep_ms(pause_ms);
    }
    return unused;
}

static void leave_main(const void *unused) {
    (void)unused;
    pthread_t thread;
    CHECK(atexit(at_exit) == 0, "atexit");
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
    if (worker_is_last) {
        pthread_detach(thread);
        pthread_exit(NULL);
    }
    last = thread_number();
    use_memory();
    pthread_join(thread, NULL);
    proc_sleep_ms(pause_ms);
    pthread_exit(NULL);
}

int main(int argc, char **argv) {
    CHECK(argc > 1, "usage: exit_last worker|main [rounds]");
    worker_is_last = strcmp(argv[1], "worker") == 0;
    const unsigned long rounds = argument(argc, argv, 2, 4);
    watchdog(80, "pthread_exit in main");
    require_hakmem();
    for (unsigned long i = 0; i < rounds; i++) {
        struct child_end end;
        pause_ms = (unsigned)(i * 223 % 1000); /* the helper starts, naps, sleeps */
        child_run(leave_main, NULL, 15, &end);
        CHECK(end.in_time && WIFEXITED(end.status) && WEXITSTATUS(end.status) == HANDLER_RAN,
              "round %lu: %s, status %#x: %s", i, end.in_time ? "ended" : "hangs",
              (unsigned)end.status, end.err);
    }
    return 0;
}
