/* options.c: for every row of the tables the values that it must accept and refuse, given by the
 * environment, HAKMEM_CONF and profiles: value, source and warning.
 *
 * A process reads the environment once, so for each case this program runs again, with that environment.
 * It prints all options after what the engine printed. The expected output comes from a model here,
 * which applies the sources in the order of their precedence. */
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options/load.h"
#include "options/options.h"
#include "options/profiles.h"
#include "os/os.h"

enum { SECONDS = 20, SHOWN = 40 };

/* ---- The child ------------------------------------------------------------------------------- */

static const char claim[] = "CLAIM_RAISED_RIGHTS=1"; /* in the environment */

char **__real_hak_os_environment(bool *secure);
char **__wrap_hak_os_environment(bool *secure);
char **__wrap_hak_os_environment(bool *secure) {
    char **environment = __real_hak_os_environment(secure);
    for (char **at = environment; at && *at; at++)
        if (strcmp(*at, claim) == 0) *secure = true;
    return environment;
}

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

/* ---- One option, by the environment and by HAKMEM_CONF ----------------------------------------- */

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

/* ---- Names that are none ---------------------------------------------------------------------- */

static void an_unknown_option_is_named(void **state) {
    (void)state;
    static const struct {
        const char *name, *meant;
    } cases[] = {
        {"PURGE_DELAY", "PURGE_DELAY_MS"},
        {"PURGE_DELAY_MSS", "PURGE_DELAY_MS"},
        {"purge_delay_ms", "PURGE_DELAY_MS"},
        {"PURGE_DALEY_MS", "PURGE_DELAY_MS"},
        {"ON_ERROR ", "ON_ERROR"},
        {"ON", NULL},
        {"", NULL},
        {"HAKMEM_SHARDS", NULL},
        {"SOMETHING_ELSE", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char variable[100], warning[300], hint[100] = "; `hakmem options --all` lists them";
        if (cases[i].meant)
            snprintf(hint, sizeof hint, "; did you mean HAKMEM_%s?", cases[i].meant);
        model_reset();
        snprintf(variable, sizeof variable, "HAKMEM_%s=1", cases[i].name);
        snprintf(warning, sizeof warning, "hakmem: unknown option HAKMEM_%s is ignored%s\n",
                 cases[i].name, hint);
        expect_one(variable, warning);
    }
}

static void a_long_unknown_name_is_cut(void **state) {
    (void)state;
    char variable[2000] = "HAKMEM_", warning[300];
    memset(variable + 7, 'Q', 1900);
    strcpy(variable + 1907, "=1");
    model_reset();
    snprintf(warning, sizeof warning,
             "hakmem: unknown option %.*s is ignored; `hakmem options --all` lists them\n", 7 + 64,
             variable);
    expect_one(variable, warning);
}

static void other_names_are_left_alone(void **state) {
    (void)state;
    static const char *const variables[] = {"HAKMEM_BENCH_X=1", "HAKMEM=1", "hakmem_SHARDS=3",
                                            "XHAKMEM_SHARDS=3", "HAKMEM_"};
    model_reset();
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) expect_one(variables[i], "");
}

/* ---- Several at once -------------------------------------------------------------------------- */

static void what_is_nearer_wins(void **state) {
    (void)state;
    const char *environment[] = {"HAKMEM_SHARDS=3",
                                 "HAKMEM_CONF=SHARDS:4,TRYLOCK_PROBES:5,,HAKMEM_TRYLOCK_PROBES:6,"
                                 "PURGE_DELAY_MS:70,",
                                 "HAKMEM_SHARDS=7", "HAKMEM_PROFILE=LOWMEM", NULL};
    model_reset();
    model_profile(HAK_PROFILE_LOWMEM);
    model_set(HAK_OPTION_PROFILE, "LOWMEM", "environment");
    model_set(HAK_OPTION_CONF, environment[1] + 12, "environment");
    model_set(HAK_OPTION_SHARDS, "3", "environment");  /* the first, as for getenv */
    model_set(HAK_OPTION_TRYLOCK_PROBES, "6", "conf"); /* the last */
    model_set(HAK_OPTION_PURGE_DELAY_MS, "70", "conf");
    expect(environment, "");
}

