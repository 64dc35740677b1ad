/* abort_handler.c - what the handler of SIGABRT may do when HAKMEM finds a double free.
 *
 * HAKMEM finds the first one while it flushes a magazine of the calling thread. The handler frees blocks of the same class,
 * and jumps back into the program: no other free may be reported, and no block handed out twice. It finds the second one
 * while it empties the cache of a thread that has ended, in a piece of purge work. The handler jumps back once more: free
 * memory must still go back to the system, and the other blocks of that cache must be handed out again. At the third one it starts a thread that allocates, so no lock may be held. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { BLOCKS = 4000, BLOCK = 64, LARGE_BLOCKS = 1000, LARGE = 70 * 1024 };

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

/* Larger ones than the block that is freed twice: their magazine is emptied after that one's. */
enum { OTHERS = 4, OTHER = 640 };
static void *volatile of_thread[OTHERS];

/* The second free is of none of the two blocks that were freed last, so the call itself cannot detect it. */
static void *free_twice(void *unused) {
    for (unsigned i = 0; i < OTHERS; i++) of_thread[i] = API(malloc)(OTHER);
    for (unsigned i = 0; i < OTHERS; i++) API(free)(of_thread[i]);
    twice = API(malloc)(320);
    void *others[] = {API(malloc)(320), API(malloc)(320)};
    API(free)(twice);
    for (unsigned i = 0; i < 2; i++) API(free)(others[i]);
    API(free)(twice);
    return unused;
}

static void leave_double_free(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_twice, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void jump_back(int signal_number) {
    (void)signal_number;
    siglongjmp(back, 1);
}

/* Slow calls of malloc and free, some of which do a piece of purge work. */
static void let_purge(void) {
    for (unsigned i = 0; i < 100; i++) API(free)(API(malloc)(LARGE));
    proc_sleep_ms(10);
}

static void check_memory_goes_back(void) {
    const size_t before = proc_rss_kib();
    for (unsigned i = 0; i < LARGE_BLOCKS; i++) memset(blocks[i] = API(malloc)(LARGE), 1, LARGE);
    for (unsigned i = 0; i < LARGE_BLOCKS; i++) API(free)(blocks[i]);
    size_t more = SIZE_MAX;
    for (unsigned turns = 0; turns < 500 && more > LARGE_BLOCKS / 2 * (LARGE / 1024); turns++) {
        let_purge();
        const size_t now = proc_rss_kib();
        more = now > before ? now - before : 0;
    }
    CHECK(more <= LARGE_BLOCKS / 2 * (LARGE / 1024), "%zu KiB stay resident", more);
}

static void check_cache_is_there(void) {
    unsigned found = 0;
    API(malloc_trim)(0); /* empties all waiting caches */
    for (unsigned i = 0; i < 2 * BLOCKS; i++) {
        new_blocks[i] = API(malloc)(OTHER);
        for (unsigned k = 0; k < OTHERS; k++) found += new_blocks[i] == of_thread[k];
    }
    for (unsigned i = 0; i < 2 * BLOCKS; i++) API(free)(new_blocks[i]);
    CHECK(found == OTHERS, "of %u blocks in the cache %u came back", (unsigned)OTHERS, found);
}

static void find_in_a_piece(void) {
    signal(SIGABRT, jump_back);
    leave_double_free();
    if (sigsetjmp(back, 1) == 0) {
        for (unsigned turns = 0; turns < 500; turns++) let_purge();
        CHECK(false, "the double free was not found by purge work");
    }
    check_cache_is_there();
    check_memory_goes_back();
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
    watchdog(60, "handlers of SIGABRT");
    require_hakmem();
    proc_no_core_files();
    free_twice_in_flush();
    find_in_a_piece();
    signal(SIGABRT, on_abort);
    leave_double_free();
    API(malloc_trim)(0);
    CHECK(false, "the double free was not found");
}
