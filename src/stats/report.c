/* report.c: a process's report on itself: its number, its caches, and all of it as JSON. */
#include "stats/report.h"

#include "classes/dyn.h"
#include "hardened/quarantine.h"
#include "os/os.h"
#include "stats/json.h"
#include "stats/table.h"
#include "stats/timing.h"
#include "thread/thread.h"

_Static_assert(HAK_CACHE_STATS <= (int)HAK_CLASS_STATS, "a table has so many columns");

#define LOAD(counter) hak_load_relaxed(&(counter))

/* The sums that the rows STAT_CACHE may use. */
typedef struct {
    uint64_t uc_miss, refilled, flushed;
    uint64_t bytes[HAK_CACHED_TIERS];
} sums_t;

static sums_t read_bands(hak_cache_t *cache, hak_cache_stats_t *to) {
    sums_t sums = {0};
    for (unsigned band = 0; band < HAK_BAND_COUNT; band++) {
        const hak_cache_counts_t *counts = hak_cache_counts(cache, (hak_band_t)band);
        sums.uc_miss += to->bands[band].uc_miss = LOAD(counts->uc_miss);
        sums.refilled += to->bands[band].refilled = LOAD(counts->refilled);
        sums.flushed += to->bands[band].flushed = LOAD(counts->flushed);
    }
    return sums;
}

void hak_stats_read_cache(hak_cache_t *cache, hak_cache_stats_t *to) {
    sums_t sums = read_bands(cache, to);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
        sums.bytes[hak_tier_of_class(i)] +=
            (hak_cache_count(cache, i) +
             hak_quarantine_count(hak_load_acquire(&cache->quarantine), i)) *
            hak_dyn_size_of(i);
    hak_lock_acquire(&cache->stack_lock);
#define STAT_CACHE(name, kind, unit, where, help) to->figures[HAK_CACHE_STAT_##name] = (where);
#include "stats/each_figure.def"
    hak_lock_release(&cache->stack_lock);
}

void hak_stats_write_cache_list(hak_out_t *out) {
    hak_cache_stats_t figures;
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, &figures);
        hak_stats_write_cache(out, &figures);
    }
}

void hak_stats_write_caches(hak_out_t *out) {
    hak_table_t table;
    hak_cache_stats_t cache_stats;
    hak_table_begin(&table, HAK_STATS_LABEL_WIDTH, hak_cache_stat_rows, HAK_CACHE_STATS);
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, &cache_stats);
        hak_table_fit(&table, cache_stats.figures);
    }
    hak_table_head(out, &table, "cache");
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_stats_read_cache(cache, &cache_stats);
        hak_table_line(out, &table, "", cache_stats.figures);
    }
}

unsigned hak_stats_process(void) { return hak_os_process_id(); }

void hak_stats_write_json(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_open(out, NULL, '{');
    hak_stats_write_members(out, stats);
    hak_stats_write_timing_json(out);
    hak_out_close(out, '}');
}
