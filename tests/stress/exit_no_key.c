/* exit_no_key.c - a process ends with its last thread although its heap is large and the program has taken all keys of
 * threads: without one the allocator never learns that a thread ends, so no helper may keep the process alive.
 *
 *     exit_no_key */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

enum { BLOCK_SIZE = 65000, BLOCKS = 900 };

static void *work(void *unused) {
    static unsigned char *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = API(malloc)(BLOCK_SIZE);
        CHECK(blocks[i] != NULL, "malloc(%d) gave NULL", BLOCK_SIZE);
        memset(blocks[i], 1, BLOCK_SIZE);
    }
    proc_sleep_ms(100);
    for (size_t i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
    return unused;
}

static void leave_main(const void *unused) {
    (void)unused;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
    pthread_detach(thread);
    pthread_exit(NULL);
}

int main(void) {
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0) { /* before the first allocation */
    }
    child_must_succeed(leave_main, NULL, 15, "the end of the last thread");
    require_hakmem();
    return 0;
}
