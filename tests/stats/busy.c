/* busy.c - threads that keep two sizes busy, beside a few blocks of all others, for report.py.
 *
 *   busy SIZE SIZE */
#include <pthread.h>
#include <stdlib.h>

#include "stats.h"

enum { THREADS = 4, ROUNDS = 60, COUNT = 5000, FEW = 4, TINY_MOST = 2048 };

static size_t sizes[2];

/* More blocks at once than a thread's cache takes back. */
static void swing(void **blocks, size_t size, int count) {
    for (int i = 0; i < count; i++) CHECK(blocks[i] = API(malloc)(size), "no memory");
    for (int i = 0; i < count; i++) API(free)(blocks[i]);
}

static void *work(void *blocks) {
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t size = 8; size <= TINY_MOST; size *= 2) swing(blocks, size, FEW);
        swing(blocks, sizes[0], COUNT);
        swing(blocks, sizes[1], COUNT);
    }
    return NULL;
}

int main(int argc, char **argv) {
    static void *blocks[THREADS][COUNT];
    pthread_t threads[THREADS];
    for (int i = 0; i < 2; i++) sizes[i] = (size_t)argument(argc, argv, i + 1, 64);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, blocks[i]) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
