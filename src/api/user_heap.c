/* user_heap.c: the public functions of the program's own heaps. */
#include "api/user_heap.h"

#include <errno.h>
#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/block_report.h"
#include "api/export.h"
#include "api/hardened_malloc.h"
#include "api/malloc.h"
#include "api/malloc_sampled.h"
#include "debug/call_paths.h"
#include "error/error.h"
#include "hardened/hardened.h"
#include "large/fine_grain.h"
#include "large/user_heap_huge.h"
#include "os/os.h"
#include "profile/samples.h"
#include "debug_record/record.h"
#include "region/region.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

static HAK_SLOW_PATH void report(const char *function, const void *handle) {
    hak_error_report(function, "no heap: %p is no heap, or one that was destroyed", handle);
    errno = EINVAL;
}

/* The heap of a handle. NULL for a wrong handle, which is reported. */
static hak_user_heap_t *heap_of(const hakmem_heap_t *handle, const char *function) {
    hak_user_heap_t *heap = hak_user_heap_of_handle(handle);
    if (HAK_UNLIKELY(!heap)) report(function, handle);
    return heap;
}

/* True when the heap's own limit refuses a block: then giving memory back does not help. */
static bool is_at_limit(const hak_user_heap_t *heap, size_t size, size_t align) {
    size_t limit = hak_load_relaxed(&heap->limit);
    bool is_cut = hak_max(size, align) <= HAK_UNIT_SIZE; /* else a mapping of whole pages will do */
    size = hak_align_up(hak_max(size, 1), is_cut ? HAK_UNIT_SIZE : hak_os_page_size());
    return limit && hak_load_relaxed(&heap->committed) + size > limit;
}

/* A requested block. If it takes the place of another one, `from` is that, and `old` its bytes. */
typedef struct {
    size_t size, align;
    bool zero;
    const void *from;
    size_t old;
    const void *site;
} request_t;

/* Copies the old contents, and makes the record and the sample, before the program gets the block. True: a heap profile
 * is due. */
static bool complete(void *block, const request_t *request) {
    if (request->from) memcpy(block, request->from, hak_min(request->old, request->size));
    if (hak_records_on()) hak_block_record(block, request->size, request->site);
    return hak_samples_on() &&
           hak_malloc_sampled_enter(block, HAK_CLASS_LARGE, request->size, request->site);
}

static void *take(hak_user_heap_t *heap, const request_t *request) {
    hak_flight_t flight = {0};
    const bool is_completed = request->from || hak_samples_on() || hak_records_on();
    void *block = hak_fine_alloc_in(heap, request->size, request->align, request->zero,
                                    is_completed ? &flight : NULL);
    if (HAK_LIKELY(!is_completed) || !block) return block;
    const bool is_due = complete(block, request);
    hak_user_heap_land(&flight);
    if (is_due) hak_malloc_sampled_write();
    return block;
}

static void *allocate_for(hak_user_heap_t *heap, const request_t *request) {
    const size_t size = request->size, align = request->align;
    if (HAK_UNLIKELY(size > PTRDIFF_MAX - align)) return hak_out_of_memory();
    hak_thread_cache(); /* making it also installs the handlers of thread exit and fork */
    void *block = take(heap, request);
    if (HAK_UNLIKELY(!block) && !is_at_limit(heap, size, align)) {
        hak_purge_for(size);
        block = take(heap, request);
    }
    if (HAK_UNLIKELY(!block)) return hak_out_of_memory(); /* no tick: must not use up a free's */
    hak_purge_tick_malloc(size);
    HAK_COUNT_CALL(HAK_CLASS_LARGE, HAK_CALL_ALLOCATED);
    return block;
}

static void *allocate(hak_user_heap_t *heap, size_t size, size_t align, bool zero,
                      const void *site) {
    const request_t request = {.size = size, .align = align, .zero = zero, .site = site};
    return allocate_for(heap, &request);
}

hakmem_heap_t *hakmem_heap_new(size_t limit) {
    hak_region_prepare();
    hak_user_heap_t *heap = hak_user_heap_make(limit);
    return heap ? hak_user_heap_handle(heap) : hak_out_of_memory();
}

void *hakmem_heap_malloc(hakmem_heap_t *handle, size_t size) {
    hak_user_heap_t *heap = heap_of(handle, "heap_malloc");
    return HAK_LIKELY(heap != NULL) ? allocate(heap, size, 1, false, HAK_CALLER()) : NULL;
}

