/* options.c: `hakmem options`: the options for users, or all of them, with the values that the present
 * environment sets. */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "options/environment.h"
#include "options/options.h"

/* For whom an option is, and when to touch it. */
typedef enum { TUNING, USER, LOOKING, HISTORY, GROUPS } group_t;

static const struct {
    group_t group;
    const char *when;
} advice[HAK_OPTION_COUNT] = {
#define OPTION_WHEN(name, group, when) [HAK_OPTION_##name] = {group, when},
#include "when.def"
#undef OPTION_WHEN
};

static const group_t group_order[GROUPS] = {USER, TUNING, LOOKING, HISTORY};
static const char *const group_titles[GROUPS] = {
    [USER] = "For users",
    [TUNING] = "For measured tuning",
    [LOOKING] = "To see what HAKMEM does",
    [HISTORY] = "Of the predecessor, and for comparisons",
};

void print_wrapped(const char *text, int first, int indent, int width) {
    int column = 0;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + length > width) {
            putchar('\n');
            column = 0;
        }
        if (column == 0)
            printf("%*s%.*s", indent - first, "", length, text);
        else
            printf(" %.*s", length, text);
        first = 0;
        column += length + (column > 0);
        text += length + (text[length] == ' ');
    }
    putchar('\n');
}

static void print_row(hak_option_t option) {
    hak_option_row_t row = hak_option_row(option);
    char value[5000];
    hak_option_format_now(option, value, sizeof value);
    printf("%-32s %-12s %-12s %s%s%s\n", row.name, *value ? value : "-",
           hak_option_sources[hak_option_source(option)], row.accepted, *row.unit ? " " : "",
           row.unit);
}

static void print_text(const char *lead, const char *text) {
    char line[5000];
    snprintf(line, sizeof line, "%s%s", lead, text);
    print_wrapped(line, 0, 4, 76);
}

static void print_group(group_t group, bool with_help) {
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        if (advice[i].group != group) continue;
        hak_option_row_t row = hak_option_row((hak_option_t)i);
        print_row((hak_option_t)i);
        if (with_help) print_text(row.kind == HAK_OPTION_IS_OBSOLETE ? "obsolete: " : "", row.help);
        if (advice[i].when) printf("    when: %s\n", advice[i].when);
    }
}

static void print_head(void) {
    printf("%-32s %-12s %-12s %s\n", "OPTION", "VALUE", "SOURCE", "ACCEPTED");
}

static void print_users(void) {
    print_head();
    print_group(USER, false);
    printf("\n`hakmem options NAME` explains one; `hakmem options --all` shows all %d.\n",
           HAK_OPTION_COUNT);
}

static void print_all(void) {
    print_head();
    for (int i = 0; i < GROUPS; i++) {
        printf("\n%s\n\n", group_titles[group_order[i]]);
        print_group(group_order[i], true);
    }
}

static void print_one(hak_option_t option) {
    hak_option_row_t row = hak_option_row(option);
    char value[5000], standard[100];
    hak_option_format_now(option, value, sizeof value);
    hak_option_format(option, row.fallback, standard, sizeof standard);
    printf("%s\n", row.name);
    printf("  value     %s\n", *value ? value : "-");
    printf("  source    %s\n", hak_option_sources[hak_option_source(option)]);
    printf("  default   %s\n", *standard ? standard : "-");
    printf("  type      %s\n", hak_option_kinds[row.kind]);
    printf("  accepted  %s%s%s\n", row.accepted, *row.unit ? " " : "", row.unit);
    printf("  tier      %s\n", hak_option_tiers[row.tier]);
    printf("  change    %s\n", row.any_time ? "at any time, by hakmem_option_set" : "before start");
    if (advice[option].when) printf("  when      %s\n", advice[option].when);
    print_wrapped(row.help, 0, 2, 76);
}

int command_options(int argc, char **argv) {
    int status;
    if (argc > 1 && translate_options(argc, argv, &status)) return status;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-' && strcmp(argv[i], "--all") != 0)
            fail(STATUS_USAGE, "options: '%.64s' is not known; `hakmem --help` shows the form",
                 argv[i]);
    if (argc > 2) fail(STATUS_USAGE, "options: one name at most; `hakmem --help` shows the form");
    bool all = argc == 2 && strcmp(argv[1], "--all") == 0;
    int option = argc == 2 && !all ? find_option(argv[1], STATUS_USAGE) : -1;
    hak_options_load();
    if (option >= 0)
        print_one((hak_option_t)option);
    else if (all)
        print_all();
    else
        print_users();
    return finish();
}
