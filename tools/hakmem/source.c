/* source.c: reads a file as it is, and converts a live page to the JSON that the library would
 * write. */
#include "source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "classes/dyn.h"
#include "command.h"
#include "live.h"
#include "resident.h"
#include "stats/json.h"
#include "stats/report.h"

enum { FILE_MOST = 64 << 20, PROBLEM = 1 };

/* ---- A file ---------------------------------------------------------------------------------- */

static char *read_file(const char *command, const char *name, size_t *size) {
    FILE *file = fopen(name, "re");
    if (!file)
        fail(PROBLEM, "%s: %.256s is not a file that can be read: %s", command, name,
             strerror(errno));
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
    if (!text) fail(PROBLEM, "%s: no memory", command);
    if (ferror(file))
        fail(PROBLEM, "%s: %.256s cannot be read: %s", command, name, strerror(errno));
    if (*size > FILE_MOST) fail(PROBLEM, "%s: %.256s is too large to be statistics", command, name);
    fclose(file);
    return text;
}

/* ---- A process ------------------------------------------------------------------------------- */

static hak_live_page_t page;
static pid_t asked; /* the page's process, by its number here: in a container it has another */

/* The functions that report.h expects its users to define: here they report on the page's
 * process. */
unsigned hak_stats_process(void) { return (unsigned)asked; }

void hak_stats_write_cache_list(hak_out_t *out) {
    for (uint32_t i = 0; i < page.cache_count; i++) hak_stats_write_cache(out, &page.caches[i]);
}

/* Sets the command's own options to those of the process; an invalid value is ignored. */
static void take_over_options(void) {
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_t option = (hak_option_t)i;
        const hak_live_option_t *from = &page.options[i];
        char value[HAK_LIVE_TEXT];
        bool is_text = hak_option_row(option).kind == HAK_OPTION_IS_TEXT;
        if (!is_text) hak_option_format(option, from->value, value, sizeof value);
        const char *text = is_text ? from->text : value;
        hak_option_assign(option, (hak_text_t){text, strlen(text)},
                          (hak_option_source_t)from->source);
    }
}

/* Makes the dynamic class of the process that of the command, if the process has one. */
static void take_over_class(void) {
    uint64_t size = page.stats.values[HAK_VALUE_STAT_mid_dyn1_size];
    if (size > HAK_TINY_MAX && size <= HAK_CLASS_MAX) hak_dyn_choose((size_t)size);
}

static bool shows_map;

void source_show_map(void) { shows_map = true; }

/* A unit as "class:grains", a digit for each grain of 4 KiB: sixteenths in use, rounded up; a point where it
 * is not resident. The class is the bytes of its blocks, `free` or `large`. */
static size_t describe_unit(char *to, size_t size, uint32_t superslab, unsigned number) {
    const hak_live_unit_t *unit = &page.superslabs[superslab].units[number];
    uint16_t resident = resident_grains(superslab, number);
    bool is_slab = unit->class_index != HAK_CLASS_NONE && unit->class_index != HAK_CLASS_LARGE;
    size_t used =
        (size_t)snprintf(to, size, "%s", unit->class_index == HAK_CLASS_NONE ? "free:" : "large:");
    if (is_slab)
        used = (size_t)snprintf(to, size, "%u:", (unsigned)hak_classes[unit->class_index].size);
    for (unsigned i = 0; i < HAK_UNIT_GRAINS; i++, used++) {
        unsigned bytes = unit->class_index == HAK_CLASS_NONE ? 0 : unit->used[i];
        unsigned digit = (bytes * 15u + HAK_GRAIN_SIZE - 1) / HAK_GRAIN_SIZE;
        to[used] = resident >> i & 1 ? "0123456789abcdef"[digit] : '.';
    }
    to[used++] = ' ';
    return used;
}

/* By size of the blocks: pages of slabs with blocks in at most a quarter, which few blocks keep, and the bytes
 * of these. */
static void write_pins(hak_out_t *out) {
    static struct {
        uint64_t pages, used;
    } pins[HAK_CLASS_LARGE];
    memset(pins, 0, sizeof pins);
    for (uint32_t i = 0; i < page.superslab_count; i++)
        for (unsigned k = 0; k < page.superslab_units; k++) {
            const hak_live_unit_t *unit = &page.superslabs[i].units[k];
            uint16_t resident = resident_grains(i, k);
            if (unit->class_index == HAK_CLASS_NONE || unit->class_index >= HAK_CLASS_LARGE)
                continue;
            for (unsigned grain = 0; grain < HAK_UNIT_GRAINS; grain++) {
                unsigned used = resident >> grain & 1 ? unit->used[grain] : 0;
                if (used == 0 || used > HAK_GRAIN_SIZE / 4) continue;
                pins[unit->class_index].pages++;
                pins[unit->class_index].used += used;
            }
        }
    hak_out_open(out, "pins", '{');
    for (unsigned class = 1; class < HAK_CLASS_LARGE; class ++) {
        char name[16];
        if (!pins[class].pages) continue;
        snprintf(name, sizeof name, "%u", (unsigned)hak_classes[class].size);
        hak_out_open(out, name, '{');
        hak_out_member(out, "pages", pins[class].pages);
        hak_out_member(out, "used", pins[class].used);
        hak_out_close(out, '}');
    }
    hak_out_close(out, '}');
}

