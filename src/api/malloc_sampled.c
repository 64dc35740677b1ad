/* malloc_sampled.c: counts calls, and serves those that are due with a sampled block. */
#include "api/malloc_sampled.h"

#include <string.h>

#include "api/block.h"
#include "api/block_record.h"
#include "api/export.h"
#include "api/malloc.h"
#include "cache/sampler.h"
#include "debug/call_paths.h"
#include "error/log.h"
#include "hardened/guard_sample.h"
#include "large/fine_grain.h"
#include "options/options.h"
#include "os/os.h"
#include "profile/samples.h"
#include "debug_record/record.h"
#include "stats/heap_profile.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

void hak_malloc_sampled_start(void) {
    if (hak_sampler_has(HAK_SAMPLER_GUARD)) hak_guard_sample_start();
    if (hak_sampler_has(HAK_SAMPLER_PROFILE)) {
        if (hak_sample_start())
            hak_heap_profile_start();
        else
            hak_log("no memory for the heap profiler, which is off");
    }
    hak_cache_t *cache = hak_thread_cache();
    if (cache) hak_sampler_start(cache);
}

/* Bytes for a sampled block. For the report of leaks a block has one more byte, so that a pointer to its end does
 * not point to the next block. */
static size_t room_of(size_t size) {
    return size + (hak_option(HAK_OPTION_LEAK) && !hak_records_on());
}

/* Takes a fine block for a sample of the profiler, since its free takes the slow path. */
static void *take_fine(unsigned class_index, size_t size, size_t align, bool zero,
                       const void *site) {
    size_t room = room_of(size);
    if (class_index == HAK_CLASS_LARGE || room > HAK_CLASS_MAX) return NULL;
    void *block = hak_fine_alloc(room, align);
    if (!block) return NULL;
    hak_purge_tick_malloc(size);
    if (zero) memset(block, 0, hak_align_up(hak_max(room, 1), (size_t)1 << HAK_FINE_SHIFT));
    return hak_block_record(block, size, site);
}

void *hak_malloc_sampled_room(size_t size, const void *site) {
    return take_fine(hak_class_of(size), size, 1, false, site);
}

typedef struct {
    bool guard, profile;
} due_t;

/* With HAKMEM_LEAK alone no files are written. */
HAK_OUT_OF_LINE void hak_malloc_sampled_write(void) {
    HAK_KEEP_ERRNO();
    if (hak_option(HAK_OPTION_PROF)) hak_heap_profile_due();
}

static HAK_OUT_OF_LINE void *sample(unsigned class_index, size_t size, size_t align, bool zero,
                                    const void *site, due_t due) {
    size_t of_class = class_index == HAK_CLASS_LARGE ? 0 : hak_classes[class_index].size;
    bool profile = due.profile && hak_samples_on();
    void *block = NULL;
    if (due.guard && hak_guard_sample_on()) block = hak_guard_sample_alloc(size, align, site);
    if (!block && profile) block = take_fine(class_index, size, align, zero, site);
    if (block)
        HAK_COUNT_CALL(HAK_CLASS_LARGE, HAK_CALL_ALLOCATED);
    else
        block = hak_allocate_unsampled(profile ? room_of(size) : size, align, zero, site);
    if (block && profile && hak_block_place(block).class_index - 1u < HAK_CLASS_COUNT)
        hak_sample_miss(); /* a block of a slab: its free does not look for a sample */
    else if (block && profile &&
             hak_sample_enter(block, site, size, of_class ? of_class : hak_max(size, 1),
                              (uint32_t)of_class))
        hak_malloc_sampled_write();
    return block;
}

/* Counts a call by itself, and samples it if that is due. */
static HAK_OUT_OF_LINE void *count(unsigned class_index, size_t size, size_t align, bool zero,
                                   const void *site) {
    hak_cache_t *cache = hak_thread_cache();
    hak_sampler_t *sampler = cache ? hak_sampler_of(cache) : NULL;
    if (HAK_UNLIKELY(!sampler || size > PTRDIFF_MAX))
        return hak_allocate_unsampled(size, align, zero, site);
    size_t given =
        class_index == HAK_CLASS_LARGE ? hak_max(size, 1) : hak_classes[class_index].size;
    bool guards = hak_max(size, align) <= hak_os_page_size();
    const due_t due = {
        .guard = guards && hak_sampler_due(sampler, HAK_SAMPLER_GUARD, class_index, given),
        .profile = hak_sampler_due(sampler, HAK_SAMPLER_PROFILE, class_index, given)};
    if (HAK_UNLIKELY(due.guard || due.profile))
        return sample(class_index, size, align, zero, site, due);
    return hak_allocate_unsampled(size, align, zero, site);
}

/* Blocks up to HAK_SMALL_MAX bytes come from the thread's share (cache/sampler.h). In a call of malloc, which has tried
 * it, the share is empty; other functions may find blocks in it. */
void *hak_malloc_sampled(unsigned class_index, size_t size, size_t align, bool zero,
                         const void *site) {
    hak_cache_t *cache = hak_cache;
    if (class_index > HAK_CLASS_SMALL || HAK_UNLIKELY(!cache->has_sampler))
        return count(class_index, size, align, zero, site);
    hak_sampler_t *sampler = hak_sampler_of(cache);
    void *block = hak_sampler_pop(sampler, class_index);
    if (!block && hak_sampler_fill(cache, class_index))
        block = hak_sampler_pop(sampler, class_index);
    if (HAK_UNLIKELY(!block)) return count(class_index, size, align, zero, site);
    HAK_COUNT_CALL(class_index, HAK_CALL_ALLOCATED);
    return zero ? memset(block, 0, hak_classes[class_index].size) : block;
}

bool hak_malloc_sampled_enter(const void *block, unsigned class_index, size_t size,
                              const void *site) {
    hak_sampler_t *sampler = hak_sampler_of(hak_cache);
    const uint32_t of_class = class_index == HAK_CLASS_LARGE ? 0 : hak_classes[class_index].size;
    const size_t given = of_class ? of_class : hak_max(size, 1);
    return sampler && hak_sampler_due(sampler, HAK_SAMPLER_PROFILE, class_index, given) &&
           hak_sample_enter(block, site, size, given, of_class);
}

void hak_malloc_sampled_note(const void *block, unsigned class_index, size_t size,
                             const void *site) {
    if (hak_malloc_sampled_enter(block, class_index, size, site)) hak_malloc_sampled_write();
}

int hakmem_prof_dump(const char *path) { return hak_heap_profile_dump(path); }
