/* resting.c - what many threads keep that have made a few calls, and rest.
 *
 *     resting [threads] [blocks]
 *
 * So many threads allocate ten blocks of 16 to 1,024 bytes each, use them, and rest. Net of what was resident before
 * the first of them did so, and of their blocks, a thread keeps at most KEEPING bytes: the rounding up to
 * classes, and its part of slabs. Then each frees its blocks and rests: at most RESTING bytes. With 3,000 threads and
 * 30 blocks each the heap is just above the size from which it may have huge pages. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"
#include "rng.h"

enum {
    BLOCKS_MOST = 64,
    LEAST = 16,
    MOST = 1024,
    KEEPING = 1024,
    RESTING = 512,
    STACK = 128 * 1024,
};

typedef struct {
    sem_t go;
    struct rng rng;
    size_t bytes;
    char *blocks[BLOCKS_MOST];
} worker_t;

static size_t blocks; /* of each thread */
static sem_t rests;

static void *work(void *argument) {
    worker_t *worker = argument;
    sem_post(&rests);
    sem_wait(&worker->go);
    for (size_t i = 0; i < blocks; i++) {
        size_t size = rng_size(&worker->rng, LEAST, MOST);
        worker->blocks[i] = API(malloc)(size);
        CHECK(worker->blocks[i] != NULL, "no memory");
        memset(worker->blocks[i], 1, size);
        worker->bytes += size;
    }
    sem_post(&rests);
    sem_wait(&worker->go);
    for (size_t i = 0; i < blocks; i++) API(free)(worker->blocks[i]);
    sem_post(&rests);
    sem_wait(&worker->go); /* to the end of the process */
    return NULL;
}

static void start(worker_t *workers, size_t count) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    sem_init(&rests, 0, 0);
    for (size_t i = 0; i < count; i++) {
        workers[i].rng = rng_make(i + 1);
        sem_init(&workers[i].go, 0, 0);
        CHECK(pthread_create(&thread, &attributes, work, &workers[i]) == 0, "no thread");
        sem_wait(&rests);
    }
}

/* In turn: what threads bring at the same time depends on who runs when. */
static void go(worker_t *workers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sem_post(&workers[i].go);
        sem_wait(&rests);
    }
}

int main(int argc, char **argv) {
    size_t count = argument(argc, argv, 1, 1000), live = 0;
    blocks = argument(argc, argv, 2, 10);
    CHECK(blocks <= BLOCKS_MOST, "too many blocks");
    watchdog(120, "a thread that rests");
    require_hakmem();
    worker_t *workers = mmap(NULL, count * sizeof *workers, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(workers != MAP_FAILED, "no table");
    start(workers, count);
    size_t base = proc_anonymous_kib();
    go(workers, count);
    size_t keeping = (proc_anonymous_kib() - base) * 1024;
    for (size_t i = 0; i < count; i++) live += workers[i].bytes;
    go(workers, count);
    API(malloc_trim)(0); /* else free units keep their pages for a while */
    size_t now = proc_anonymous_kib();
    size_t resting = now > base ? (now - base) * 1024 : 0;
    printf("%zu bytes beside %zu in blocks, %zu bytes without, of each thread\n",
           (keeping - live) / count, live / count, resting / count);
    CHECK(keeping <= live + count * KEEPING, "%zu bytes for blocks of %zu", keeping, live);
    CHECK(resting <= count * RESTING, "%zu threads that rest keep %zu bytes", count, resting);
    return 0;
}
