/* mallinfo.c: glibc's functions that describe the heap: mallinfo, malloc_info and malloc_stats, from
 * the statistics. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/export.h"
#include "stats/collect.h"
#include "stats/report.h"
#include "stats/stats.h"
#include "stats/text.h"
#include "thread/thread.h"

/* Blocks in thread caches count as ordinary free blocks, since their memory is given back like that
 * of others; blocks in glibc's fast bins (smblks, fsmblks) keep theirs. A free unit of 64 KiB that
 * has pages counts as one block. */
static struct hakmem_mallinfo2 mallinfo_of(const hak_stats_t *stats) {
#define VALUE(name) stats->values[HAK_VALUE_STAT_##name]
    const uint64_t *huge = stats->tiers[HAK_STATS_HUGE], *large = stats->tiers[HAK_STATS_LARGE];
    size_t dirty = VALUE(memory_dirty_bytes);
    return (struct hakmem_mallinfo2){
        .arena = VALUE(memory_slab_bytes) + large[HAK_TIER_STAT_live_bytes] + dirty,
        .ordblks = VALUE(total_free) + VALUE(total_cached) + dirty / HAK_UNIT_SIZE,
        .hblks = huge[HAK_TIER_STAT_live],
        .hblkhd = huge[HAK_TIER_STAT_live_bytes],
        .uordblks = VALUE(total_live_bytes) - huge[HAK_TIER_STAT_live_bytes],
        .fordblks = VALUE(total_free_bytes) + VALUE(total_cached_bytes) + dirty,
        .keepcost = dirty,
    };
#undef VALUE
}

struct hakmem_mallinfo2 hakmem_mallinfo2(void) {
    const hak_stats_t *stats = hak_stats_begin();
    if (HAK_UNLIKELY(!stats)) return (struct hakmem_mallinfo2){0};
    struct hakmem_mallinfo2 info = mallinfo_of(stats);
    hak_stats_end(stats);
    return info;
}

/* glibc's struct mallinfo2 has the same fields. Its header is not included, since other libcs lack
 * it. */
HAK_TWIN(struct hakmem_mallinfo2, mallinfo2, (void))

#if !HAKMEM_PREFIXED_ONLY
/* glibc's struct mallinfo. */
typedef struct {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
} mallinfo_t;

static int clamp(size_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

/* The old form has ints; a larger figure becomes INT_MAX. */
HAK_EXPORT mallinfo_t mallinfo(void);
mallinfo_t mallinfo(void) {
    struct hakmem_mallinfo2 info = hakmem_mallinfo2();
    return (mallinfo_t){clamp(info.arena),   clamp(info.ordblks),  clamp(info.smblks),
                        clamp(info.hblks),   clamp(info.hblkhd),   clamp(info.usmblks),
                        clamp(info.fsmblks), clamp(info.uordblks), clamp(info.fordblks),
                        clamp(info.keepcost)};
}
#ifdef __GLIBC__
HAK_EXPORT mallinfo_t __libc_mallinfo(void) HAK_ALIAS(mallinfo) HAK_COPY(mallinfo);
#endif
#endif

void hakmem_malloc_stats(void) {
    char chunk[HAK_OUT_CHUNK];
    hak_out_t out = hak_out_to_file(STDERR_FILENO, chunk);
    const hak_stats_t *stats = hak_stats_copy();
    if (HAK_LIKELY(stats != NULL))
        hak_stats_write_text(&out, stats);
    else
        hak_out_text(&out, "hakmem: no statistics: a signal handler interrupted the allocator\n");
    hak_out_end(&out);
    if (HAK_LIKELY(stats != NULL)) hak_stats_copy_end(stats);
}
HAK_TWIN(void, malloc_stats, (void))

/* The figures that malloc_info prints. A copy, since writing to the stream may run code that asks
 * for statistics itself. */
typedef struct {
    struct hakmem_mallinfo2 info;
    uint64_t tiers[HAK_STATS_TIERS][HAK_TIER_STATS], bands[HAK_BAND_COUNT][HAK_CLASS_STATS];
} printed_t;

static bool take_printed(printed_t *printed) {
    const hak_stats_t *stats = hak_stats_begin();
    if (HAK_UNLIKELY(!stats)) return false;
    printed->info = mallinfo_of(stats);
    memcpy(printed->tiers, stats->tiers, sizeof printed->tiers);
    memcpy(printed->bands, stats->bands, sizeof printed->bands);
    hak_stats_end(stats);
    return true;
}

/* Writes ` name="number"`. */
static void attribute(hak_out_t *out, const char *name, uint64_t number) {
    hak_out_print(out, " %s=\"%lu\"", name, number);
}

/* Completes the element that `begin` opens: ` count="..." size="..."/>`; no count if it is NULL. */
static void element(hak_out_t *out, const char *begin, const uint64_t *count, uint64_t size) {
    hak_out_text(out, begin);
    if (count) attribute(out, "count", *count);
    attribute(out, "size", size);
    hak_out_text(out, "/>\n");
}

static void total(hak_out_t *out, const char *type, uint64_t count, uint64_t size) {
    hak_out_print(out, "<total type=\"%s", type);
    element(out, "\"", &count, size);
}

/* Without figures it writes nothing and returns false. */
static HAK_SLOW_PATH bool write_process(hak_out_t *out) {
    printed_t printed;
    if (!take_printed(&printed)) return false;
    hak_out_text(out, "<malloc version=\"hakmem-1\">\n");
    const struct hakmem_mallinfo2 *info = &printed.info;
    total(out, "fast", info->smblks, info->fsmblks);
    total(out, "rest", info->ordblks, info->fordblks);
    total(out, "mmap", info->hblks, info->hblkhd);
    element(out, "<system type=\"current\"", NULL, info->arena + info->hblkhd);
    element(out, "<live", NULL, info->uordblks + info->hblkhd);
    for (unsigned i = 0; i < HAK_STATS_TIERS; i++) {
        hak_out_print(out, "<tier name=\"%s", hak_stats_tier_names[i]);
        element(out, "\"", &printed.tiers[i][HAK_TIER_STAT_live],
                printed.tiers[i][HAK_TIER_STAT_live_bytes]);
    }
    for (unsigned band = 0; band < HAK_BAND_COUNT; band++) {
        hak_out_print(out, "<band name=\"%s\"", hak_stats_band_names[band]);
        for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
            attribute(out, hak_class_stat_rows[i].name, printed.bands[band][i]);
        hak_out_text(out, "/>\n");
    }
    return true;
}

/* Writes one element for each thread's cache. */
static HAK_SLOW_PATH void write_caches(hak_out_t *out) {
    hak_cache_stats_t cache_stats;
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, &cache_stats);
        hak_out_text(out, "<cache");
        for (unsigned i = 0; i < HAK_CACHE_STATS; i++)
            attribute(out, hak_cache_stat_rows[i].name, cache_stats.figures[i]);
        hak_out_text(out, "/>\n");
    }
}

/* Does not use fprintf: for an unbuffered stream it needs more stack than a small stack has. */
int hakmem_malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    char chunk[HAK_OUT_CHUNK];
    hak_out_t out = hak_out_to_stream(stream, chunk);
    if (HAK_UNLIKELY(!write_process(&out))) {
        errno = EDEADLK;
        return -1;
    }
    write_caches(&out);
    hak_out_text(&out, "</malloc>\n");
    hak_out_end(&out);
    return 0;
}
HAK_TWIN(int, malloc_info, (int options, FILE *stream))
