/* private.c: the floor: each thread cuts its blocks from memory of its own, and reuses none. No line
 * of the allocator ever passes between CPUs. */
#include "stub.h"

static _Thread_local stub_chunk_t chunk;

static void *stub_take(size_t size) { return stub_cut(&chunk, size); }
static void stub_give(void *block) { (void)block; }
