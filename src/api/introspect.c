/* introspect.c: what glibc programs ask about the heap: mallinfo, malloc_info,
 * malloc_stats, malloc_trim, mallopt; from the collection of all statistics. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/export.h"
#include "stats/report.h"
#include "stats/stats.h"
#include "thread/thread.h"

static struct hakmem_mallinfo2 mallinfo_of(const hak_stats_t *stats) {
#define VALUE(name) stats->values[HAK_VALUE_STAT_##name]
    const uint64_t *huge = stats->tiers[HAK_STATS_HUGE], *large = stats->tiers[HAK_STATS_LARGE];
    size_t dirty = VALUE(memory_dirty_bytes);
    return (struct hakmem_mallinfo2){
        .arena = VALUE(memory_slab_bytes) + large[HAK_TIER_STAT_live_bytes] + dirty,
        .ordblks = VALUE(total_free),
        .smblks = VALUE(total_cached),
        .hblks = huge[HAK_TIER_STAT_live],
        .hblkhd = huge[HAK_TIER_STAT_live_bytes],
        .fsmblks = VALUE(total_cached_bytes),
        .uordblks = VALUE(total_live_bytes),
        .fordblks = VALUE(total_free_bytes) + VALUE(total_cached_bytes) + dirty,
        .keepcost = dirty,
    };
#undef VALUE
}

struct hakmem_mallinfo2 hakmem_mallinfo2(void) {
    hak_stats_t stats;
    hak_stats_collect(&stats);
    return mallinfo_of(&stats);
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
    hak_stats_t stats;
    char chunk[HAK_OUT_CHUNK];
    hak_stats_collect(&stats);
    hak_out_t out = hak_out_to_file(STDERR_FILENO, chunk);
    hak_stats_write_text(&out, &stats);
    hak_out_end(&out);
}
HAK_TWIN(void, malloc_stats, (void))

/* One element for each thread's cache. */
static void print_caches(FILE *stream) {
    hak_cache_stats_t cache_stats;
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, &cache_stats);
        fprintf(stream, "<cache");
        for (unsigned i = 0; i < HAK_CACHE_STATS; i++)
            fprintf(stream, " %s=\"%" PRIu64 "\"", hak_cache_stat_rows[i].name,
                    cache_stats.figures[i]);
        fprintf(stream, "/>\n");
    }
}

int hakmem_malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    hak_stats_t stats;
    hak_stats_collect(&stats);
    struct hakmem_mallinfo2 info = mallinfo_of(&stats);
    fprintf(stream,
            "<malloc version=\"hakmem-1\">\n"
            "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n"
            "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
            "<system type=\"current\" size=\"%zu\"/>\n"
            "<live size=\"%zu\"/>\n",
            info.ordblks, info.fordblks - info.fsmblks, info.smblks, info.fsmblks, info.hblks,
            info.hblkhd, info.arena + info.hblkhd, info.uordblks);
    for (unsigned i = 0; i < HAK_STATS_TIERS; i++)
        fprintf(stream, "<tier name=\"%s\" count=\"%" PRIu64 "\" size=\"%" PRIu64 "\"/>\n",
                hak_stats_tier_names[i], stats.tiers[i][HAK_TIER_STAT_live],
                stats.tiers[i][HAK_TIER_STAT_live_bytes]);
    for (unsigned band = 0; band < HAK_BAND_COUNT; band++) {
        fprintf(stream, "<band name=\"%s\"", hak_stats_band_names[band]);
        for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
            fprintf(stream, " %s=\"%" PRIu64 "\"", hak_class_stat_rows[i].name,
                    stats.bands[band][i]);
        fprintf(stream, "/>\n");
    }
    print_caches(stream);
    fprintf(stream, "</malloc>\n");
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
