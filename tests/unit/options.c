/* options.c: every row of options.def by what it must take and must refuse.
 *
 * The environment is read once in a process; so each case is this program run again, in just that
 * environment. It prints the values of all options after what the engine printed. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/options.h"

enum { SECONDS = 10 };

typedef struct {
    const char *name;
    const char *words; /* NULL for a number */
    const char *unit;
    long long least, most, fallback;
} option_t;

static const option_t options[HAK_OPTION_COUNT] = {
#define OPTION_WORD(name, words, fallback, help) {#name, words, "", 0, 0, fallback},
#define OPTION_NUMBER(name, unit, least, most, fallback, help) \
    {#name, NULL, unit, least, most, fallback},
#include "options/options.def"
#undef OPTION_WORD
#undef OPTION_NUMBER
};

static void print_values(void) {
    hak_options_load();
    for (unsigned i = 0; i < HAK_OPTION_COUNT; i++)
        fprintf(stderr, "%s=%lld\n", options[i].name, (long long)hak_option((hak_option_t)i));
}

/* With one variable the child must print `warning`, and have `value` as that option's value (any
 * row beyond the last: none) and the fallbacks for all others. */
static void expect(const char *variable, unsigned row, long long value, const char *warning) {
    char expected[4096];
    int size = snprintf(expected, sizeof expected, "%s", warning);
    for (unsigned i = 0; i < HAK_OPTION_COUNT; i++)
        size += snprintf(expected + size, sizeof expected - (size_t)size, "%s=%lld\n",
                         options[i].name, i == row ? value : options[i].fallback);
    const char *environment[] = {variable, NULL};
    struct child_end end;
    unit_rerun("print", environment, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "%s: status %#x", variable, (unsigned)end.status);
    REQUIRE(strcmp(end.err, expected) == 0, "%s: printed\n%s\ninstead of\n%s", variable, end.err,
            expected);
}

static void expect_taken(unsigned row, const char *text, long long value) {
    char variable[200];
    snprintf(variable, sizeof variable, "HAKMEM_%s=%s", options[row].name, text);
    expect(variable, row, value, "");
}

static void expect_refused(unsigned row, const char *text) {
    const option_t *option = &options[row];
    char variable[400], accepted[200], warning[800];
    if (option->words)
        snprintf(accepted, sizeof accepted, "one of %s", option->words);
    else
        snprintf(accepted, sizeof accepted, "a number in %lld..%lld%s%s", option->least,
                 option->most, *option->unit ? " " : "", option->unit);
    snprintf(variable, sizeof variable, "HAKMEM_%s=%s", option->name, text);
    snprintf(warning, sizeof warning,
             "hakmem: option HAKMEM_%s: '%.64s' is not %s; the default is kept\n", option->name,
             text, accepted);
    expect(variable, row, option->fallback, warning);
}

static void without_variables_the_defaults_hold(void **state) {
    (void)state;
    expect("OTHER=1", HAK_OPTION_COUNT, 0, "");
    for (unsigned row = 0; row < HAK_OPTION_COUNT; row++) {
        const option_t *option = &options[row];
        if (!option->words)
            REQUIRE(option->fallback >= option->least && option->fallback <= option->most,
                    "the default of %s is out of its range", option->name);
    }
}

static void every_word_is_taken_and_no_other(void **state) {
    (void)state;
    for (unsigned row = 0; row < HAK_OPTION_COUNT; row++) {
        if (!options[row].words) continue;
        char words[200];
        long long index = 0;
        snprintf(words, sizeof words, "%s", options[row].words);
        expect_refused(row, words);
        for (char *rest = words, *word; (word = strtok_r(rest, "|", &rest)) != NULL; index++) {
            expect_taken(row, word, index);
            word[strlen(word) - 1] = 0;
            expect_refused(row, word);
        }
        assert_true(options[row].fallback >= 0 && options[row].fallback < index);
        expect_refused(row, "");
        expect_refused(row, "1");
    }
}

static void both_ends_of_a_range_are_taken_and_nothing_beyond(void **state) {
    (void)state;
    for (unsigned row = 0; row < HAK_OPTION_COUNT; row++) {
        const option_t *option = &options[row];
        char text[40];
        if (option->words) continue;
        const long long ends[] = {option->least, option->most};
        for (int i = 0; i < 2; i++) {
            snprintf(text, sizeof text, "%lld", ends[i]);
            expect_taken(row, text, ends[i]);
            snprintf(text, sizeof text, "%lld", ends[i] + (i ? 1 : -1));
            expect_refused(row, text);
        }
    }
}

static void rubbish_is_no_number(void **state) {
    (void)state;
    static const char *const rubbish[] = {
        "",
        "-",
        "x",
        "5x",
        "1KK",
        "1k",
        "K",
        " 5",
        "5 ",
        "+5",
        "0x10",
        "--1",
        "1.5",
        "1,0",
        "9223372036854775808",
        "-9223372036854775808",
        "99999999999999999999999",
        "9999999999999G",
        "a value that is longer than the sixty-four bytes that a warning repeats of it",
    };
    unsigned row = HAK_OPTION_PURGE_DELAY_MS;
    for (size_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++) expect_refused(row, rubbish[i]);
    for (row = 0; row < HAK_OPTION_COUNT; row++)
        if (!options[row].words) expect_refused(row, "rubbish");
}

static void sizes_have_suffixes(void **state) {
    (void)state;
    expect_taken(HAK_OPTION_CACHE_BUDGET, "65536", 65536);
    expect_taken(HAK_OPTION_CACHE_BUDGET, "64K", 65536);
    expect_taken(HAK_OPTION_CACHE_BUDGET, "3M", 3 << 20);
    expect_taken(HAK_OPTION_CACHE_BUDGET, "2G", 2ll << 30);
    expect_taken(HAK_OPTION_CACHE_BUDGET, "0065536", 65536);
}

static void an_unknown_option_is_named(void **state) {
    (void)state;
    static const char *const names[] = {"PURGE_DELAY", "PURGE_DELAY_MSS", "purge_delay_ms", "",
                                        "ON_ERROR "};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char variable[100], warning[300];
        snprintf(variable, sizeof variable, "HAKMEM_%s=1", names[i]);
        snprintf(warning, sizeof warning,
                 "hakmem: unknown option HAKMEM_%s is ignored; the options are in "
                 "docs/ENV_OPTIONS.md\n",
                 names[i]);
        expect(variable, HAK_OPTION_COUNT, 0, warning);
    }
}

