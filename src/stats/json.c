/* json.c: all figures and options as one JSON object. */
#include "stats/json.h"

#include "classes/dyn.h"
#include "hakmem.h"
#include "options/options.h"

static void write_options(hak_out_t *out) {
    hak_out_open(out, "options", '{');
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_t option = (hak_option_t)i;
        hak_option_row_t row = hak_option_row(option);
        if (row.kind == HAK_OPTION_IS_OBSOLETE) continue;
        char value[80];
        hak_out_open(out, row.name, '{');
        if (row.kind == HAK_OPTION_IS_TEXT) {
            hak_out_member_text(out, "value", hak_option_text(option));
        } else {
            hak_option_format_now(option, value, sizeof value);
            hak_out_member_text(out, "value", value);
        }
        hak_out_member_text(out, "source", hak_option_sources[hak_option_source(option)]);
        hak_out_close(out, '}');
    }
    hak_out_close(out, '}');
}

static void write_class_rows(hak_out_t *out, const uint64_t *rows) {
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
        hak_out_member(out, hak_class_stat_rows[i].name, rows[i]);
}

static void write_bands(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_open(out, "bands", '{');
    for (unsigned band = 0; band < HAK_BAND_COUNT; band++) {
        hak_out_open(out, hak_stats_band_names[band], '{');
        write_class_rows(out, stats->bands[band]);
        for (unsigned i = 0; band < HAK_POLICY_BANDS && i < HAK_BAND_STATS; i++)
            hak_out_member(out, hak_band_stat_rows[i].name, stats->policy[band][i]);
        hak_out_close(out, '}');
    }
    hak_out_close(out, '}');
}

static void write_classes(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_open(out, "classes", '[');
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        hak_out_open(out, NULL, '{');
        if (i == HAK_CLASS_DYN) hak_out_member_text(out, "name", "dyn1");
        hak_out_member(out, "size", hak_dyn_size_of(i));
        hak_out_member_text(out, "band", hak_stats_band_names[hak_bands[i]]);
        write_class_rows(out, stats->classes[i]);
        hak_out_close(out, '}');
    }
    hak_out_close(out, ']');
}

static void write_tiers(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_open(out, "tiers", '{');
    for (unsigned tier = 0; tier < HAK_STATS_TIERS; tier++) {
        hak_out_open(out, hak_stats_tier_names[tier], '{');
        for (unsigned i = 0; i < HAK_TIER_STATS; i++)
            hak_out_member(out, hak_tier_stat_rows[i].name, stats->tiers[tier][i]);
        hak_out_close(out, '}');
    }
    hak_out_close(out, '}');
}

/* Writes an object for each group of rows. */
static void write_values(hak_out_t *out, const hak_stats_t *stats) {
    const char *group = NULL;
    for (unsigned i = 0; i < HAK_VALUE_STATS; i++) {
        const hak_stat_row_t *row = &hak_value_stat_rows[i];
        if (hak_stats_begins_group(i)) {
            if (group) hak_out_close(out, '}');
            group = row->group;
            hak_out_open(out, group, '{');
        }
        hak_out_member(out, row->name, stats->values[i]);
    }
    hak_out_close(out, '}');
}

void hak_stats_write_cache(hak_out_t *out, const hak_cache_stats_t *cache) {
    hak_out_open(out, NULL, '{');
    for (unsigned i = 0; i < HAK_CACHE_STATS; i++)
        hak_out_member(out, hak_cache_stat_rows[i].name, cache->figures[i]);
    for (unsigned band = 0; band < HAK_BAND_COUNT; band++) {
        if (!cache->bands[band].uc_miss && !cache->bands[band].flushed) continue;
        hak_out_open(out, hak_stats_band_names[band], '{');
        hak_out_member(out, "uc_miss", cache->bands[band].uc_miss);
        hak_out_member(out, "refilled", cache->bands[band].refilled);
        hak_out_member(out, "flushed", cache->bands[band].flushed);
        hak_out_close(out, '}');
    }
    hak_out_close(out, '}');
}

void hak_stats_write_members(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_member_text(out, "schema", HAK_STATS_SCHEMA);
    hak_out_member(out, "version", HAKMEM_VERSION);
    hak_out_member(out, "pid", hak_stats_process());
    write_options(out);
    write_bands(out, stats);
    write_classes(out, stats);
    write_tiers(out, stats);
    write_values(out, stats);
    hak_out_open(out, "caches", '[');
    hak_stats_write_cache_list(out);
    hak_out_close(out, ']');
}
