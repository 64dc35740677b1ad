/* broken.c: gives every thread the same few blocks: the workloads must notice. */
#include "model.h"

static model_chunk_t chunk;
static void *pieces[8];
static unsigned turn;

static void *model_take(size_t size) {
    if (size > 4096) return model_cut(&chunk, size);
    void **piece = &pieces[__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % 8];
    if (!*piece) *piece = model_cut(&chunk, 4096);
    return *piece;
}
static void model_give(void *block) { (void)block; }
