/* hardened.c: the calls on the hardened path: which block, its state, its canary. */
#include "api/hardened.h"

#include <errno.h>
#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/malloc.h"
#include "classes/dyn.h"
#include "error/error.h"
#include "hardened/big.h"
#include "hardened/canary.h"
#include "hardened/empty.h"
#include "hardened/holder.h"
#include "large/huge.h"
#include "large/large.h"
#include "os/os.h"
#include "shard/give.h"
#include "thread/purge.h"
#include "thread/thread.h"

enum { LEAST = 9 }; /* bytes of a block with its canary: the class of 8 bytes has no room for one */

void hak_hardened_start(void) {
    hak_hardened_switch_on();
    hak_cache_t *cache = hak_cache;
    if (cache == &hak_cache_none || cache == &hak_cache_dead) return;
    hak_cache_flush_all(cache); /* what the loader has freed before */
    hak_cache_reset(cache);
}

/* ---- the thread's holder ---- */

static HAK_SLOW_PATH hak_holder_t *make_holder(void) {
    hak_cache_t *cache = hak_thread_cache();
    if (!cache) return NULL;
    hak_holder_t *holder = hak_load_relaxed(&cache->holder);
    if (!holder && (holder = hak_holder_make()) != NULL) hak_store_release(&cache->holder, holder);
    return holder;
}

/* NULL for a thread that is exiting, or without memory. */
HAK_FAST_PATH hak_holder_t *holder_of_thread(void) {
    hak_holder_t *holder = hak_load_relaxed(&hak_cache->holder);
    return HAK_LIKELY(holder != NULL) ? holder : make_holder();
}

static unsigned home(void) { return hak_cache->shard; }

/* ---- allocation ---- */

static void *out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* An entry of the stock when a refill is due, or of a shard for a thread without a holder. */
static HAK_OUT_OF_LINE uintptr_t refill(hak_holder_t *holder, unsigned class_index) {
    uintptr_t entry = 0;
    for (int tries = 0; !entry && tries < 2; tries++) {
        if (tries > 0 && hak_purge_all() == 0) break;
        entry = holder ? hak_holder_refill(holder, home(), class_index)
                       : (uintptr_t)hak_holder_take_one(class_index);
    }
    hak_purge_tick_malloc(1);
    return entry;
}

static _Atomic uint32_t *word_of(const void *block, const hak_class_t *info) {
    uint32_t offset = hak_block_offset((uintptr_t)block, info);
    return hak_state_word(hak_state_unit(block), info, hak_block_index(offset, info->reciprocal));
}

HAK_FAST_PATH void *alloc_class(unsigned class_index, size_t size, bool zero, hak_origin_t origin) {
    hak_holder_t *holder = holder_of_thread();
    uintptr_t entry = HAK_LIKELY(holder != NULL) ? hak_holder_take(holder, class_index) : 0;
    if (HAK_UNLIKELY(!entry) && !(entry = refill(holder, class_index))) return out_of_memory();
    const hak_class_t *info = &hak_classes[class_index];
    char *block = (char *)(entry & ~(uintptr_t)HAK_KNOWN_ZERO);
    if (entry & HAK_KNOWN_ZERO)
        hak_holder_check_zero(block, info->size);
    else if (zero)
        memset(block, 0, hak_hardened.canary ? size : info->size);
    if (hak_hardened.canary) hak_canary_put(block, size, info->size);
    hak_store_release(word_of(block, info),
                      hak_state_used(size, origin)); /* partner: close_block */
    return block;
}

static HAK_OUT_OF_LINE void *alloc_big(size_t size, size_t align, bool zero, hak_origin_t origin) {
    if (size > PTRDIFF_MAX - align) return out_of_memory();
    hak_thread_cache(); /* making it also installs the handlers of thread exit and fork */
    bool mapped = size >= hak_load_relaxed(&hak_mapping_threshold);
    void *block = hak_big_alloc(size, align, zero, origin, mapped);
    if (!block && hak_purge_all() > 0) block = hak_big_alloc(size, align, zero, origin, mapped);
    hak_purge_tick_malloc(size);
    return block ? block : out_of_memory();
}

