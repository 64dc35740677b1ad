/* introspect.c: what glibc programs ask about the heap: mallinfo, malloc_info,
 * malloc_stats, malloc_trim, mallopt; counted, never remembered. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/export.h"
#include "large/huge.h"
#include "large/large.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/commit.h"
#include "region/meta.h"
#include "region/region.h"
#include "shard/shard.h"
#include "thread/thread.h"

typedef struct {
    size_t held; /* bytes of units in use or dirty */
    size_t live, free_count, free_bytes;
    size_t cached_count, cached_bytes;
} heap_t;

static void count_slab(const hak_slab_t *slab, heap_t *heap) {
    unsigned class_index = hak_owner_class(hak_load_acquire(&slab->owner));
    if (class_index == HAK_CLASS_NONE) return;
    if (class_index == HAK_CLASS_RUN) return; /* counted grain by grain */
    heap->held += HAK_UNIT_SIZE;
    const hak_class_t *info = &hak_classes[class_index];
    size_t unused = hak_shard_free_count(slab);
    heap->free_count += unused;
    heap->free_bytes += unused * info->size;
    heap->live += (info->count - unused) * (size_t)info->size;
}

static void count_superslab(hak_superslab_t *super, void *context) {
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS; i++) count_slab(&super->slabs[i], context);
}

static void count_cache(hak_cache_t *cache, void *context) {
    heap_t *heap = context;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        size_t count = hak_cache_count(cache, i);
        heap->cached_count += count;
        heap->cached_bytes += count * hak_classes[i].size;
    }
}

/* Live = in use by slabs and runs, less what lies in caches. The bins' locks are
 * held, so no slab is made, emptied or released meanwhile. */
static heap_t count_heap(void) {
    heap_t heap = {0};
    hak_thread_each_cache(count_cache, &heap);
    hak_shard_lock_all();
    hak_region_each_superslab(count_superslab, &heap);
    hak_shard_unlock_all();
    heap.live -= hak_min(heap.live, heap.cached_bytes);
    return heap;
}

struct hakmem_mallinfo2 hakmem_mallinfo2(void) {
    heap_t heap = count_heap();
    hak_large_stats_t large = hak_large_stats();
    size_t huge = hak_load_relaxed(&hak_huge_stats.bytes);
    size_t dirty = hak_load_relaxed(&hak_pool_stats.dirty_units) * HAK_UNIT_SIZE +
                   large.idle_bytes + large.transfer_bytes +
                   hak_load_relaxed(&hak_huge_stats.kept_bytes);
    return (struct hakmem_mallinfo2){
        .arena = heap.held + large.bytes + dirty,
        .ordblks = heap.free_count,
        .smblks = heap.cached_count,
        .hblks = hak_load_relaxed(&hak_huge_stats.block_count),
        .hblkhd = huge,
        .fsmblks = heap.cached_bytes,
        .uordblks = heap.live + large.bytes + huge,
        .fordblks = heap.free_bytes + heap.cached_bytes + dirty,
        .keepcost = dirty,
    };
}

/* glibc's struct mallinfo2 has the same fields; libcs without it need no header here. */
HAK_TWIN(struct hakmem_mallinfo2, mallinfo2, (void))

#if !HAKMEM_PREFIXED_ONLY
/* glibc's struct mallinfo. */
typedef struct {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
} mallinfo_t;

