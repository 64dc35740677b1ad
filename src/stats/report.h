/* report.h: the figures as JSON and as text. Neither allocates. */
#ifndef HAK_STATS_REPORT_H
#define HAK_STATS_REPORT_H

#include "stats/out.h"
#include "stats/stats.h"

/* Version 1 of the schema is in docs/STATISTICS.md. Members may be added to it; a name
 * that goes or changes its meaning makes version 2. */
#define HAK_STATS_SCHEMA "hakmem-stats/1"

void hak_stats_write_json(hak_out_t *out, const hak_stats_t *stats);

/* For people: tiers, bands, and the figures of the process. */
void hak_stats_write_text(hak_out_t *out, const hak_stats_t *stats);

/* For people: the bands of the tiny tier, each with the classes that are in use. */
void hak_stats_write_classes(hak_out_t *out, const hak_stats_t *stats);

/* For people: the warm pool, in one line. */
void hak_stats_write_warm(hak_out_t *out, const hak_stats_t *stats);

#endif
