/* malloc.c: the public malloc, calloc and free, and their slow halves; the fast paths are in malloc.h. */
#include "api/malloc.h"

#include <errno.h>
#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/block_report.h"
#include "api/export.h"
#include "api/hardened_malloc.h"
#include "api/malloc_sampled.h"
#include "cache/cache.h"
#include "cache/sampler.h"
#include "debug/timing.h"
#include "hardened/hardened.h"
#include "hardened/guard_sample.h"
#include "large/fine_grain.h"
#include "large/huge.h"
#include "large/large.h"
#include "large/user_heap_huge.h"
#include "live_stats/live.h"
#include "options/options.h"
#include "policy/dyn_size.h"
#include "profile/samples.h"
#include "debug_record/record.h"
#include "region/region.h"
#include "shard/shard.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

_Atomic size_t hak_mapping_threshold = HAK_LARGE_MAX + 1;

enum { CALLOC_FRESH_MIN = 4096 }; /* from this size on it pays to know that a block is zero */

HAK_HOT void *hakmem_malloc(size_t size) {
    hak_cache_t *cache = hak_cache;
    HAK_NOT_IN_RAX(cache);
    size_t magazine;
    void *block = hak_pop_of_cache(cache, size, &magazine);
    if (HAK_LIKELY(block != NULL)) return block;
    return HAK_LIKELY(size <= HAK_SMALL_MAX) ? hak_allocate_small(size, HAK_CALLER(), cache)
                                             : hak_allocate(size, HAK_CALLER());
}
HAK_TWIN(void *, malloc, (size_t size))
HAK_LIBC_TWIN(void *, malloc, (size_t size))

/* Zeroes the whole block, as glibc does, since programs use all of malloc_usable_size. */
void *hakmem_calloc(size_t count, size_t size) {
    size_t bytes, magazine;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return hak_out_of_memory();
    void *block = hak_pop_of_magazine(bytes, &magazine);
    return HAK_LIKELY(block != NULL) ? memset(block, 0, hak_row_at(magazine % HAK_SAMPLER_AT)->size)
                                     : hak_allocate_zeroed(bytes, HAK_CALLER());
}
HAK_TWIN(void *, calloc, (size_t count, size_t size))
HAK_LIBC_TWIN(void *, calloc, (size_t count, size_t size))

/* Some programs free NULL as often as blocks. */
HAK_FAST_PATH bool release_null(const void *pointer) {
    if (HAK_LIKELY(pointer != NULL)) return false;
    HAK_COUNT_WAY(HAK_WAY_FREE_SLOW);
    HAK_COUNT_WAY(HAK_WAY_FREE_NULL);
    return true;
}

HAK_HOT void hakmem_free(void *block) {
    hak_magazine_t *magazine;
    uintptr_t unit = hak_unit_number(block);
    HAK_NOT_IN_RAX(unit);
    if (HAK_LIKELY(hak_magazine_at(unit, &magazine))) {
        if (HAK_UNLIKELY(!hak_push_on(magazine, block, false))) hak_free_at(block, magazine, unit);
        return;
    }
    if (release_null(block)) return;
    hak_free_slow(block);
}
HAK_TWIN(void, free, (void *block))
HAK_TWIN_NAMED(void, cfree, free, (void *block))
HAK_LIBC_TWIN(void, free, (void *block))

HAK_SLOW_PATH void *hak_out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* Counts a call under the class of the block, which may differ from that of the requested size. */
static void count_call(const hak_block_t *block, int call) {
    (void)block, (void)call;
    HAK_COUNT_CALL(block->kind == HAK_KIND_CACHED ? block->class_index : HAK_CLASS_LARGE, call);
}

/* The result of a slow call of malloc: the block, or NULL with ENOMEM. */
static void *served(void *block) {
    if (HAK_UNLIKELY(!block)) return hak_out_of_memory();
#if HAKMEM_DEBUG
    hak_block_t what = hak_block_of(block);
    count_call(&what, HAK_CALL_ALLOCATED);
#endif
    return block;
}

/* True for sizes that no class serves; when WRAP_L2 is 0 the mid tier's sizes are among them. */
static bool above_classes(size_t size) {
    return size > HAK_TINY_MAX &&
           HAK_UNLIKELY(size > HAK_CLASS_MAX || !hak_option(HAK_OPTION_WRAP_L2));
}

