/* hardened.c: the calls on the hardened path: which block, its state, its canary. */
#include "api/hardened.h"

#include <errno.h>
#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/hardened_report.h"
#include "api/malloc.h"
#include "api/own.h"
#include "classes/dyn.h"
#include "error/error.h"
#include "hardened/big.h"
#include "hardened/canary.h"
#include "hardened/empty.h"
#include "hardened/holder.h"
#include "large/fine.h"
#include "large/large.h"
#include "large/own_huge.h"
#include "live/live.h"
#include "os/os.h"
#include "shard/give.h"
#include "thread/purge.h"
#include "thread/thread.h"

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

static void *out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* Offset of an address from the first block of its slab; slabs of tiny blocks begin with one. */
HAK_FAST_PATH uint32_t offset_of(const void *pointer, const hak_class_t *info) {
    return HAK_LIKELY(!hak_class_is_coloured(info)) ? (uint16_t)(uintptr_t)pointer
                                                    : hak_block_offset((uintptr_t)pointer, info);
}

/* A block of a class, in use or not. */
typedef struct {
    const hak_class_t *info;
    unsigned class_index;
    uint32_t index;
    _Atomic uint32_t *at; /* its word; NULL for none */
    uint32_t word;        /* what it is; NEVER for none */
} spot_t;

/* False when no block of a class starts there. */
HAK_FAST_PATH bool find_spot(const void *pointer, spot_t *spot) {
    size_t unit = hak_state_unit(pointer);
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) return false;
    spot->class_index = hak_load_relaxed(&hak_map.entries[unit]) >> HAK_MAGAZINE_SHIFT;
    if (HAK_UNLIKELY(spot->class_index - 1u >= HAK_CLASS_COUNT)) return false;
    const hak_class_t *info = spot->info = &hak_classes[spot->class_index];
    uint32_t offset = offset_of(pointer, info);
    if (HAK_UNLIKELY(!hak_is_block_start(offset, info->start_test))) return false;
    uint32_t index = spot->index = hak_block_index(offset, info->reciprocal);
    spot->at = hak_state_word(unit, info, index);
    spot->word = HAK_LIKELY(spot->at != NULL) ? hak_load_relaxed(spot->at) : HAK_STATE_NEVER;
    return true;
}

/* ---- allocation ----
 *
 * Small blocks take a path that calls nothing, and so saves no registers; the rest is a tail call.
 * It is compiled twice: with all parts of the profile, and with those that the options say. */

#define PART(name) (all || hak_hardened.name)

/* A block that leaves its stock, whatever it contains and whichever parts are on. */
static HAK_OUT_OF_LINE void *hand_out(hak_entry_t entry, const hak_class_t *info, size_t size,
                                      bool zero, hak_origin_t origin) {
    if (hak_hardened.check_freed && hak_load_relaxed(entry.at) != HAK_STATE_FRESH)
        hak_holder_check_zero(entry.block, info->size);
    else if (zero)
        memset(entry.block, 0, hak_hardened.canary ? size : info->size);
    if (hak_hardened.canary) hak_canary_put(entry.block, size, info->size);
    hak_store_release(entry.at, hak_state_used(size, origin)); /* partner: free_any */
    return entry.block;
}

/* A refill is due, or the thread has no holder. */
static HAK_OUT_OF_LINE void *refill(unsigned class_index, size_t size, bool zero,
                                    hak_origin_t origin) {
    hak_entry_t entry = {NULL, NULL};
    hak_holder_t *holder = holder_of_thread();
    for (int tries = 0; !entry.block && tries < 2; tries++) {
        if (tries > 0 && hak_purge_all() == 0) break;
        entry = holder ? hak_holder_refill(holder, home(), class_index)
                       : hak_holder_take_one(class_index);
    }
    hak_purge_tick_malloc(1);
    return entry.block ? hand_out(entry, &hak_classes[class_index], size, zero, origin)
                       : out_of_memory();
}

