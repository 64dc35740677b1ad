/* warm.c - waiting threads with bound slabs keep no free memory from the system.
 *
 *     warm [MiB]
 *
 * Run with all bands promoted. Two threads allocate so many MiB in small blocks, free half of them and
 * allocate some again, so that slabs are bound to them. Then they free all and wait. Without a further
 * call 95 % of their memory must go back to the system. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "figures.h"
#include "load.h"
#include "proc.h"

enum { THREADS = 2, SECONDS = 60, ROUNDS = 3 };

static size_t bytes_each;
static pthread_barrier_t is_full, is_free;

static void *work_and_wait(void *seed) {
    size_t count = bytes_each / 400, size = count * sizeof(void *);
    struct rng rng = rng_make((uintptr_t)seed);
    void **blocks = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(blocks != MAP_FAILED, "no table");
    for (size_t i = 0; i < count; i++) {
        size_t length = 16 + rng_below(&rng, 768);
        CHECK(blocks[i] = API(malloc)(length), "no memory");
        memset(blocks[i], 1, length);
    }
    pthread_barrier_wait(&is_full);
    pthread_barrier_wait(&is_full);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = round % 2; i < count; i += 2) API(free)(blocks[i]);
        for (size_t i = round % 2; i < count; i += 2)
            CHECK(blocks[i] = API(malloc)(16 + rng_below(&rng, 768)), "no memory");
    }
    for (size_t i = 0; i < count; i += 2) API(free)(blocks[i]);
    for (size_t i = 0; i < count / 8; i += 2)
        CHECK(blocks[i] = API(malloc)(16 + rng_below(&rng, 768)), "no memory");
    pthread_barrier_wait(&is_free);
    pthread_barrier_wait(&is_free);
    for (size_t i = 0; i < count; i++)
        if (i % 2 || i < count / 8) API(free)(blocks[i]);
    munmap(blocks, size);
    pthread_barrier_wait(&is_free);
    for (;;) pause();
}

int main(int argc, char **argv) {
    bytes_each = (argument(argc, argv, 1, 256) << 20) / THREADS;
    pthread_t thread;
    watchdog(100, "warm slabs");
    require_hakmem();
    pthread_barrier_init(&is_full, NULL, THREADS + 1);
    pthread_barrier_init(&is_free, NULL, THREADS + 1);
    size_t base = proc_rss_kib();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread, NULL, work_and_wait, (void *)(i + 1)) == 0, "no thread");
    pthread_barrier_wait(&is_full);
    size_t full = proc_rss_kib() - base;
    pthread_barrier_wait(&is_full);
    pthread_barrier_wait(&is_free);
    size_t bound = figure("warm.bound");
    CHECK(bound > 0 && figure("warm.hits") > 1000, "%zu slabs are bound, %zu hits", bound,
          figure("warm.hits"));
    pthread_barrier_wait(&is_free);
    pthread_barrier_wait(&is_free);
    size_t now = full;
    for (int i = 0; i < SECONDS * 10 && now > full / 20; i++) {
        proc_sleep_ms(100);
        now = proc_rss_kib() - base;
    }
    CHECK(now <= full / 20, "after %d s %zu of %zu KiB remain, %zu slabs bound", SECONDS, now, full,
          figure("warm.bound"));
    CHECK(figure("warm.bound") == 0, "%zu slabs stay bound to threads that rest",
          figure("warm.bound"));
    return 0;
}
