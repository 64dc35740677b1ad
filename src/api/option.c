/* option.c: the public functions that read, change and list options. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/export.h"
#include "options/environment.h"
#include "options/options.h"
#include "policy/band_cost.h"
#include "stats/exit.h"
#include "thread/thread.h"

/* Index of a named option, -1 when there is none. Loads the options first. */
static int find(const char *name) {
    hak_options_load();
    return hak_option_find((hak_text_t){name, strlen(name)});
}

/* Writes a value that was read once: another thread may set the option meanwhile. */
static int format(hak_option_t option, int64_t value, char *text, size_t size) {
    return hak_option_row(option).kind == HAK_OPTION_IS_TEXT
               ? hak_option_format_now(option, text, size)
               : hak_option_format(option, value, text, size);
}

int hakmem_option_get(const char *name, char *value, size_t size) {
    int option = find(name);
    if (option < 0) return ENOENT;
    const int64_t now = hak_option((hak_option_t)option);
    int needed = format((hak_option_t)option, now, NULL, 0);
    if (needed < 0 || (size_t)needed >= size) return ERANGE;
    format((hak_option_t)option, now, value, size);
    return 0;
}

int hakmem_option_set(const char *name, const char *value) {
    int option = find(name);
    int64_t number;
    hak_text_t text = {value, strlen(value)};
    if (option < 0) return ENOENT;
    if (!hak_option_parse((hak_option_t)option, text, &number)) return EINVAL;
    hak_option_row_t row = hak_option_row((hak_option_t)option);
    if (!row.any_time) return EPERM;
    if (!hak_option_is_served(&row, number)) return ENOTSUP;
    hak_option_assign((hak_option_t)option, text, HAK_SOURCE_PROGRAM);
    if (option == HAK_OPTION_TINY_POLICY_PROFILE || option == HAK_OPTION_LEARN)
        hak_band_cost_apply();
    if (hak_stats_wanted()) hak_stats_prepare();
    hak_thread_apply_options();
    return 0;
}

int hakmem_option_info(size_t index, struct hakmem_option *option, size_t size) {
    hak_options_load();
    if (index >= HAK_OPTION_COUNT) return ENOENT;
    hak_option_row_t row = hak_option_row((hak_option_t)index);
    struct hakmem_option info = {
        .name = row.name,
        .type = hak_option_kinds[row.kind],
        .unit = row.unit,
        .accepted = row.accepted,
        .help = row.help,
        .tier = hak_option_tiers[row.tier],
        .source = hak_option_sources[hak_option_source((hak_option_t)index)],
        .is_changeable = row.any_time,
    };
    hak_option_format((hak_option_t)index, row.fallback, info.default_value,
                      sizeof info.default_value);
    memset(option, 0, size);
    memcpy(option, &info, hak_min(size, sizeof info));
    return 0;
}
