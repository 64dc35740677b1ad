/* stats.c: the rows of stats.def, and the name of every figure. */
#include "stats/stats.h"

#include <stdio.h>
#include <string.h>

/* Short texts lie in the rows themselves, long ones end to end in one object: each pointer would
 * cost each process a relocation. */
typedef struct {
#define STAT_CLASS(name, kind, unit, where, help) char class_##name[sizeof help];
#define STAT_BAND(name, kind, unit, where, help) char band_##name[sizeof help];
#define STAT_TIER(name, kind, unit, figure, large, huge, help) char tier_##name[sizeof help];
#define STAT_VALUE(group, name, kind, unit, where, help) char group##_##name[sizeof help];
#define STAT_CACHE(name, kind, unit, where, help) char cache_##name[sizeof help];
#include "stats/each_figure.def"
} helps_t;

static const helps_t helps = {
#define STAT_CLASS(name, kind, unit, where, help) .class_##name = help,
#define STAT_BAND(name, kind, unit, where, help) .band_##name = help,
#define STAT_TIER(name, kind, unit, figure, large, huge, help) .tier_##name = help,
#define STAT_VALUE(group, name, kind, unit, where, help) .group##_##name = help,
#define STAT_CACHE(name, kind, unit, where, help) .cache_##name = help,
#include "stats/each_figure.def"
};

const char *hak_stats_help(const hak_stat_row_t *row) { return (const char *)&helps + row->help; }

enum { COUNTER = true, GAUGE = false };
#define ROW(group, name, kind, unit, place) \
    { group, name, unit, kind, offsetof(helps_t, place) }

const hak_stat_row_t hak_class_stat_rows[HAK_CLASS_STATS] = {
#define STAT_CLASS(name, kind, unit, where, help) ROW("classes", #name, kind, unit, class_##name),
#include "stats/each_figure.def"
};

const hak_stat_row_t hak_band_stat_rows[HAK_BAND_STATS] = {
#define STAT_BAND(name, kind, unit, where, help) ROW("bands", #name, kind, unit, band_##name),
#include "stats/each_figure.def"
};

const hak_stat_row_t hak_tier_stat_rows[HAK_TIER_STATS] = {
#define STAT_TIER(name, kind, unit, figure, large, huge, help) \
    ROW("tiers", #name, kind, unit, tier_##name),
#include "stats/each_figure.def"
};

const hak_stat_row_t hak_value_stat_rows[HAK_VALUE_STATS] = {
#define STAT_VALUE(group, name, kind, unit, where, help) \
    ROW(#group, #name, kind, unit, group##_##name),
#include "stats/each_figure.def"
};

const hak_stat_row_t hak_cache_stat_rows[HAK_CACHE_STATS] = {
#define STAT_CACHE(name, kind, unit, where, help) ROW("caches", #name, kind, unit, cache_##name),
#include "stats/each_figure.def"
};

const char hak_stats_band_names[HAK_BAND_COUNT][4] = {"C0", "C1", "C2", "C3", "C4",
                                                      "C5", "C6", "C7", "MID"};
const char hak_stats_tier_names[HAK_STATS_TIERS][8] = {"tiny", "mid", "large", "huge"};

bool hak_stats_begins_group(unsigned value_row) {
    const hak_stat_row_t *row = &hak_value_stat_rows[value_row];
    return value_row == 0 || strcmp(row->group, row[-1].group) != 0;
}

bool hak_stats_is_used(const uint64_t *class_rows) {
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
        if (class_rows[i]) return true;
    return false;
}

/* Where the figures of a section are in hak_stats_t: `items` items of `rows` rows each. */
typedef struct {
    uint16_t offset, items, rows;
} section_t;
enum { VALUES, TIERS, POLICY, BANDS, CLASSES };

static const section_t sections[] = {
    [VALUES] = {offsetof(hak_stats_t, values), 1, HAK_VALUE_STATS},
    [TIERS] = {offsetof(hak_stats_t, tiers), HAK_STATS_TIERS, HAK_TIER_STATS},
    [POLICY] = {offsetof(hak_stats_t, policy), HAK_POLICY_BANDS, HAK_BAND_STATS},
    [BANDS] = {offsetof(hak_stats_t, bands), HAK_BAND_COUNT, HAK_CLASS_STATS},
    [CLASSES] = {offsetof(hak_stats_t, classes[1]), HAK_CLASS_COUNT, HAK_CLASS_STATS},
};

/* The section of a figure; *index becomes its number there. */
static unsigned section_of(size_t *index) {
    unsigned section = VALUES;
    for (size_t size; *index >= (size = (size_t)sections[section].items * sections[section].rows);
         section++)
        *index -= size;
    return section;
}

const hak_stat_row_t *hak_stats_name(size_t index, char name[HAK_STATS_NAME_SIZE]) {
    const hak_stat_row_t *const tables[] = {hak_value_stat_rows, hak_tier_stat_rows,
                                            hak_band_stat_rows, hak_class_stat_rows,
                                            hak_class_stat_rows};
    const unsigned section = section_of(&index);
    const size_t item = index / sections[section].rows;
    const hak_stat_row_t *row = &tables[section][index % sections[section].rows];
    if (section == VALUES)
        snprintf(name, HAK_STATS_NAME_SIZE, "%s.%s", row->group, row->name);
    else if (section == TIERS)
        snprintf(name, HAK_STATS_NAME_SIZE, "tiers.%s.%s", hak_stats_tier_names[item], row->name);
    else if (section != CLASSES)
        snprintf(name, HAK_STATS_NAME_SIZE, "bands.%s.%s", hak_stats_band_names[item], row->name);
    else if (item + 1 == HAK_CLASS_DYN)
        snprintf(name, HAK_STATS_NAME_SIZE, "classes.dyn1.%s", row->name);
    else
        snprintf(name, HAK_STATS_NAME_SIZE, "classes.%u.%s", hak_classes[item + 1].size, row->name);
    return row;
}

uint64_t hak_stats_value(const hak_stats_t *stats, size_t index) {
    const unsigned section = section_of(&index);
    const char *figures = (const char *)stats + sections[section].offset;
    return ((const uint64_t *)(const void *)figures)[index];
}

size_t hak_stats_find(const char *name) {
    char other[HAK_STATS_NAME_SIZE];
    for (size_t i = 0; i < HAK_STATS_COUNT; i++) {
        hak_stats_name(i, other);
        if (strcmp(name, other) == 0) return i;
    }
    return HAK_STATS_COUNT;
}