static int clamp(size_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

/* The old form has ints; what does not fit is shown as the largest one. */
HAK_EXPORT mallinfo_t mallinfo(void);
mallinfo_t mallinfo(void) {
    struct hakmem_mallinfo2 info = hakmem_mallinfo2();
    return (mallinfo_t){clamp(info.arena),   clamp(info.ordblks),  clamp(info.smblks),
                        clamp(info.hblks),   clamp(info.hblkhd),   clamp(info.usmblks),
                        clamp(info.fsmblks), clamp(info.uordblks), clamp(info.fordblks),
                        clamp(info.keepcost)};
}
#endif

void hakmem_malloc_stats(void) {
    char text[1536];
    hak_large_stats_t large = hak_large_stats();
    struct hakmem_mallinfo2 info = hakmem_mallinfo2();
    int size = snprintf(text, sizeof text,
                        "hakmem: live %zu bytes (%zu in %zu mappings of their own)\n"
                        "hakmem: free %zu bytes (%zu in thread caches, %zu dirty)\n"
                        "hakmem: stages: %llu slabs kept empty and used again, %llu units of live "
                        "superslabs, %llu new superslabs\n"
                        "hakmem: purged %llu units of 64 KiB, populated %llu; records %zu bytes\n"
                        "hakmem: large: %zu blocks of %zu bytes; reused %llu from free runs, %llu "
                        "freed by other shards, %llu of other shards; %llu fresh runs of %llu "
                        "units; %llu resized in place\n"
                        "hakmem: large: %llu into transfer arrays, %llu times one was full; %llu "
                        "purge calls\n"
                        "hakmem: huge: %llu mapped, %llu reused, %llu grown, %llu unmapped, kept "
                        "%zu bytes\n"
                        "hakmem: committed %zu bytes, %llu times refused by the limit\n",
                        info.uordblks, info.hblkhd, info.hblks, info.fordblks, info.fsmblks,
                        info.keepcost, (unsigned long long)hak_shard_stage1(),
                        (unsigned long long)hak_load_relaxed(&hak_pool_stats.stage2),
                        (unsigned long long)hak_load_relaxed(&hak_pool_stats.stage3),
                        (unsigned long long)hak_load_relaxed(&hak_pool_stats.purged_units),
                        (unsigned long long)hak_load_relaxed(&hak_pool_stats.populated_units),
                        hak_meta_bytes(), large.count, large.bytes, (unsigned long long)large.local,
                        (unsigned long long)large.remote, (unsigned long long)large.stolen,
                        (unsigned long long)large.runs, (unsigned long long)large.run_units,
                        (unsigned long long)large.resized, (unsigned long long)large.transferred,
                        (unsigned long long)large.spilled, (unsigned long long)large.purge_calls,
                        (unsigned long long)hak_load_relaxed(&hak_huge_stats.mapped),
                        (unsigned long long)hak_load_relaxed(&hak_huge_stats.reused),
                        (unsigned long long)hak_load_relaxed(&hak_huge_stats.grown),
                        (unsigned long long)hak_load_relaxed(&hak_huge_stats.unmapped),
                        hak_load_relaxed(&hak_huge_stats.kept_bytes), hak_commit_bytes(),
                        (unsigned long long)hak_commit_refused());
    if (size > 0) hak_os_write_stderr(text, hak_min((size_t)size, sizeof text - 1));
}
HAK_TWIN(void, malloc_stats, (void))

int hakmem_malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct hakmem_mallinfo2 info = hakmem_mallinfo2();
    fprintf(stream,
            "<malloc version=\"hakmem-1\">\n"
            "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
            "<system type=\"current\" size=\"%zu\"/>\n"
            "<live size=\"%zu\"/>\n"
            "</malloc>\n",
            info.ordblks, info.fordblks - info.fsmblks, info.smblks, info.fsmblks, info.hblks,
            info.hblkhd, info.arena + info.hblkhd, info.uordblks);
    return 0;
}
HAK_TWIN(int, malloc_info, (int options, FILE *stream))

int hakmem_malloc_trim(size_t pad) {
    (void)pad; /* what is kept ready lies in the callers' caches, not at a heap's end */
    return hak_thread_trim() > 0;
}
HAK_TWIN(int, malloc_trim, (size_t pad))

/* glibc's parameters steer arenas, fast bins and a heap end that do not exist here;
 * "not known" is the true answer to each. */
int hakmem_mallopt(int parameter, int value) {
    (void)parameter;
    (void)value;
    return 0;
}
HAK_TWIN(int, mallopt, (int parameter, int value))

int hakmem_version(void) { return HAKMEM_VERSION; }
