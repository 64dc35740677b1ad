/* stat.c: `hakmem stat`: the statistics of a running process or of a file, as tables, as JSON, or
 * for Prometheus. Figures of a file that are not in the table of statistics are ignored. */
#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "debug/timing.h"
#include "source.h"
#include "stats/stats.h"

enum { LABEL_WIDTH = 8, LABEL_SIZE = 32, GAP = 2, HELP_AT = 41, HELP_WIDTH = 58 };

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct {
    const char *names[HAK_CLASS_STATS];
    unsigned count;
    int label_width;
    int widths[HAK_CLASS_STATS];
} columns_t;

static void add_column(columns_t *columns, const char *name) {
    columns->widths[columns->count] = (int)strlen(name);
    columns->names[columns->count++] = name;
}

static columns_t columns_of(const hak_stat_row_t *rows, unsigned count) {
    columns_t columns = {.label_width = LABEL_WIDTH};
    for (unsigned i = 0; i < count; i++) add_column(&columns, rows[i].name);
    return columns;
}

/* The figures of a size class that fit on a terminal: what it holds, and its slow calls. */
static columns_t main_columns(void) {
    static const char *const names[] = {"live",  "live_bytes", "cached_bytes", "free",
                                        "slabs", "uc_miss",    "shared_lock",  "remote_frees"};
    columns_t columns = {.label_width = LABEL_WIDTH};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) add_column(&columns, names[i]);
    return columns;
}

/* Widens the columns for the figures of each object in `list`. */
static void fit(columns_t *columns, const json_t *list) {
    for (const json_t *line = list ? list->first : NULL; line; line = line->next)
        for (unsigned i = 0; i < columns->count; i++) {
            int digits = snprintf(NULL, 0, "%" PRIu64, json_number(line, columns->names[i]));
            if (columns->widths[i] < digits) columns->widths[i] = digits;
        }
}

static void print_head(const columns_t *columns, const char *label) {
    printf("%-*s", columns->label_width, label);
    for (unsigned i = 0; i < columns->count; i++)
        printf("%*s", columns->widths[i] + GAP, columns->names[i]);
    putchar('\n');
}

static void print_line(const columns_t *columns, const char *label, const json_t *line) {
    printf("%-*s", columns->label_width, label);
    for (unsigned i = 0; i < columns->count; i++)
        printf("%*" PRIu64, columns->widths[i] + GAP, json_number(line, columns->names[i]));
    putchar('\n');
}

static bool is_used(const json_t *line) {
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
        if (json_number(line, hak_class_stat_rows[i].name)) return true;
    return false;
}

/* The block size of a class; "dyn1" for the dynamic class, whose size may be that of a fixed
 * one. */
static const char *label_of(const json_t *class_row, char label[LABEL_SIZE]) {
    if (strcmp(json_text(class_row, "name"), "dyn1") == 0) return "dyn1";
    snprintf(label, LABEL_SIZE, "%" PRIu64, json_number(class_row, "size"));
    return label;
}

/* Prints each band that is in use, with its classes below it. */
static void print_bands(const json_t *root, bool is_wide) {
    const json_t *bands = json_member(root, "bands"), *classes = json_member(root, "classes");
    columns_t columns = is_wide ? columns_of(hak_class_stat_rows, HAK_CLASS_STATS) : main_columns();
    fit(&columns, bands);
    fit(&columns, classes);
    print_head(&columns, "class");
    for (int i = 0; i < HAK_BAND_COUNT; i++) {
        const json_t *band = json_member(bands, hak_stats_band_names[i]);
        if (!is_used(band)) continue;
        print_line(&columns, hak_stats_band_names[i], band);
        for (const json_t *at = classes ? classes->first : NULL; at; at = at->next) {
            char label[LABEL_SIZE];
            if (strcmp(json_text(at, "band"), hak_stats_band_names[i]) != 0 || !is_used(at))
                continue;
            char line[LABEL_SIZE + 2];
            snprintf(line, sizeof line, "  %s", label_of(at, label));
            print_line(&columns, line, at);
        }
    }
}

static void print_caches(const json_t *root) {
    const json_t *caches = json_member(root, "caches");
    columns_t columns = columns_of(hak_cache_stat_rows, HAK_CACHE_STATS);
    fit(&columns, caches);
    putchar('\n');
    print_head(&columns, "cache");
    for (const json_t *at = caches ? caches->first : NULL; at; at = at->next)
        print_line(&columns, "", at);
}

