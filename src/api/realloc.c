/* realloc.c: realloc and reallocarray, as the C, POSIX and Linux manual pages define them. Blocks above
 * 64 KiB grow in place in large/large.c and large/huge.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/block_report.h"
#include "api/export.h"
#include "api/hardened_malloc.h"
#include "api/malloc.h"
#include "api/user_heap.h"
#include "api/malloc_sampled.h"
#include "api/valgrind.h"
#include "base/bytes.h"
#include "hardened/hardened.h"
#include "large/fine_grain.h"
#include "large/huge.h"
#include "large/large.h"
#include "options/options.h"
#include "profile/samples.h"
#include "debug_record/record.h"
#include "thread/purge_trigger.h"

/* True when the block serves the new size as it is: the size fits and leaves less than half of the
 * block unused; less than an eighth of a large or huge block, which can be shrunk in place. A sampled
 * block always moves: it must end where the size ends, and the free checks the bytes beside it. */
static bool fits(const hak_block_t *block, size_t size) {
    if (block->kind == HAK_KIND_SAMPLED) return false;
    size_t unused_most = block->kind == HAK_KIND_CACHED ? block->size / 2 : block->size / 8;
    return size <= block->size && (block->size - size < unused_most || block->size <= 64);
}

/* The new address of a large or huge block that is resized without a copy, or NULL. */
static void *resize_in_place(void *pointer, const hak_block_t *block, size_t size) {
    if (block->kind == HAK_KIND_HUGE && size > HAK_LARGE_MAX) return hak_huge_resize(pointer, size);
    if (block->kind == HAK_KIND_LARGE && hak_large_resize(pointer, size)) return pointer;
    return NULL;
}

/* Keeps a block for a new size, which its debug record notes. */
static void *stays(void *pointer, size_t size, const void *site) {
    return hak_records_on() ? hak_block_record(pointer, size, site) : pointer;
}

/* Resizes a block without a copy, or returns NULL. Its sample ends, and the block may get another one. */
static void *resize_whole(void *pointer, const hak_block_t *block, size_t size, const void *site) {
    if (size > PTRDIFF_MAX) return NULL;
    hak_sample_t *sample = hak_samples_on() ? hak_sample_take(pointer) : NULL;
    void *moved = resize_in_place(pointer, block, size);
    if (moved) hak_purge_tick_resize(block->size, size);
    if (HAK_UNLIKELY(sample != NULL)) hak_sample_end(sample, !moved); /* else the free does */
    if (moved && hak_samples_on()) hak_malloc_sampled_note(moved, HAK_CLASS_LARGE, size, site);
    return stays(moved, size, site);
}

/* Unsampled blocks of a size class stay where they are for all sizes that the class serves, and nobody sees that. A
 * sampled block, whose size is its own, stands for them: so it is sampled again, whatever the chance. If that were left
 * to chance, the blocks that stay would be missing in the profile. NULL if there is no such sample, or no memory. */
static HAK_BEHIND void *resize_sampled(void *pointer, const hak_block_t *block, size_t size,
                                       const void *site) {
    hak_sample_t *sample = block->kind == HAK_KIND_LARGE ? hak_sample_take(pointer) : NULL;
    if (!sample) return NULL;
    const size_t of_class = hak_sample_class_size(sample);
    const hak_block_t peer = {.kind = HAK_KIND_CACHED, .size = of_class};
    HAK_KEEP_ERRNO(); /* a block that finds no room here is resized in another way */
    void *moved = NULL;
    if (fits(&peer, size))
        moved = size <= block->size ? pointer : hak_malloc_sampled_room(size, site);
    hak_sample_end(sample, !moved);
    if (!moved) return NULL;
    if (hak_sample_enter(moved, site, size, of_class, (uint32_t)of_class))
        hak_malloc_sampled_write();
    if (moved == pointer) return moved;
    memcpy(moved, pointer, block->size);
    hakmem_free(pointer);
    return moved;
}

/* Allocates the block to move to. A large block that grows a little gets a sixteenth more than it needs: if several
 * blocks grow in turn, each would find another one behind it and move again at the next step. The extra bytes have no
 * pages until they are used. None are added if bytes or addresses are scarce, or if the requested size is recorded. */
static void *place_to_move(size_t size, size_t old, const void *site) {
    const size_t more = size / 16;
    if (size > HAK_CLASS_MAX && size <= HAK_LARGE_MAX - more && size > old && size - old < more &&
        !hak_region_is_short() && !hak_option(HAK_OPTION_LIMIT) && !hak_records_on() &&
        !hak_samples_on()) {
        void *roomy = hak_allocate(size + more, site);
        if (HAK_LIKELY(roomy != NULL)) return roomy;
    }
    return hak_allocate(size, site);
}

/* Copies a block of `old` bytes to a new one, and frees it. Without memory for that the result is NULL,
 * but a block that is to become smaller stays: few programs expect that to fail. */
static HAK_OUT_OF_LINE void *move(void *pointer, size_t size, size_t old, const void *site) {
    void *moved = place_to_move(size, old, site);
    if (HAK_UNLIKELY(!moved)) return size > old ? NULL : stays(pointer, size, site);
    memcpy(moved, pointer, hak_min(size, old));
    hakmem_free(pointer);
    return moved;
}

static HAK_NEXT void *free_moved(void *pointer, void *moved) {
    hak_free_slow(pointer);
    return moved;
}

/* Ends a move: the old block goes to its magazine. The copy comes before the push: a signal handler that allocates in
 * between would get the block. */