void *hakmem_heap_calloc(hakmem_heap_t *handle, size_t count, size_t size) {
    size_t bytes;
    hak_user_heap_t *heap = heap_of(handle, "heap_calloc");
    if (HAK_UNLIKELY(!heap)) return NULL;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) return hak_out_of_memory();
    return allocate(heap, bytes, 1, true, HAK_CALLER());
}

void *hakmem_heap_aligned_alloc(hakmem_heap_t *handle, size_t align, size_t size) {
    hak_user_heap_t *heap = heap_of(handle, "heap_aligned_alloc");
    if (HAK_UNLIKELY(!heap)) return NULL;
    if (HAK_LIKELY(hak_is_pow2(align))) return allocate(heap, size, align, false, HAK_CALLER());
    errno = EINVAL;
    return NULL;
}

/* Resizes a block of the heap without a copy. Returns its new address; NULL if its contents must be copied. `flight` is
 * the flight that the block is in, or NULL. */
static void *resize_in_place(hak_user_heap_t *heap, void *pointer, size_t old, size_t size,
                             hak_flight_t *flight) {
    if (HAK_UNLIKELY(size > PTRDIFF_MAX)) return NULL;
    if (!hak_region_unit_of(pointer))
        return size > hak_superslab_size() ? hak_user_heap_huge_resize(pointer, size, flight)
                                           : NULL;
    const bool is_done =
        hak_fine_resize(pointer, size) || (size > old && hak_fine_extend(heap, pointer, old, size));
    return is_done ? pointer : NULL;
}

/* The same for a block with a sample or a record. Its sample ends, and it may get another one. The block is in flight
 * all the time: otherwise, if a thread freed the whole heap meanwhile, a sample or record of a freed block would be
 * left. */
static HAK_OUT_OF_LINE void *resize_known(hak_user_heap_t *heap, void *pointer, size_t old,
                                          size_t size, const void *site) {
    hak_flight_t flight = {0};
    if (!hak_fine_hold(heap, pointer, &flight)) return NULL;
    hak_sample_t *sample = hak_samples_on() ? hak_sample_take(pointer) : NULL;
    void *moved = resize_in_place(heap, pointer, old, size, &flight);
    if (sample) hak_sample_end(sample, !moved); /* otherwise the free ends it */
    const bool is_due =
        moved && hak_samples_on() && hak_malloc_sampled_enter(moved, HAK_CLASS_LARGE, size, site);
    hak_block_record(moved, size, site);
    hak_user_heap_land(&flight);
    if (is_due) hak_malloc_sampled_write();
    return moved;
}

static void *resize_whole(hak_user_heap_t *heap, void *pointer, size_t old, size_t size,
                          const void *site) {
    return hak_samples_on() || hak_records_on() ? resize_known(heap, pointer, old, size, site)
                                                : resize_in_place(heap, pointer, old, size, NULL);
}

/* Keeps a block for a new size. It is in flight while its record is made, as above. */
static void *stays(hak_user_heap_t *heap, void *pointer, size_t size, const void *site) {
    hak_flight_t flight = {0};
    if (hak_records_on() && hak_fine_hold(heap, pointer, &flight)) {
        hak_block_record(pointer, size, site);
        hak_user_heap_land(&flight);
    }
    return pointer;
}

/* True when a block serves the new size as it is: less than an eighth of it is left over. */
static bool fits(size_t old, size_t size) {
    return size <= old && (old - size < old / 8 || old <= 64);
}

void *hak_user_heap_resize(hak_user_heap_t *heap, void *pointer, size_t old, size_t size,
                           const void *site) {
    const bool is_own = hak_fine_heap_of(pointer) == heap;
    const int error = errno;
    if (is_own && fits(old, size)) return stays(heap, pointer, size, site);
    void *stayed = is_own ? resize_whole(heap, pointer, old, size, site) : NULL;
    if (HAK_LIKELY(stayed != NULL)) {
        hak_purge_tick_resize(old, size);
        return stayed;
    }
    const request_t request = {.size = size, .align = 1, .from = pointer, .old = old, .site = site};
    void *moved = allocate_for(heap, &request);
    if (HAK_UNLIKELY(!moved)) {
        if (!is_own || size > old)
            return NULL; /* else it stays: few programs expect that to fail */
        errno = error;
        if (hak_region_unit_of(pointer) && hak_fine_resize(pointer, HAK_UNIT_SIZE))
            hak_purge_tick_resize(old, hak_min(old, HAK_UNIT_SIZE));
        return stays(heap, pointer, size, site);
    }
    hakmem_free(pointer);
    return moved;
}