static void write_map(hak_out_t *out) {
    enum { UNIT_SIZE = 32 };
    static char text[HAK_SUPERSLAB_UNITS_MAX * UNIT_SIZE];
    hak_out_open(out, "map", '{');
    hak_out_member(out, "stride", page.superslab_stride);
    write_pins(out);
    for (uint32_t i = 0; i < page.superslab_count; i++) {
        size_t used = 0;
        char name[32];
        for (unsigned k = 0; k < page.superslab_units; k++)
            used += describe_unit(text + used, sizeof text - used, i, k);
        text[used - 1] = 0;
        snprintf(name, sizeof name, "%#" PRIx64, page.superslabs[i].start);
        hak_out_member_text(out, name, text);
    }
    hak_out_close(out, '}');
}

static void write_json(hak_out_t *out, const resident_t *resident) {
    hak_out_open(out, NULL, '{');
    hak_stats_write_members(out, &page.stats);
    hak_out_open(out, "live_page", '{');
    hak_out_member(out, "age_ms", live_age_ms(&page));
    hak_out_member(out, "refreshes", page.head.refresh_count);
    hak_out_member(out, "profile_signal", page.head.profile_signal);
    hak_out_member(out, "unlisted",
                   page.ranges_total - hak_min(page.range_count, page.ranges_total));
    hak_out_close(out, '}');
    if (resident) {
        hak_out_open(out, "resident", '{');
#define PART(name) hak_out_member(out, #name, resident->name);
        RESIDENT_PARTS(PART)
#undef PART
        hak_out_close(out, '}');
    }
    if (resident && shows_map) write_map(out);
    hak_out_close(out, '}');
}

bool source_of_process(pid_t pid, source_t *source, const char **problem) {
    resident_t resident;
    static char *text; /* until the next one */
    if (live_read(pid, &page, problem) != LIVE_READ) return false;
    const resident_t *measured = resident_measure(pid, &page, &resident) ? NULL : &resident;
    asked = pid;
    take_over_options();
    take_over_class();
    hak_out_t out = hak_out_to_buffer(NULL, 0);
    write_json(&out, measured);
    size_t room = hak_out_end(&out) + 64; /* the age may have more digits */
    free(text);
    *problem = "no memory";
    text = malloc(room);
    if (!text) return false;
    out = hak_out_to_buffer(text, room);
    write_json(&out, measured);
    *source = (source_t){.text = text, .size = hak_out_end(&out), .pid = pid};
    return true;
}

static char *read_process(const char *command, pid_t pid, size_t *size) {
    const char *problem;
    source_t source;
    if (!source_of_process(pid, &source, &problem)) fail(PROBLEM, "%s: %s", command, problem);
    *size = source.size;
    return source.text;
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* Parses the object in a text, which is changed. */
static const json_t *parse(const char *command, const char *name, char *text, size_t size) {
    size_t line;
    const json_t *root = json_read(text, size, &line);
    if (!root) fail(PROBLEM, "%s: %.256s: line %zu is not JSON", command, name, line);
    const char *found = json_text(root, "schema");
    if (strcmp(found, HAK_STATS_SCHEMA) == 0) return root;
    if (!*found) fail(PROBLEM, "%s: %.256s has no statistics of HAKMEM in it", command, name);
    fail(PROBLEM, "%s: %.256s has schema '%.64s'; this command knows " HAK_STATS_SCHEMA, command,
         name, found);
}

source_t source_read(const char *command, const char *what) {
    source_t source = {.pid = live_process_of(what)};
    static char *copy; /* until the next one */
    char *text = source.pid ? read_process(command, source.pid, &source.size)
                            : read_file(command, what, &source.size);
    free(copy);
    copy = malloc(source.size + 1);
    if (!copy) fail(PROBLEM, "%s: no memory", command);
    memcpy(copy, text, source.size);
    source.text = text;
    source.root = parse(command, what, copy, source.size);
    return source;
}
