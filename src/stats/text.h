/* text.h: writes the figures for people. Does not allocate. */
#pragma once

#include "stats/out.h"
#include "stats/stats.h"

/* Tiers, bands, the figures of the process, caches, and times if they are measured. */
void hak_stats_write_text(hak_out_t *out, const hak_stats_t *stats);

/* The bands of the tiny tier, each with the classes that are in use. */
void hak_stats_write_classes(hak_out_t *out, const hak_stats_t *stats);

/* The warm pool, in one line. */
void hak_stats_write_warm(hak_out_t *out, const hak_stats_t *stats);