static void a_long_unknown_name_is_cut(void **state) {
    (void)state;
    char variable[2000] = "HAKMEM_";
    struct child_end end;
    memset(variable + 7, 'Q', 1900);
    strcpy(variable + 1907, "=1");
    const char *environment[] = {variable, NULL};
    unit_rerun("print", environment, SECONDS, &end);
    assert_int_equal(end.status, 0);
    assert_int_equal(unit_line_count(end.err), 1 + HAK_OPTION_COUNT);
    assert_true(strncmp(end.err, "hakmem: unknown option HAKMEM_QQQQ", 34) == 0);
    assert_true(strcspn(end.err, "\n") < 300);
}

static void other_names_are_left_alone(void **state) {
    (void)state;
    static const char *const variables[] = {"HAKMEM_BENCH_X=1", "HAKMEM=1", "hakmem_SHARDS=3",
                                            "XHAKMEM_SHARDS=3", "HAKMEM_"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        expect(variables[i], HAK_OPTION_COUNT, 0, "");
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        print_values();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_variables_the_defaults_hold),
        cmocka_unit_test(every_word_is_taken_and_no_other),
        cmocka_unit_test(both_ends_of_a_range_are_taken_and_nothing_beyond),
        cmocka_unit_test(rubbish_is_no_number),
        cmocka_unit_test(sizes_have_suffixes),
        cmocka_unit_test(an_unknown_option_is_named),
        cmocka_unit_test(a_long_unknown_name_is_cut),
        cmocka_unit_test(other_names_are_left_alone),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
