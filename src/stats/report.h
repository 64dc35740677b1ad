/* report.h: a process's report on itself. The `hakmem` command uses the same writers for a report
 * on another process. */
#pragma once

#include "stats/out.h"
#include "stats/stats.h"

void hak_stats_write_json(hak_out_t *out, const hak_stats_t *stats);

/* Reads the figures of a cache, one of hak_thread_caches(). */
struct hak_cache;
void hak_stats_read_cache(struct hak_cache *cache, hak_cache_stats_t *figures);

/* Writes the caches as a table. */
void hak_stats_write_caches(hak_out_t *out);
