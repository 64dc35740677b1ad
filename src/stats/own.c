/* own.c: what a report says of the process besides its figures: of the one that it is in. */
#include "os/os.h"
#include "stats/report.h"
#include "thread/thread.h"

unsigned hak_stats_process(void) { return hak_os_process_id(); }

/* What each cache has done, by the bands that it has served. */
void hak_stats_write_caches(hak_out_t *out) {
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        hak_out_open(out, NULL, '{');
        for (unsigned band = 0; band < HAK_BAND_COUNT; band++) {
            hak_cache_counts_t *counts = hak_cache_counts(cache, (hak_band_t)band);
            hak_stats_write_cache_band(out, (hak_band_t)band, hak_load_relaxed(&counts->uc_miss),
                                       hak_load_relaxed(&counts->refilled),
                                       hak_load_relaxed(&counts->flushed));
        }
        hak_out_close(out, '}');
    }
}