/* Finds how many bytes of a block may be used, perhaps none. Reports a pointer that is not a block, and returns
 * false. */
static bool find_usable(void *pointer, size_t *size) {
    const char *const function = "heap_realloc";
    if (hak_hardened_on()) return hak_hardened_find(pointer, function, size);
    hak_block_t block = hak_block_of(pointer);
    *size = block.size;
    if (HAK_LIKELY(hak_block_usable(&block))) return true;
    hak_block_report(function, pointer, &block);
    return false;
}

void *hakmem_heap_realloc(hakmem_heap_t *handle, void *pointer, size_t size) {
    hak_user_heap_t *heap = heap_of(handle, "heap_realloc");
    if (HAK_UNLIKELY(!heap)) return NULL;
    if (!pointer) return allocate(heap, size, 1, false, HAK_CALLER());
    if (!size) {
        hakmem_free(pointer);
        return NULL;
    }
    size_t old;
    if (HAK_LIKELY(find_usable(pointer, &old)))
        return hak_user_heap_resize(heap, pointer, old, size, HAK_CALLER());
    errno = EINVAL;
    return NULL;
}

/* Removes the sample and the debug record of a block. Huge blocks have no record; closing that of a short block, which
 * has none either, changes no other block's. */
static void leave(const void *block) {
    if (hak_samples_on()) hak_sample_leave(block);
    if (hak_records_settle() && hak_region_unit_of(block)) hak_record_close(block);
}

static void free_all(hak_user_heap_t *heap) {
    const hak_user_heap_stats_t stats = hak_user_heap_stats_of(heap);
    const size_t blocks =
        hak_fine_free_all(heap, hak_samples_on() || hak_records_on() ? leave : NULL);
    HAK_COUNT_BLOCKS(HAK_CLASS_LARGE, HAK_CALL_FREED, blocks);
    (void)blocks; /* unused in builds without counts */
    hak_purge_tick_free(stats.committed);
}

void hakmem_heap_free_all(hakmem_heap_t *handle) {
    hak_user_heap_t *heap = heap_of(handle, "heap_free_all");
    if (HAK_LIKELY(heap != NULL)) free_all(heap);
}

void hakmem_heap_destroy(hakmem_heap_t *handle) {
    if (!handle) return;
    hak_user_heap_t *heap = hak_user_heap_close(handle);
    if (HAK_UNLIKELY(!heap)) {
        report("heap_destroy", handle);
        return;
    }
    free_all(heap);
    hak_user_heap_recycle(heap);
}

void hakmem_heap_set_limit(hakmem_heap_t *handle, size_t limit) {
    hak_user_heap_t *heap = heap_of(handle, "heap_set_limit");
    if (HAK_LIKELY(heap != NULL)) hak_store_relaxed(&heap->limit, limit);
}

hakmem_heap_t *hakmem_heap_of(const void *pointer) {
    const hak_user_heap_t *heap = pointer ? hak_fine_heap_of(pointer) : NULL;
    return heap ? hak_user_heap_handle(heap) : NULL;
}

hakmem_heap_t *hakmem_heap_next(const hakmem_heap_t *handle) {
    const hak_user_heap_t *heap = hak_user_heap_behind((uint32_t)(uintptr_t)handle);
    for (; heap; heap = hak_user_heap_behind(heap->number))
        if (hak_load_relaxed(&heap->is_used)) return hak_user_heap_handle(heap);
    return NULL;
}

int hakmem_heap_stats(const hakmem_heap_t *handle, struct hakmem_heap_stat *out, size_t size) {
    const hak_user_heap_t *heap = hak_user_heap_of_handle(handle);
    if (!heap) return ENOENT;
    const hak_user_heap_stats_t stats = hak_user_heap_stats_of(heap);
    const struct hakmem_heap_stat all = {.blocks = stats.blocks,
                                         .live_bytes = stats.bytes,
                                         .committed_bytes = stats.committed,
                                         .limit = hak_load_relaxed(&heap->limit)};
    memset(out, 0, size);
    memcpy(out, &all, hak_min(size, sizeof all));
    return 0;
}
