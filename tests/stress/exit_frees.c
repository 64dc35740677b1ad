/* exit_frees.c - frees in every round of thread-specific destructors, in atexit and after main.
 *
 *     exit_frees [threads]
 *
 * A destructor that sets its key again is called again, up to PTHREAD_DESTRUCTOR_ITERATIONS times.
 * Keys are made before and after the first malloc, so that some of them run after the allocator's
 * own thread exit in each round. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#include "load.h"
#include "proc.h"

#define KEYS 6
#define AT_ONCE 4
#define BLOCK_SIZE 600

static pthread_key_t keys[KEYS];
static void *last_block;
static pthread_barrier_t together;

struct chain {
    unsigned rounds_left;
    pthread_key_t key;
    void *blocks[100];
};

/* Frees what the last round left, allocates anew, and asks to be called again. */
static void next_round(void *value) {
    struct chain *chain = value;
    for (size_t i = 0; i < 100; i++) API(free)(chain->blocks[i]);
    if (chain->rounds_left == 0) {
        API(free)(chain);
        return;
    }
    chain->rounds_left--;
    for (size_t i = 0; i < 100; i++) {
        chain->blocks[i] = API(malloc)(BLOCK_SIZE + i);
        CHECK(chain->blocks[i] != NULL, "malloc in a destructor gave NULL");
        memset(chain->blocks[i], 1, BLOCK_SIZE);
    }
    pthread_setspecific(chain->key, chain);
}

static void *short_life(void *argument) {
    for (size_t i = 0; i < KEYS; i++) {
        struct chain *chain = API(calloc)(1, sizeof *chain);
        CHECK(chain != NULL, "calloc gave NULL");
        /* One round fewer than there are, so that the chain itself is freed by the last. */
        chain->rounds_left = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
        chain->key = keys[i];
        pthread_setspecific(keys[i], chain);
    }
    /* All end at once in each group, so that the most memory is in use from the start. */
    pthread_barrier_wait(&together);
    return argument;
}

/* Makes so many threads; returns the highest resident memory seen between groups of them. */
static size_t peak_over(unsigned long count) {
    pthread_t threads[AT_ONCE];
    size_t peak = 0;
    for (unsigned long done = 0; done < count; done += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE; i++)
            CHECK(pthread_create(&threads[i], NULL, short_life, NULL) == 0, "no thread");
        for (size_t i = 0; i < AT_ONCE; i++) pthread_join(threads[i], NULL);
        size_t now = done % 64 == 0 ? proc_rss_kib() : 0;
        peak = now > peak ? now : peak;
    }
    return peak;
}

static void at_exit(void) {
    API(free)(last_block);
    last_block = API(malloc)(BLOCK_SIZE);
}

__attribute__((constructor)) static void before_main(void) {
    /* Keys older than any that the allocator may make for itself. */
    for (size_t i = 0; i < KEYS / 2; i++)
        CHECK(pthread_key_create(&keys[i], next_round) == 0, "no key");
}

__attribute__((destructor)) static void after_main(void) {
    API(free)(last_block);
    for (size_t size = 1; size < 100000; size *= 3) API(free)(API(malloc)(size));
}

int main(int argc, char **argv) {
    unsigned long count = argument(argc, argv, 1, 8000);
    watchdog(120, "frees at thread and process exit");
    require_hakmem();
    last_block = API(malloc)(BLOCK_SIZE);
    for (size_t i = KEYS / 2; i < KEYS; i++)
        CHECK(pthread_key_create(&keys[i], next_round) == 0, "no key");
    CHECK(atexit(at_exit) == 0, "no atexit");
    pthread_barrier_init(&together, NULL, AT_ONCE);
    size_t early = peak_over(count / 4);
    peak_over(count / 2);
    size_t late = peak_over(count / 4);
    /* A leak of one block a thread would be 3,600 KiB and more; caches vary by less than 1 MiB. */
    CHECK(late <= early + 1024, "resident memory grew from %zu to %zu KiB over %lu threads", early,
          late, count);
    return 0;
}