/* Prints the times, which only a debug build has. */
static void print_timing(const json_t *root) {
    static const char *const steps[] = {
#define TIMING(name, ...) #name,
#include "debug/timing.def"
    };
    static const hak_stat_row_t figures[] = {
#define FIGURE(row_name) {.name = #row_name},
        HAK_TIMING_FIGURES(FIGURE)
#undef FIGURE
    };
    const json_t *timing = json_member(root, "timing");
    columns_t columns = columns_of(figures, sizeof figures / sizeof *figures);
    if (!timing) return;
    fit(&columns, timing);
    columns.label_width = 20;
    putchar('\n');
    print_head(&columns, "step");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const json_t *step = json_member(timing, steps[i]);
        if (json_member(step, "count")) print_line(&columns, steps[i], step);
    }
}

/* Prints the scores of bands, and below them which bands they promoted. */
static void print_policy(const json_t *root) {
    const json_t *bands = json_member(root, "bands");
    int widths[HAK_POLICY_BANDS];
    printf("\n%-*s", LABEL_WIDTH, "policy");
    for (int i = 0; i < HAK_POLICY_BANDS; i++) {
        const json_t *band = json_member(bands, hak_stats_band_names[i]);
        int digits = snprintf(NULL, 0, "%" PRIu64, json_number(band, "score"));
        widths[i] = (digits < 3 ? 3 : digits) + GAP;
        printf("%*s", widths[i], hak_stats_band_names[i]);
    }
    printf("\n%-*s", LABEL_WIDTH, "score");
    for (int i = 0; i < HAK_POLICY_BANDS; i++)
        printf("%*" PRIu64, widths[i],
               json_number(json_member(bands, hak_stats_band_names[i]), "score"));
    printf("\n%-*s", LABEL_WIDTH, "promoted");
    for (int i = 0; i < HAK_POLICY_BANDS; i++)
        printf("%*s", widths[i],
               json_number(json_member(bands, hak_stats_band_names[i]), "promoted") ? "yes" : "-");
    putchar('\n');
}

static void print_values(const json_t *root) {
    for (unsigned i = 0; i < HAK_VALUE_STATS; i++) {
        const hak_stat_row_t *row = &hak_value_stat_rows[i];
        if (hak_stats_begins_group(i)) printf("\n%s\n", row->group);
        printf("  %-16s %20" PRIu64, row->name,
               json_number(json_member(root, row->group), row->name));
        print_wrapped(hak_stats_help(row), HELP_AT - GAP, HELP_AT, HELP_WIDTH);
    }
}

/* Replaces control characters, because a terminal would execute them. */
static void print_plain(const char *text) {
    for (; *text; text++) putchar(*text >= ' ' && *text < 127 ? *text : '?');
}

static void print_options(const json_t *root) {
    const json_t *options = json_member(root, "options");
    puts("\noptions that are not at their default");
    for (const json_t *at = options ? options->first : NULL; at; at = at->next) {
        const char *source = json_text(at, "source"), *value = json_text(at, "value");
        if (options->kind != JSON_OBJECT || strcmp(source, "default") == 0) continue;
        printf("  ");
        print_plain(at->name);
        putchar('=');
        print_plain(value);
        printf(" (");
        print_plain(source);
        puts(")");
    }
}

static void print_text(const json_t *root, bool is_wide) {
    uint64_t version = json_number(root, "version");
    printf("process %" PRIu64 " on HAKMEM %" PRIu64 ".%" PRIu64 ".%" PRIu64 "\n\n",
           json_number(root, "pid"), version / 10000, version / 100 % 100, version % 100);
    const json_t *tiers = json_member(root, "tiers");
    columns_t columns = columns_of(hak_tier_stat_rows, HAK_TIER_STATS);
    fit(&columns, tiers);
    print_head(&columns, "tier");
    for (int i = 0; i < HAK_STATS_TIERS; i++)
        print_line(&columns, hak_stats_tier_names[i], json_member(tiers, hak_stats_tier_names[i]));
    putchar('\n');
    print_bands(root, is_wide);
    print_policy(root);
    print_values(root);
    print_caches(root);
    print_timing(root);
    print_options(root);
}