HAK_FAST_PATH void *push_moved(hak_magazine_t *magazine, void *pointer, void *moved) {
    atomic_signal_fence(memory_order_seq_cst);
    return HAK_LIKELY(hak_push_on(magazine, pointer, true)) ? moved : free_moved(pointer, moved);
}

static HAK_NEXT void *copy_and_push(void *moved, void *pointer, size_t bytes,
                                    hak_magazine_t *magazine) {
    HAK_OPAQUE(bytes); /* else the compiler copies by slow string instructions */
    return push_moved(magazine, pointer, memcpy(moved, pointer, bytes));
}

static HAK_NEXT void *resize_to_none(void *pointer) {
    hakmem_free(pointer); /* as glibc does */
    return NULL;
}

/* Moves a block, or frees it if `size` is 0. A request that is refused on the way sets errno, but a call that
 * succeeds all the same does not change it. */
static HAK_NEXT void *move_slowly(void *pointer, size_t size, const void *site, size_t old) {
    if (!size) return resize_to_none(pointer);
    const int error = errno;
    void *moved = move(pointer, size, old, site);
    if (HAK_LIKELY(moved != NULL)) errno = error;
    return moved;
}

/* Resizes a large or huge block without a copy if that is possible, and moves any other. */
HAK_FAST_PATH void *resize_or_move(void *pointer, const hak_block_t *block, size_t size,
                                   const void *site) {
    void *moved = resize_whole(pointer, block, size, site);
    if (moved) return moved;
    const int error = errno; /* as above */
    moved = move(pointer, size, block->size, site);
    /* The failed move has given memory back, which may be enough for the difference. */
    if (HAK_UNLIKELY(!moved)) moved = resize_whole(pointer, block, size, site);
    if (HAK_LIKELY(moved != NULL)) errno = error;
    return moved;
}

/* Moves a block of the tiny class `row`, or frees it if `size` is 0. A few bytes are copied in line: a call would cost
 * more than the copy, and this function would need a frame. */
static HAK_OUT_OF_LINE void *move_tiny(void *pointer, size_t size, const void *site,
                                       const hak_class_t *row) {
    void *moved = hak_pop_some(size);
    if (HAK_UNLIKELY(!moved)) return move_slowly(pointer, size, site, row->size);
    size_t bytes = hak_min(size, row->size);
    hak_magazine_t *magazine = hak_cache_magazine(hak_cache, hak_offset_of_row(row));
    if (HAK_UNLIKELY(!hak_are_few(bytes))) return copy_and_push(moved, pointer, bytes, magazine);
    hak_copy_few(moved, pointer, bytes);
    return push_moved(magazine, pointer, moved);
}

/* Serves the less frequent calls of realloc: for NULL, for a block that is not tiny, and for size 0. Reports a
 * pointer that is not a block. */
static HAK_OUT_OF_LINE void *resize_other(void *pointer, size_t size, const void *site) {
    if (!pointer) return hak_allocate(size, site);
    if (HAK_UNLIKELY(!size)) return resize_to_none(pointer);
    if (hak_hardened_on()) return hak_hardened_realloc(pointer, size, site);
    hak_block_t block = hak_block_of(pointer);
    if (HAK_UNLIKELY(!hak_block_usable(&block))) {
        hak_block_report("realloc", pointer, &block);
        errno = EINVAL;
        return NULL;
    }
    if (hak_records_on() && !hak_block_record_is_open("realloc", &block)) {
        errno = EINVAL;
        return NULL;
    }
    hak_user_heap_t *heap = block.kind == HAK_KIND_SAMPLED ? NULL : hak_fine_heap_of(pointer);
    if (HAK_UNLIKELY(heap != NULL))
        return hak_user_heap_resize(heap, pointer, block.size, size, site);
    void *moved = hak_samples_on() ? resize_sampled(pointer, &block, size, site) : NULL;
    if (HAK_UNLIKELY(moved != NULL)) return stays(moved, size, site);
    if (fits(&block, size)) return stays(pointer, size, site);
    return resize_or_move(pointer, &block, size, site);
}

HAK_FAST_PATH void *reallocate(void *pointer, size_t size) {
    if (!pointer) { /* first, since some programs allocate only this way */
        void *block = hak_pop_small(size);
        return HAK_LIKELY(block != NULL) ? block : resize_other(NULL, size, HAK_CALLER());
    }
    const hak_class_t *row;
    if (!hak_tiny_row_of(pointer, &row)) return resize_other(pointer, size, HAK_CALLER());
    if (HAK_LIKELY(size - row->stay_least < hak_load_relaxed(&row->stays))) return pointer;
    return move_tiny(pointer, size, HAK_CALLER(), row);
}

void *hakmem_realloc(void *pointer, size_t size) { return reallocate(pointer, size); }
HAK_TWIN(void *, realloc, (void *pointer, size_t size))
HAK_LIBC_TWIN(void *, realloc, (void *pointer, size_t size))

HAK_BEHIND void *hakmem_reallocarray(void *pointer, size_t count, size_t size) {
    size_t bytes;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return hak_out_of_memory();
    return reallocate(pointer, bytes);
}
HAK_TWIN(void *, reallocarray, (void *pointer, size_t count, size_t size))
HAK_UNDER_VALGRIND(void *, reallocarray, (void *pointer, size_t count, size_t size)) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? hak_out_of_memory()
                                                       : realloc(pointer, bytes);
}
