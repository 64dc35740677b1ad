/* hardened_realloc.c: blocks in use on the hardened path: realloc, usable sizes, bounds. */
#include <errno.h>
#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/hardened_malloc.h"
#include "api/hardened_report.h"
#include "api/hardened_spot.h"
#include "api/malloc.h"
#include "api/malloc_sampled.h"
#include "api/user_heap.h"
#include "hardened/big.h"
#include "hardened/canary.h"
#include "hardened/empty.h"
#include "large/fine_grain.h"
#include "profile/samples.h"
#include "thread/purge_trigger.h"

/* A block in use that hak_spot_find_used does not find. */
typedef struct {
    size_t size;   /* requested bytes; of an old block, all bytes */
    uint64_t note; /* of a block above 64 KiB; otherwise 0 */
    bool empty;    /* a block of 0 bytes */
    bool old;      /* allocated before the hardened path was switched on */
} found_t;

/* Finds such a block; false when none in use begins there. */
static bool find_other(const void *pointer, found_t *found) {
    hak_spot_t spot;
    *found = (found_t){.empty = hak_empty_has(pointer)};
    if (found->empty) return hak_empty_is_used(pointer);
    if (hak_spot_find(pointer, &spot)) {
        found->size = spot.info->size;
        found->old = hak_spot_is_old(pointer, &spot);
        return found->old || hak_state_is_used(spot.word);
    }
    hak_block_t block = hak_block_of(pointer);
    if (!hak_block_usable(&block)) return false;
    found->note = hak_big_note(pointer);
    found->old = !found->note;
    found->size = found->old ? block.size : hak_big_size(found->note);
    return found->old || hak_state_of(found->note) == HAK_STATE_USED;
}

/* Bytes that the program may use: without a canary, the whole block. */
HAK_FAST_PATH size_t usable_of_class(const hak_spot_t *spot) {
    return hak_hardened.canary ? hak_state_size_at(spot->at, spot->word) : spot->info->size;
}
static size_t usable_of_other(const found_t *found) {
    return found->note ? hak_big_usable(found->note) : found->size;
}

/* The same for any block in use. False when none begins there. */
static HAK_OUT_OF_LINE bool find_usable(const void *pointer, size_t *size) {
    hak_spot_t spot;
    found_t found;
    bool is_used = hak_spot_find_used(pointer, &spot);
    if (HAK_LIKELY(is_used)) {
        *size = usable_of_class(&spot);
    } else if ((is_used = find_other(pointer, &found))) {
        *size = usable_of_other(&found);
    }
    return is_used;
}

/* Gives a block of a class another size, which fits. */
HAK_FAST_PATH bool set_size(char *block, const hak_spot_t *spot, size_t size) {
    size_t old = hak_state_size_at(spot->at, spot->word);
    uint16_t word = spot->word;
    if (!hak_state_claim(spot->at, &word)) return false;
    if (size < old && hak_hardened.zero) memset(block + size, 0, old - size);
    if (hak_hardened.canary) {
        hak_canary_clear(block, old, spot->info->size);
        hak_canary_put(block, size, spot->info->size, false, hak_canary_marks(spot->info));
    }
    hak_state_use(spot->at, size, hak_state_origin(word));
    return true;
}