/* Allocates a large or a huge block. A large block becomes a huge one when the region is full, or
 * when WRAP_L25 is 0. */
static void *try_large(size_t size, size_t align, bool zero) {
    hak_thread_cache(); /* making it also installs the handlers of thread exit and fork */
    void *block = NULL;
    if (size < hak_load_relaxed(&hak_mapping_threshold) && align <= HAK_LARGE_ALIGN_MAX &&
        hak_option(HAK_OPTION_WRAP_L25))
        block = hak_large_alloc(hak_large_home(), hak_max(size, HAK_CLASS_MAX + 1), align, zero);
    return block ? block : hak_huge_alloc(hak_max(size, 1), align, zero);
}

static HAK_OUT_OF_LINE void *find_large(size_t size, size_t align, bool zero) {
    if (size > PTRDIFF_MAX) return hak_out_of_memory();
    void *block = NULL;
    for (int tries = 0; !block && tries < 2; tries++) {
        if (HAK_UNLIKELY(tries > 0)) hak_purge_for(size);
        block = try_large(size, align, zero);
    }
    hak_purge_tick_malloc(size);
    return served(block);
}

/* If address space is scarce: a fine block (large/fine_grain.h) or, as a last resort, one of a new slab. Otherwise
 * NULL. */
static HAK_BEHIND void *from_fine(hak_cache_t *cache, unsigned class_index, size_t size,
                                  size_t align, bool *zeroed) {
    if (!hak_shard_leaves(class_index)) return NULL;
    void *block = hak_fine_alloc(size, align);
    return block ? block : hak_shard_take_last(cache ? cache->shard : 0, class_index, zeroed);
}

/* Tried when slabs have no block: a fine block; then everything again, after memory was given back. */
static HAK_BEHIND void *refill_last(hak_cache_t *cache, unsigned class_index, size_t size,
                                    size_t align, bool *zeroed) {
    void *block = from_fine(cache, class_index, size, align, zeroed);
    if (block) return block;
    hak_purge_for(size);
    block = hak_cache_refill(cache, class_index, zeroed);
    return block ? block : from_fine(cache, class_index, size, align, zeroed);
}

/* Allocates a block of a class when its magazine is empty, or the thread has no cache yet. */
static HAK_OUT_OF_LINE void *refill(unsigned class_index, size_t size, size_t align, bool *zeroed) {
    hak_cache_t *cache = hak_thread_cache();
    void *block = cache ? hak_cache_pop(cache, class_index) : NULL;
    if (HAK_UNLIKELY(block != NULL)) return served(block); /* left by the cache's last thread */
    block = hak_cache_refill(cache, class_index, zeroed);
    if (HAK_UNLIKELY(!block)) block = refill_last(cache, class_index, size, align, zeroed);
    if (size > HAK_TINY_MAX && class_index == hak_class_of(size))
        hak_dyn_size_note(class_index, size, cache ? &cache->noted : NULL);
    hak_purge_tick_malloc(1);
    return served(block);
}

/* The result of a call while debug records are kept, or it is not known yet whether they are; `site` and the requested
 * size go into the record. */
static void *recorded(void *block, size_t size, const void *site) {
    return hak_records_settle() ? hak_block_record(block, size, site) : block;
}

static HAK_SLOW_PATH void *find_large_recorded(size_t size, size_t align, bool zero,
                                               const void *site) {
    return recorded(find_large(size, align, zero), size, site);
}

static HAK_SLOW_PATH void *refill_recorded(unsigned class_index, bool *zeroed, size_t size,
                                           const void *site) {
    return recorded(refill(class_index, size, 1, zeroed), size, site);
}

HAK_FAST_PATH void *allocate_large(size_t size, size_t align, bool zero, const void *site) {
    if (!hak_records_on()) return find_large(size, align, zero);
    return find_large_recorded(size, align, zero, site);
}

/* Pops the newest block of the thread's magazine; NULL when it is empty. In the shared cache of
 * threads without a cache `top` is NULL. */
