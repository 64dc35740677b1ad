/* counted.c: as private.c, and each malloc adds to counters of all threads:
 *   STUB_MODE 0  one counter of all: true sharing, a move for each malloc of another CPU's turn
 *   STUB_MODE 1  a counter for each thread, four in a line: false sharing
 *   STUB_MODE 2  a counter for each thread in a line of its own: nothing is shared */
#include "stub.h"

enum { THREADS = 4096 };
enum { STRIDE = STUB_MODE == 2 ? STUB_LINE : STUB_MODE == 1 ? STUB_LINE / 4 : 0 };

static _Thread_local stub_chunk_t chunk;
static _Thread_local int own = -1;
static int threads;
static _Alignas(STUB_LINE) char counters[THREADS * STUB_LINE];

static void *stub_take(size_t size) {
    if (own < 0) own = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % THREADS;
    uint64_t *counter = (uint64_t *)(void *)&counters[own * STRIDE];
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    return stub_cut(&chunk, size);
}
static void stub_give(void *block) { (void)block; }
