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

/* What the writer asks of the process that the figures are of: its number, and an object
 * for each cache. In the library it is the own process (own.c); the `hakmem` command
 * defines them for that of a live page. */
unsigned hak_stats_process(void);
void hak_stats_write_caches(hak_out_t *out);

/* What a cache has done in one band; nothing where that is nothing. */
void hak_stats_write_cache_band(hak_out_t *out, hak_band_t band, uint64_t uc_miss,
                                uint64_t refilled, uint64_t flushed);

/* For people: tiers, bands, and the figures of the process. */
void hak_stats_write_text(hak_out_t *out, const hak_stats_t *stats);

/* For people: the bands of the tiny tier, each with the classes that are in use. */
void hak_stats_write_classes(hak_out_t *out, const hak_stats_t *stats);

#endif
