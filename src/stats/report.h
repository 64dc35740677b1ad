/* report.h: the figures as JSON and as text. Neither allocates. */
#ifndef HAK_STATS_REPORT_H
#define HAK_STATS_REPORT_H

#include "stats/out.h"
#include "stats/stats.h"

/* Version 1 of the schema is in docs/STATISTICS.md. Members may be added to it; a name
 * that goes or changes its meaning makes version 2. */
#define HAK_STATS_SCHEMA "hakmem-stats/1"

void hak_stats_write_json(hak_out_t *out, const hak_stats_t *stats);

/* The members of that object, for whoever adds some. */
void hak_stats_write_members(hak_out_t *out, const hak_stats_t *stats);

enum { HAK_STATS_LABEL_WIDTH = 8 }; /* of the first column of a table */

/* The figures of a cache, one of hak_thread_caches(). */
struct hak_cache;
void hak_stats_read_cache(struct hak_cache *cache, hak_cache_stats_t *figures);

/* One cache as an object: its figures and the bands that it has served. */
void hak_stats_write_cache(hak_out_t *out, const hak_cache_stats_t *cache);

/* What the writer asks of the process that the figures are of: its number, and an object
 * for each cache, the newest first. In the library it is the own process (report.c, caches.c); the
 * `hakmem` command defines them for that of a live page. */
unsigned hak_stats_process(void);
void hak_stats_write_cache_list(hak_out_t *out);

/* The same as a table. */
void hak_stats_write_caches(hak_out_t *out);

#if HAKMEM_DEBUG
/* Whether times are taken; what they are so far. */
bool hak_stats_times(void);
void hak_stats_write_timing(hak_out_t *out);
void hak_stats_write_timing_json(hak_out_t *out);
#else
HAK_FAST_PATH bool hak_stats_times(void) { return false; }
HAK_FAST_PATH void hak_stats_write_timing(hak_out_t *out) { (void)out; }
HAK_FAST_PATH void hak_stats_write_timing_json(hak_out_t *out) { (void)out; }
#endif

/* For people: tiers, bands, the figures of the process, caches, and times if they are taken. */
void hak_stats_write_text(hak_out_t *out, const hak_stats_t *stats);

/* For people: the bands of the tiny tier, each with the classes that are in use. */
void hak_stats_write_classes(hak_out_t *out, const hak_stats_t *stats);

/* For people: the warm pool, in one line. */
void hak_stats_write_warm(hak_out_t *out, const hak_stats_t *stats);

#endif
