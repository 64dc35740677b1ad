/* locked.c: one mutex for all, taken once for each malloc. */
#include <pthread.h>

#include "stub.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stub_chunk_t chunk;

static void *stub_take(size_t size) {
    pthread_mutex_lock(&lock);
    void *piece = stub_cut(&chunk, size);
    pthread_mutex_unlock(&lock);
    return piece;
}
static void stub_give(void *block) { (void)block; }
