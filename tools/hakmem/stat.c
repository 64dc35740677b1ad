/* stat.c: `hakmem stat`: the statistics of a running process or of a file, as tables, as JSON, or
 * for Prometheus. Figures of a file that are not in the table of statistics are ignored. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "debug/timing.h"
#include "live.h"
#include "prometheus.h"
#include "source.h"
#include "stats/stats.h"

enum { LABEL_WIDTH = 8, GAP = 2, HELP_AT = 41, HELP_WIDTH = 58 };

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
            char label[SIZE_LABEL];
            if (strcmp(json_text(at, "band"), hak_stats_band_names[i]) != 0 || !is_used(at))
                continue;
            char line[SIZE_LABEL + 2];
            snprintf(line, sizeof line, "  %s", size_label(at, label));
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

static void print_plain(const char *text) {
    for (; *text; text++) putchar(hak_printable(*text));
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

/* ---- JSON over time -------------------------------------------------------------------------- */

/* Prints an object as one line: no line breaks and no blanks outside texts; "time" comes first. */
static void print_json_line(const char *text, size_t size) {
    struct timespec now;
    bool in_text = false;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("{\"time\":%lld.%03ld,", (long long)now.tv_sec, now.tv_nsec / 1000000);
    const char *brace = memchr(text, '{', size);
    for (const char *at = brace + 1; at < text + size; at++) {
        if (!in_text && (*at == ' ' || *at == '\n')) continue;
        if (in_text && *at == '\\')
            putchar(*at++);
        else if (*at == '"')
            in_text = !in_text;
        putchar(*at);
    }
    putchar('\n');
}

/* Prints a line each `interval_ms` until the process ends or `count` lines are printed. */
static int print_over_time(const char *name, int64_t interval_ms, uint64_t count) {
    pid_t pid = live_process_of(name);
    struct timespec next;
    source_t source;
    const char *problem;
    if (!pid) fail(STATUS_USAGE, "stat: --every needs a process, not %.256s", name);
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (uint64_t printed = 0; printed < count; printed++) {
        if (!source_of_process(pid, &source, &problem)) {
            if (printed == 0) fail(1, "stat: %s", problem);
            break;
        }
        print_json_line(source.text, source.size);
        if (fflush(stdout) != 0 || printed + 1 == count) break;
        int64_t ns = next.tv_nsec + interval_ms * 1000000;
        next.tv_sec += (time_t)(ns / 1000000000);
        next.tv_nsec = (long)(ns % 1000000000);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR) continue;
    }
    return finish();
}

/* ---- The command ----------------------------------------------------------------------------- */

typedef enum { AS_TEXT, AS_WIDE_TEXT, AS_JSON, AS_PROMETHEUS } form_t;

typedef struct {
    form_t form;
    bool with_map;
    const char *name;
    int64_t every_ms; /* 0: once */
    uint64_t count;
} request_t;

static int64_t read_interval(const char *text) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || (*end && strcmp(end, "s") != 0) || !(seconds >= 0.1 && seconds <= 86400))
        fail(STATUS_USAGE, "stat: --every needs seconds from 0.1 to 86400, not '%.64s'", text);
    return (int64_t)(seconds * 1000 + 0.5);
}

static uint64_t read_count(const char *text) {
    char *end;
    unsigned long long count = strtoull(text, &end, 10);
    if (*text < '1' || *text > '9' || *end)
        fail(STATUS_USAGE, "stat: --count needs a number of 1 or more, not '%.64s'", text);
    return count;
}

/* A word that has no value. */
static void read_word(request_t *request, const char *word) {
    if (strcmp(word, "--json") == 0)
        request->form = AS_JSON;
    else if (strcmp(word, "--wide") == 0)
        request->form = AS_WIDE_TEXT;
    else if (strcmp(word, "--map") == 0)
        request->with_map = true;
    else if (strcmp(word, "--prometheus") == 0)
        request->form = AS_PROMETHEUS;
    else if (word[0] == '-')
        fail(STATUS_USAGE, "stat: '%.64s' is not known; `hakmem --help` shows the form", word);
    else if (request->name)
        fail(STATUS_USAGE, "stat: one process or file only; `hakmem --help` shows the form");
    else
        request->name = word;
}

static request_t read_arguments(int argc, char **argv) {
    request_t request = {.form = AS_TEXT, .count = UINT64_MAX};
    for (int i = 1, words; i < argc; i += words) {
        const char *value;
        words = 1;
        if ((value = option_value("stat", argv + i, "--every", STATUS_USAGE, &words)) != NULL)
            request.every_ms = read_interval(value);
        else if ((value = option_value("stat", argv + i, "--count", STATUS_USAGE, &words)) != NULL)
            request.count = read_count(value);
        else
            read_word(&request, argv[i]);
    }
    if (!request.name)
        fail(STATUS_USAGE, "stat: no process or file given; `hakmem --help` shows the form");
    if (request.with_map && request.form != AS_JSON) fail(STATUS_USAGE, "stat: --map needs --json");
    if (request.every_ms && request.form != AS_JSON)
        fail(STATUS_USAGE, "stat: --every needs --json");
    if (!request.every_ms && request.count != UINT64_MAX)
        fail(STATUS_USAGE, "stat: --count needs --every");
    return request;
}

int command_stat(int argc, char **argv) {
    request_t request = read_arguments(argc, argv);
    if (request.with_map) source_show_map();
    if (request.every_ms) return print_over_time(request.name, request.every_ms, request.count);
    source_t source = source_read("stat", request.name);
    if (request.form == AS_JSON)
        fwrite(source.text, 1, source.size, stdout);
    else if (request.form == AS_PROMETHEUS)
        prometheus_write(stdout, &(metrics_of_t){.root = source.root}, 1);
    else
        print_text(source.root, request.form == AS_WIDE_TEXT);
    return finish();
}
