/* options.c: what the sources of options mean together: names that are none, which source wins, broken HAKMEM_CONF,
 * profiles, and programs with raised rights. */
#include "options_model.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The child's environment ------------------------------------------------------------------ */

static const char claim[] = "CLAIM_RAISED_RIGHTS=1"; /* in the environment */

char **__real_hak_os_environment(bool *secure);
char **__wrap_hak_os_environment(bool *secure);
char **__wrap_hak_os_environment(bool *secure) {
    char **environment = __real_hak_os_environment(secure);
    for (char **at = environment; at && *at; at++)
        if (strcmp(*at, claim) == 0) *secure = true;
    return environment;
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
        cmocka_unit_test(an_unknown_option_is_named),
        cmocka_unit_test(a_long_unknown_name_is_cut),
        cmocka_unit_test(other_names_are_left_alone),
        cmocka_unit_test(what_is_nearer_wins),
        cmocka_unit_test(a_broken_conf_is_told),
        cmocka_unit_test(a_profile_sets_what_its_rows_say),
        cmocka_unit_test(what_is_set_stands_out_of_its_profile),
        cmocka_unit_test(with_raised_rights_the_environment_is_ignored),
        cmocka_unit_test(a_setuid_program_ignores_the_environment),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
