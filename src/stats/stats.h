/* stats.h: the figures of stats.def: their rows, and their values at one moment.
 *
 * Nothing is counted here. The layers below count, and a collection reads all their counters.
 * While other threads are at work it is a view: each figure was right at some moment of the
 * call, and none is ever negative. At rest it is exact:
 *
 *   live = taken from slabs - cached,   refilled - flushed = live + cached
 *
 * Nothing here allocates. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"
#include "policy/policy.h"

typedef enum {
#define STAT_CLASS(name, ...) HAK_CLASS_STAT_##name,
#include "stats/each_figure.def"
    HAK_CLASS_STATS
} hak_class_stat_t;

typedef enum {
#define STAT_BAND(name, ...) HAK_BAND_STAT_##name,
#include "stats/each_figure.def"
    HAK_BAND_STATS
} hak_band_stat_t;

typedef enum {
#define STAT_TIER(name, ...) HAK_TIER_STAT_##name,
#include "stats/each_figure.def"
    HAK_TIER_STATS
} hak_tier_stat_t;

typedef enum {
#define STAT_VALUE(group, name, ...) HAK_VALUE_STAT_##group##_##name,
#include "stats/each_figure.def"
    HAK_VALUE_STATS
} hak_value_stat_t;

typedef enum {
#define STAT_CACHE(name, ...) HAK_CACHE_STAT_##name,
#include "stats/each_figure.def"
    HAK_CACHE_STATS
} hak_cache_stat_t;

/* What one cache has done and holds. */
typedef struct {
    uint64_t figures[HAK_CACHE_STATS];
    struct {
        uint64_t uc_miss, refilled, flushed;
    } bands[HAK_BAND_COUNT];
} hak_cache_stats_t;

enum { HAK_STATS_LARGE = HAK_CACHED_TIERS, HAK_STATS_HUGE, HAK_STATS_TIERS };

typedef struct {
    uint64_t classes[HAK_CLASS_COUNT + 1][HAK_CLASS_STATS]; /* by class; [0] is unused */
    uint64_t bands[HAK_BAND_COUNT][HAK_CLASS_STATS];
    uint64_t policy[HAK_POLICY_BANDS][HAK_BAND_STATS];
    uint64_t tiers[HAK_STATS_TIERS][HAK_TIER_STATS];
    uint64_t values[HAK_VALUE_STATS];
} hak_stats_t;

/* A row of the table. */
typedef struct {
    char group[8], name[20], unit[12];
    bool is_counter; /* otherwise it is a gauge */
    uint16_t help;   /* for hak_stats_help */
} hak_stat_row_t;

const char *hak_stats_help(const hak_stat_row_t *row);

extern const hak_stat_row_t hak_class_stat_rows[HAK_CLASS_STATS];
extern const hak_stat_row_t hak_band_stat_rows[HAK_BAND_STATS];
extern const hak_stat_row_t hak_tier_stat_rows[HAK_TIER_STATS];
extern const hak_stat_row_t hak_value_stat_rows[HAK_VALUE_STATS];
extern const hak_stat_row_t hak_cache_stat_rows[HAK_CACHE_STATS];

extern const char hak_stats_band_names[HAK_BAND_COUNT][4];
extern const char hak_stats_tier_names[HAK_STATS_TIERS][8];

/* Every figure has a name: "pool.stage2", "tiers.tiny.live_bytes", "bands.C5.uc_miss",
 * "classes.64.live" (by block size; dyn1 is the dynamic class). Figures are numbered from 0. */
enum {
    HAK_STATS_NAME_SIZE = 48,
    HAK_STATS_COUNT = HAK_VALUE_STATS + HAK_STATS_TIERS * HAK_TIER_STATS +
                      HAK_POLICY_BANDS * HAK_BAND_STATS +
                      (HAK_BAND_COUNT + HAK_CLASS_COUNT) * HAK_CLASS_STATS,
};

/* Writes the name of figure number `index` and returns its row. */
const hak_stat_row_t *hak_stats_name(size_t index, char name[HAK_STATS_NAME_SIZE]);

/* True when a row is the first one of its group. */
bool hak_stats_begins_group(unsigned value_row);

/* True when a class or band has a figure other than 0. */
bool hak_stats_is_used(const uint64_t *class_rows);

uint64_t hak_stats_value(const hak_stats_t *stats, size_t index);

/* Number of the figure of that name; HAK_STATS_COUNT when there is none. */
size_t hak_stats_find(const char *name);