HAK_FAST_PATH void *pop(unsigned class_index) {
    hak_magazine_t *magazine = &hak_cache->magazines[class_index];
    void **top = hak_load_relaxed(&magazine->top);
    void *block = top ? *top : NULL;
    if (HAK_UNLIKELY(!block)) return NULL;
    hak_store_relaxed(&magazine->top, top - 1);
    return block;
}

HAK_FAST_PATH void *pop_timed(unsigned class_index) {
    void *block;
    HAK_TIME_MID(pool_tls_ring_pop, class_index, block = pop(class_index));
    return block;
}

HAK_FAST_PATH void *refill_class(unsigned class_index, size_t size, size_t align, bool *zeroed,
                                 const void *site) {
    if (!hak_records_on()) return refill(class_index, size, align, zeroed);
    return refill_recorded(class_index, zeroed, size, site);
}

/* Allocates a block of a class, from the thread's magazine or by a refill. While records are kept,
 * magazines of classes with records have no stack. */
HAK_FAST_PATH void *allocate_class(unsigned class_index, size_t size, size_t align,
                                   const void *site) {
    void *block = pop_timed(class_index);
    return HAK_LIKELY(block != NULL) ? served(block)
                                     : refill_class(class_index, size, align, NULL, site);
}

/* Usable size of a block of a size class. The slab tells it, since the first blocks of a class may
 * be of the class above, or cut to measure. */
static size_t size_of_block(const void *block) {
    unsigned class_index = hak_owner_class(hak_load_relaxed(&hak_unit_of(block)->owner));
    return HAK_LIKELY(class_index != HAK_CLASS_LARGE) ? hak_classes[class_index].size
                                                      : hak_block_of(block).size;
}

/* A block from a magazine has the magazine's class; a block from elsewhere may be longer. */
HAK_FAST_PATH void *find_zeroed(size_t size, const void *site) {
    bool zeroed = false;
    if (above_classes(size)) return allocate_large(size, 1, true, site);
    unsigned class_index = hak_class_of(size);
    void *block = pop_timed(class_index);
    if (HAK_LIKELY(block != NULL)) return memset(served(block), 0, hak_classes[class_index].size);
    block = refill_class(class_index, size, 1, size >= CALLOC_FRESH_MIN ? &zeroed : NULL, site);
    if (block && !zeroed) memset(block, 0, size_of_block(block));
    return block;
}

/* The class that serves a request, or HAK_CLASS_LARGE. */
static unsigned class_for(size_t size, size_t align) {
    if (above_classes(size) || align > HAK_UNIT_SIZE) return HAK_CLASS_LARGE;
    if (align == 1) return hak_class_of(size);
    /* At least 16 bytes for an alignment of 16, which blocks of the 8-byte class do not have. */
    return hak_class_of_aligned(hak_max(size, hak_min(align, 16)), align);
}

HAK_FAST_PATH void *find_aligned(size_t align, size_t size, const void *site) {
    unsigned class_index = class_for(size, align);
    return class_index == HAK_CLASS_LARGE ? allocate_large(size, align, false, site)
                                          : allocate_class(class_index, size, align, site);
}

HAK_BEHIND void *hak_allocate_unsampled(size_t size, size_t align, bool zero, const void *site) {
    return zero ? find_zeroed(size, site) : find_aligned(align, size, site);
}

static HAK_OUT_OF_LINE void *allocate(size_t size, const void *site) {
    if (HAK_UNLIKELY(hak_load_acquire(&hak_live_on))) hak_live_note_request(size);
    if (above_classes(size))
        return hak_sampler_on() ? hak_malloc_sampled(HAK_CLASS_LARGE, size, 1, false, site)
                                : allocate_large(size, 1, false, site);
    unsigned class_index = hak_class_of(size);
    if (hak_sampler_on() && (size <= HAK_SMALL_MAX || !hak_sampler_passes(hak_cache, class_index)))
        return hak_malloc_sampled(class_index, size, 1, false, site);
    return allocate_class(class_index, size, 1, site);
}

/* For the debug build, which times each pop: the slower path pops, too, and must not be timed twice. */
HAK_FAST_PATH bool has_cached(unsigned class_index) {
    void **top = hak_load_relaxed(&hak_cache->magazines[class_index].top);
    return top && *top;
}

