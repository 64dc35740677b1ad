/* json.h: writes the figures as JSON. Does not allocate. */
#pragma once

#include "stats/out.h"
#include "stats/stats.h"

/* docs/STATISTICS.md describes version 1 of the schema. Members may be added to it; when a name is
 * removed or changes its meaning the version becomes 2. */
#define HAK_STATS_SCHEMA "hakmem-stats/1"

/* Writes the members of the object that holds all figures. */
void hak_stats_write_members(hak_out_t *out, const hak_stats_t *stats);

/* Writes one cache as an object: its figures and the bands that it has served. */
void hak_stats_write_cache(hak_out_t *out, const hak_cache_stats_t *cache);

/* The writers call these two for the process that they report on: its number, and an object for
 * each of its caches, the newest first. The library defines them for its own process (report.c),
 * the `hakmem` command for the process of a live page. */
unsigned hak_stats_process(void);
void hak_stats_write_cache_list(hak_out_t *out);
