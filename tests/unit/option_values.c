/* option_values.c: for every row of the table the values that it must accept and refuse, given by the environment and
 * by HAKMEM_CONF: value, source and warning. */
#include "options_model.h"

#include <unistd.h>

static const char *bare(int option) { return hak_option_row((hak_option_t)option).name + 7; }

static void note_obsolete(int option, char *warning, size_t size) {
    hak_option_row_t row = hak_option_row((hak_option_t)option);
    *warning = 0;
    if (row.kind == HAK_OPTION_IS_OBSOLETE)
        snprintf(warning, size, "hakmem: option %s is obsolete and does nothing: %s\n", row.name,
                 row.help);
}

/* A variable that is set to nothing counts as not set. */
static void expect_unset(int option) {
    char variable[100];
    model_reset();
    snprintf(variable, sizeof variable, "HAKMEM_%s=", bare(option));
    expect_one(variable, "");
}

/* `text` is taken, and reads back as `value`. */
static void expect_taken(int option, const char *text, const char *value) {
    char variable[5000], warning[400];
    int64_t profile = 0;
    if (option == HAK_OPTION_PROFILE)
        assert_true(
            hak_option_parse(HAK_OPTION_PROFILE, (hak_text_t){text, strlen(text)}, &profile));
    note_obsolete(option, warning, sizeof warning);

    model_reset();
    model_profile(profile);
    if (*text) {
        model_set(option, value, "environment");
        snprintf(variable, sizeof variable, "HAKMEM_%s=%s", bare(option), text);
        expect_one(variable, warning);
    } else {
        expect_unset(option);
    }

    if (option == HAK_OPTION_CONF) return;
    model_set(option, value, "conf");
    snprintf(variable, sizeof variable, "HAKMEM_CONF=%s:%s", bare(option), text);
    model_set(HAK_OPTION_CONF, variable + 12, "environment");
    expect_one(variable, warning);
}

/* A size in the largest unit of 1,024 that divides it, up to G. */
static void size_text(char text[24], long long size) {
    static const char *const letters[] = {"", "K", "M", "G"};
    int unit = 0;
    for (; size >= 1024 && size % 1024 == 0 && unit < 3; unit++) size /= 1024;
    snprintf(text, 24, "%lld%s", size, letters[unit]);
}

static void accepted_sizes(const hak_option_row_t *row, char *text, size_t size) {
    char least[24], most[24], words[100] = "";
    size_text(least, row->least);
    size_text(most, row->most);
    if (row->kind == HAK_OPTION_IS_EITHER) {
        snprintf(words, sizeof words, "%s", row->accepted);
        strrchr(words, '|')[1] = 0;
    }
    snprintf(text, size, "%s%s%s..%s bytes, with K, M or G", *words ? "one of " : "a size in ",
             words, least, most);
}

static void accepted_words(int option, char *text, size_t size) {
    hak_option_row_t row = hak_option_row((hak_option_t)option);
    if (strcmp(row.unit, "bytes") == 0)
        accepted_sizes(&row, text, size);
    else if (row.kind == HAK_OPTION_IS_WORD || row.kind == HAK_OPTION_IS_EITHER)
        snprintf(text, size, "one of %s%s%s", row.accepted, *row.unit ? " " : "", row.unit);
    else if (row.kind == HAK_OPTION_IS_TEXT)
        snprintf(text, size, "a text below %zu bytes", row.text_size);
    else
        snprintf(text, size, "a number in %lld..%lld%s%s", (long long)row.least,
                 (long long)row.most, *row.unit ? " " : "", row.unit);
}

/* The default is kept, and one line has the accepted range. */
static void expect_refused(int option, const char *text) {
    char variable[5000], warning[1000], accepted[600];
    accepted_words(option, accepted, sizeof accepted);
    if (*text) {
        model_reset();
        snprintf(variable, sizeof variable, "HAKMEM_%s=%s", bare(option), text);
        snprintf(warning, sizeof warning,
                 "hakmem: option HAKMEM_%s: '%.64s' is not %s; it is ignored\n", bare(option), text,
                 accepted);
        expect_one(variable, warning);
    } else {
        expect_unset(option);
    }

    model_reset();
    if (option == HAK_OPTION_CONF || strchr(text, ',')) return;
    snprintf(variable, sizeof variable, "HAKMEM_CONF=HAKMEM_%s:%s", bare(option), text);
    model_set(HAK_OPTION_CONF, variable + 12, "environment");
    snprintf(warning, sizeof warning,
             "hakmem: option HAKMEM_%s in HAKMEM_CONF: '%.64s' is not %s; it is ignored\n",
             bare(option), text, accepted);
    expect_one(variable, warning);
}