/* Pops a cached block above HAK_SMALL_MAX bytes, which is the most frequent case here, and stores its class in *found.
 * The class is read once, since the size may get the dynamic class at any time. NULL: the slower path decides. There
 * are no such blocks on the hardened path, and none in classes with debug records: those magazines have no stacks. */
HAK_FAST_PATH void *pop_above_small(size_t size, unsigned *found) {
    if (size - (HAK_SMALL_MAX + 1) > HAK_CLASS_MAX - (HAK_SMALL_MAX + 1)) return NULL;
    if (HAK_UNLIKELY(!hak_option(HAK_OPTION_WRAP_L2))) return NULL; /* may change at any time */
    if (hak_sampler_on() || HAK_UNLIKELY(hak_is_set(&hak_live_on))) return NULL;
    const unsigned class_index = *found = hak_class_of(size);
    if (HAKMEM_DEBUG && !has_cached(class_index)) return NULL;
    return pop_timed(class_index);
}

/* On the hardened path every call comes here; so this function saves no registers. */
void *hak_allocate(size_t size, const void *site) {
    unsigned class_index;
    void *block = pop_above_small(size, &class_index);
    if (HAK_LIKELY(block != NULL)) return served(block);
    return hak_hardened_on() ? hak_hardened_malloc(size, site) : allocate(size, site);
}

/* `cache->quick` is not NULL only if all parts of the hardened path are on. It is tested first here and in hak_free_at:
 * the arguments of the hardened function are still in registers. */
HAK_OUT_OF_LINE void *hak_allocate_small(size_t size, const void *site, const hak_cache_t *cache) {
    if (HAK_UNLIKELY(cache->quick != NULL)) return hak_hardened_malloc_quick(size, site, cache);
    return hak_hardened_on() ? hak_hardened_malloc(size, site) : allocate(size, site);
}

static HAK_OUT_OF_LINE void *allocate_zeroed(size_t size, const void *site) {
    if (hak_hardened_on()) return hak_hardened_alloc(size, 1, true, HAK_ORIGIN_MALLOC, site);
    if (HAK_UNLIKELY(hak_load_acquire(&hak_live_on))) hak_live_note_request(size);
    if (hak_sampler_on()) return hak_malloc_sampled(class_for(size, 1), size, 1, true, site);
    return find_zeroed(size, site);
}

/* A block from a magazine has the magazine's class; a block from elsewhere may be longer. */
HAK_OUT_OF_LINE void *hak_allocate_zeroed(size_t size, const void *site) {
    unsigned class_index;
    void *block = pop_above_small(size, &class_index);
    return HAK_LIKELY(block != NULL) ? memset(served(block), 0, hak_classes[class_index].size)
                                     : allocate_zeroed(size, site);
}

HAK_NEXT void *hak_allocate_aligned(size_t align, size_t size, const void *site) {
    if (size > PTRDIFF_MAX - align) return hak_out_of_memory();
    if (hak_hardened_on()) return hak_hardened_alloc(size, align, false, HAK_ORIGIN_MALLOC, site);
    if (hak_sampler_on())
        return hak_malloc_sampled(class_for(size, align), size, align, false, site);
    return find_aligned(align, size, site);
}

/* Counts the free of a large, a huge or a sampled block. */
HAK_FAST_PATH void count_freed_whole(bool is_mapping) {
    (void)is_mapping;
    HAK_COUNT_WAY(is_mapping ? HAK_WAY_FREE_HUGE : HAK_WAY_FREE_LARGE);
    HAK_COUNT_CALL(HAK_CLASS_LARGE, HAK_CALL_FREED);
}

/* Frees a huge block, which has no unit, or a large or fine block. False when no block in use begins there. */
HAK_FAST_PATH bool release_whole(void *pointer, const hak_unit_t *unit) {
    size_t size;
    if (!unit) {
        size = hak_user_heap_huge_free(pointer);
    } else {
        hak_thread_cache_of_free(); /* makes this thread known to a fork */
        size = hak_large_free(hak_large_home(), pointer);
    }
    if (!size) return false;
    count_freed_whole(!unit);
    hak_purge_tick_free(size);
    return true;
}

