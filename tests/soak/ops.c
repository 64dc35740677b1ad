/* ops.c - the calls of the allocator. */
#define _GNU_SOURCE
#include "ops.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>

#include "alloc_names.h"
#include "check.h"
#if !defined(TEST_PRELOAD)
#include "hakmem.h"
#endif

#define ALIGNMENT_MOST_SHIFT 21

/* True when a request was refused. Only a limit may refuse one, of the process or of the block's heap, and
 * sets errno to ENOMEM. */
static bool was_refused(struct worker *worker, const struct own_heap *heap, const void *ptr,
                        size_t size) {
    if (ptr != NULL) return false;
    CHECK(settings.has_limit || heaps_may_refuse(heap),
          "a request of %zu bytes was refused, errno %d", size, errno);
    CHECK(errno == ENOMEM, "a request of %zu bytes was refused with errno %d", size, errno);
    tally_refused(&worker->place->tally);
    return true;
}

static size_t random_alignment(struct worker *worker, size_t least) {
    size_t alignment = (size_t)1 << rng_below(&worker->rng, ALIGNMENT_MOST_SHIFT + 1);
    /* Large alignments cost address space, so they are rare. */
    if (alignment > 4096 && rng_below(&worker->rng, 4) != 0) alignment = 64;
    return alignment > least ? alignment : least;
}

static bool is_of_heap(enum call call) { return call >= HEAP_MALLOC && call <= HEAP_REALLOC; }

static void *call_for(struct worker *worker, enum call call, size_t size, size_t alignment) {
    void *ptr = NULL;
    size_t count = size % 3 == 0 ? 3 : 1;
    switch (call) {
    case MALLOC:
        return API(malloc)(size);
    case CALLOC:
        return API(calloc)(count, size / count);
    case ALIGNED_ALLOC:
        return API(aligned_alloc)(alignment, size);
    case POSIX_MEMALIGN:
        errno = API(posix_memalign)(&ptr, alignment, size);
        return ptr;
    case HEAP_MALLOC:
    case HEAP_CALLOC:
    case HEAP_ALIGNED:
        return heaps_allocate(worker, call, size, alignment);
    default:
        check_failed(__FILE__, __LINE__, "call %d makes no block", call);
    }
}

static void begin(struct worker *worker, const char *doing, size_t size) {
    worker->doing = doing;
    worker->doing_size = size;
}

/* Enters a block that a call has given, and fills it; one in eight up to its usable end. */
static void accept(struct worker *worker, struct block *block, void *ptr, size_t size,
                   size_t alignment, enum call call) {
    size_t filled = size;
    CHECK((uintptr_t)ptr % alignment == 0, "misaligned: %p of %zu bytes at %zu", ptr, size,
          alignment);
    if (worker->next_number % 8 == 0) {
        filled = API(malloc_usable_size)(ptr);
        CHECK(filled >= size, "usable size of %p is %zu of %zu", ptr, filled, size);
        tally_event(&worker->place->tally, USABLE);
    }
    block->content = content_fill(ptr, filled, worker->next_number++);
    block->size = size;
    block->maker = worker->life;
    block->made_by = call;
}

bool op_make(struct worker *worker, struct block *block, enum call call, enum tier tier) {
    size_t size = rng_size(&worker->rng, tally_least(tier), tally_most(tier));
    size_t alignment = size > 8 ? 16 : 8;
    if (call == POSIX_MEMALIGN) alignment = random_alignment(worker, sizeof(void *));
    if (call == ALIGNED_ALLOC || call == HEAP_ALIGNED) alignment = random_alignment(worker, 1);
    struct own_heap *heap = is_of_heap(call) ? &worker->place->heap : NULL;
    begin(worker, "an allocation", size);
    void *ptr = call_for(worker, call, size, alignment);
    if (was_refused(worker, heap, ptr, size)) return false;
    heaps_enter(block, heap);
    if (call == CALLOC || call == HEAP_CALLOC) {
        size_t at = content_first_nonzero(ptr, size);
        CHECK(at == size, "calloc: %p of %zu bytes is not zero at offset %zu: %#x, thread %" PRIu64,
              ptr, size, at, ((unsigned char *)ptr)[at], worker->life);
    }
    accept(worker, block, ptr, size, alignment, call);
    tally_call(&worker->place->tally, call, size);
    return true;
}