/* Keeps a block of a class where it is, if the new size is of the same class. */
HAK_FAST_PATH bool resize_class(char *block, const hak_spot_t *spot, size_t size) {
    size_t whole = hak_canary_whole(size), end = spot->info->size;
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

/* Makes a block shorter in place; false when it cannot. `what`: a hak_spot_t or a found_t. */
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

/* As in realloc.c: a block that is to become smaller stays if there is no memory for another one, and errno is as it
 * was. */
static void *move(void *pointer, size_t old, size_t size, shorten_t shorten, const void *what,
                  const void *site) {
    const int error = errno;
    void *moved = hak_hardened_malloc(size, site);
    if (!moved) {
        if (size > old || !shorten(pointer, what, size)) return NULL;
        errno = error;
        return pointer;
    }
    if (old) memcpy(moved, pointer, hak_min(size, old));
    hak_hardened_free_by(pointer, "realloc", (size_t)HAK_ANY_SIZE);
    return moved;
}

static HAK_SLOW_PATH void *refuse_mismatch(const void *block, size_t size, hak_origin_t origin) {
    hak_hardened_report_mismatch("realloc", block, size, origin);
    errno = EINVAL;
    return NULL;
}

/* Resizes a block above 64 KiB without a copy, or returns NULL. As in realloc.c, its sample ends. */
static void *resize_in_place(void *pointer, uint64_t note, size_t size, const void *site) {
    if (hak_state_of(note) != HAK_STATE_USED || size < HAK_CLASS_MAX) return NULL;
    hak_sample_t *sample = hak_samples_on() ? hak_sample_take(pointer) : NULL;
    void *moved = resize_big(pointer, note, size, hak_big_resize);
    if (sample) hak_sample_end(sample, !moved);
    if (moved && hak_samples_on()) hak_malloc_sampled_note(moved, HAK_CLASS_LARGE, size, site);
    return moved;
}

static HAK_OUT_OF_LINE void *resize_other(void *pointer, size_t size, const void *site) {
    found_t found;
    if (HAK_UNLIKELY(!find_other(pointer, &found))) {
        hak_hardened_report_pointer("realloc", pointer);
        errno = EINVAL;
        return NULL;
    }
    hak_origin_t origin = found.empty ? hak_empty_origin(pointer) : hak_state_origin(found.note);
    if (hak_hardened.match && origin != HAK_ORIGIN_MALLOC)
        return refuse_mismatch(pointer, found.size, origin);
    if (HAK_UNLIKELY(found.note && !hak_big_holds(pointer, found.note)))
        hak_hardened_report_overflow("realloc", pointer, found.size);
    if (HAK_UNLIKELY(size > PTRDIFF_MAX)) return hak_hardened_malloc(size, site); /* refuses it */
    hak_user_heap_t *heap = found.old ? hak_fine_heap_of(pointer) : NULL;
    if (HAK_UNLIKELY(heap != NULL))
        return hak_user_heap_resize(heap, pointer, found.size, size, site);
    const int error = errno;
    void *moved = resize_in_place(pointer, found.note, size, site);
    if (moved) hak_purge_tick_resize(found.size, size);
    if (!moved) moved = move(pointer, usable_of_other(&found), size, shorten_other, &found, site);
    /* As in realloc.c: a second try, with the guard that the first one has left. */
    if (!moved && !found.old) moved = resize_in_place(pointer, hak_big_note(pointer), size, site);
    if (HAK_UNLIKELY(!moved)) return hak_out_of_memory();
    errno = error; /* the requests that were refused have set it */
    return moved;
}

/* As resize_sampled in realloc.c: a sampled block that stays is sampled again with its new size. */
static HAK_SLOW_PATH void sample_again(const void *block, size_t size, const void *site) {
    hak_sample_t *sample = hak_sample_take(block);
    if (!sample) return;
    const size_t of_class = hak_sample_class_size(sample);
    hak_sample_end(sample, false);
    if (hak_sample_enter(block, site, size, of_class, (uint32_t)of_class))
        hak_malloc_sampled_write();
}

void *hak_hardened_realloc(void *pointer, size_t size, const void *site) {
    hak_spot_t spot;
    if (HAK_UNLIKELY(!hak_spot_find_used(pointer, &spot))) return resize_other(pointer, size, site);
    size_t old = hak_state_size_at(spot.at, spot.word);
    hak_origin_t origin = hak_state_origin(spot.word);
    if (hak_hardened.match && HAK_UNLIKELY(origin != HAK_ORIGIN_MALLOC))
        return refuse_mismatch(pointer, old, origin);
    if (hak_hardened.canary &&
        HAK_UNLIKELY(!hak_canary_holds(pointer, old, spot.info->size, hak_canary_marks(spot.info))))
        hak_hardened_report_overflow("realloc", pointer, old);
    if (HAK_UNLIKELY(size > PTRDIFF_MAX)) return hak_hardened_malloc(size, site); /* refuses it */
    if (resize_class(pointer, &spot, size)) {
        if (hak_samples_on()) sample_again(pointer, size, site);
        return pointer;
    }
    return move(pointer, usable_of_class(&spot), size, shorten_class, &spot, site);
}

/* ---- questions ---- */

HAK_OUT_OF_LINE bool hak_hardened_find(const void *pointer, const char *function, size_t *size) {
    if (HAK_LIKELY(find_usable(pointer, size))) return true;
    hak_hardened_report_pointer(function, pointer);
    return false;
}

static HAK_OUT_OF_LINE size_t usable_other(const void *pointer) {
    size_t size = 0;
    return pointer && hak_hardened_find(pointer, "malloc_usable_size", &size) ? size : 0;
}

/* A tiny block needs no further look. The first row, that of no class, is not tiny. */
size_t hak_hardened_usable(const void *pointer, const hak_class_t *row) {
    uint32_t index;
    if (HAK_UNLIKELY(!hak_class_is_tiny(row) ||
                     !hak_is_block_index((uint16_t)(uintptr_t)pointer, row->start_test, &index)))
        return usable_other(pointer);
    const hak_state_word_t *at = hak_state_word(hak_state_unit(pointer), row, index);
    uint16_t word = HAK_LIKELY(at != NULL) ? hak_load_relaxed(at) : HAK_STATE_NEVER;
    if (HAK_UNLIKELY(!hak_state_is_used(word))) return usable_other(pointer);
    return hak_hardened.canary ? hak_state_size(word) : row->size;
}

bool hak_hardened_bounds(const void *pointer, void **start, size_t *size) {
    hak_block_t block = hak_block_of(pointer);
    *start = hak_empty_has(pointer) ? (void *)((uintptr_t)pointer & ~(uintptr_t)15) : block.start;
    return *start && find_usable(*start, size);
}