/* Frees a block of a class. False for a double free: the block is one of the newest of its magazine, or of the
 * depot. */
static bool release_cached(void *pointer, const char *function, const hak_block_t *block,
                           size_t size) {
    hak_cache_t *cache = hak_thread_cache_of_free();
    hak_magazine_t *magazine = cache ? &cache->magazines[block->class_index] : NULL;
    bool has_stack = magazine && magazine->slots;
    if (!has_stack && hak_records_on() && !hak_block_record_close(function, block, size))
        return true;
    if (has_stack && hak_cache_holds(magazine, pointer)) return false;
    if (!hak_cache_overflow(cache, block->class_index, pointer)) return false;
    hak_purge_tick_free(1);
    count_call(block, HAK_CALL_FREED);
    return true;
}

/* Finds a block of a class by the map alone. The descriptor of the slab is not read: the CPUs of the slab's home write
 * to it, and a read on another CPU would take the cache line from them. */
static bool find_cached(void *pointer, hak_block_t *block) {
    uintptr_t unit = hak_unit_number(pointer);
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) return false;
    unsigned class_index = hak_load_relaxed(&hak_map.entries[unit]) >> HAK_MAGAZINE_SHIFT;
    const hak_class_t *row = &hak_classes[class_index];
    const uint32_t offset = hak_block_offset((uintptr_t)pointer, row);
    if (!row->size || !hak_is_block_start(offset, row->start_test)) return false;
    *block = (hak_block_t){HAK_KIND_CACHED, class_index, hak_unit_of(pointer), pointer, row->size};
    return true;
}

/* Frees a block that has no class according to the map. False if `pointer` is not a block in use; *block then says what
 * it is. */
static bool release_by_owner(void *pointer, const char *function, hak_block_t *block, size_t size) {
    hak_place_t place = hak_block_place(pointer);
    bool is_whole = !place.unit || (place.class_index == HAK_CLASS_LARGE && !hak_records_on());
    if (is_whole && release_whole(pointer, place.unit)) return true;
    *block = hak_block_in(place, pointer);
    if (is_whole || block->kind != HAK_KIND_LARGE) return false;
    return !hak_block_record_close(function, block, size) || release_whole(pointer, block->unit);
}

static HAK_BEHIND void report_unfreed(void *pointer, const char *function,
                                      const hak_block_t *block) {
    HAK_COUNT_WAY(hak_block_usable(block) ? HAK_WAY_FREE_TWICE : HAK_WAY_FREE_BAD);
    hak_block_report(function, pointer, block);
}

/* Frees a pointer that no magazine takes, or reports it. If the owner of a large or huge block finds it not in use, the
 * free is not tried again: by now the block may belong to another thread. */
static HAK_OUT_OF_LINE void release_other(void *pointer, const char *function, size_t size) {
    HAK_COUNT_WAY(HAK_WAY_FREE_SLOW);
    if (hak_guard_sample_has(pointer)) {
        if (hak_guard_sample_free(pointer, function, HAK_CALLER())) count_freed_whole(true);
        return;
    }
    hak_block_t block;
    const bool done = find_cached(pointer, &block)
                          ? release_cached(pointer, function, &block, size)
                          : release_by_owner(pointer, function, &block, size);
    if (!done) report_unfreed(pointer, function, &block);
}

/* True for a pointer into a large block, while no debug records are kept. This entry of the map stands only in the
 * heap. */
HAK_FAST_PATH bool is_in_large(const void *pointer) {
    const uintptr_t unit = hak_unit_number(pointer);
    return hak_is_below(unit, &hak_map.unit_end) &&
           hak_load_relaxed(&hak_map.entries[unit]) == (unsigned)HAK_CLASS_LARGE
                                                           << HAK_MAGAZINE_SHIFT &&
           !hak_records_on();
}

/* As release_other, for a pointer into a large block. */
static HAK_NEXT void release_large(void *pointer, const char *function) {
    HAK_COUNT_WAY(HAK_WAY_FREE_SLOW);
    if (HAK_LIKELY(release_whole(pointer, hak_unit_of(pointer)))) return;
    const hak_block_t block = hak_block_of(pointer);
    report_unfreed(pointer, function, &block);
}

