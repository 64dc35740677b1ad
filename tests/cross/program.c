/* program.c - threads that allocate, resize and free blocks of all tiers, and check their contents; then
 * zeros out of memory that was used and given back. For aarch64.py and musl.py: an emulator is slow. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* musl has none: there it is the library's, which may be loaded before the program. */
__attribute__((weak)) int malloc_trim(size_t pad);

enum { THREADS = 3, TURNS = 4000, LIVE = 64, SMALL = 2000, LARGE = 90000, HUGE = 3 << 20 };

static void fail(const char *what) {
    printf("FAIL: %s\n", what);
    exit(1);
}

static size_t size_of_turn(unsigned turn) {
    if (turn % 500 == 499) return HUGE;
    return 1 + turn * 7919u % (turn % 8 ? SMALL : LARGE);
}

static void check(const unsigned char *block, size_t size, unsigned char with) {
    if (block[0] != with || block[size / 2] != with || block[size - 1] != with)
        fail("a block has changed");
}

static void *work(void *argument) {
    struct {
        unsigned char *start;
        size_t size;
    } live[LIVE] = {{NULL, 0}};
    const unsigned char mine = (unsigned char)(uintptr_t)argument;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned at = turn * 31u % LIVE;
        size_t size = size_of_turn(turn), kept = size < live[at].size ? size : live[at].size;
        if (kept) check(live[at].start, live[at].size, mine);
        unsigned char *block = realloc(live[at].start, size);
        if (!block) fail("no memory");
        if (kept && (block[0] != mine || block[kept - 1] != mine)) fail("realloc loses contents");
        memset(block, mine, size);
        live[at].start = block;
        live[at].size = size;
    }
    for (unsigned at = 0; at < LIVE; at++) free(live[at].start);
    return NULL;
}

static void see_zeros(size_t size) {
    for (int turn = 0; turn < 3; turn++) {
        unsigned char *block = calloc(1, size);
        for (size_t i = 0; i < size; i++)
            if (block[i]) fail("calloc gives old data");
        memset(block, 0xEE, size);
        free(block);
        malloc_trim(0);
    }
}

int main(void) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)) != 0) fail("no thread");
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t size = 100; size <= HUGE; size *= 31) see_zeros(size);
    see_zeros(HUGE);
    printf("good, pages of %ld bytes\n", sysconf(_SC_PAGESIZE));
    return 0;
}
