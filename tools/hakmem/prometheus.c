/* prometheus.c: writes a metric for each row of the table of statistics, and for what `hakmem stat`
 * adds to it: the parts of the resident memory and the age of the live page. */
#include "prometheus.h"

#include <inttypes.h>
#include <string.h>

#include "resident.h"
#include "stats/stats.h"

enum { NAME_SIZE = 96, LABEL_SIZE = 64 };

typedef struct {
    FILE *to;
    const metrics_of_t *processes;
    size_t count;
} writer_t;

/* The object of a figure in a process's JSON; labels[] gets the labels that tell it apart. NULL
 * ends the list. */
typedef const json_t *(*object_of_t)(const json_t *root, unsigned index, char labels[LABEL_SIZE]);

static void write_head(const writer_t *writer, const char *name, const char *help,
                       const char *type) {
    fprintf(writer->to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_sample(const writer_t *writer, const metrics_of_t *process, const char *name,
                         const char *labels, uint64_t value) {
    char all[sizeof process->labels + LABEL_SIZE];
    int length = snprintf(all, sizeof all, "%s%s", process->labels, labels);
    if (length > 0) all[length - 1] = 0; /* the last comma */
    fprintf(writer->to, "%s%s%s%s %" PRIu64 "\n", name, length ? "{" : "", length ? all : "",
            length ? "}" : "", value);
}

static void write_metric(const writer_t *writer, const char *group, const hak_stat_row_t *row,
                         object_of_t object_of) {
    char name[NAME_SIZE], labels[LABEL_SIZE];
    snprintf(name, sizeof name, "hakmem_%.32s_%.32s%s", group, row->name,
             row->is_counter ? "_total" : "");
    write_head(writer, name, hak_stats_help(row), row->is_counter ? "counter" : "gauge");
    for (size_t i = 0; i < writer->count; i++) {
        const metrics_of_t *process = &writer->processes[i];
        const json_t *object;
        for (unsigned k = 0; process->root && (object = object_of(process->root, k, labels)); k++)
            write_sample(writer, process, name, labels, json_number(object, row->name));
    }
}

/* ---- The objects ----------------------------------------------------------------------------- */

static const char *value_group;

static const json_t *value_object(const json_t *root, unsigned index, char labels[LABEL_SIZE]) {
    labels[0] = 0;
    return index == 0 ? json_member(root, value_group) : NULL;
}

static const json_t *named_object(const json_t *root, const char *list, const char *label,
                                  const char *name, char labels[LABEL_SIZE]) {
    snprintf(labels, LABEL_SIZE, "%s=\"%s\",", label, name);
    return json_member(json_member(root, list), name);
}

static const json_t *tier_object(const json_t *root, unsigned index, char labels[LABEL_SIZE]) {
    if (index >= HAK_STATS_TIERS) return NULL;
    return named_object(root, "tiers", "tier", hak_stats_tier_names[index], labels);
}

static const json_t *band_object(const json_t *root, unsigned index, char labels[LABEL_SIZE]) {
    if (index >= HAK_POLICY_BANDS) return NULL;
    return named_object(root, "bands", "band", hak_stats_band_names[index], labels);
}

static bool is_band(const char *name) {
    for (int i = 0; i < HAK_BAND_COUNT; i++)
        if (strcmp(name, hak_stats_band_names[i]) == 0) return true;
    return false;
}

static const json_t *class_object(const json_t *root, unsigned index, char labels[LABEL_SIZE]) {
    const json_t *classes = json_member(root, "classes"), *at = classes ? classes->first : NULL;
    for (; at; at = at->next) {
        const char *band = json_text(at, "band");
        if (!is_band(band) || index-- > 0) continue;
        char size[SIZE_LABEL];
        snprintf(labels, LABEL_SIZE, "band=\"%s\",size=\"%s\",", band, size_label(at, size));
        return at;
    }
    return NULL;
}

const char *size_label(const json_t *class_row, char label[SIZE_LABEL]) {
    if (strcmp(json_text(class_row, "name"), "dyn1") == 0) return "dyn1";
    snprintf(label, SIZE_LABEL, "%" PRIu64, json_number(class_row, "size"));
    return label;
}

/* ---- Beside the table ------------------------------------------------------------------------ */

static void write_resident(const writer_t *writer) {
    static const char *const parts[] = {
#define PART(name) #name,
        RESIDENT_PARTS(PART)
#undef PART
    };
    write_head(writer, "hakmem_resident_bytes",
               "Parts of the resident memory, as `hakmem explain` has them; rss is all of it.",
               "gauge");
    for (size_t i = 0; i < writer->count; i++) {
        const json_t *resident = json_member(writer->processes[i].root, "resident");
        for (size_t k = 0; resident && k < sizeof parts / sizeof *parts; k++) {
            char labels[LABEL_SIZE];
            snprintf(labels, sizeof labels, "part=\"%s\",", parts[k]);
            write_sample(writer, &writer->processes[i], "hakmem_resident_bytes", labels,
                         json_number(resident, parts[k]));
        }
    }
}

static void write_age(const writer_t *writer) {
    write_head(writer, "hakmem_page_age_milliseconds",
               "Time since the process refreshed its figures; it grows while the process is idle.",
               "gauge");
    for (size_t i = 0; i < writer->count; i++) {
        const json_t *page = json_member(writer->processes[i].root, "live_page");
        if (page)
            write_sample(writer, &writer->processes[i], "hakmem_page_age_milliseconds", "",
                         json_number(page, "age_ms"));
    }
}

void prometheus_write(FILE *to, const metrics_of_t *processes, size_t count) {
    const writer_t writer = {to, processes, count};
    for (unsigned i = 0; i < HAK_VALUE_STATS; i++) {
        value_group = hak_value_stat_rows[i].group;
        write_metric(&writer, value_group, &hak_value_stat_rows[i], value_object);
    }
    for (unsigned i = 0; i < HAK_TIER_STATS; i++)
        write_metric(&writer, "tier", &hak_tier_stat_rows[i], tier_object);
    for (unsigned i = 0; i < HAK_BAND_STATS; i++)
        write_metric(&writer, "band", &hak_band_stat_rows[i], band_object);
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++)
        write_metric(&writer, "class", &hak_class_stat_rows[i], class_object);
    write_resident(&writer);
    write_age(&writer);
}

void prometheus_write_up(FILE *to, const metrics_of_t *processes, size_t count) {
    const writer_t writer = {to, processes, count};
    write_head(&writer, "hakmem_up", "1: the process's figures could be read.", "gauge");
    for (size_t i = 0; i < count; i++)
        write_sample(&writer, &processes[i], "hakmem_up", "", processes[i].root != NULL);
}