/* Out of line, so that the common half saves no registers. */
static HAK_OUT_OF_LINE void overflow(hak_cache_t *cache, unsigned class_index, void *pointer) {
    HAK_COUNT_WAY(HAK_WAY_FREE_SLOW);
    hak_cache_overflow(cache, class_index, pointer);
    hak_purge_tick_free(1);
    HAK_COUNT_CALL(class_index, HAK_CALL_FREED);
}

/* Frees a block whose magazine is full, or whose class has slabs with colours: the most frequent cases that the fast
 * path does not serve. False: the slower path decides. In every build it checks that a block begins at the address,
 * because hak_shard_flush must not get an address before the first block of a slab with a colour. */
HAK_FAST_PATH bool release_to_stack(void *pointer) {
    const uintptr_t unit = hak_unit_number(pointer);
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) return false;
    const size_t offset = hak_load_relaxed(&hak_map.entries[unit]);
    const hak_class_t *info = hak_row_at(offset);
    hak_cache_t *const cache = hak_cache;
    hak_magazine_t *magazine = hak_cache_magazine(cache, offset);
    if (HAK_UNLIKELY(!magazine->slots)) return false;
    void **top = hak_load_relaxed(&magazine->top);
    if (HAK_UNLIKELY(hak_cache_may_hold(top, pointer) && hak_cache_holds(magazine, pointer)))
        return false;
    const uint32_t place = hak_block_offset((uintptr_t)pointer, info);
    if (HAK_UNLIKELY(!hak_is_block_start(place, magazine->start_test))) return false;
    const unsigned class_index = (unsigned)(offset >> HAK_MAGAZINE_SHIFT);
    if (hak_class_is_coloured(info) && top < magazine->base + magazine->slots - 1) {
        top[1] = pointer;
        hak_store_relaxed(&magazine->top, top + 1);
        HAK_COUNT_CALL(class_index, HAK_CALL_TLS_SLL);
        HAK_COUNT_CALL(class_index, HAK_CALL_FREED);
    } else {
        overflow(cache, class_index, pointer);
    }
    return true;
}

/* Removes the sample of a block, unless its free will be refused: then the block stays in use and keeps the sample. */
static HAK_BEHIND void leave_sample(void *pointer, size_t size) {
    hak_sample_t *sample = hak_sample_take(pointer);
    if (sample) hak_sample_end(sample, hak_records_on() && hak_block_record_refuses(pointer, size));
}

/* Frees a block that lies in no slab, or for whose class the thread has no stack. */
static HAK_OUT_OF_LINE void release_further(void *pointer, const char *function, size_t size) {
    if (hak_samples_on()) leave_sample(pointer, size); /* blocks of slabs have none: samples.h */
    if (is_in_large(pointer))
        release_large(pointer, function);
    else
        release_other(pointer, function, size);
}

/* Frees a block in a process that is not on the hardened path. */
static HAK_OUT_OF_LINE void release(void *pointer, const char *function, size_t size) {
    if (!release_to_stack(pointer)) release_further(pointer, function, size);
}

void hak_release_sized(void *pointer, const char *function, size_t size) {
    if (release_null(pointer)) return;
    if (hak_hardened_on())
        hak_hardened_free_by(pointer, function, size);
    else
        release(pointer, function, size);
}

void hak_release(void *pointer, const char *function) {
    hak_release_sized(pointer, function, (size_t)HAK_ANY_SIZE);
}

/* As hak_free_slow; the hardened path is called directly, with what the caller knows of the pointer. */
HAK_OUT_OF_LINE void hak_free_at(void *pointer, const hak_magazine_t *magazine, uintptr_t unit) {
    const hak_cache_t *cache = hak_cache;
    hak_quarantine_t *quick = cache->quick;
    if (HAK_UNLIKELY(quick != NULL))
        hak_hardened_free_quick(pointer, hak_cache_offset_of(cache, magazine), unit, quick);
    else
        hak_free_slow(pointer);
}

HAK_OUT_OF_LINE void hak_free_slow(void *pointer) {
    if (hak_hardened_on())
        hak_hardened_free(pointer);
    else if (!release_to_stack(pointer))
        release_further(pointer, "free", (size_t)HAK_ANY_SIZE);
}
