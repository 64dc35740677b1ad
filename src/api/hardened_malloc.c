/* hardened_malloc.c: malloc and free on the hardened path: which block, its state, its canary. */
#include "api/hardened_malloc.h"

#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/hardened_report.h"
#include "api/hardened_spot.h"
#include "api/malloc.h"
#include "api/malloc_sampled.h"
#include "classes/classes.h"
#include "hardened/big.h"
#include "hardened/canary.h"
#include "hardened/empty.h"
#include "hardened/quarantine.h"
#include "large/large.h"
#include "large/user_heap_huge.h"
#include "live_stats/live.h"
#include "os/os.h"
#include "profile/samples.h"
#include "shard/flush.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

void hak_hardened_start(void) {
    hak_hardened_switch_on();
    hak_cache_t *cache = hak_cache_own();
    if (cache) {
        hak_cache_flush_all(cache); /* blocks that the loader has freed before */
        hak_cache_reset(cache);
    }
    if (hak_os_is_single_threaded()) hak_hardened.knows_old = hak_state_note_old();
}

/* ---- the thread's quarantine ---- */

static HAK_SLOW_PATH hak_quarantine_t *make_quarantine(void) {
    hak_cache_t *cache = hak_thread_cache();
    return cache ? hak_quarantine_make(cache) : NULL;
}

/* NULL for a thread that is exiting, or without memory. */
HAK_FAST_PATH hak_quarantine_t *quarantine_of_thread(void) {
    hak_quarantine_t *quarantine = hak_load_relaxed(&hak_cache->quarantine);
    return HAK_LIKELY(quarantine != NULL) ? quarantine : make_quarantine();
}

/* The thread's quarantine; NULL if there is none yet. With `all`, for the path that has all parts: also NULL if not all
 * are on. */
HAK_FAST_PATH hak_quarantine_t *quarantine_for(bool all) {
    return all ? hak_cache->quick : hak_load_relaxed(&hak_cache->quarantine);
}

/* The free list at the byte offset of a magazine. */
HAK_FAST_PATH hak_free_list_t *list_at(hak_quarantine_t *quarantine, size_t offset) {
    return (hak_free_list_t *)(void *)((char *)quarantine->lists + offset);
}

static unsigned home(void) { return hak_cache->shard; }

/* ---- allocation ----
 *
 * Small blocks take a path that calls no function and so saves no registers; other cases are tail calls.
 * The path is compiled twice: for all parts of the profile, and for the parts that the options choose. While
 * the heap profiler samples, hak_hardened.all is false, and each call comes to alloc_counted or
 * free_counted. So the path with all parts has no instruction for samples. A sampled block is an ordinary
 * block of a slab. */

#define PART(name) (all || hak_hardened.name)

/* Reports a write to a block that has just left its free list. The block lies there meanwhile: the program's handler of
 * SIGABRT may jump away. */
static HAK_SLOW_PATH void report_write(hak_entry_t entry, const hak_class_t *info) {
    hak_quarantine_t *quarantine = hak_load_relaxed(&hak_cache->quarantine);
    hak_free_list_t *list = quarantine ? &quarantine->lists[info - hak_classes] : NULL;
    const bool lies =
        list && hak_quarantine_push((hak_rest_t){entry, list}, list->room, (hak_chance_t){0, 0});
    hak_quarantine_report_write(entry.block, info->size);
    if (lies) hak_quarantine_pop(list, list->count - 1u);
}

/* Prepares a block that leaves its free list for the program, whatever it contains and whichever parts are on. */
static HAK_OUT_OF_LINE void *hand_out(hak_entry_t entry, const hak_class_t *info, size_t size,
                                      bool zero, hak_origin_t origin) {
    if (hak_hardened.check_freed && hak_load_relaxed(entry.at) != HAK_STATE_FRESH) {
        if (HAK_UNLIKELY(!hak_is_zero(entry.block, info->size, &hak_hardened.wide)))
            report_write(entry, info);
    } else if (zero) {
        memset(entry.block, 0, hak_hardened.canary ? size : info->size);
    }
    if (hak_hardened.canary)
        hak_canary_put(entry.block, size, info->size, false, hak_canary_marks(info));
    hak_state_use(entry.at, size, origin);
    return entry.block;
}

