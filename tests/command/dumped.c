/* dumped.c - a program whose heap debugger.py looks at: it calls looked_at() with all kinds of blocks,
 * then aborts. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

enum { COUNT = 1000, SIZE = 224, LARGE = 300000, HUGE_SIZE = 5 * 1024 * 1024 };

char *used, *in_slab, *cached, *cached_there, *large, *huge, *own;
static char *blocks[COUNT];
static pthread_barrier_t done;

static void *free_there(void *block) {
    static char *first; /* makes the thread's cache */
    first = API(malloc)(20000);
    API(free)(block);
    CHECK(first, "no memory");
    pthread_barrier_wait(&done);
    pause();
    return NULL;
}

/* A breakpoint. */
__attribute__((noinline, used)) static void looked_at(void) { __asm__ volatile("" ::: "memory"); }

int main(void) {
    pthread_t thread;
    static char mine[16];
    watchdog(60, "a program that is looked at");
    require_hakmem();
    for (size_t i = 0; i < COUNT; i++) CHECK((blocks[i] = API(malloc)(SIZE)) != NULL, "no memory");
    for (size_t i = 0; i < COUNT; i += 2) API(free)(blocks[i]);
    used = blocks[COUNT / 2 + 1];
    in_slab = blocks[0]; /* the oldest of those that were freed: given back by now */
    cached = API(malloc)(1000);
    API(free)(cached);
    large = API(malloc)(LARGE);
    huge = API(malloc)(HUGE_SIZE);
    own = mine;
    cached_there = API(malloc)(1500);
    CHECK(pthread_barrier_init(&done, NULL, 2) == 0, "no barrier");
    CHECK(pthread_create(&thread, NULL, free_there, cached_there) == 0, "no thread");
    pthread_barrier_wait(&done);
    looked_at();
    abort();
}
