/* text.c: the figures as tables for people. */
#include <stdio.h>

#include "os/os.h"
#include "stats/report.h"
#include "stats/table.h"

static void write_tiers(hak_out_t *out, const hak_stats_t *stats) {
    hak_table_t table;
    hak_table_begin(&table, HAK_STATS_LABEL_WIDTH, hak_tier_stat_rows, HAK_TIER_STATS);
    for (unsigned i = 0; i < HAK_STATS_TIERS; i++) hak_table_fit(&table, stats->tiers[i]);
    hak_table_head(out, &table, "tier");
    for (unsigned i = 0; i < HAK_STATS_TIERS; i++)
        hak_table_line(out, &table, hak_stats_tier_names[i], stats->tiers[i]);
}

static void write_bands(hak_out_t *out, const hak_stats_t *stats) {
    hak_table_t table;
    hak_table_begin(&table, HAK_STATS_LABEL_WIDTH, hak_class_stat_rows, HAK_CLASS_STATS);
    for (unsigned i = 0; i < HAK_BAND_COUNT; i++) hak_table_fit(&table, stats->bands[i]);
    hak_table_head(out, &table, "band");
    for (unsigned i = 0; i < HAK_BAND_COUNT; i++)
        if (hak_stats_is_used(stats->bands[i]))
            hak_table_line(out, &table, hak_stats_band_names[i], stats->bands[i]);
}

static void write_values(hak_out_t *out, const hak_stats_t *stats) {
    for (unsigned i = 0; i < HAK_VALUE_STATS; i++) {
        if (hak_stats_begins_group(i)) {
            if (i) hak_out_text(out, "\n");
            hak_out_left(out, hak_value_stat_rows[i].group, HAK_STATS_LABEL_WIDTH);
        } else {
            hak_out_text(out, ",");
        }
        hak_out_text(out, " ");
        hak_out_text(out, hak_value_stat_rows[i].name);
        hak_out_text(out, " ");
        hak_out_number(out, stats->values[i], 0);
    }
    hak_out_text(out, "\n");
}

void hak_stats_write_text(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_text(out, "hakmem: statistics of process ");
    hak_out_number(out, hak_os_process_id(), 0);
    hak_out_text(out, "\n");
    write_tiers(out, stats);
    write_bands(out, stats);
    write_values(out, stats);
    hak_stats_write_caches(out);
    if (hak_stats_times()) hak_stats_write_timing(out);
}

void hak_stats_write_classes(hak_out_t *out, const hak_stats_t *stats) {
    hak_table_t table;
    char label[HAK_STATS_LABEL_WIDTH + 4];
    hak_table_begin(&table, HAK_STATS_LABEL_WIDTH, hak_class_stat_rows, HAK_CLASS_STATS);
    for (unsigned i = 0; i < HAK_BAND_MID; i++) hak_table_fit(&table, stats->bands[i]);
    hak_out_text(out, "hakmem: tiny bands and classes of process ");
    hak_out_number(out, hak_os_process_id(), 0);
    hak_out_text(out, "\n");
    hak_table_head(out, &table, "class");
    for (unsigned i = 1; i <= HAK_CLASS_COUNT && hak_bands[i] != HAK_BAND_MID; i++) {
        if (hak_bands[i] != hak_bands[i - 1] || i == 1)
            hak_table_line(out, &table, hak_stats_band_names[hak_bands[i]],
                           stats->bands[hak_bands[i]]);
        if (!hak_stats_is_used(stats->classes[i])) continue;
        snprintf(label, sizeof label, "  %u", hak_classes[i].size);
        hak_table_line(out, &table, label, stats->classes[i]);
    }
}