static void *alloc_class(unsigned class_index, size_t size, bool zero, hak_origin_t origin) {
    hak_holder_t *holder = hak_load_relaxed(&hak_cache->holder);
    hak_stock_t *stock = holder ? &holder->stocks[class_index] : NULL;
    uint32_t count = stock ? hak_load_relaxed(&stock->count) : 0;
    if (HAK_UNLIKELY(!stock || count <= stock->low)) return refill(class_index, size, zero, origin);
    return hand_out(*hak_holder_pop(stock, count), &hak_classes[class_index], size, zero, origin);
}

/* `size` is 1 to SMALL_MAX - 1. A block that is not zero is FRESH, or was written to. */
HAK_FAST_PATH void *alloc_small(size_t size, bool zero, hak_origin_t origin, bool all) {
    size_t offset = hak_hardened.route[(size + PART(canary) - 1) >> 3];
    hak_holder_t *holder = hak_load_relaxed(&hak_cache->holder);
    if (HAK_UNLIKELY(!holder)) return refill(offset >> HAK_MAGAZINE_SHIFT, size, zero, origin);
    hak_stock_t *stock = (hak_stock_t *)(void *)((char *)holder->stocks + offset);
    uint32_t count = hak_load_relaxed(&stock->count);
    if (HAK_UNLIKELY(count <= stock->low))
        return refill(offset >> HAK_MAGAZINE_SHIFT, size, zero, origin);
    const hak_entry_t *entry = hak_holder_pop(stock, count);
    char *block = entry->block;
    if (PART(check_freed) ? HAK_UNLIKELY(!hak_is_zero(block, stock->size)) : zero)
        return hand_out(*entry, &hak_classes[offset >> HAK_MAGAZINE_SHIFT], size, zero, origin);
    if (PART(canary)) hak_canary_put(block, size, stock->size);
    hak_store_release(entry->at, hak_state_used(size, origin)); /* partner: free_small */
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

static void *alloc_empty(size_t align) {
    hak_random_t random;
    hak_holder_t *holder = holder_of_thread();
    if (!holder) hak_random_seed(&random);
    return hak_empty_take(holder ? &holder->random : &random, align);
}

/* The least bytes of a block that can have a canary. */
HAK_FAST_PATH size_t with_canary(size_t size) {
    return hak_max(size + hak_hardened.canary, HAK_CANARY_LEAST);
}

HAK_FAST_PATH bool is_small(size_t size) { return HAK_LIKELY(size - 1 < HAK_SMALL_MAX - 1); }

static HAK_OUT_OF_LINE void *alloc_other(size_t size, size_t align, bool zero,
                                         hak_origin_t origin) {
    if (HAK_UNLIKELY(hak_load_acquire(&hak_live_on))) hak_live_note_request(size);
    if (is_small(size) && align <= 16) return alloc_small(size, zero, origin, false);
    if (size == 0 && hak_hardened.empty && align <= 4096) {
        void *block = alloc_empty(align);
        if (block) return block;
    }
    if (size >= HAK_CLASS_MAX || align > HAK_UNIT_SIZE) return alloc_big(size, align, zero, origin);
    size_t whole = with_canary(size);
    unsigned class_index = align > 16 ? hak_dyn_class_aligned(whole, align) : hak_class_of(whole);
    return alloc_class(class_index, size, zero, origin);
}

void *hak_hardened_malloc(size_t size) {
    return is_small(size) && HAK_LIKELY(hak_hardened.all)
               ? alloc_small(size, false, HAK_ORIGIN_MALLOC, true)
               : alloc_other(size, 1, false, HAK_ORIGIN_MALLOC);
}

void *hak_hardened_alloc(size_t size, size_t align, bool zero, hak_origin_t origin) {
    return is_small(size) && align <= 16 && HAK_LIKELY(hak_hardened.all)
               ? alloc_small(size, zero, origin, true)
               : alloc_other(size, align, zero, origin);
}

/* ---- free ---- */

/* False when the function or the size that a caller says does not match the block. */
HAK_FAST_PATH bool matches(const char *function, size_t size, hak_origin_t origin, size_t said) {
    return !hak_hardened.match || HAK_LIKELY(origin == hak_hardened_origin_of(function) &&
                                             (said == (size_t)HAK_ANY_SIZE || said == size));
}

/* A block that was allocated before the hardened path was switched on has no state. */
static HAK_SLOW_PATH bool release_old(void *block, unsigned class_index, const hak_unit_t *slab,
                                      const hak_class_t *info, uint32_t index) {
    if (!hak_state_is_taken(slab, info, index)) return false;
    if (hak_hardened.zero) memset(block, 0, info->size);
    hak_thread_cache();
    hak_shard_give(home(), class_index, &block, 1);
    return true;
}

/* Frees what is no block of a class. */
static HAK_OUT_OF_LINE void free_other(void *pointer, const char *function, size_t said) {
    if (hak_empty_has(pointer)) {
        if (!hak_empty_give(pointer)) hak_hardened_report_pointer(function, pointer);
        return;
    }
    hak_block_t block = hak_block_of(pointer);
    uint64_t note = block.kind == HAK_KIND_LARGE || block.kind == HAK_KIND_HUGE
                        ? hak_big_note(pointer)
                        : HAK_STATE_FREE;
    if (!note) { /* allocated before the hardened path was switched on */
        bool done = block.kind == HAK_KIND_HUGE ? hak_own_huge_free(pointer)
                                                : hak_large_free(hak_large_home(), pointer);
        if (!done) hak_hardened_report_pointer(function, pointer);
        return;
    }
    size_t size = hak_big_size(note);
    if (hak_state_of(note) != HAK_STATE_USED) {
        hak_hardened_report_pointer(function, pointer);
    } else if (!matches(function, size, hak_state_origin(note), said)) {
        hak_hardened_report_wrong(function, pointer, size, hak_state_origin(note), said);
    } else {
        if (!hak_big_swap(pointer, &note, note - HAK_STATE_USED + HAK_STATE_FREE)) {
            hak_hardened_report_pointer(function, pointer);
            return;
        }
        if (HAK_UNLIKELY(!hak_big_holds(pointer, note)))
            hak_hardened_report_overflow(function, pointer, size);
        hak_purge_tick_free(hak_big_keep(holder_of_thread(), pointer, note, block.size));
    }
}

static void purge_if_gave(hak_holder_t *holder) {
    if (!holder->gave) return;
    holder->gave = false;
    hak_purge_tick_free(1);
}

/* The block is the caller's: its word went from USED to FREE. */
static HAK_OUT_OF_LINE void keep_block(hak_entry_t entry, unsigned class_index) {
    void *block = entry.block;
    if (hak_hardened.zero) memset(block, 0, hak_classes[class_index].size);
    hak_holder_t *holder = holder_of_thread();
    if (!holder) {
        hak_shard_give(0, class_index, &block, 1);
        return;
    }
    hak_holder_keep(holder, home(), class_index, entry);
    purge_if_gave(holder);
}

/* What is not free, and not in use either, was allocated before the hardened path was switched on, or
 * is freed by mistake. */
static HAK_SLOW_PATH void free_unused(void *pointer, const char *function, const spot_t *spot) {
    if (hak_state_of(spot->word) != HAK_STATE_NEVER ||
        !release_old(pointer, spot->class_index, hak_unit_of(pointer), spot->info, spot->index))
        hak_hardened_report_pointer(function, pointer);
}

/* Frees any block, whichever parts are on. */
static HAK_OUT_OF_LINE void free_any(void *pointer, const char *function, size_t said) {
    spot_t spot;
    if (HAK_UNLIKELY(!find_spot(pointer, &spot))) {
        free_other(pointer, function, said);
        return;
    }
    size_t size = hak_state_size(spot.word);
    if (HAK_UNLIKELY(!hak_state_is_used(spot.word))) {
        free_unused(pointer, function, &spot);
    } else if (HAK_UNLIKELY(!matches(function, size, hak_state_origin(spot.word), said))) {
        hak_hardened_report_wrong(function, pointer, size, hak_state_origin(spot.word), said);
    } else if (HAK_UNLIKELY(!hak_state_claim(spot.at, &spot.word))) {
        hak_hardened_report_pointer(function, pointer);
    } else {
        if (hak_hardened.canary && HAK_UNLIKELY(!hak_canary_holds(pointer, size, spot.info->size)))
            hak_hardened_report_overflow(function, pointer, size);
        keep_block((hak_entry_t){pointer, spot.at}, spot.class_index);
    }
}

/* The two rare ends of free_small. */
static HAK_SLOW_PATH void keep_damaged(char *block, _Atomic uint32_t *at, const char *function,
                                       size_t size) {
    hak_hardened_report_overflow(function, block, size);
    unsigned offset = hak_load_relaxed(&hak_map.entries[hak_state_unit(block)]);
    keep_block((hak_entry_t){block, at}, offset >> HAK_MAGAZINE_SHIFT);
}

static HAK_OUT_OF_LINE void leave(hak_holder_t *holder, char *block, _Atomic uint32_t *at,
                                  hak_stock_t *stock) {
    hak_holder_leave(holder, home(), (hak_rest_t){{block, at}, stock});
    purge_if_gave(holder);
}

/* Frees a light block. Nothing has changed before the swap, so free_any can begin anew. */
HAK_FAST_PATH void free_small(void *pointer, const char *function, size_t said, bool all) {
    hak_holder_t *holder = hak_load_relaxed(&hak_cache->holder);
    size_t unit = hak_state_unit(pointer);
    if (HAK_UNLIKELY(!holder || !hak_is_below(unit, &hak_map.unit_end)))
        return free_any(pointer, function, said);
    hak_stock_t *stock =
        (hak_stock_t *)(void *)((char *)holder->stocks + hak_load_relaxed(&hak_map.entries[unit]));
    uint32_t offset = (uint16_t)(uintptr_t)pointer, end = stock->size;
    if (HAK_UNLIKELY(end - 1 >= hak_hardened.light_size ||
                     !hak_is_block_start(offset, stock->start_test)))
        return free_any(pointer, function, said);
    _Atomic uint32_t *at = hak_state_words(unit, stock->level);
    if (HAK_UNLIKELY(!at)) return free_any(pointer, function, said);
    at += hak_block_index(offset, stock->reciprocal);
    uint32_t word = hak_load_relaxed(at), size = word >> HAK_SIZE_SHIFT;
    if (HAK_UNLIKELY((word & HAK_STATE_TAG) !=
                         hak_state_used(0, hak_hardened_origin_of(function)) ||
                     (said != (size_t)HAK_ANY_SIZE && said != size)))
        return free_any(pointer, function, said);
    if (HAK_UNLIKELY(!hak_state_swap(at, &word, HAK_STATE_FREE)))
        return free_any(pointer, function, said);
    if (PART(canary) && HAK_UNLIKELY(!hak_canary_holds(pointer, size, end)))
        return keep_damaged(pointer, at, function, size);
    if (PART(zero)) hak_zero(pointer, end);
    uint32_t chance = PART(random) ? hak_random_next(&holder->random) : UINT32_MAX;
    hak_rest_t old = {{pointer, at}, stock};
    if (PART(quarantine)) {
        old = hak_holder_exchange(holder, old, PART(random) ? chance : holder->at++);
        if (HAK_UNLIKELY(!old.stock)) return;
    }
    if (HAK_UNLIKELY(!hak_holder_push(old, (uint16_t)(chance >> 16), old.stock->room_light)))
        leave(holder, old.entry.block, old.entry.at, old.stock);
}

static HAK_OUT_OF_LINE void free_by(void *pointer, const char *function, size_t said) {
    free_small(pointer, function, said, false);
}

void hak_hardened_free(void *pointer) {
    if (HAK_LIKELY(hak_hardened.all))
        free_small(pointer, "free", (size_t)HAK_ANY_SIZE, true);
    else
        free_by(pointer, "free", (size_t)HAK_ANY_SIZE);
}

void hak_hardened_free_by(void *pointer, const char *function, size_t said) {
    if (HAK_LIKELY(hak_hardened.all))
        free_small(pointer, function, said, true);
    else
        free_by(pointer, function, said);
}

/* ---- realloc ---- */

/* A block in use that is none of those of find_used. */
typedef struct {
    size_t size;   /* requested; of an old one, all of it */
    uint64_t note; /* of a block above 64 KiB; else 0 */
    bool empty;    /* a block of 0 bytes */
    bool old;      /* allocated before the hardened path was switched on */
} found_t;

/* A block of a class, in use, that the hardened path has allocated. */
HAK_FAST_PATH bool find_used(const void *pointer, spot_t *spot) {
    return find_spot(pointer, spot) && HAK_LIKELY(hak_state_is_used(spot->word));
}

/* Any other; false when there is none in use. */
static bool find_other(const void *pointer, found_t *found) {
    spot_t spot;
    *found = (found_t){.empty = hak_empty_has(pointer)};
    if (found->empty) return hak_empty_is_used(pointer);
    if (find_spot(pointer, &spot)) {
        found->size = spot.info->size;
        found->old = hak_state_of(spot.word) == HAK_STATE_NEVER;
        return hak_state_of(spot.word) != HAK_STATE_FREE;
    }
    hak_block_t block = hak_block_of(pointer);
    if (!hak_block_usable(&block)) return false;
    found->note = hak_big_note(pointer);
    found->old = !found->note;
    found->size = found->old ? block.size : hak_big_size(found->note);
    return found->old || hak_state_of(found->note) == HAK_STATE_USED;
}

/* Bytes of a block in use that the program may use. False when none begins there. */
static HAK_OUT_OF_LINE bool find_usable(const void *pointer, size_t *size) {
    spot_t spot;
    found_t found;
    bool is_used = find_used(pointer, &spot);
    if (HAK_LIKELY(is_used)) {
        *size = hak_hardened.canary ? hak_state_size(spot.word) : spot.info->size;
    } else if ((is_used = find_other(pointer, &found))) {
        bool exact = found.empty || found.old || hak_hardened.canary;
        *size = exact ? found.size : hak_big_usable(found.note);
    }
    return is_used;
}

/* Gives a block of a class another size, which fits. */
HAK_FAST_PATH bool set_size(char *block, const spot_t *spot, size_t size) {
    size_t old = hak_state_size(spot->word);
    uint32_t word = spot->word;
    if (!hak_state_claim(spot->at, &word)) return false;
    if (size < old && hak_hardened.zero) memset(block + size, 0, old - size);
    if (hak_hardened.canary) hak_canary_put(block, size, spot->info->size);
    hak_store_release(spot->at, hak_state_used(size, hak_state_origin(word)));
    return true;
}

/* Keeps a block of a class where it is, if the new size is of the same class. */
HAK_FAST_PATH bool resize_class(char *block, const spot_t *spot, size_t size) {
    size_t whole = with_canary(size), end = spot->info->size;
    return whole <= end && whole >= end / 2 && set_size(block, spot, size);
}

/* Resizes a block above 64 KiB by a function of big.h. */
static void *resize_big(void *block, uint64_t note, size_t size,
                        void *(*resize)(void *block, uint64_t note, size_t size)) {
    if (!hak_big_swap(block, &note, note - HAK_STATE_USED + HAK_STATE_FREE)) return NULL;
    void *moved = resize(block, note, size);
    if (!moved && hak_state_of(hak_big_note(block)) == HAK_STATE_FREE)
        hak_big_swap(block, &(uint64_t){note - HAK_STATE_USED + HAK_STATE_FREE}, note);
    return moved;
}

/* What makes a block shorter where it is; false when it cannot. `what`: found for it. */
typedef bool (*shorten_t)(void *block, const void *what, size_t size);

static bool shorten_class(void *block, const void *spot, size_t size) {
    return set_size(block, spot, size);
}
static bool shorten_other(void *block, const void *what, size_t size) {
    const found_t *found = what;
    uint64_t note = hak_big_note(block); /* a resize that was refused may have changed its guard */
    return found->old ||
           (hak_state_of(note) == HAK_STATE_USED && resize_big(block, note, size, hak_big_shorten));
}

/* As in resize.c: a block that is to become smaller stays where there is no memory for another one. */
static void *move(void *pointer, size_t old, size_t size, shorten_t shorten, const void *what) {
    void *moved = hak_hardened_malloc(size);
    if (!moved) return size <= old && shorten(pointer, what, size) ? pointer : NULL;
    if (old) memcpy(moved, pointer, hak_min(size, old));
    hak_hardened_free_by(pointer, "realloc", (size_t)HAK_ANY_SIZE);
    return moved;
}

static HAK_SLOW_PATH void *refuse_mismatch(const void *block, size_t size, hak_origin_t origin) {
    hak_hardened_report_mismatch("realloc", block, size, origin);
    errno = EINVAL;
    return NULL;
}

static HAK_OUT_OF_LINE void *resize_other(void *pointer, size_t size) {
    found_t found;
    if (HAK_UNLIKELY(!find_other(pointer, &found))) {
        hak_hardened_report_pointer("realloc", pointer);
        errno = EINVAL;
        return NULL;
    }
    hak_origin_t origin = hak_state_origin(found.note);
    if (hak_hardened.match && origin != HAK_ORIGIN_MALLOC)
        return refuse_mismatch(pointer, found.size, origin);
    if (HAK_UNLIKELY(found.note && !hak_big_holds(pointer, found.note)))
        hak_hardened_report_overflow("realloc", pointer, found.size);
    if (HAK_UNLIKELY(size > PTRDIFF_MAX)) return out_of_memory();
    hak_own_t *heap = found.old ? hak_fine_heap_of(pointer) : NULL;
    if (HAK_UNLIKELY(heap != NULL)) return hak_own_resize(heap, pointer, found.size, size, NULL);
    void *moved = found.note && size > HAK_LARGE_MAX
                      ? resize_big(pointer, found.note, size, hak_big_resize)
                      : NULL;
    return moved ? moved : move(pointer, found.size, size, shorten_other, &found);
}

void *hak_hardened_realloc(void *pointer, size_t size) {
    spot_t spot;
    if (HAK_UNLIKELY(!find_used(pointer, &spot))) return resize_other(pointer, size);
    size_t old = hak_state_size(spot.word);
    hak_origin_t origin = hak_state_origin(spot.word);
    if (hak_hardened.match && HAK_UNLIKELY(origin != HAK_ORIGIN_MALLOC))
        return refuse_mismatch(pointer, old, origin);
    if (hak_hardened.canary && HAK_UNLIKELY(!hak_canary_holds(pointer, old, spot.info->size)))
        hak_hardened_report_overflow("realloc", pointer, old);
    if (HAK_UNLIKELY(size > PTRDIFF_MAX)) return out_of_memory();
    return resize_class(pointer, &spot, size) ? pointer
                                              : move(pointer, old, size, shorten_class, &spot);
}

/* ---- questions ---- */

static HAK_OUT_OF_LINE size_t usable_other(const void *pointer) {
    size_t size = 0;
    if (HAK_LIKELY(find_usable(pointer, &size))) return size;
    hak_hardened_report_pointer("malloc_usable_size", pointer);
    return 0;
}

/* As free_small: a block of a class without colours, with a canary. */
size_t hak_hardened_usable(const void *pointer) {
    size_t unit = hak_state_unit(pointer);
    if (HAK_UNLIKELY(!hak_is_below(unit, &hak_map.unit_end))) return usable_other(pointer);
    size_t class_index = hak_load_relaxed(&hak_map.entries[unit]) >> HAK_MAGAZINE_SHIFT;
    if (HAK_UNLIKELY(class_index - 1 >= HAK_CLASS_TINY || !hak_hardened.canary))
        return usable_other(pointer);
    const hak_class_t *info = &hak_classes[class_index];
    uint32_t offset = (uint16_t)(uintptr_t)pointer;
    const _Atomic uint32_t *at =
        hak_state_word(unit, info, hak_block_index(offset, info->reciprocal));
    if (HAK_UNLIKELY(!at || !hak_is_block_start(offset, info->start_test)))
        return usable_other(pointer);
    uint32_t word = hak_load_relaxed(at);
    return HAK_LIKELY(hak_state_of(word) == HAK_STATE_USED) ? hak_state_size(word)
                                                            : usable_other(pointer);
}

bool hak_hardened_bounds(const void *pointer, void **start, size_t *size) {
    hak_block_t block = hak_block_of(pointer);
    *start = hak_empty_has(pointer) ? (void *)((uintptr_t)pointer & ~(uintptr_t)15) : block.start;
    return *start && find_usable(*start, size);
}