void op_resize(struct worker *worker, struct block *block, enum tier tier) {
    size_t size = rng_size(&worker->rng, tally_least(tier), tally_most(tier));
    enum call call = size > block->size ? REALLOC_UP : REALLOC_DOWN;
    struct own_heap *heap = &worker->place->heap;
    if (heap->handle != NULL && rng_below(&worker->rng, 8) == 0)
        call = HEAP_REALLOC;
    else
        heap = block->heap;
    begin(worker, "a realloc", size);
    block_check_here(block, worker->life, "before realloc");
    void *ptr = call == HEAP_REALLOC ? heaps_resize(worker, block->content.ptr, size)
                                     : API(realloc)(block->content.ptr, size);
    if (was_refused(worker, heap, ptr, size)) {
        block_check_here(block, worker->life, "after a realloc that was refused");
        return;
    }
    heaps_enter(block, heap);
    block_check(block, ptr, size, worker->life, "after realloc");
    accept(worker, block, ptr, size, size > 8 ? 16 : 8, call);
    tally_call(&worker->place->tally, call, size);
}

void op_free(struct worker *worker, struct block *block) {
    begin(worker, "a free", block->size);
    block_check_here(block, worker->life, "at free");
    API(free)(block->content.ptr);
    block->content.ptr = NULL;
    heaps_enter(block, NULL);
    tally_call(&worker->place->tally, block->maker == worker->life ? FREE : FREE_OTHER,
               block->size);
}

void op_hand_over(struct worker *worker, struct block *block) {
    struct queue *queue = &places[rng_below(&worker->rng, settings.thread_count)].queue;
    if (worker->is_child || !queue_put(queue, block)) {
        op_free(worker, block);
        return;
    }
    block->content.ptr = NULL;
    block->heap = NULL;
    tally_event(&worker->place->tally, HANDED);
}

/* ---- the whole heap -------------------------------------------------------------------------- */

static int stats_get(const char *name, uint64_t *value) {
#if defined(TEST_PRELOAD)
    static int (*_Atomic target)(const char *, uint64_t *);
    if (target == NULL)
        target = (int (*)(const char *, uint64_t *))dlsym(RTLD_DEFAULT, "hakmem_stats_get");
    CHECK(target != NULL, "there is no hakmem_stats_get");
    return target(name, value);
#else
    return hakmem_stats_get(name, value);
#endif
}

static void look_at_statistics(struct worker *worker) {
    static const char *const names[] = {"total.live_bytes", "tiers.huge.live_bytes",
                                        "tiers.tiny.live_bytes"};
    const char *name = names[rng_below(&worker->rng, sizeof names / sizeof names[0])];
    uint64_t value = 0;
    CHECK(stats_get(name, &value) == 0, "there is no figure %s", name);
    CHECK((int64_t)value >= 0, "%s is %" PRIi64, name, (int64_t)value);
    tally_event(&worker->place->tally, STATS);
}

static void look_at_heap(struct worker *worker) {
    api_mallinfo2 info = API(mallinfo2)();
    CHECK((ptrdiff_t)info.uordblks >= 0 && (ptrdiff_t)info.fordblks >= 0 &&
              (ptrdiff_t)info.hblkhd >= 0,
          "mallinfo2 has a count below 0");
    tally_event(&worker->place->tally, MALLINFO);
}

void op_housekeeping(struct worker *worker) {
    begin(worker, "a look at the heap", 0);
    switch (rng_below(&worker->rng, 3)) {
    case 0:
        API(malloc_trim)(0);
        tally_event(&worker->place->tally, TRIM);
        break;
    case 1:
        look_at_heap(worker);
        break;
    default:
        look_at_statistics(worker);
        break;
    }
}