/* Allocates a block when a refill is due, or the thread has no quarantine. */
static HAK_OUT_OF_LINE void *refill(unsigned class_index, size_t size, bool zero,
                                    hak_origin_t origin) {
    hak_entry_t entry = {NULL, NULL};
    hak_quarantine_t *quarantine = quarantine_of_thread();
    for (int tries = 0; !entry.block && tries < 2; tries++) {
        if (tries > 0) hak_purge_for(size);
        entry = quarantine ? hak_quarantine_refill(quarantine, home(), class_index)
                           : hak_quarantine_take_one(class_index);
    }
    hak_purge_tick_malloc(1);
    return entry.block ? hand_out(entry, &hak_classes[class_index], size, zero, origin)
                       : hak_out_of_memory();
}

static void *alloc_class(unsigned class_index, size_t size, bool zero, hak_origin_t origin) {
    hak_quarantine_t *quarantine = hak_load_relaxed(&hak_cache->quarantine);
    hak_free_list_t *list = quarantine ? &quarantine->lists[class_index] : NULL;
    uint32_t count = list ? hak_load_relaxed(&list->count) : 0;
    if (HAK_UNLIKELY(!list || count <= list->low)) return refill(class_index, size, zero, origin);
    return hand_out(hak_quarantine_pop(list, count)[-1], &hak_classes[class_index], size, zero,
                    origin);
}

/* `size` and `room` are 1 to HAK_TINY_MAX - 1; `room` determines the class. A block that is not zero is FRESH, or was
 * written to after its free. */
HAK_FAST_PATH void *alloc_small(hak_quarantine_t *quarantine, size_t size, size_t room, bool zero,
                                hak_origin_t origin, bool all) {
    size_t offset = hak_hardened.route[(room + PART(canary) - 1) >> 3];
    if (!all && HAK_UNLIKELY(!quarantine))
        return refill(offset >> HAK_MAGAZINE_SHIFT, size, zero, origin);
    hak_free_list_t *list = list_at(quarantine, offset);
    uint32_t count = hak_load_relaxed(&list->count);
    if (HAK_UNLIKELY(count <= list->low))
        return refill(offset >> HAK_MAGAZINE_SHIFT, size, zero, origin);
    const hak_entry_t *end = hak_quarantine_pop(list, count);
    char *block = end[-1].block;
    if (PART(check_freed) ? HAK_UNLIKELY(!hak_is_zero(block, list->size, &hak_hardened.wide))
                          : zero)
        return hand_out(end[-1], &hak_classes[offset >> HAK_MAGAZINE_SHIFT], size, zero, origin);
    if (PART(canary)) hak_canary_put(block, size, list->size, PART(check_freed), true);
    hak_store_release(end[-1].at, hak_state_used(size, origin)); /* partner: free_small */
    return block;
}

static HAK_OUT_OF_LINE void *alloc_big(size_t size, size_t align, bool zero, hak_origin_t origin) {
    if (size > PTRDIFF_MAX - align) return hak_out_of_memory();
    hak_thread_cache(); /* making it also installs the handlers of thread exit and fork */
    bool mapped = size >= hak_load_relaxed(&hak_mapping_threshold);
    void *block = hak_big_alloc(size, align, zero, origin, mapped);
    if (!block) {
        hak_purge_for(size);
        block = hak_big_alloc(size, align, zero, origin, mapped);
    }
    hak_purge_tick_malloc(size);
    return block ? block : hak_out_of_memory();
}

static void *alloc_empty(size_t align, hak_origin_t origin) {
    hak_random_t random;
    hak_quarantine_t *quarantine = quarantine_of_thread();
    if (!quarantine) hak_random_seed(&random);
    return hak_empty_take(quarantine ? &quarantine->random : &random, align, origin);
}

