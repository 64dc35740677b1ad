/* private.c: the floor: each thread cuts its blocks from memory of its own, and reuses none. No line
 * of the allocator ever passes between CPUs. */
#include "model.h"

static _Thread_local model_chunk_t chunk;

static void *model_take(size_t size) { return model_cut(&chunk, size); }
static void model_give(void *block) { (void)block; }
