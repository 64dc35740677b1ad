/* environment.c: sets the options from the environment, HAKMEM_CONF and HAKMEM_PROFILE.
 *
 * The option's own variable takes precedence over HAKMEM_CONF, HAKMEM_CONF over the profile,
 * the profile over the default. The sources are read in this order, and each one sets only
 * the options that are not set yet. */
#include "options/environment.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "options/options.h"
#include "options/profiles.h"
#include "os/file.h"
#include "os/os.h"

enum { SHOWN_MOST = 64 }; /* bytes of a name or value that a warning repeats */

__attribute__((format(printf, 1, 2))) static void warn(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size <= 0) return;
    size_t end = hak_min((size_t)size, sizeof line - 1);
    for (size_t i = 0; i + 1 < end; i++) line[i] = hak_printable(line[i]); /* values, names */
    hak_os_write_stderr(line, end);
}

static int shown(hak_text_t text) { return (int)hak_min(text.size, SHOWN_MOST); }

static const char *place(hak_option_source_t source) {
    return source == HAK_SOURCE_CONF ? " in HAKMEM_CONF" : "";
}

static void warn_unknown(hak_text_t name, hak_option_source_t source) {
    int closest = hak_option_closest(name);
    name = hak_option_short_name(name);
    if (closest >= 0)
        warn("hakmem: unknown option HAKMEM_%.*s%s is ignored; did you mean %s?\n", shown(name),
             name.at, place(source), hak_option_row((hak_option_t)closest).name);
    else
        warn("hakmem: unknown option HAKMEM_%.*s%s is ignored; `hakmem options --all` lists them\n",
             shown(name), name.at, place(source));
}

/* A number of bytes as an option may have it: with the largest letter that leaves nothing over. */
static int print_bytes(char *text, size_t size, int64_t bytes) {
    static const char letters[] = "KMG";
    char letter[2] = "";
    for (int i = 0; letters[i] && bytes >= 1024 && bytes % 1024 == 0; i++) {
        bytes /= 1024;
        letter[0] = letters[i];
    }
    return snprintf(text, size, "%lld%s", (long long)bytes, letter);
}

/* The words that an option takes beside the range, if any, and the range. */
static void print_sizes(const hak_option_row_t *row, char *text, size_t size) {
    char least[24], most[24];
    const char *range = hak_last_in(row->accepted, '|');
    print_bytes(least, sizeof least, row->least);
    print_bytes(most, sizeof most, row->most);
    snprintf(text, size, "%s%.*s%s..%s bytes, with K, M or G", range ? "one of " : "a size in ",
             range ? (int)(range + 1 - row->accepted) : 0, row->accepted, least, most);
}

static void warn_refused(hak_option_t option, hak_text_t value, hak_option_source_t source) {
    hak_option_row_t row = hak_option_row(option);
    char accepted[600];
    if (strcmp(row.unit, "bytes") == 0)
        print_sizes(&row, accepted, sizeof accepted);
    else if (hak_option_is_number(row.kind))
        snprintf(accepted, sizeof accepted, "a number in %s%s%s", row.accepted,
                 *row.unit ? " " : "", row.unit);
    else if (row.kind == HAK_OPTION_IS_WORD || row.kind == HAK_OPTION_IS_EITHER)
        snprintf(accepted, sizeof accepted, "one of %s%s%s", row.accepted, *row.unit ? " " : "",
                 row.unit);
    else
        snprintf(accepted, sizeof accepted, "a text below %zu bytes", row.text_size);
    warn("hakmem: option %s%s: '%.*s' is not %s; it is ignored\n", row.name, place(source),
         shown(value), value.at, accepted);
}

/* Applies one setting. If two variables have the same name the first one counts, as for
 * getenv; if HAKMEM_CONF sets an option twice the last setting counts. */
