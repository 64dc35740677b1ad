/* options_model.h - what the options of a process must be, by a model that applies the sources in the order of their
 * precedence; for the tests of options.c and option_values.c.
 *
 * A process reads the environment once, so for each case the program runs again, with that environment and the word
 * "print". It prints all options after what the engine printed. */
#pragma once

#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/environment.h"
#include "options/options.h"
#include "options/profiles.h"
#include "os/os.h"

enum { SECONDS = 20, SHOWN = 40 };

/* ---- The child ------------------------------------------------------------------------------- */

static void print_line(hak_option_t option, const char *value, const char *source, char *line,
                       size_t size) {
    snprintf(line, size, "%s=%.*s (%s)\n", hak_option_row(option).name, SHOWN, value, source);
}

static void print_options(void) {
    hak_options_load();
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        char value[5000], line[200];
        hak_option_format_now((hak_option_t)i, value, sizeof value);
        print_line((hak_option_t)i, value, hak_option_sources[hak_option_source((hak_option_t)i)],
                   line, sizeof line);
        fputs(line, stderr);
    }
}

/* ---- The model ------------------------------------------------------------------------------- */

typedef struct {
    char value[SHOWN + 1];
    const char *source;
} setting_t;

static setting_t model[HAK_OPTION_COUNT];

static void model_set(int option, const char *value, const char *source) {
    snprintf(model[option].value, sizeof model[option].value, "%s", value);
    model[option].source = source;
}

static void model_reset(void) {
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        char value[100];
        hak_option_format((hak_option_t)i, hak_option_row((hak_option_t)i).fallback, value,
                          sizeof value);
        model_set(i, value, "default");
    }
}

/* What a profile sets, as it looks when it is read back. */
static void model_profile(int64_t profile) {
    for (size_t i = 0; i < hak_profile_row_count; i++) {
        const hak_profile_row_t *row = &hak_profile_rows[i];
        char value[100];
        int64_t number;
        if ((int64_t)row->profile != profile) continue;
        REQUIRE(
            hak_option_parse(row->option, (hak_text_t){row->value, strlen(row->value)}, &number),
            "profile %lld: %s does not take '%s'", (long long)profile,
            hak_option_row(row->option).name, row->value);
        hak_option_format(row->option, number, value, sizeof value);
        model_set((int)row->option, value, "profile");
    }
}

/* larson_guard brings a budget along, unless one is set. */
static void model_tiny_profile(void) {
    if (strcmp(model[HAK_OPTION_TINY_PROFILE].value, "larson_guard") == 0 &&
        strcmp(model[HAK_OPTION_SS_BUDGET].source, "default") == 0)
        model_set(HAK_OPTION_SS_BUDGET, "64", "profile");
}

/* The child in this environment must print `warnings` and then the model. */
static void expect(const char *const *environment, const char *warnings) {
    char expected[8192];
    model_tiny_profile();
    struct child_end end;
    size_t size = (size_t)snprintf(expected, sizeof expected, "%s", warnings);
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        print_line((hak_option_t)i, model[i].value, model[i].source, expected + size,
                   sizeof expected - size);
        size += strlen(expected + size);
    }
    expected[hak_min(size, sizeof end.err - 1)] = 0;
    unit_rerun("print", environment, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "%s: status %#x: %s", environment[0],
            (unsigned)end.status, end.err);
    REQUIRE(strcmp(end.err, expected) == 0, "%s: printed\n%s\ninstead of\n%s", environment[0],
            end.err, expected);
}

static void expect_one(const char *variable, const char *warnings) {
    const char *environment[] = {variable, NULL};
    expect(environment, warnings);
}