static HAK_OUT_OF_LINE void *alloc_empty(size_t align) {
    hak_random_t random;
    hak_holder_t *holder = holder_of_thread();
    if (!holder) hak_random_seed(&random);
    return hak_empty_take(holder ? &holder->random : &random, align);
}

void *hak_hardened_alloc(size_t size, size_t align, bool zero, hak_origin_t origin) {
    size_t whole = size + hak_hardened.canary;
    if (HAK_UNLIKELY(size == 0) && hak_hardened.empty && align <= 4096) {
        void *block = alloc_empty(align);
        if (block) return block;
    }
    if (HAK_UNLIKELY(size >= HAK_CLASS_MAX || align > HAK_UNIT_SIZE))
        return alloc_big(size, align, zero, origin);
    whole = hak_max(whole, LEAST);
    unsigned class_index =
        HAK_LIKELY(align <= 16) ? hak_class_of(whole) : hak_dyn_class_aligned(whole, align);
    return alloc_class(class_index, size, zero, origin);
}

/* ---- reports ---- */

static const char *const allocators[] = {"malloc", "operator new", "operator new[]"};

/* The public functions that free have names that begin with these letters, by the origin of the
 * blocks they may get. */
HAK_FAST_PATH hak_origin_t origin_of(const char *function) {
    if (function[0] != 'o') return HAK_ORIGIN_MALLOC;
    return function[sizeof "operator delete" - 1] ? HAK_ORIGIN_NEW_ARRAY : HAK_ORIGIN_NEW;
}

static HAK_SLOW_PATH void report_mismatch(const char *function, const void *block, size_t size,
                                          hak_origin_t origin) {
    hak_error_report(function, "wrong function: %p is a block of %zu %s from %s", block,
                     HAK_ERROR_BYTES(size), allocators[origin]);
}

static HAK_SLOW_PATH void report_size(const char *function, const void *block, size_t size,
                                      size_t said) {
    hak_error_report(function, "wrong size: %p is freed as a block of %zu %s, but has %zu", block,
                     HAK_ERROR_BYTES(said), size);
}

static HAK_SLOW_PATH void report_overflow(const char *function, const void *block, size_t size) {
    hak_error_report(function,
                     "overflow: %p is a block of %zu %s, and what lies behind it was written to",
                     block, HAK_ERROR_BYTES(size));
}

static HAK_SLOW_PATH void report_pointer(const char *function, const void *pointer) {
    if (hak_empty_has(pointer)) {
        hak_error_report(function, "double free: %p is no block of 0 bytes in use", pointer);
        return;
    }
    hak_block_t block = hak_block_of(pointer);
    hak_block_record_report(function, pointer, &block);
}

/* False when the call is wrong, and is ignored. */
HAK_FAST_PATH bool judge(const char *function, const void *block, size_t size, hak_origin_t origin,
                         size_t said) {
    if (!hak_hardened.match) return true;
    if (HAK_UNLIKELY(origin != origin_of(function))) {
        report_mismatch(function, block, size, origin);
        return false;
    }
    if (HAK_UNLIKELY(said != (size_t)HAK_ANY_SIZE && said != size)) {
        report_size(function, block, size, said);
        return false;
    }
    return true;
}

/* ---- free ---- */

/* A block that was allocated before the hardened path was switched on has no state. */
static HAK_SLOW_PATH bool release_old(void *block, unsigned class_index, const hak_unit_t *slab,
                                      const hak_class_t *info, uint32_t index) {
    if (!hak_state_is_taken(slab, info, index)) return false;
    if (hak_hardened.zero) memset(block, 0, info->size);
    hak_thread_cache();
    hak_shard_give(home(), class_index, &block, 1);
    return true;
}

