/* grouped.c: a mutex for each two threads, taken once for each malloc: no lock is the whole process's. */
#include <pthread.h>

#include "model.h"

enum { THREADS = 4096 };

typedef struct {
    _Alignas(2 * MODEL_LINE) pthread_mutex_t lock;
    model_chunk_t chunk;
} group_t;

static group_t groups[THREADS / 2];
static _Thread_local int own = -1;
static int threads;

static void *model_take(size_t size) {
    if (own < 0) own = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % THREADS;
    group_t *group = &groups[own / 2];
    pthread_mutex_lock(&group->lock);
    void *piece = model_cut(&group->chunk, size);
    pthread_mutex_unlock(&group->lock);
    return piece;
}
static void model_give(void *block) { (void)block; }