static void a_broken_conf_is_told(void **state) {
    (void)state;
    model_reset();
    model_set(HAK_OPTION_CONF, "SHARDS=3,CONF:x,:,SHARDS:2,BENCH_X:1", "environment");
    model_set(HAK_OPTION_SHARDS, "2", "conf");
    expect_one(
        "HAKMEM_CONF=SHARDS=3,CONF:x,:,SHARDS:2,BENCH_X:1",
        "hakmem: option HAKMEM_CONF: 'SHARDS=3' is not name:value; it is ignored\n"
        "hakmem: option HAKMEM_CONF in HAKMEM_CONF is ignored\n"
        "hakmem: unknown option HAKMEM_ in HAKMEM_CONF is ignored; `hakmem options --all` lists "
        "them\n"
        "hakmem: unknown option HAKMEM_BENCH_X in HAKMEM_CONF is ignored; `hakmem options --all` "
        "lists them\n");
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

static void a_profile_sets_what_its_rows_say(void **state) {
    (void)state;
    unsigned count[HAK_PROFILE_COUNT] = {0};
    for (size_t i = 0; i < hak_profile_row_count; i++) {
        hak_option_t option = hak_profile_rows[i].option;
        assert_true(option != HAK_OPTION_PROFILE && option != HAK_OPTION_CONF);
        assert_int_not_equal(hak_option_row(option).kind, HAK_OPTION_IS_OBSOLETE);
        count[hak_profile_rows[i].profile]++;
    }
    for (int i = 1; i < HAK_PROFILE_COUNT; i++) assert_true(count[i] > 0);
}

/* The standard profile, with one of its settings taken back. */
static void what_is_set_stands_out_of_its_profile(void **state) {
    (void)state;
    static const char *const environment[] = {"HAKMEM_PROFILE=MIXED_TINYV3_C7_SAFE",
                                              "HAKMEM_LEARN=off", NULL};
    model_reset();
    model_profile(HAK_PROFILE_MIXED_TINYV3_C7_SAFE);
    assert_string_equal(model[HAK_OPTION_TINY_POLICY_PROFILE].value, "c5_7_only");
    assert_string_equal(model[HAK_OPTION_LEARN].value, "observe");
    model_set(HAK_OPTION_PROFILE, "MIXED_TINYV3_C7_SAFE", "environment");
    model_set(HAK_OPTION_LEARN, "off", "environment");
    expect(environment, "");
}

static void with_raised_rights_the_environment_is_ignored(void **state) {
    (void)state;
    const char *environment[] = {"HAKMEM_SHARDS=3",
                                 "HAKMEM_X=1",
                                 "HAKMEM_CONF=SHARDS:99",
                                 "HAKMEM_PROFILE=none at all",
                                 claim,
                                 NULL};
    model_reset();
    expect(environment, "");
}

/* The same with a copy of this program that really has them; only root can make one, and not on
 * every file system. */
static void run_copy(const void *context) {
    const char *arguments[] = {context, "tell-secure", NULL};
    const char *environment[] = {"HAKMEM_SHARDS=3", "HAKMEM_X=1", NULL};
    execve(context, (char **)(uintptr_t)arguments, (char **)(uintptr_t)environment);
    fputs("not secure\n", stderr); /* mounted noexec */
}

static void a_setuid_program_ignores_the_environment(void **state) {
    (void)state;
    char path[] = "/tmp/hakmem-options-XXXXXX", buffer[65536];
    if (geteuid() != 0) return;
    int to = mkstemp(path), from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(to >= 0 && from >= 0);
    for (ssize_t got; (got = read(from, buffer, sizeof buffer)) > 0;)
        assert_int_equal(write(to, buffer, (size_t)got), got);
    bool is_made = fchown(to, 65534, 65534) == 0 && fchmod(to, 04755) == 0;
    close(from);
    close(to);
    if (!is_made) { /* root of a container, without that right or that user */
        unlink(path);
        return;
    }
    struct child_end end;
    child_run(run_copy, path, SECONDS, &end);
    unlink(path);
    REQUIRE(end.in_time && end.status == 0, "status %#x: %s", (unsigned)end.status, end.err);
    if (strstr(end.err, "not secure\n")) return; /* mounted nosuid, or no new rights for anybody */
    assert_true(strncmp(end.err, "HAKMEM_PROFILE=none (default)\n", 30) == 0);
    assert_non_null(strstr(end.err, "HAKMEM_SHARDS=0 (default)\n"));
    assert_int_equal(unit_line_count(end.err), HAK_OPTION_COUNT);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        if (strcmp(argv[1], "tell-secure") == 0 && !getauxval(AT_SECURE))
            fputs("not secure\n", stderr);
        print_options();
        _exit(0); /* a sanitizer's last look needs rights that the setuid copy has not */
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
        cmocka_unit_test(an_unknown_option_is_named),
        cmocka_unit_test(a_long_unknown_name_is_cut),
        cmocka_unit_test(other_names_are_left_alone),
        cmocka_unit_test(what_is_nearer_wins),
        cmocka_unit_test(a_broken_conf_is_told),
        cmocka_unit_test(a_warning_has_no_control_character),
        cmocka_unit_test(a_profile_sets_what_its_rows_say),
        cmocka_unit_test(what_is_set_stands_out_of_its_profile),
        cmocka_unit_test(with_raised_rights_the_environment_is_ignored),
        cmocka_unit_test(a_setuid_program_ignores_the_environment),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