static void apply(hak_text_t name, hak_text_t value, hak_option_source_t source) {
    int option = hak_option_find(name);
    if (option < 0) {
        warn_unknown(name, source);
        return;
    }
    hak_option_row_t row = hak_option_row((hak_option_t)option);
    hak_option_source_t before = hak_option_source((hak_option_t)option);
    int64_t number;
    if (option == HAK_OPTION_CONF && source == HAK_SOURCE_CONF) {
        warn("hakmem: option HAKMEM_CONF in HAKMEM_CONF is ignored\n");
        return;
    }
    if (!hak_option_parse((hak_option_t)option, value, &number)) {
        warn_refused((hak_option_t)option, value, source);
        return;
    }
    if (!hak_option_is_served(&row, number)) {
        warn("hakmem: option %s%s needs the debug build (make debug); it is ignored\n", row.name,
             place(source));
        return;
    }
    if (row.kind == HAK_OPTION_IS_OBSOLETE && before == HAK_SOURCE_DEFAULT)
        warn("hakmem: option %s is obsolete and does nothing: %s\n", row.name, row.help);
    if (before > source || (before == source && source == HAK_SOURCE_ENVIRONMENT)) return;
    hak_option_assign((hak_option_t)option, value, source);
}

/* An empty variable counts as not set: scripts and container files that pass `NAME=$VALUE` on often make such
 * variables. */
static HAK_COMMON void read_variable(const char *variable) {
    static const char prefix[] HAK_NEAR = "HAKMEM_";
    static const char others[] = "HAKMEM_BENCH_"; /* variables of the lab and of the scripts */
    if (!hak_begins_with(variable, prefix, sizeof prefix - 1)) return;
    const char *equals = strchr(variable, '=');
    if (!equals || !equals[1] || hak_begins_with(variable, others, sizeof others - 1)) return;
    apply((hak_text_t){variable, (size_t)(equals - variable)},
          (hak_text_t){equals + 1, strlen(equals + 1)}, HAK_SOURCE_ENVIRONMENT);
}

/* Reads "name:value,name:value"; empty settings are skipped. */
static void read_conf(const char *conf) {
    while (*conf) {
        const char *comma = strchr(conf, ','), *colon = strchr(conf, ':');
        const size_t size = comma ? (size_t)(comma - conf) : strlen(conf);
        hak_text_t whole = {conf, size};
        if (colon && colon < conf + size) {
            hak_text_t name = {conf, (size_t)(colon - conf)};
            apply(name, (hak_text_t){colon + 1, size - name.size - 1}, HAK_SOURCE_CONF);
        } else if (size > 0) {
            warn("hakmem: option HAKMEM_CONF: '%.*s' is not name:value; it is ignored\n",
                 shown(whole), conf);
        }
        conf += size;
        if (*conf) conf++;
    }
}

static void apply_profile(int64_t profile) {
    for (size_t i = 0; i < hak_profile_row_count; i++) {
        const hak_profile_row_t *row = &hak_profile_rows[i];
        hak_text_t value = {row->value, strlen(row->value)};
        if ((int64_t)row->profile != profile) continue;
        if (hak_option_source(row->option) != HAK_SOURCE_DEFAULT) continue;
        hak_option_assign(row->option, value, HAK_SOURCE_PROFILE);
    }
}

/* larson_guard needs a budget: sets SS_BUDGET, unless another source has set it. */
static void apply_tiny_profile(void) {
    static const char budget[] = "64";
    if (!hak_option(HAK_OPTION_TINY_PROFILE)) return;
    if (hak_option_source(HAK_OPTION_SS_BUDGET) != HAK_SOURCE_DEFAULT) return;
    hak_option_assign(HAK_OPTION_SS_BUDGET, (hak_text_t){budget, sizeof budget - 1},
                      HAK_SOURCE_PROFILE);
}

static _Atomic bool is_loaded;

/* partner: hak_options_load */
HAK_COMMON bool hak_options_loaded(void) { return hak_load_acquire(&is_loaded); }

static HAK_COMMON void load(char *const *environment) {
    HAK_KEEP_ERRNO();
    for (; *environment; environment++) read_variable(*environment);
    if (hak_option_source(HAK_OPTION_CONF) != HAK_SOURCE_DEFAULT)
        read_conf(hak_option_text(HAK_OPTION_CONF));
    if (hak_option(HAK_OPTION_PROFILE)) apply_profile(hak_option(HAK_OPTION_PROFILE));
    apply_tiny_profile();
}

HAK_COMMON void hak_options_load(void) {
    static _Atomic bool unread = true; /* not zero: it lies on a page that all processes have */
    bool secure;
    char **environment = hak_os_environment(&secure);
    if (!environment || !hak_load_relaxed(&unread)) return;
    if (!atomic_exchange_explicit(&unread, false, memory_order_relaxed)) return;
    if (!secure) load(environment);
    hak_store_release(&is_loaded, true); /* partner: hak_options_loaded */
}
