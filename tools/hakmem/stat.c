/* stat.c: `hakmem stat`: a file that HAKMEM_STATS=json has written, as tables, as it is, or for
 * Prometheus. What the file says beyond the table of statistics is passed over. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "stats/stats.h"

static const char schema[] = "hakmem-stats/1";

enum { FILE_MOST = 64 << 20 };
enum { LABEL_WIDTH = 8, GAP = 2 };

/* ---- The file -------------------------------------------------------------------------------- */

static char *read_file(const char *name, size_t *size) {
    FILE *file = fopen(name, "re");
    if (!file) fail(1, "stat: %.256s is not a file that can be read: %s", name, strerror(errno));
    size_t room = 1 << 16;
    static char *text; /* until the process ends */
    text = malloc(room);
    *size = 0;
    while (text) {
        size_t got = fread(text + *size, 1, room - *size, file);
        *size += got;
        if (got == 0 || *size > FILE_MOST) break;
        if (*size < room) continue;
        char *larger = realloc(text, room *= 2);
        if (!larger) free(text);
        text = larger;
    }
    if (!text) fail(1, "stat: no memory");
    if (ferror(file)) fail(1, "stat: %.256s cannot be read: %s", name, strerror(errno));
    if (*size > FILE_MOST) fail(1, "stat: %.256s is too large to be statistics", name);
    fclose(file);
    return text;
}

/* The object in the text of a file; the text is changed by it. */
static const json_t *parse(const char *name, char *text, size_t size) {
    size_t line;
    const json_t *root = json_read(text, size, &line);
    if (!root) fail(1, "stat: %.256s: line %zu is not JSON", name, line);
    const char *found = json_text(root, "schema");
    if (strcmp(found, schema) == 0) return root;
    if (!*found) fail(1, "stat: %.256s has no statistics of HAKMEM in it", name);
    fail(1, "stat: %.256s has schema '%.64s'; this command knows %s", name, found, schema);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct {
    const hak_stat_row_t *rows;
    unsigned count;
    int widths[HAK_CLASS_STATS];
} columns_t;

static columns_t columns_of(const hak_stat_row_t *rows, unsigned count) {
    columns_t columns = {.rows = rows, .count = count};
    for (unsigned i = 0; i < count; i++) columns.widths[i] = (int)strlen(rows[i].name);
    return columns;
}

/* Makes room for the figures of each object in `list`. */
static void fit(columns_t *columns, const json_t *list) {
    for (const json_t *line = list ? list->first : NULL; line; line = line->next)
        for (unsigned i = 0; i < columns->count; i++) {
            int digits = snprintf(NULL, 0, "%" PRIu64, json_number(line, columns->rows[i].name));
            if (columns->widths[i] < digits) columns->widths[i] = digits;
        }
}

static void print_head(const columns_t *columns, const char *label) {
    printf("%-*s", LABEL_WIDTH, label);
    for (unsigned i = 0; i < columns->count; i++)
        printf("%*s", columns->widths[i] + GAP, columns->rows[i].name);
    putchar('\n');
}

static void print_line(const columns_t *columns, const char *label, const json_t *line) {
    printf("%-*s", LABEL_WIDTH, label);
    for (unsigned i = 0; i < columns->count; i++)
        printf("%*" PRIu64, columns->widths[i] + GAP, json_number(line, columns->rows[i].name));
    putchar('\n');
}

static bool is_used(const json_t *line) {
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
        if (json_number(line, hak_class_stat_rows[i].name)) return true;
    return false;
}

/* Each band that is in use, with its classes below it. */
static void print_bands(const json_t *root) {
    const json_t *bands = json_member(root, "bands"), *classes = json_member(root, "classes");
    columns_t columns = columns_of(hak_class_stat_rows, HAK_CLASS_STATS);
    fit(&columns, bands);
    fit(&columns, classes);
    print_head(&columns, "class");
    for (int i = 0; i < HAK_BAND_COUNT; i++) {
        const json_t *band = json_member(bands, hak_stats_band_names[i]);
        if (!is_used(band)) continue;
        print_line(&columns, hak_stats_band_names[i], band);
        for (const json_t *at = classes ? classes->first : NULL; at; at = at->next) {
            char label[32];
            if (strcmp(json_text(at, "band"), hak_stats_band_names[i]) != 0 || !is_used(at))
                continue;
            snprintf(label, sizeof label, "  %" PRIu64, json_number(at, "size"));
            print_line(&columns, label, at);
        }
    }
}

/* What was promoted, below the scores by which it was. */
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
        printf("  %-16s %20" PRIu64 "  %s\n", row->name,
               json_number(json_member(root, row->group), row->name), hak_stats_help(row));
    }
}

/* Control characters of a text would act on the terminal. */
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

static void print_text(const json_t *root) {
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
    print_bands(root);
    print_policy(root);
    print_values(root);
    print_options(root);
}

/* ---- Prometheus: the text format, version 0.0.4 ----------------------------------------------- */

/* HELP and TYPE of a metric; returns the end of its name. */
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
    for (const json_t *at = classes ? classes->first : NULL; at; at = at->next)
        for (int i = 0; i < HAK_BAND_COUNT; i++)
            if (strcmp(json_text(at, "band"), hak_stats_band_names[i]) == 0)
                printf("hakmem_class_%s%s{band=\"%s\",size=\"%" PRIu64 "\"} %" PRIu64 "\n",
                       row->name, end, hak_stats_band_names[i], json_number(at, "size"),
                       json_number(at, row->name));
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

typedef enum { AS_TEXT, AS_JSON, AS_PROMETHEUS } form_t;

static form_t read_arguments(int argc, char **argv, const char **name) {
    form_t form = AS_TEXT;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            form = AS_JSON;
        else if (strcmp(argv[i], "--prometheus") == 0)
            form = AS_PROMETHEUS;
        else if (argv[i][0] == '-')
            fail(STATUS_USAGE, "stat: '%.64s' is not known; `hakmem --help` shows the form",
                 argv[i]);
        else if (*name)
            fail(STATUS_USAGE, "stat: one file only; `hakmem --help` shows the form");
        else
            *name = argv[i];
    }
    if (!*name) fail(STATUS_USAGE, "stat: no file given; `hakmem --help` shows the form");
    return form;
}

int command_stat(int argc, char **argv) {
    const char *name = NULL;
    form_t form = read_arguments(argc, argv, &name);
    size_t size;
    static char *text, *copy; /* until the process ends */
    text = read_file(name, &size);
    copy = malloc(size + 1);
    if (!copy) fail(1, "stat: no memory");
    memcpy(copy, text, size);
    const json_t *root = parse(name, copy, size);
    if (form == AS_JSON)
        fwrite(text, 1, size, stdout);
    else if (form == AS_PROMETHEUS)
        print_prometheus(root);
    else
        print_text(root);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
