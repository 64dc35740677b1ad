/* counted.c: as private.c, and each malloc adds to counters of all threads:
 *   MODEL_MODE 0  one counter of all: true sharing, a move for each malloc of another CPU's turn
 *   MODEL_MODE 1  a counter for each thread, four in a line: false sharing
 *   MODEL_MODE 2  a counter for each thread in a line of its own: nothing is shared */
#include "model.h"

enum { THREADS = 4096 };
enum { STRIDE = MODEL_MODE == 2 ? MODEL_LINE : MODEL_MODE == 1 ? MODEL_LINE / 4 : 0 };

static _Thread_local model_chunk_t chunk;
static _Thread_local int own = -1;
static int threads;
static _Alignas(MODEL_LINE) char counters[THREADS * MODEL_LINE];

static void *model_take(size_t size) {
    if (own < 0) own = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % THREADS;
    uint64_t *counter = (uint64_t *)(void *)&counters[own * STRIDE];
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    return model_cut(&chunk, size);
}
static void model_give(void *block) { (void)block; }