HAK_FAST_PATH bool is_small(size_t size) { return HAK_LIKELY(size - 1 < HAK_TINY_MAX - 1); }

static HAK_OUT_OF_LINE void *alloc_other(size_t size, size_t align, bool zero,
                                         hak_origin_t origin) {
    if (HAK_UNLIKELY(hak_load_acquire(&hak_live_on))) hak_live_note_request(size);
    if (is_small(size) && align <= 16)
        return alloc_small(quarantine_for(false), size, size, zero, origin, false);
    if (size == 0 && hak_hardened.empty && align <= 4096) {
        void *block = alloc_empty(align, origin);
        if (block) return block;
    }
    if (size >= HAK_CLASS_MAX || align > HAK_UNIT_SIZE) return alloc_big(size, align, zero, origin);
    size_t whole = hak_canary_whole(size);
    unsigned class_index = align > 16 ? hak_class_of_aligned(whole, align) : hak_class_of(whole);
    return alloc_class(class_index, size, zero, origin);
}

static HAK_OUT_OF_LINE void *alloc_parts(size_t size) {
    return alloc_small(quarantine_for(false), size, size, false, HAK_ORIGIN_MALLOC, false);
}

/* The same while blocks are sampled: the block is counted after it was allocated. Blocks of 0 bytes do not count. */
static HAK_OUT_OF_LINE void *alloc_counted(size_t size, size_t align, bool zero,
                                           hak_origin_t origin, const void *site) {
    hak_spot_t spot;
    void *block = alloc_other(size, align, zero, origin);
    if (!block || hak_empty_has(block)) return block;
    unsigned class_index = hak_spot_find(block, &spot) ? spot.class_index : HAK_CLASS_LARGE;
    hak_malloc_sampled_note(block, class_index, size, site);
    return block;
}

void *hak_hardened_malloc(size_t size, const void *site) {
    if (is_small(size)) {
        if (HAK_LIKELY(hak_cache->quick != NULL))
            return alloc_small(hak_cache->quick, size, size, false, HAK_ORIGIN_MALLOC, true);
        if (!hak_samples_on()) return alloc_parts(size);
    } else if (!hak_samples_on()) {
        return alloc_other(size, 1, false, HAK_ORIGIN_MALLOC);
    }
    return alloc_counted(size, 1, false, HAK_ORIGIN_MALLOC, site);
}

void *hak_hardened_malloc_quick(size_t size, const void *site, const hak_cache_t *cache) {
    (void)site; /* keeps the others in the registers that hak_allocate_small got them in */
    if (HAK_UNLIKELY(size == 0)) return alloc_other(size, 1, false, HAK_ORIGIN_MALLOC);
    return alloc_small(cache->quick, size, size, false, HAK_ORIGIN_MALLOC, true);
}

/* The number of bytes whose class, with the canary, has only aligned blocks, as in hak_class_of_aligned. If the sum
 * wraps, `size` is not small. */
static size_t room_at(size_t size, size_t align) { return hak_align_up(size + 1, align) - 1; }

void *hak_hardened_alloc(size_t size, size_t align, bool zero, hak_origin_t origin,
                         const void *site) {
    const size_t room = align <= 16 ? size : room_at(size, align);
    if (is_small(size) && is_small(room) && HAK_LIKELY(hak_cache->quick != NULL))
        return alloc_small(hak_cache->quick, size, room, zero, origin, true);
    return hak_samples_on() ? alloc_counted(size, align, zero, origin, site)
                            : alloc_other(size, align, zero, origin);
}

/* ---- free ---- */

/* False when the freeing function, or the size that its caller passes, does not match the block. */
HAK_FAST_PATH bool matches(const char *function, size_t size, hak_origin_t origin, size_t said) {
    return !hak_hardened.match ||
           HAK_LIKELY(origin == hak_hardened_origin_of(function) &&
                      (said == (size_t)HAK_ANY_SIZE || said == size)) ||
           hak_hardened_matches_mixed(function, size, origin, said);
}

