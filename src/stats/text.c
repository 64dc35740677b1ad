/* text.c: the figures as tables for people. */
#include "stats/text.h"

#include <stdio.h>

#include "options/options.h"
#include "os/os.h"
#include "stats/report.h"
#include "stats/table.h"
#include "stats/timing.h"

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

static void write_option(hak_out_t *out, const char *label, hak_option_t option) {
    char value[32];
    hak_option_format_now(option, value, sizeof value);
    hak_out_print(out, "%s%s", label, value);
}

/* Replaces control characters by `?`, because a terminal would execute them. */
static void write_plain(hak_out_t *out, const char *text) {
    for (; *text; text++) hak_out_bytes(out, (char[]){hak_printable(*text)}, 1);
}

/* Writes the options that are not at their defaults, with the source of each value. */
static void write_options(hak_out_t *out) {
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_t option = (hak_option_t)i;
        hak_option_row_t row = hak_option_row(option);
        hak_option_source_t source = hak_option_source(option);
        if (source == HAK_SOURCE_DEFAULT || row.kind == HAK_OPTION_IS_OBSOLETE) continue;
        hak_out_left(out, "option", HAK_STATS_LABEL_WIDTH + 1);
        hak_out_print(out, "%s=", row.name);
        if (row.kind == HAK_OPTION_IS_TEXT)
            write_plain(out, hak_option_text(option));
        else
            write_option(out, "", option);
        hak_out_print(out, " (%s)\n", hak_option_sources[source]);
    }
}

/* Writes the scores of bands, and below them the bands that were chosen by these scores. */
static void write_policy(hak_out_t *out, const hak_stats_t *stats) {
    unsigned widths[HAK_POLICY_BANDS];
    hak_out_left(out, "policy", HAK_STATS_LABEL_WIDTH);
    for (unsigned i = 0; i < HAK_POLICY_BANDS; i++) {
        unsigned digits = hak_out_digits(stats->policy[i][HAK_BAND_STAT_score]);
        widths[i] = (unsigned)hak_max(digits, sizeof "yes" - 1) + HAK_TABLE_GAP;
        hak_out_right(out, hak_stats_band_names[i], widths[i]);
    }
    hak_out_text(out, "\n");
    hak_out_left(out, "score", HAK_STATS_LABEL_WIDTH);
    for (unsigned i = 0; i < HAK_POLICY_BANDS; i++)
        hak_out_number(out, stats->policy[i][HAK_BAND_STAT_score], widths[i]);
    hak_out_text(out, "\n");
    hak_out_left(out, "promoted", HAK_STATS_LABEL_WIDTH);
    for (unsigned i = 0; i < HAK_POLICY_BANDS; i++)
        hak_out_right(out, stats->policy[i][HAK_BAND_STAT_promoted] ? "yes" : "-", widths[i]);
    write_option(out, "  by policy ", HAK_OPTION_TINY_POLICY_PROFILE);
    write_option(out, ", LEARN ", HAK_OPTION_LEARN);
    hak_out_text(out, "\n");
}

static void write_values(hak_out_t *out, const hak_stats_t *stats) {
    for (unsigned i = 0; i < HAK_VALUE_STATS; i++) {
        if (hak_stats_begins_group(i)) {
            if (i) hak_out_text(out, "\n");
            hak_out_left(out, hak_value_stat_rows[i].group, HAK_STATS_LABEL_WIDTH);
        } else {
            hak_out_text(out, ",");
        }
        hak_out_print(out, " %s %lu", hak_value_stat_rows[i].name, stats->values[i]);
    }
    hak_out_text(out, "\n");
}

void hak_stats_write_text(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_print(out, "hakmem: statistics of process %lu\n", (unsigned long)hak_os_process_id());
    write_tiers(out, stats);
    write_bands(out, stats);
    write_policy(out, stats);
    write_values(out, stats);
    write_options(out);
    hak_stats_write_caches(out);
    if (hak_stats_times()) hak_stats_write_timing(out);
}

void hak_stats_write_classes(hak_out_t *out, const hak_stats_t *stats) {
    hak_table_t table;
    char label[HAK_STATS_LABEL_WIDTH + 4];
    hak_table_begin(&table, HAK_STATS_LABEL_WIDTH, hak_class_stat_rows, HAK_CLASS_STATS);
    for (unsigned i = 0; i < HAK_BAND_MID; i++) hak_table_fit(&table, stats->bands[i]);
    hak_out_print(out, "hakmem: tiny bands and classes of process %lu\n",
                  (unsigned long)hak_os_process_id());
    hak_table_head(out, &table, "class");
    for (unsigned i = 1; i <= HAK_CLASS_COUNT && hak_bands[i] != HAK_BAND_MID; i++) {
        if (hak_bands[i] != hak_bands[i - 1] || i == 1)
            hak_table_line(out, &table, hak_stats_band_names[hak_bands[i]],
                           stats->bands[hak_bands[i]]);
        if (!hak_stats_is_used(stats->classes[i])) continue;
        snprintf(label, sizeof label, "  %u", hak_classes[i].size);
        hak_table_line(out, &table, label, stats->classes[i]);
    }
    write_policy(out, stats);
}

void hak_stats_write_warm(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_print(out, "hakmem: warm pool of process %lu: hits %lu, misses %lu, prefilled %lu\n",
                  (unsigned long)hak_os_process_id(), stats->values[HAK_VALUE_STAT_warm_hits],
                  stats->values[HAK_VALUE_STAT_warm_misses],
                  stats->values[HAK_VALUE_STAT_warm_prefilled]);
}
