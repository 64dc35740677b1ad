/* options.c: `hakmem options`: all options, with the values that the present environment sets. */
#include "command.h"

#include <stdio.h>
#include <string.h>

#include "options/load.h"
#include "options/options.h"

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

static void print_all(void) {
    printf("%-28s %-14s %-12s %s\n", "OPTION", "VALUE", "SOURCE", "ACCEPTED");
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_t option = (hak_option_t)i;
        hak_option_row_t row = hak_option_row(option);
        char value[5000];
        hak_option_format_now(option, value, sizeof value);
        printf("%-28s %-14s %-12s %s%s%s\n", row.name, *value ? value : "-",
               hak_option_sources[hak_option_source(option)], row.accepted, *row.unit ? " " : "",
               row.unit);
        snprintf(value, sizeof value, "%s%s",
                 row.kind == HAK_OPTION_IS_OBSOLETE ? "obsolete: " : "", row.help);
        print_wrapped(value, 0, 4, 72);
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
    print_wrapped(row.help, 0, 2, 76);
}

int command_options(int argc, char **argv) {
    if (argc > 2) fail(STATUS_USAGE, "options: one name at most; `hakmem --help` shows the form");
    if (argc == 2 && argv[1][0] == '-')
        fail(STATUS_USAGE, "options: '%.64s' is not known; `hakmem --help` shows the form",
             argv[1]);
    int option = argc == 2 ? find_option(argv[1], STATUS_USAGE) : -1;
    hak_options_load();
    if (option < 0)
        print_all();
    else
        print_one((hak_option_t)option);
    return finish();
}