/* Frees what is in no slab. */
static HAK_OUT_OF_LINE void free_other(void *pointer, const char *function, size_t said) {
    if (hak_empty_has(pointer)) {
        if (!hak_empty_give(pointer)) report_pointer(function, pointer);
        return;
    }
    hak_block_t block = hak_block_of(pointer);
    uint64_t note = block.kind == HAK_KIND_LARGE || block.kind == HAK_KIND_HUGE
                        ? hak_big_note(pointer)
                        : HAK_STATE_FREE;
    if (!note) { /* allocated before the hardened path was switched on */
        bool done = block.kind == HAK_KIND_HUGE ? hak_huge_free(pointer)
                                                : hak_large_free(hak_large_home(), pointer);
        if (!done) report_pointer(function, pointer);
        return;
    }
    size_t size = hak_big_size(note);
    if (hak_state_of(note) != HAK_STATE_USED) {
        report_pointer(function, pointer);
    } else if (judge(function, pointer, size, hak_state_origin(note), said)) {
        if (!hak_big_swap(pointer, &note, note - HAK_STATE_USED + HAK_STATE_FREE)) {
            report_pointer(function, pointer);
            return;
        }
        if (HAK_UNLIKELY(!hak_big_holds(pointer, note))) report_overflow(function, pointer, size);
        hak_purge_tick_free(hak_big_keep(holder_of_thread(), pointer, note, block.size));
    }
}

/* Zeroes a block; `size` is a multiple of 16. */
HAK_FAST_PATH void zero_block(char *block, size_t size) {
    if (size > 256) {
        memset(block, 0, size);
        return;
    }
    const hak_pair_t zeros = {0, 0};
    for (const char *end = block + size; block < end; block += sizeof zeros) {
        memcpy(block, &zeros, sizeof zeros);
        __asm__ volatile("" : "+r"(block)); /* keeps the compiler from calling memset */
    }
}

/* The block is the caller's now: its word went from USED to FREE. */
HAK_FAST_PATH void keep_block(char *block, unsigned class_index, const hak_class_t *info) {
    if (hak_hardened.zero) zero_block(block, info->size);
    hak_holder_t *holder = holder_of_thread();
    if (HAK_LIKELY(holder != NULL)) {
        hak_holder_put(holder, home(), class_index, block);
        if (HAK_UNLIKELY(holder->gave)) {
            holder->gave = false;
            hak_purge_tick_free(1);
        }
        return;
    }
    void *given = block;
    hak_shard_give(0, class_index, &given, 1);
}

void hak_hardened_free(void *pointer, const char *function, size_t said) {
    size_t unit = hak_state_unit(pointer);
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) {
        free_other(pointer, function, said);
        return;
    }
    unsigned class_index = hak_load_relaxed(&hak_map.entries[unit]) >> HAK_MAGAZINE_SHIFT;
    if (HAK_UNLIKELY(class_index - 1u >= HAK_CLASS_COUNT)) {
        free_other(pointer, function, said);
        return;
    }
    const hak_class_t *info = &hak_classes[class_index];
    uint32_t offset = hak_block_offset((uintptr_t)pointer, info);
    uint32_t index = hak_block_index(offset, info->reciprocal);
    if (HAK_UNLIKELY(index >= info->count || index * info->size != offset)) {
        report_pointer(function, pointer);
        return;
    }
    _Atomic uint32_t *at = hak_state_word(unit, info, index);
    uint32_t word = at ? hak_load_relaxed(at) : HAK_STATE_NEVER;
    size_t size = hak_state_size(word);
    if (HAK_UNLIKELY(hak_state_of(word) != HAK_STATE_USED)) {
        if (hak_state_of(word) == HAK_STATE_FREE ||
            !release_old(pointer, class_index, hak_unit_of(pointer), info, index))
            report_pointer(function, pointer);
        return;
    }
    if (!judge(function, pointer, size, hak_state_origin(word), said)) return;
    if (HAK_UNLIKELY(!hak_state_swap(at, &word, HAK_STATE_FREE))) {
        report_pointer(function, pointer);
        return;
    }
    if (hak_hardened.canary && HAK_UNLIKELY(!hak_canary_holds(pointer, size, info->size)))
        report_overflow(function, pointer, size);
    keep_block(pointer, class_index, info);
}

/* ---- realloc, and questions ---- */

/* A block in use. */
typedef struct {
    size_t size; /* requested */
    hak_origin_t origin;
    _Atomic uint32_t *at; /* its word; NULL for other blocks than those of classes */
    uint64_t word;        /* what it is, or the note */
    const hak_class_t *info;
    bool empty, old;
} found_t;