/* ---- Prometheus: the text format, version 0.0.4 ---------------------------------------------- */

/* Prints HELP and TYPE of a metric; returns the end of its name. */
static const char *print_metric(const char *group, const hak_stat_row_t *row) {
    const char *end = row->is_counter ? "_total" : "";
    printf("# HELP hakmem_%s_%s%s %s\n", group, row->name, end, hak_stats_help(row));
    printf("# TYPE hakmem_%s_%s%s %s\n", group, row->name, end,
           row->is_counter ? "counter" : "gauge");
    return end;
}

static void print_class_metric(const json_t *root, const hak_stat_row_t *row) {
    const json_t *classes = json_member(root, "classes");
    const char *end = print_metric("class", row);
    char label[LABEL_SIZE];
    for (const json_t *at = classes ? classes->first : NULL; at; at = at->next)
        for (int i = 0; i < HAK_BAND_COUNT; i++)
            if (strcmp(json_text(at, "band"), hak_stats_band_names[i]) == 0)
                printf("hakmem_class_%s%s{band=\"%s\",size=\"%s\"} %" PRIu64 "\n", row->name, end,
                       hak_stats_band_names[i], label_of(at, label), json_number(at, row->name));
}

static void print_band_metric(const json_t *root, const hak_stat_row_t *row) {
    const char *end = print_metric("band", row);
    for (int i = 0; i < HAK_POLICY_BANDS; i++) {
        const json_t *band = json_member(json_member(root, "bands"), hak_stats_band_names[i]);
        printf("hakmem_band_%s%s{band=\"%s\"} %" PRIu64 "\n", row->name, end,
               hak_stats_band_names[i], json_number(band, row->name));
    }
}

static void print_prometheus(const json_t *root) {
    for (unsigned i = 0; i < HAK_VALUE_STATS; i++) {
        const hak_stat_row_t *row = &hak_value_stat_rows[i];
        const char *end = print_metric(row->group, row);
        printf("hakmem_%s_%s%s %" PRIu64 "\n", row->group, row->name, end,
               json_number(json_member(root, row->group), row->name));
    }
    for (unsigned i = 0; i < HAK_TIER_STATS; i++) {
        const hak_stat_row_t *row = &hak_tier_stat_rows[i];
        const char *end = print_metric("tier", row);
        for (int tier = 0; tier < HAK_STATS_TIERS; tier++) {
            const json_t *of_tier =
                json_member(json_member(root, "tiers"), hak_stats_tier_names[tier]);
            printf("hakmem_tier_%s%s{tier=\"%s\"} %" PRIu64 "\n", row->name, end,
                   hak_stats_tier_names[tier], json_number(of_tier, row->name));
        }
    }
    for (unsigned i = 0; i < HAK_BAND_STATS; i++) print_band_metric(root, &hak_band_stat_rows[i]);
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
        print_class_metric(root, &hak_class_stat_rows[i]);
}

/* ---- The command ----------------------------------------------------------------------------- */

typedef enum { AS_TEXT, AS_WIDE_TEXT, AS_JSON, AS_PROMETHEUS } form_t;

static form_t read_arguments(int argc, char **argv, const char **name) {
    form_t form = AS_TEXT;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            form = AS_JSON;
        else if (strcmp(argv[i], "--wide") == 0)
            form = AS_WIDE_TEXT;
        else if (strcmp(argv[i], "--prometheus") == 0)
            form = AS_PROMETHEUS;
        else if (argv[i][0] == '-')
            fail(STATUS_USAGE, "stat: '%.64s' is not known; `hakmem --help` shows the form",
                 argv[i]);
        else if (*name)
            fail(STATUS_USAGE, "stat: one process or file only; `hakmem --help` shows the form");
        else
            *name = argv[i];
    }
    if (!*name)
        fail(STATUS_USAGE, "stat: no process or file given; `hakmem --help` shows the form");
    return form;
}

int command_stat(int argc, char **argv) {
    const char *name = NULL;
    form_t form = read_arguments(argc, argv, &name);
    source_t source = source_read("stat", name);
    if (form == AS_JSON)
        fwrite(source.text, 1, source.size, stdout);
    else if (form == AS_PROMETHEUS)
        print_prometheus(source.root);
    else
        print_text(source.root, form == AS_WIDE_TEXT);
    return finish();
}
