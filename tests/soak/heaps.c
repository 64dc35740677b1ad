/* heaps.c - the calls for heaps of the program's own. */
#define _GNU_SOURCE
#include "heaps.h"

#include <dlfcn.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"
#include "hakmem.h"
#include "worker.h"

#if defined(TEST_PRELOAD)
static void *look_up(const char *name) {
    void *target = dlsym(RTLD_DEFAULT, name);
    CHECK(target != NULL, "there is no %s", name);
    return target;
}
#define OWN(name) ((__typeof__(&hakmem_heap_##name))look_up("hakmem_heap_" #name))
#else
#define OWN(name) hakmem_heap_##name
#endif

#define MIB ((size_t)1 << 20)

static bool make(struct worker *worker) {
    struct own_heap *heap = &worker->place->heap;
    if (heap->handle != NULL) return true;
    heap->limit = rng_below(&worker->rng, 4) == 0 ? 0 : rng_size(&worker->rng, MIB / 8, 32 * MIB);
    if (!worker->place->has_toured) heap->limit = 0; /* no count of the run shall be 0 by chance */
    heap->handle = OWN(new)(heap->limit);
    if (heap->handle == NULL) return false;
    tally_event(&worker->place->tally, HEAPS_MADE);
    return true;
}

void *heaps_allocate(struct worker *worker, enum call call, size_t size, size_t alignment) {
    if (!make(worker)) return NULL;
    hakmem_heap_t *handle = worker->place->heap.handle;
    if (call == HEAP_MALLOC) return OWN(malloc)(handle, size);
    if (call == HEAP_CALLOC) return OWN(calloc)(handle, 1, size);
    return OWN(aligned_alloc)(handle, alignment, size);
}

void *heaps_resize(struct worker *worker, void *ptr, size_t size) {
    return OWN(realloc)(worker->place->heap.handle, ptr, size);
}

bool heaps_may_refuse(const struct own_heap *heap) { return heap != NULL && heap->limit != 0; }

void heaps_enter(struct block *block, struct own_heap *heap) {
    if (block->heap == heap) return;
    if (block->heap != NULL) atomic_fetch_sub(&block->heap->live, 1);
    if (heap != NULL) atomic_fetch_add(&heap->live, 1);
    block->heap = heap;
}

static void check_figures(const struct own_heap *heap) {
    struct hakmem_heap_stat stat;
    CHECK(OWN(stats)(heap->handle, &stat, sizeof stat) == 0, "a heap is unknown");
    CHECK(stat.limit == heap->limit && (heap->limit == 0 || stat.committed_bytes <= heap->limit),
          "a heap has %zu bytes, its limit is %zu, and was set to %zu", stat.committed_bytes,
          stat.limit, heap->limit);
    CHECK(stat.live_bytes <= stat.committed_bytes, "a heap has %zu bytes of %zu in use",
          stat.live_bytes, stat.committed_bytes);
}

/* Checks the blocks of the heap in the place's table, and takes them out if told so; how many there are. */
static size_t each_block(struct worker *worker, bool take_out) {
    struct place *place = worker->place;
    size_t count = 0;
    for (enum tier tier = TINY; tier < TIER_COUNT; tier++)
        for (unsigned i = 0; i < SLOTS_MOST; i++) {
            struct block *block = &place->slots[tier][i];
            if (block->content.ptr == NULL || block->heap != &place->heap) continue;
            count++;
            if (!take_out) continue;
            block_check_here(block, worker->life, "before a heap's blocks are freed at once");
            block->content.ptr = NULL;
            heaps_enter(block, NULL);
        }
    return count;
}

void heaps_end(struct worker *worker) {
    struct own_heap *heap = &worker->place->heap;
    if (heap->handle == NULL) return;
    check_figures(heap);
    if (atomic_load(&heap->live) != each_block(worker, false)) return;
    each_block(worker, true);
    if (rng_below(&worker->rng, 2) == 0) {
        struct hakmem_heap_stat stat;
        OWN(free_all)(heap->handle);
        CHECK(OWN(stats)(heap->handle, &stat, sizeof stat) == 0 && stat.blocks == 0 &&
                  stat.committed_bytes == 0,
              "a heap has %zu blocks and %zu bytes after all were freed", stat.blocks,
              stat.committed_bytes);
        tally_event(&worker->place->tally, HEAPS_EMPTIED);
    } else {
        OWN(destroy)(heap->handle);
        heap->handle = NULL;
        tally_event(&worker->place->tally, HEAPS_DESTROYED);
    }
}

void heaps_clear(struct own_heap *heap) {
    CHECK(atomic_load(&heap->live) == 0, "%zu blocks of a heap are left", atomic_load(&heap->live));
    if (heap->handle != NULL) OWN(destroy)(heap->handle);
    heap->handle = NULL;
}