static bool find(const void *pointer, found_t *found) {
    memset(found, 0, sizeof *found);
    if (hak_empty_has(pointer)) {
        found->empty = true;
        return hak_empty_is_used(pointer);
    }
    hak_block_t block = hak_block_of(pointer);
    if (!hak_block_usable(&block)) return false;
    if (block.kind == HAK_KIND_CACHED) {
        found->info = &hak_classes[block.class_index];
        found->at = word_of(pointer, found->info);
        found->word = found->at ? hak_load_relaxed(found->at) : HAK_STATE_NEVER;
        found->size = hak_state_size(found->word);
    } else {
        found->word = hak_big_note(pointer);
        found->size = hak_big_size(found->word);
    }
    found->origin = hak_state_origin(found->word);
    found->old = hak_state_of(found->word) == HAK_STATE_NEVER;
    if (found->old) found->size = block.size;
    return hak_state_of(found->word) != HAK_STATE_FREE;
}

static size_t usable(const found_t *found) {
    if (found->empty || found->old || hak_hardened.canary) return found->size;
    return found->info ? found->info->size : hak_big_usable(found->word);
}

bool hak_hardened_usable(const void *pointer, size_t *size) {
    found_t found;
    if (!find(pointer, &found)) {
        report_pointer("malloc_usable_size", pointer);
        return false;
    }
    *size = usable(&found);
    return true;
}

bool hak_hardened_bounds(const void *pointer, void **start, size_t *size) {
    found_t found;
    hak_block_t block = hak_block_of(pointer);
    *start = hak_empty_has(pointer) ? (void *)((uintptr_t)pointer & ~(uintptr_t)15) : block.start;
    if (!*start || !find(*start, &found)) return false;
    *size = usable(&found);
    return true;
}

/* Keeps a block of a class where it is, if the new size is of the same class. */
static bool resize_class(char *block, const found_t *found, size_t size) {
    uint32_t word = (uint32_t)found->word;
    if (!found->at || found->old || size == 0 || size >= HAK_CLASS_MAX) return false;
    size_t whole = hak_max(size + hak_hardened.canary, LEAST);
    if (whole > found->info->size || whole < found->info->size / 2) return false;
    if (!hak_state_swap(found->at, &word, hak_state_used(size, found->origin))) return false;
    if (size < found->size && hak_hardened.zero) memset(block + size, 0, found->size - size);
    if (hak_hardened.canary) hak_canary_put(block, size, found->info->size);
    return true;
}

/* Resizes a huge block by its pages. */
static void *resize_big(void *block, const found_t *found, size_t size) {
    uint64_t note = found->word;
    if (found->at || found->old || found->empty || size <= HAK_LARGE_MAX) return NULL;
    if (!hak_big_swap(block, &note, note - HAK_STATE_USED + HAK_STATE_FREE)) return NULL;
    void *moved = hak_big_resize(block, note, size);
    if (!moved && hak_state_of(hak_big_note(block)) == HAK_STATE_FREE)
        hak_big_swap(block, &(uint64_t){note - HAK_STATE_USED + HAK_STATE_FREE}, note);
    return moved;
}

static bool holds(const void *block, const found_t *found) {
    if (!hak_hardened.canary || found->old || found->empty) return true;
    return found->info ? hak_canary_holds(block, found->size, found->info->size)
                       : hak_big_holds(block, found->word);
}

void *hak_hardened_realloc(void *pointer, size_t size) {
    found_t found;
    if (HAK_UNLIKELY(!find(pointer, &found))) {
        report_pointer("realloc", pointer);
        errno = EINVAL;
        return NULL;
    }
    if (hak_hardened.match && !found.old && found.origin != HAK_ORIGIN_MALLOC) {
        report_mismatch("realloc", pointer, found.size, found.origin);
        errno = EINVAL;
        return NULL;
    }
    if (HAK_UNLIKELY(!holds(pointer, &found))) report_overflow("realloc", pointer, found.size);
    if (HAK_UNLIKELY(size > PTRDIFF_MAX)) return out_of_memory();
    if (resize_class(pointer, &found, size)) return pointer;
    void *moved = resize_big(pointer, &found, size);
    if (moved) return moved;
    moved = hak_hardened_alloc(size, 1, false, HAK_ORIGIN_MALLOC);
    if (!moved) return NULL;
    if (!found.empty) memcpy(moved, pointer, hak_min(size, found.size));
    hak_hardened_free(pointer, "realloc", (size_t)HAK_ANY_SIZE);
    return moved;
}
