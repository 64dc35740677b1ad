/* shard_figures.c - what the options of shards change. */
#define _GNU_SOURCE
#include "shard_figures.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc_names.h"
#include "check.h"
#include "pool_figures.h"

enum { UNIT_SHIFT = 16, THREADS = 4 };

static void *block_of_no_use;

static uintptr_t unit_of(const void *block) { return (uintptr_t)block >> UNIT_SHIFT; }

static pthread_barrier_t all_are_here;

static void *allocate_one(void *size) {
    void *block = API(malloc)(*(size_t *)size);
    pthread_barrier_wait(&all_are_here); /* so that no thread takes over another one's cache */
    return block;
}

/* Slabs that the blocks of four threads lie in, each thread with one block of the same size. */
long slabs_of_four_threads(void) {
    pthread_t threads[THREADS];
    size_t size = 200;
    long count = 0;
    uintptr_t seen[THREADS];
    for (int i = 0; i < 1000; i++) block_of_no_use = API(malloc)(size); /* the class has slabs */
    pthread_barrier_init(&all_are_here, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_one, &size) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) {
        void *block;
        bool is_new = true;
        pthread_join(threads[i], &block);
        for (long k = 0; k < count; k++) is_new = is_new && seen[k] != unit_of(block);
        if (is_new) seen[count++] = unit_of(block);
    }
    return count;
}

static void stay_on_this_cpu(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot stay on one CPU");
}

/* Slabs of four threads that all start on one CPU. */
long slabs_on_one_cpu(void) {
    stay_on_this_cpu();
    return slabs_of_four_threads();
}

static void *allocate_and_stay(void *size) {
    allocate_one(size);
    pthread_barrier_wait(&all_are_here);
    return NULL;
}

/* Threads in the shard that has most, of main and four more that all start on one CPU. */
long threads_of_one_shard(void) {
    pthread_t threads[THREADS];
    size_t size = 200;
    stay_on_this_cpu();
    block_of_no_use = API(malloc)(size);
    pthread_barrier_init(&all_are_here, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_and_stay, &size) == 0, "no thread");
    pthread_barrier_wait(&all_are_here);
    long most = statistic("threads.shard_most");
    pthread_barrier_wait(&all_are_here);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return most;
}

/* 1 when a thread of another shard gets a used block of this thread's shard, 0 when it gets one
 * from a slab of its own. */
long blocks_of_another_shard(void) {
    enum { COUNT = 200 };
    void *blocks[COUNT], *theirs;
    pthread_t thread;
    size_t size = 200;
    for (int i = 0; i < COUNT; i++) blocks[i] = API(malloc)(size);
    for (int i = 0; i < COUNT; i++)
        if (i % 2) API(free)(blocks[i]);
    API(malloc_trim)(0);
    pthread_barrier_init(&all_are_here, NULL, 1);
    CHECK(pthread_create(&thread, NULL, allocate_one, &size) == 0, "no thread");
    pthread_join(thread, &theirs);
    for (int i = 0; i < COUNT; i += 2)
        if (unit_of(blocks[i]) == unit_of(theirs)) return 1;
    return 0;
}

/* 1 when an empty slab that main's shard keeps goes over to another one as a whole, 0 when a thread
 * of the other shard takes single blocks of it. */
long empty_slab_moves(void) {
    void *blocks[3]; /* one block fills a slab */
    pthread_t thread;
    size_t size = 61440;
    for (int i = 0; i < 3; i++) blocks[i] = API(malloc)(size);
    for (int i = 0; i < 3; i++) API(free)(blocks[i]);
    pthread_barrier_init(&all_are_here, NULL, 1);
    CHECK(pthread_create(&thread, NULL, allocate_one, &size) == 0, "no thread");
    pthread_join(thread, NULL);
    return statistic("pool.adopted_empty");
}