/* Frees an old block (hardened_spot.h); false if another thread has just freed it. */
static HAK_SLOW_PATH bool release_old(void *block, const hak_spot_t *spot) {
    if (spot->at && !hak_state_claim_old(spot->at, spot->word)) return false;
    if (hak_hardened.zero) memset(block, 0, spot->info->size);
    hak_thread_cache();
    hak_shard_flush(home(), spot->class_index, &block, 1);
    return true;
}

static void free_empty(void *pointer, const char *function, size_t said) {
    const hak_origin_t origin = hak_empty_origin(pointer);
    if (hak_empty_is_used(pointer) && !matches(function, 0, origin, said))
        hak_hardened_report_wrong(function, pointer, 0, origin, said);
    else if (!hak_empty_give(pointer))
        hak_hardened_report_pointer(function, pointer);
}

/* Frees a block that has no class. */
static HAK_OUT_OF_LINE void free_other(void *pointer, const char *function, size_t said) {
    if (hak_empty_has(pointer)) {
        free_empty(pointer, function, said);
        return;
    }
    hak_block_t block = hak_block_of(pointer);
    uint64_t note = block.kind == HAK_KIND_LARGE || block.kind == HAK_KIND_HUGE
                        ? hak_big_note(pointer)
                        : HAK_STATE_FREE;
    if (!note) { /* allocated before the hardened path was switched on */
        bool done = block.kind == HAK_KIND_HUGE ? hak_user_heap_huge_free(pointer)
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
        const bool is_whole = hak_big_holds(pointer, note);
        const size_t freed = hak_big_keep(quarantine_of_thread(), pointer, note, block.size);
        if (HAK_UNLIKELY(!is_whole)) hak_hardened_report_overflow(function, pointer, size);
        hak_purge_tick_free(freed);
    }
}

static void purge_if_gave(hak_quarantine_t *quarantine) {
    if (!quarantine->gave) return;
    quarantine->gave = false;
    hak_purge_tick_free(1);
}

/* The caller has claimed the block: it changed its word from USED to FREE. */
static HAK_OUT_OF_LINE void keep_block(hak_entry_t entry, unsigned class_index) {
    void *block = entry.block;
    if (hak_hardened.zero) hak_zero(block, hak_classes[class_index].size, &hak_hardened.wide);
    hak_quarantine_t *quarantine = quarantine_of_thread();
    if (!quarantine) {
        hak_shard_flush(0, class_index, &block, 1);
        return;
    }
    hak_quarantine_keep(quarantine, home(), (hak_rest_t){entry, &quarantine->lists[class_index]});
    purge_if_gave(quarantine);
}

/* Frees a block whose state is not USED: it is an old block, or the free is a mistake. */
static HAK_SLOW_PATH void free_unused(void *pointer, const char *function, const hak_spot_t *spot) {
    if (!hak_spot_is_old(pointer, spot) || !release_old(pointer, spot))
        hak_hardened_report_pointer(function, pointer);
}

/* Frees any block, whichever parts are on. */
static HAK_OUT_OF_LINE void free_any(void *pointer, const char *function, size_t said) {
    hak_spot_t spot;
    if (HAK_UNLIKELY(!hak_spot_find(pointer, &spot))) {
        free_other(pointer, function, said);
        return;
    }
    size_t size = hak_state_size_at(spot.at, spot.word);
    if (HAK_UNLIKELY(!hak_state_is_used(spot.word))) {
        free_unused(pointer, function, &spot);
    } else if (HAK_UNLIKELY(!matches(function, size, hak_state_origin(spot.word), said))) {
        hak_hardened_report_wrong(function, pointer, size, hak_state_origin(spot.word), said);
    } else if (HAK_UNLIKELY(!hak_state_claim(spot.at, &spot.word))) {
        hak_hardened_report_pointer(function, pointer);
    } else if (hak_hardened.canary &&
               HAK_UNLIKELY(!hak_canary_holds(pointer, size, spot.info->size,
                                              hak_canary_marks(spot.info)))) {
        keep_block((hak_entry_t){pointer, spot.at}, spot.class_index);
        hak_hardened_report_overflow(function, pointer, size);
    } else {
        keep_block((hak_entry_t){pointer, spot.at}, spot.class_index);
    }
}

