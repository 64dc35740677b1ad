/* caches.c: what each cache has done and holds, by thread. Each is read under the lock of
 * the list of threads, which is not held while anything is written. */
#include "os/os.h"
#include "stats/report.h"
#include "stats/table.h"
#include "thread/thread.h"

_Static_assert(HAK_CACHE_STATS <= (int)HAK_CLASS_STATS, "a table has so many columns");

#define LOAD(counter) hak_load_relaxed(&(counter))

/* What the rows of caches may ask. */
typedef struct {
    uint64_t uc_miss, refilled, flushed;
    uint64_t bytes[HAK_CACHED_TIERS];
} sums_t;

static sums_t sums_of(hak_cache_t *cache) {
    sums_t sums = {0};
    for (unsigned band = 0; band < HAK_BAND_COUNT; band++) {
        const hak_cache_counts_t *counts = hak_cache_counts(cache, (hak_band_t)band);
        sums.uc_miss += LOAD(counts->uc_miss);
        sums.refilled += LOAD(counts->refilled);
        sums.flushed += LOAD(counts->flushed);
    }
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
        sums.bytes[hak_tier_of_class(i)] += hak_cache_count(cache, i) * hak_classes[i].size;
    return sums;
}

void hak_stats_read_cache(hak_cache_t *cache, uint64_t figures[HAK_CACHE_STATS]) {
    hak_thread_list_lock();
    sums_t sums = sums_of(cache);
#define STAT_CACHE(name, kind, unit, where, help) figures[HAK_CACHE_STAT_##name] = (where);
#include "stats/each.def"
    hak_thread_list_unlock();
}

static void write_band(hak_out_t *out, hak_cache_t *cache, unsigned band) {
    const hak_cache_counts_t *counts = hak_cache_counts(cache, (hak_band_t)band);
    uint64_t refills = LOAD(counts->uc_miss), flushed = LOAD(counts->flushed);
    if (!refills && !flushed) return;
    hak_out_open(out, hak_stats_band_names[band], '{');
    hak_out_member(out, "uc_miss", refills);
    hak_out_member(out, "refilled", LOAD(counts->refilled));
    hak_out_member(out, "flushed", flushed);
    hak_out_close(out, '}');
}

void hak_stats_write_caches_json(hak_out_t *out) {
    uint64_t figures[HAK_CACHE_STATS];
    hak_out_open(out, "caches", '[');
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, figures);
        hak_out_open(out, NULL, '{');
        for (unsigned i = 0; i < HAK_CACHE_STATS; i++)
            hak_out_member(out, hak_cache_stat_rows[i].name, figures[i]);
        for (unsigned band = 0; band < HAK_BAND_COUNT; band++) write_band(out, cache, band);
        hak_out_close(out, '}');
    }
    hak_out_close(out, ']');
}

void hak_stats_write_caches(hak_out_t *out) {
    hak_table_t table;
    uint64_t figures[HAK_CACHE_STATS];
    hak_table_begin(&table, HAK_STATS_LABEL_WIDTH, hak_cache_stat_rows, HAK_CACHE_STATS);
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, figures);
        hak_table_fit(&table, figures);
    }
    hak_table_head(out, &table, "cache");
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, figures);
        hak_table_line(out, &table, "", figures);
    }
}
