/* report.h: writes the figures as JSON and as text. Does not allocate. */
#ifndef HAK_STATS_REPORT_H
#define HAK_STATS_REPORT_H

#include "stats/out.h"
#include "stats/stats.h"

/* docs/STATISTICS.md describes version 1 of the schema. Members may be added to it; when a name is
 * removed or changes its meaning the version becomes 2. */
#define HAK_STATS_SCHEMA "hakmem-stats/1"

void hak_stats_write_json(hak_out_t *out, const hak_stats_t *stats);

/* Writes the members of that object, for callers that add more. */
void hak_stats_write_members(hak_out_t *out, const hak_stats_t *stats);

enum { HAK_STATS_LABEL_WIDTH = 8 }; /* of the first column of a table */

/* Reads the figures of a cache, one of hak_thread_caches(). */
struct hak_cache;
void hak_stats_read_cache(struct hak_cache *cache, hak_cache_stats_t *figures);

/* Writes one cache as an object: its figures and the bands that it has served. */
void hak_stats_write_cache(hak_out_t *out, const hak_cache_stats_t *cache);

/* The writers call these two for the process that they report on: its number, and an object for
 * each of its caches, the newest first. The library defines them for its own process (report.c,
 * caches.c), the `hakmem` command for the process of a live page. */
unsigned hak_stats_process(void);
void hak_stats_write_cache_list(hak_out_t *out);

/* Writes the caches as a table. */
void hak_stats_write_caches(hak_out_t *out);

#if HAKMEM_DEBUG
/* True when HAKMEM_TIMING is on; writes the times so far, as text and as JSON. */
bool hak_stats_times(void);
void hak_stats_write_timing(hak_out_t *out);
void hak_stats_write_timing_json(hak_out_t *out);
#else
HAK_FAST_PATH bool hak_stats_times(void) { return false; }
HAK_FAST_PATH void hak_stats_write_timing(hak_out_t *out) { (void)out; }
HAK_FAST_PATH void hak_stats_write_timing_json(hak_out_t *out) { (void)out; }
#endif

/* For people: tiers, bands, the figures of the process, caches, and times if they are measured. */
void hak_stats_write_text(hak_out_t *out, const hak_stats_t *stats);

/* For people: the bands of the tiny tier, each with the classes that are in use. */
void hak_stats_write_classes(hak_out_t *out, const hak_stats_t *stats);

/* For people: the warm pool, in one line. */
void hak_stats_write_warm(hak_out_t *out, const hak_stats_t *stats);

#endif
