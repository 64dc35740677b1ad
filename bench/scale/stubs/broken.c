/* broken.c: gives every thread the same few blocks: the workloads must notice. */
#include "stub.h"

static stub_chunk_t chunk;
static void *pieces[8];
static unsigned turn;

static void *stub_take(size_t size) {
    if (size > 4096) return stub_cut(&chunk, size);
    void **piece = &pieces[__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 8];
    if (!*piece) *piece = stub_cut(&chunk, 4096);
    return *piece;
}
static void stub_give(void *block) { (void)block; }
