/* abort_handler.c - what the handler of SIGABRT may do when HAKMEM finds a double free.
 *
 * HAKMEM finds the first one while it flushes a magazine of the calling thread. The handler frees blocks of the same class,
 * and jumps back into the program: no other free may be reported, and no block handed out twice. It finds the second one
 * while it empties the cache of a thread that has ended. The handler then starts a thread that allocates, so no lock may
 * be held. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { BLOCKS = 4000, BLOCK = 64 };

static void *blocks[BLOCKS], *new_blocks[2 * BLOCKS];
static sigjmp_buf back;
static volatile sig_atomic_t aborts;

static void free_some(unsigned from, unsigned to) {
    for (; from < to; from++) API(free)(blocks[from]);
}

static void on_abort_in_flush(int signal_number) {
    (void)signal_number;
    CHECK(++aborts == 1, "a correct free in the handler was reported");
    free_some(BLOCKS / 2, BLOCKS);
    siglongjmp(back, 1);
}

static int by_address(const void *one, const void *other) {
    char *const a = *(char *const *)one, *const b = *(char *const *)other;
    return (a > b) - (a < b);
}

static void check_new_blocks(void) {
    for (unsigned i = 0; i < 2 * BLOCKS; i++) new_blocks[i] = API(malloc)(BLOCK);
    qsort(new_blocks, 2 * BLOCKS, sizeof *new_blocks, by_address);
    for (unsigned i = 1; i < 2 * BLOCKS; i++)
        CHECK(new_blocks[i] != new_blocks[i - 1], "%p was handed out twice", new_blocks[i]);
}

static void free_twice_in_flush(void) {
    signal(SIGABRT, on_abort_in_flush);
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = API(malloc)(BLOCK);
    if (sigsetjmp(back, 1) == 0) {
        free_some(0, 6);
        API(free)(blocks[0]);
        free_some(6, BLOCKS / 2);
        CHECK(false, "the double free was not found");
    }
    check_new_blocks();
}

static void *volatile twice;

/* The second free is not of the block that was freed last, so the call itself cannot detect it. */
static void *free_twice(void *unused) {
    twice = API(malloc)(320);
    void *other = API(malloc)(320);
    API(free)(twice);
    API(free)(other);
    API(free)(twice);
    return unused;
}

static void *allocate(void *unused) {
    CHECK(API(malloc)(1000) != NULL, "malloc(1000) gave NULL");
    return unused;
}

static void on_abort(int signal_number) {
    pthread_t thread;
    (void)signal_number;
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    _exit(0);
}

int main(void) {
    pthread_t thread;
    watchdog(20, "a handler of SIGABRT that allocates in a new thread");
    require_hakmem();
    proc_no_core_files();
    free_twice_in_flush();
    signal(SIGABRT, on_abort);
    CHECK(pthread_create(&thread, NULL, free_twice, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    API(malloc_trim)(0);
    CHECK(false, "the double free was not found");
}
