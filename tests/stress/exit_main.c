/* exit_main.c - a process whose main thread calls pthread_exit ends, although its heap is so large that
 * the allocator has a helper thread.
 *
 *     exit_main [detached threads]
 *
 * The detached threads never allocate. They are so many that libc frees memory of some of them after
 * their destructors have run: such a free must not make the thread count as alive. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

#define BLOCK_SIZE 40000
#define BLOCKS 1200

static unsigned long threads;
static unsigned char *blocks[BLOCKS];

static void *nap(void *unused) {
    proc_sleep_ms(300);
    return unused;
}

static void leave_main(const void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = API(malloc)(BLOCK_SIZE);
        CHECK(blocks[i] != NULL, "malloc(%d) gave NULL", BLOCK_SIZE);
        blocks[i][0] = 1;
    }
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (unsigned long i = 0; i < threads; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &detached, nap, NULL) == 0, "no thread");
    }
    size_t alive = 0;
    for (int step = 0; step < 1000; step++) {
        proc_sleep_ms(10);
        alive = proc_status_kib("Threads");
        if (alive <= 2) break;
    }
    CHECK(alive == 2, "%zu threads are alive; expected were main and the helper", alive);
    pthread_exit(NULL);
}

int main(int argc, char **argv) {
    threads = argument(argc, argv, 1, 12);
    watchdog(50, "pthread_exit in main");
    require_hakmem();
    child_must_succeed(leave_main, NULL, 15, "pthread_exit in main");
    return 0;
}