/* The rare ends of free_small: `keep` for a block whose class is not light, `keep_damaged` for a damaged canary,
 * `leave` for a full free list. Here as elsewhere a damaged block is in quarantine before the report: the program's
 * handler of SIGABRT may jump away. */
static HAK_OUT_OF_LINE void keep(hak_quarantine_t *quarantine, char *block, hak_state_word_t *at,
                                 hak_free_list_t *list) {
    if (hak_hardened.zero) hak_zero(block, list->size, &hak_hardened.wide);
    hak_quarantine_keep(quarantine, home(), (hak_rest_t){{block, at}, list});
    purge_if_gave(quarantine);
}

static HAK_SLOW_PATH void keep_damaged(hak_quarantine_t *quarantine, char *block,
                                       hak_state_word_t *at, hak_free_list_t *list,
                                       const char *function, size_t size) {
    keep(quarantine, block, at, list);
    hak_hardened_report_overflow(function, block, size);
}

static HAK_OUT_OF_LINE void leave(hak_quarantine_t *quarantine, char *block, hak_state_word_t *at,
                                  hak_free_list_t *list) {
    hak_quarantine_leave(quarantine, home(), (hak_rest_t){{block, at}, list});
    purge_if_gave(quarantine);
}

/* Puts a block into a quarantine of any length. */
HAK_FAST_PATH hak_rest_t exchange(hak_quarantine_t *quarantine, hak_rest_t rest) {
    uint32_t at = hak_hardened.random ? hak_random_next(&quarantine->random) : quarantine->at++;
    return hak_quarantine_exchange(quarantine, rest, at & hak_hardened.quarantine_mask);
}

/* With all parts: zeroes a light block; false for any other one. One comparison finds that a block is both light
 * and wide. */
HAK_FAST_PATH bool zero_light(void *block, size_t size) {
    if (size <= 32) {
        hak_zero(block, size, &hak_hardened.wide);
    } else if (HAK_LIKELY(size - HAK_WIDE_LEAST < hak_hardened.wide_light)) {
        hak_zero_wide(block, size);
    } else {
        if (size > hak_hardened.light_size) return false;
        hak_zero_pairs(block, size);
    }
    return true;
}

/* Frees a block of a class without colours; for any other class there are no words at the level of its free list.
 * Nothing changes before the swap, so free_any can begin anew. */
HAK_FAST_PATH void free_of_list(hak_quarantine_t *quarantine, hak_free_list_t *list, size_t unit,
                                void *pointer, const char *function, size_t said, bool all) {
    hak_state_word_t *at = hak_state_words(unit, list->level);
    uint32_t index;
    if (HAK_UNLIKELY(!at ||
                     !hak_is_block_index((uint16_t)(uintptr_t)pointer, list->start_test, &index)))
        return free_any(pointer, function, said);
    HAK_FORGET(list);
    at += index;
    const size_t word = hak_load_relaxed(at),
                 tag = hak_state_used(0, hak_hardened_origin_of(function));
    size_t size = hak_state_size(word), end = list->size;
    if (HAK_UNLIKELY(((word - tag) & HAK_STATE_TAG) != 0 ||
                     (said != (size_t)HAK_ANY_SIZE && said != size)))
        return free_any(pointer, function, said);
    if (HAK_UNLIKELY(!hak_state_swap(at, &(uint16_t){(uint16_t)word}, HAK_STATE_FREE)))
        return free_any(pointer, function, said);
    if (PART(canary) && HAK_UNLIKELY(!hak_canary_holds(pointer, size, end, true)))
        return keep_damaged(quarantine, pointer, at, list, function, size);
    if (HAK_UNLIKELY(all ? !zero_light(pointer, end) : end > hak_hardened.light_size))
        return keep(quarantine, pointer, at, list);
    if (!all && hak_hardened.zero) hak_zero(pointer, end, &hak_hardened.wide);
    hak_rest_t old = {{pointer, at}, list};
    hak_chance_t chance;
    if (all) { /* one byte for both places */
        chance = (hak_chance_t){hak_random_byte(&quarantine->random), 8};
        old = hak_quarantine_exchange(quarantine, old, chance.number);
    } else {
        chance = hak_quarantine_chance(&quarantine->random);
        if (hak_hardened.quarantine) old = exchange(quarantine, old);
    }
    if (HAK_UNLIKELY(!hak_quarantine_push(old, old.list->light_room, chance)))
        return leave(quarantine, old.entry.block, old.entry.at, old.list);
}

