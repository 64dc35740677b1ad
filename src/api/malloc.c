/* malloc.c: malloc, free and their slow halves. */
#include "api/malloc.h"

#include <errno.h>
#include <string.h>

#include "api/block.h"
#include "api/export.h"
#include "cache/cache.h"
#include "large/huge.h"
#include "large/large.h"
#include "options/options.h"
#include "region/region.h"
#include "stats/exit.h"
#include "thread/look.h"
#include "thread/thread.h"

enum { CALLOC_FRESH_MIN = 4096 }; /* from here on it pays to know that a block is zero */

/* The C library allocates before it starts a thread, so this seldom finds anything
 * to do; it is the promise that hak_push relies on. */
__attribute__((constructor)) static void prepare(void) {
    hak_options_load();
    hak_region_prepare();
    hak_look_start();
    if (HAK_UNLIKELY(hak_stats_wanted())) hak_stats_prepare();
}

/* After main and all of its handlers, in each process that ends by exit() or a return of
 * main, so also in the child of a fork that does; not where _exit or a signal ends it. */
__attribute__((destructor)) static void finish(void) {
    if (HAK_UNLIKELY(hak_stats_wanted())) hak_stats_report();
}

HAK_HOT void *hakmem_malloc(size_t size) {
    void *block = hak_pop_small(size);
    if (HAK_LIKELY(block != NULL)) return block;
    return hak_allocate(size);
}
HAK_TWIN(void *, malloc, (size_t size))

HAK_HOT void hakmem_free(void *block) {
    if (HAK_LIKELY(hak_push(block))) return;
    hak_release(block, "free");
}
HAK_TWIN(void, free, (void *block))
HAK_TWIN_NAMED(void, cfree, free, (void *block))

static HAK_SLOW_PATH void *out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* Counted by the class of the block, which may be another than that of the size. */
static void count_call(const hak_block_t *block, int call) {
    (void)block, (void)call;
    HAK_COUNT_CALL(block->kind == HAK_KIND_CACHED ? block->class_index : HAK_CLASS_RUN, call);
}

/* What a slow call of malloc returns. */
static void *served(void *block) {
    if (HAK_UNLIKELY(!block)) return out_of_memory();
#if HAKMEM_DEBUG
    hak_block_t what = hak_block_of(block);
    count_call(&what, HAK_CALL_ALLOCATED);
#endif
    return block;
}

/* True for sizes that no class serves: those of the mid tier too when WRAP_L2 is 0. */
static bool above_classes(size_t size) {
    return size > HAK_TINY_MAX &&
           HAK_UNLIKELY(size > HAK_CLASS_MAX || !hak_option(HAK_OPTION_WRAP_L2));
}

/* Large blocks and mappings; a large one becomes a mapping where the regions are full,
 * and when WRAP_L25 is 0. */
static void *try_large(size_t size, size_t align, bool zero) {
    hak_cache_t *cache = hak_thread_cache(); /* also for the handlers that come with it */
    void *block = NULL;
    if (size <= HAK_LARGE_MAX && align <= HAK_UNIT_SIZE && hak_option(HAK_OPTION_WRAP_L25))
        block = hak_large_alloc(cache ? cache->shard : 0, hak_max(size, HAK_CLASS_MAX + 1), align,
                                zero);
    return block ? block : hak_huge_alloc(hak_max(size, 1), align, zero);
}

static void *allocate_large(size_t size, size_t align, bool zero) {
    if (size > PTRDIFF_MAX) return out_of_memory();
    void *block = try_large(size, align, zero);
    if (HAK_UNLIKELY(!block) && hak_thread_trim() > 0) block = try_large(size, align, zero);
    hak_thread_tick_malloc(size);
    return served(block);
}

/* A block of a class, by the thread's stack or a refill. */
static void *allocate_class(unsigned class_index, bool *zeroed) {
    hak_cache_t *cache = hak_thread_cache();
    if (HAK_LIKELY(cache != NULL)) {
        void *block = hak_cache_pop(cache, class_index);
        if (HAK_LIKELY(block != NULL)) return served(block);
    }
    void *block = hak_cache_refill(cache, class_index, zeroed);
    if (HAK_UNLIKELY(!block) && hak_thread_trim() > 0)
        block = hak_cache_refill(cache, class_index, zeroed);
    hak_thread_tick_malloc(1);
    return served(block);
}

HAK_OUT_OF_LINE void *hak_allocate(size_t size) {
    if (above_classes(size)) return allocate_large(size, 1, false);
    return allocate_class(hak_class_of(size), NULL);
}

void *hak_allocate_zeroed(size_t size) {
    bool zeroed = false;
    if (above_classes(size)) return allocate_large(size, 1, true);
    void *block = allocate_class(hak_class_of(size), size >= CALLOC_FRESH_MIN ? &zeroed : NULL);
    if (block && !zeroed) memset(block, 0, size);
    return block;
}

/* A class whose size is a multiple of the alignment has every block aligned, since
 * slabs start at multiples of 64 KiB; the powers of two always qualify. */
void *hak_allocate_aligned(size_t align, size_t size) {
    if (size > PTRDIFF_MAX - align) return out_of_memory();
    size = hak_max(size, hak_min(align, 16)); /* the 8-byte class keeps no alignment of 16 */
    if (above_classes(size) || align > HAK_UNIT_SIZE) return allocate_large(size, align, false);
    unsigned class_index = hak_class_of(size);
    while (hak_classes[class_index].size & (align - 1)) class_index++;
    return allocate_class(class_index, NULL);
}

/* Everything but the push: decides what the pointer is. */
HAK_SLOW_PATH void hak_release(void *pointer, const char *function) {
    if (!pointer) return;
    hak_block_t block = hak_block_of(pointer);
    bool twice = false;
    if (block.kind == HAK_KIND_CACHED) {
        hak_cache_t *cache = hak_thread_cache_of_free();
        hak_bin_t *bin = cache ? &cache->bins[block.class_index] : NULL;
        if (bin && bin->slots && *hak_load_relaxed(&bin->top) == pointer)
            twice = true;
        else
            hak_cache_overflow(cache, block.class_index, pointer);
        hak_thread_tick_free(1);
    } else if (block.kind == HAK_KIND_RUN) {
        hak_cache_t *cache = hak_thread_cache_of_free();
        twice = !hak_large_free(cache ? cache->shard : 0, pointer);
        hak_thread_tick_free(block.size);
    } else if (block.kind == HAK_KIND_HUGE) {
        twice = !hak_huge_free(pointer);
        hak_thread_tick_free(block.size);
    } else {
        hak_block_report(function, pointer, &block);
        return;
    }
    if (HAK_UNLIKELY(twice))
        hak_block_report_double(function, pointer);
    else
        count_call(&block, HAK_CALL_FREED);
}