static void without_variables_the_defaults_hold(void **state) {
    (void)state;
    model_reset();
    expect_one("OTHER=1", "");
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_row_t row = hak_option_row((hak_option_t)i);
        if (hak_option_is_number(row.kind))
            REQUIRE(row.fallback >= row.least && row.fallback <= row.most,
                    "the default of %s is out of its range", row.name);
        if (row.kind == HAK_OPTION_IS_WORD) assert_string_not_equal(model[i].value, "");
        assert_true(strlen(row.help) > 20 && strlen(row.name) < 64);
        assert_int_equal(hak_option_find((hak_text_t){row.name, strlen(row.name)}), i);
        assert_int_equal(hak_option_find((hak_text_t){bare(i), strlen(bare(i))}), i);
    }
}

static void every_word_is_taken_and_no_other(void **state) {
    (void)state;
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_row_t row = hak_option_row((hak_option_t)i);
        if (row.kind != HAK_OPTION_IS_WORD && row.kind != HAK_OPTION_IS_EITHER) continue;
        char words[400];
        snprintf(words, sizeof words, "%s", row.accepted);
        if (row.kind == HAK_OPTION_IS_EITHER) { /* a range is no word, as a text */
            char *range = strrchr(words, '|');
            expect_refused(i, range + 1);
            *range = 0;
        }
        expect_refused(i, words);
        expect_refused(i, "");
        expect_refused(i, "rubbish");
        for (char *rest = words, *word; (word = strtok_r(rest, "|", &rest)) != NULL;) {
            expect_taken(i, word, word);
            word[strlen(word) - 1] = 0;
            expect_refused(i, word);
        }
    }
}

/* The default is kept, and one line says why. */
static void expect_debug_only(int option, const char *text) {
    char variable[100], warning[200];
    model_reset();
    snprintf(variable, sizeof variable, "HAKMEM_%s=%s", bare(option), text);
    snprintf(warning, sizeof warning,
             "hakmem: option HAKMEM_%s needs the debug build (make debug); it is ignored\n",
             bare(option));
    expect_one(variable, warning);
    snprintf(variable, sizeof variable, "HAKMEM_CONF=%s:%s", bare(option), text);
    snprintf(warning, sizeof warning,
             "hakmem: option HAKMEM_%s in HAKMEM_CONF needs the debug build (make debug); it is "
             "ignored\n",
             bare(option));
    model_set(HAK_OPTION_CONF, variable + 12, "environment");
    expect_one(variable, warning);
}

static void both_ends_of_a_range_are_taken_and_nothing_beyond(void **state) {
    (void)state;
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_row_t row = hak_option_row((hak_option_t)i);
        char text[40];
        if (!hak_option_is_number(row.kind) && row.kind != HAK_OPTION_IS_EITHER) continue;
        const long long ends[] = {row.least, row.most};
        for (int end = 0; end < 2; end++) {
            snprintf(text, sizeof text, "%lld", ends[end]);
            if (hak_option_is_served(&row, ends[end]))
                expect_taken(i, text, text);
            else
                expect_debug_only(i, text);
            snprintf(text, sizeof text, "%lld", ends[end] + (end ? 1 : -1));
            expect_refused(i, text);
        }
        expect_refused(i, "rubbish");
    }
}

static void a_text_has_a_longest_length(void **state) {
    (void)state;
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_row_t row = hak_option_row((hak_option_t)i);
        char text[5000] = "";
        if (row.kind != HAK_OPTION_IS_TEXT) continue;
        assert_true(row.text_size < sizeof text);
        expect_taken(i, "", "");
        /* A comma is nothing at all to HAKMEM_CONF, and ends a value within it. */
        memset(text, i == HAK_OPTION_CONF ? ',' : 'x', row.text_size);
        expect_refused(i, text);
        text[row.text_size - 1] = 0;
        expect_taken(i, text, text);
    }
}