HAK_FAST_PATH void free_small(void *pointer, const char *function, size_t said, bool all) {
    hak_quarantine_t *quarantine = quarantine_for(all);
    const size_t unit = hak_state_unit(pointer);
    if (HAK_UNLIKELY(!quarantine || !hak_is_below(unit, &hak_map.unit_end)))
        return free_any(pointer, function, said);
    hak_free_list_t *list = list_at(quarantine, hak_load_relaxed(&hak_map.entries[unit]));
    free_of_list(quarantine, list, unit, pointer, function, said, all);
}

static HAK_OUT_OF_LINE void free_parts(void *pointer) {
    free_small(pointer, "free", (size_t)HAK_ANY_SIZE, false);
}
static HAK_OUT_OF_LINE void free_parts_by(void *pointer, const char *function, size_t said) {
    free_small(pointer, function, said, false);
}

/* True for a block in use whose free will be refused, since the function or the size does not match. */
static HAK_BEHIND bool is_refused(const void *pointer, const char *function, size_t said) {
    hak_spot_t spot;
    if (hak_spot_find(pointer, &spot))
        return hak_state_is_used(spot.word) &&
               !matches(function, hak_state_size_at(spot.at, spot.word),
                        hak_state_origin(spot.word), said);
    const hak_block_t block = hak_block_of(pointer);
    if (block.start != pointer || (block.kind != HAK_KIND_LARGE && block.kind != HAK_KIND_HUGE))
        return false;
    const uint64_t note = hak_big_note(pointer);
    return hak_state_of(note) == HAK_STATE_USED &&
           !matches(function, hak_big_size(note), hak_state_origin(note), said);
}

static HAK_OUT_OF_LINE void free_counted(void *pointer, const char *function, size_t said) {
    hak_sample_t *sample = hak_sample_take(pointer);
    if (sample) hak_sample_end(sample, is_refused(pointer, function, said));
    free_small(pointer, function, said, false);
}

void hak_hardened_free(void *pointer) {
    if (HAK_LIKELY(hak_cache->quick != NULL))
        free_small(pointer, "free", (size_t)HAK_ANY_SIZE, true);
    else if (hak_samples_on())
        free_counted(pointer, "free", (size_t)HAK_ANY_SIZE);
    else
        free_parts(pointer);
}

void hak_hardened_free_quick(void *pointer, size_t offset, size_t unit,
                             hak_quarantine_t *quarantine) {
    free_of_list(quarantine, list_at(quarantine, offset), unit, pointer, "free",
                 (size_t)HAK_ANY_SIZE, true);
}

void hak_hardened_free_by(void *pointer, const char *function, size_t said) {
    if (HAK_LIKELY(hak_cache->quick != NULL))
        free_small(pointer, function, said, true);
    else if (hak_samples_on())
        free_counted(pointer, function, said);
    else
        free_parts_by(pointer, function, said);
}
