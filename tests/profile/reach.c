/* reach.c - blocks that the program can reach when it ends, and blocks that it has lost. Each has a size of
 * its own, from 1001 on; profile.py knows which are which.
 *
 *     test_profile_reach alone    ends with one thread
 *     test_profile_reach helper   the same, with a heap so large that the library has a helper thread
 *     test_profile_reach thread   ends while another thread sleeps
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

enum { LARGE = 300000, HUGE_SIZE = 5000000, ROUND = 4096, LARGE_ROUND = 327680, CHAIN = 20 };
enum { PAGE = 4096, STACK = 32768, CLOSED = 2 };

static void **by_data, *volatile by_inside;
static void *volatile by_end[2];
static __thread void *volatile by_tls;
static void **volatile coroutine, *volatile closed[CLOSED];
static volatile int closed_count = CLOSED;

static __attribute__((noinline)) void *get(size_t size) {
    void *block = API(calloc)(1, size);
    CHECK(block != NULL, "no memory");
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static __attribute__((noinline)) void reachable(void) {
    by_data = get(1001);
    by_data[0] = get(1002);
    ((void **)by_data[0])[7] = get(1003); /* through two blocks */
    by_inside = (char *)get(1004) + 1000;
    by_tls = get(1005);
    char *large = get(LARGE), *huge = get(HUGE_SIZE);
    by_data[1] = large + LARGE / 2;
    by_data[2] = huge + HUGE_SIZE / 2;
    *(void **)(huge + HUGE_SIZE - 8) = get(1006);
    *(void **)large = get(1007);
    void **page = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED, "no memory");
    page[4097] = get(1008);
    CHECK(mprotect(page, 65536, PROT_READ) == 0, "mprotect");
    void **chain = get(1009);
    by_data[3] = chain;
    for (int i = 1; i < CHAIN; i++) chain = chain[i] = get(1009);
}

static __attribute__((noinline)) void *get_pages(size_t size) {
    void *block = NULL;
    CHECK(API(posix_memalign)(&block, PAGE, size) == 0, "no memory");
    return block;
}

static void close_page(void *page) {
    if (sysconf(_SC_PAGESIZE) == PAGE) CHECK(mprotect(page, PAGE, PROT_NONE) == 0, "mprotect");
}

/* A coroutine's stack with a guard page below it, and blocks whose only page cannot be read. */
static __attribute__((noinline)) void guarded(void) {
    coroutine = get_pages(STACK);
    coroutine[STACK / sizeof *coroutine - 1] = get(1011);
    void **unread = get(2008);
    if (sysconf(_SC_PAGESIZE) == PAGE) coroutine[0] = unread;
    close_page(coroutine);
    for (int i = 0; i < closed_count; i++) close_page(closed[i] = get_pages(PAGE));
}

static __attribute__((noinline)) void lost(void) {
    void **parent = get(2001), **freed = get(2005);
    *parent = get(2002); /* only a lost block has it */
    parent = get(2003);
    parent[0] = parent; /* only it itself has it */
    memset(get(LARGE + 1), 1, 100);
    memset(get(HUGE_SIZE + 1), 1, 100);
    *freed = get(2004);
    API(free)(freed); /* what freed memory still says does not count */
    by_end[0] =
        (char *)get(ROUND) + ROUND; /* an address behind a block is not one of the next block */
    get(2006);
    by_end[1] = (char *)get(LARGE_ROUND) + LARGE_ROUND;
    get(LARGE + 2);
    void **shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no memory");
    *shared = get(2007); /* is not searched, and the report says so */
}

static __attribute__((noinline)) int scrub(int depth) {
    volatile char room[4096];
    memset((char *)room, 0, sizeof room);
    return depth ? scrub(depth - 1) + room[9] : 0;
}

static void *sleeps(void *started) {
    pthread_barrier_wait(started);
    while (pause() != 0) {
    }
    return NULL;
}

static void with_threads(const char *what) {
    pthread_t thread;
    if (strcmp(what, "thread") == 0) {
        static pthread_barrier_t started;
        pthread_barrier_init(&started, NULL, 2);
        CHECK(pthread_create(&thread, NULL, sleeps, &started) == 0, "no thread");
        pthread_barrier_wait(&started);
    } else if (strcmp(what, "helper") == 0) {
        for (int i = 0; i < 2000; i++) by_data[4 + i % 8] = memset(get(50000), 0, 50000);
        struct stat status = {.st_nlink = 0};
        while (status.st_nlink < 4) stat("/proc/self/task", &status); /* 2 and its threads */
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2, "usage: test_profile_reach alone|helper|thread");
    reachable();
    guarded();
    lost();
    with_threads(argv[1]);
    void *volatile on_stack[2] = {get(1010)};
    exit(scrub(30) + (on_stack[0] == NULL));
}