static void an_obsolete_option_takes_anything_and_says_so_once(void **state) {
    (void)state;
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        if (hak_option_row((hak_option_t)i).kind != HAK_OPTION_IS_OBSOLETE) continue;
        char variable[100], conf[100], warning[400];
        expect_taken(i, "", "");
        expect_taken(i, "1", "");
        expect_taken(i, "rubbish", "");
        model_reset();
        model_set(i, "", "environment");
        snprintf(variable, sizeof variable, "HAKMEM_%s=1", bare(i));
        snprintf(conf, sizeof conf, "HAKMEM_CONF=%s:1,%s:2", bare(i), bare(i));
        model_set(HAK_OPTION_CONF, conf + 12, "environment");
        note_obsolete(i, warning, sizeof warning);
        const char *environment[] = {conf, variable, NULL};
        expect(environment, warning);
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
        "1kk",
        "1Ki",
        "1t",
        "k",
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
    for (size_t i = 0; i < sizeof rubbish / sizeof *rubbish; i++)
        expect_refused(HAK_OPTION_PURGE_DELAY_MS, rubbish[i]);
}

static void sizes_have_suffixes(void **state) {
    (void)state;
    expect_taken(HAK_OPTION_CACHE_BUDGET, "65536", "65536");
    expect_taken(HAK_OPTION_CACHE_BUDGET, "64K", "65536");
    expect_taken(HAK_OPTION_CACHE_BUDGET, "3M", "3145728");
    expect_taken(HAK_OPTION_CACHE_BUDGET, "2G", "2147483648");
    expect_taken(HAK_OPTION_CACHE_BUDGET, "0065536", "65536");
    expect_taken(HAK_OPTION_CACHE_BUDGET, "64k", "65536");
    expect_taken(HAK_OPTION_LIMIT, "512m", "536870912");
    expect_taken(HAK_OPTION_LIMIT, "2g", "2147483648");
    model_reset();
    expect_one("HAKMEM_LIMIT=512mb",
               "hakmem: option HAKMEM_LIMIT: '512mb' is not a size in 0..1048576G bytes, with K, M "
               "or G; it is ignored\n");
    expect_one("HAKMEM_LIMIT_SOFT=1",
               "hakmem: option HAKMEM_LIMIT_SOFT: '1' is not one of 0|auto|4K..1048576G bytes, "
               "with K, M or G; it is ignored\n");
}

/* As a script makes it that passes on what it was not given. */
static void a_variable_set_to_nothing_is_not_set(void **state) {
    (void)state;
    static const char *const environment[] = {"HAKMEM_PROFILE=",    "HAKMEM_LIMIT=",
                                              "HAKMEM_NO_SUCH=",    "HAKMEM_CONF=LIMIT:1M",
                                              "HAKMEM_ERROR_FILE=", NULL};
    model_reset();
    model_set(HAK_OPTION_LIMIT, "1048576", "conf");
    model_set(HAK_OPTION_CONF, "LIMIT:1M", "environment");
    expect(environment, "");
    for (int i = 0; i < HAK_OPTION_COUNT; i++) expect_unset(i);
}

/* A terminal would execute them. */
static void a_warning_has_no_control_character(void **state) {
    (void)state;
    model_reset();
    char warning[1000], accepted[600];
    accepted_words(HAK_OPTION_SHARDS, accepted, sizeof accepted);
    snprintf(warning, sizeof warning,
             "hakmem: option HAKMEM_SHARDS: '?[31m1??2' is not %s; it is ignored\n", accepted);
    expect_one("HAKMEM_SHARDS=\33[31m1\n\x9b"
               "2",
               warning);
    expect_one(
        "HAKMEM_\33[2J=1",
        "hakmem: unknown option HAKMEM_?[2J is ignored; `hakmem options --all` lists them\n");
    model_set(HAK_OPTION_CONF, "\33c", "environment");
    expect_one("HAKMEM_CONF=\33c",
               "hakmem: option HAKMEM_CONF: '?c' is not name:value; it is ignored\n");
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        print_options();
        _exit(0); /* without the reports that some values ask for */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_variables_the_defaults_hold),
        cmocka_unit_test(every_word_is_taken_and_no_other),
        cmocka_unit_test(both_ends_of_a_range_are_taken_and_nothing_beyond),
        cmocka_unit_test(a_text_has_a_longest_length),
        cmocka_unit_test(an_obsolete_option_takes_anything_and_says_so_once),
        cmocka_unit_test(rubbish_is_no_number),
        cmocka_unit_test(sizes_have_suffixes),
        cmocka_unit_test(a_variable_set_to_nothing_is_not_set),
        cmocka_unit_test(a_warning_has_no_control_character),
    };
    return cmocka_run_group_tests_name("option_values", tests, NULL, NULL);
}
