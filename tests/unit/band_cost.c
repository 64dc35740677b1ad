/* band_cost.c: when the policy takes samples, what it reports, and that options act at once. Each test runs
 * in its own process, so that the policy sees no other work. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "options/environment.h"
#include "options/options.h"
#include "os/os.h"
#include "policy/band_cost.h"
#include "shard/flush.h"
#include "shard/shard.h"

enum { SECONDS = 60, C3_SIZE = 64, C4_SIZE = 128, C5_SIZE = 256 };
enum { C3 = 1 << 3, C4 = 1 << 4, C5 = 1 << 5, C7 = 1 << 7 };

static uint64_t clock_ms; /* as the looks are told */

/* Locks of one class: two a turn, and a miss. */
static void work_in(unsigned shard, unsigned turns, size_t size) {
    void *top[2];
    unsigned class_index = hak_class_of(size);
    for (; turns > 0; turns--) {
        CHECK(hak_shard_take(shard, class_index, 1, top, NULL) == 1, "no memory");
        hak_shard_flush(shard, class_index, &top[1], 1);
    }
}
static void work(unsigned turns, size_t size) { work_in(0, turns, size); }

static uint64_t looks_now(void) { return hak_band_cost_stats.looks; }

/* A look after a quarter of a second in which a class was busy. */
static void look_at(unsigned turns, size_t size) {
    work(turns, size);
    clock_ms += 250;
    hak_band_cost_pass(clock_ms);
}

static void set(const char *name, const char *value) {
    CHECK(hakmem_option_set(name, value) == 0, "%s cannot be set", name);
}

/* ---- Bodies of children ------------------------------------------------------------------------ */

/* After 4, 8, 16, ... rounds of slow calls, while no time passes. */
static void looks_double(void) {
    uint32_t rounds = 0;
    uint64_t before = looks_now();
    for (int i = 0; i < 256; i++) {
        work(1, C5_SIZE);
        hak_band_cost_tick(clock_ms, &rounds);
    }
    uint64_t looks = looks_now() - before;
    CHECK(looks == 6 || looks == 7, "%llu looks in 256 rounds", (unsigned long long)looks);
    for (int i = 0; i < 100; i++) hak_band_cost_pass(clock_ms);
    for (int i = 0; i < 1000; i++) hak_band_cost_tick(clock_ms, NULL);
    CHECK(looks_now() - before == looks, "looks without a round of a cache, in no time");
}

static void looks_take_time(void) {
    look_at(1, C5_SIZE);
    uint64_t before = looks_now();
    work(10, C5_SIZE);
    hak_band_cost_pass(clock_ms + 249);
    CHECK(looks_now() == before, "a look too early");
    clock_ms += 250;
    for (int i = 0; i < 100; i++) hak_band_cost_pass(clock_ms);
    CHECK(looks_now() == before + 1, "%llu looks", (unsigned long long)(looks_now() - before));
    for (int i = 0; i < 100; i++) look_at(0, C5_SIZE);
    CHECK(looks_now() == before + 1, "a look at nothing counts");
}

enum { MANY = 64, AT_ONCE = 8, ROUNDS_EACH = 16 };

/* With many shards no call reads the counters of all: a look has pieces, each due as soon as the one before it is made. */
static void looks_have_pieces(void) {
    for (unsigned i = 1; i < MANY / AT_ONCE; i++) hak_band_cost_pass(clock_ms);
    const uint64_t before = looks_now();
    for (unsigned i = 0; i < 100; i++) hak_band_cost_pass(clock_ms);
    CHECK(looks_now() == before, "a look too early");
    work_in(MANY - 1, 5000, C5_SIZE);
    clock_ms += 250;
    for (unsigned i = 1; i < MANY / AT_ONCE; i++) hak_band_cost_pass(clock_ms);
    CHECK(looks_now() == before, "one call looks at more than %d shards", AT_ONCE);
    hak_band_cost_pass(clock_ms);
    CHECK(looks_now() == before + 1 && hak_policy_bands == (C5 | C7), "%llu looks, bands %#x",
          (unsigned long long)(looks_now() - before), hak_policy_bands);
    hak_band_cost_pass(clock_ms + 249);
    work_in(MANY - 1, 5000, C5_SIZE);
    for (unsigned i = 0; i < 100; i++) hak_band_cost_pass(clock_ms + 249);
    CHECK(looks_now() == before + 1, "a look too early");
}

/* And while no time passes, each shard must have had some rounds. */
static void looks_wait_for_each_shard(void) {
    uint32_t rounds = 0;
    for (unsigned i = 1; i < MANY / AT_ONCE; i++) hak_band_cost_pass(clock_ms);
    const uint64_t before = looks_now();
    for (unsigned i = 0; i < MANY * ROUNDS_EACH - 1; i++) {
        work(1, C5_SIZE);
        hak_band_cost_tick(clock_ms, &rounds);
    }
    CHECK(looks_now() == before, "%llu looks too early",
          (unsigned long long)(looks_now() - before));
    for (unsigned i = 0; i < MANY; i++) hak_band_cost_tick(clock_ms, &rounds);
    CHECK(looks_now() == before + 1, "no look");
}

static void options_act_at_once(void) {
    static const struct {
        const char *name, *value;
        uint32_t bands;
    } steps[] = {{"TINY_POLICY_PROFILE", "legacy", 0},
                 {"TINY_POLICY_PROFILE", "c5_7_only", 7 << 5},
                 {"TINY_POLICY_PROFILE", "tinyplus_all", 255},
                 {"TINY_POLICY_PROFILE", "auto", C3 | C4 | C7},
                 {"LEARN", "observe", C7},
                 {"LEARN", "on", C3 | C4 | C7},
                 {"LEARN", "off", C7},
                 {"LEARN", "on", C7}};
    uint64_t promotions = hak_band_cost_stats.promotions, demotions = hak_band_cost_stats.demotions;
    look_at(5000, C3_SIZE);
    look_at(7000, C4_SIZE);
    CHECK(hak_policy_bands == (C3 | C4 | C7), "the bands are %#x", hak_policy_bands);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        set(steps[i].name, steps[i].value);
        CHECK(hak_policy_bands == steps[i].bands, "%s=%s: the bands are %#x", steps[i].name,
              steps[i].value, hak_policy_bands);
    }
    promotions += 2 + 3 + 5 + 2;
    demotions += 3 + 5 + 2 + 2;
    CHECK(hak_band_cost_stats.promotions == promotions &&
              hak_band_cost_stats.demotions == demotions,
          "%llu promotions, %llu demotions", (unsigned long long)hak_band_cost_stats.promotions,
          (unsigned long long)hak_band_cost_stats.demotions);
}

/* What was done while nobody looked is no rate of now. */
static void a_pause_is_forgotten(void) {
    set("LEARN", "off");
    uint64_t before = looks_now();
    look_at(5000, C5_SIZE);
    CHECK(looks_now() == before && hak_band_cost_stats.scores[5] == 0, "a look without learning");
    set("LEARN", "on");
    look_at(5000, C5_SIZE);
    CHECK(looks_now() == before && hak_policy_bands == C7, "the pause counts");
    look_at(5000, C3_SIZE);
    CHECK(hak_policy_bands == (C3 | C7), "the bands are %#x", hak_policy_bands);
}

static void log_of_a_life(void) {
    look_at(5000, C5_SIZE);
    for (int i = 0; i < 6; i++) {
        work(5000, C4_SIZE);
        look_at(6000, C3_SIZE);
    }
    for (int i = 0; i < 40; i++) look_at(1, C3_SIZE);
    set("TINY_POLICY_PROFILE", "legacy");
}

static atomic_bool is_over;

static void *apply_for_ever(void *unused) {
    while (!is_over) hak_band_cost_apply();
    return unused;
}

static void forks_do_not_keep_the_lock(void) {
    pthread_t thread;
    hakmem_free(hakmem_malloc(100));
    CHECK(pthread_create(&thread, NULL, apply_for_ever, NULL) == 0, "no thread");
    for (int i = 0; i < 200; i++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0, "no child");
        if (pid == 0) {
            alarm(20 * PATIENCE);
            hak_band_cost_apply();
            _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child's status is %#x",
              (unsigned)status);
    }
    is_over = true;
    pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    void (*body)(void);
} bodies[] = {
    {"double", looks_double},         {"time", looks_take_time},
    {"options", options_act_at_once}, {"pause", a_pause_is_forgotten},
    {"log", log_of_a_life},           {"fork", forks_do_not_keep_the_lock},
    {"pieces", looks_have_pieces},    {"each", looks_wait_for_each_shard},
};

/* ---- Tests ------------------------------------------------------------------------------------- */

static const char *const environment[] = {
    "HAKMEM_TINY_POLICY_PROFILE=auto",
    "HAKMEM_LEARN=on",
    "HAKMEM_PURGE_THREAD=0",
    "HAKMEM_TINY_POLICY_LOG=0",
    NULL,
};
static const char *const many_shards[] = {
    "HAKMEM_TINY_POLICY_PROFILE=auto", "HAKMEM_LEARN=on",  "HAKMEM_PURGE_THREAD=0",
    "HAKMEM_TINY_POLICY_LOG=0",        "HAKMEM_SHARDS=64", NULL,
};

static void run_with(const char *const *variables, const char *name) {
    struct child_end end;
    unit_rerun(name, variables, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "%s: status %#x: %s", name, (unsigned)end.status,
            end.err);
    assert_string_equal(end.err, "");
}
static void run(const char *name) { run_with(environment, name); }

static void looks_come_after_rounds_of_calls(void **state) {
    (void)state;
    run("double");
}

static void looks_come_after_a_time(void **state) {
    (void)state;
    run("time");
}

static void looks_at_many_shards_have_pieces(void **state) {
    (void)state;
    run_with(many_shards, "pieces");
}

static void looks_at_many_shards_wait_for_each(void **state) {
    (void)state;
    run_with(many_shards, "each");
}

static void options_change_bands_at_once(void **state) {
    (void)state;
    run("options");
}

static void learning_begins_anew_after_a_pause(void **state) {
    (void)state;
    run("pause");
}

static void a_child_of_a_fork_may_look(void **state) {
    (void)state;
    run("fork");
}

/* Beginning of a line of the log, up to the score; the score must be what it says. */
static void expect_line(const char *line, const char *beginning) {
    unsigned long long score, locks, misses, warm;
    size_t size = strlen(beginning);
    REQUIRE(strncmp(line, beginning, size) == 0, "'%s' does not begin '%s'", line, beginning);
    const char *rest = line + size;
    bool has_bonus = strstr(rest, "= 1.5 x (") != NULL;
    const char *form =
        has_bonus ? "; score %llu = 1.5 x (4 x %llu locks/s + %llu misses/s + 5 x %llu warm hits/s)"
                  : "; score %llu = 4 x %llu locks/s + %llu misses/s + 5 x %llu warm hits/s";
    REQUIRE(sscanf(rest, form, &score, &locks, &misses, &warm) == 4, "no score in '%s'", line);
    unsigned long long sum = 4 * locks + misses + 5 * warm;
    REQUIRE(score == (has_bonus ? sum + sum / 2 : sum), "a wrong sum in '%s'", line);
}

static void the_log_has_a_line_for_each_change(void **state) {
    (void)state;
    static const char *const logging[] = {"HAKMEM_TINY_POLICY_PROFILE=auto", "HAKMEM_LEARN=on",
                                          "HAKMEM_TINY_POLICY_LOG=1", "HAKMEM_PURGE_THREAD=0",
                                          NULL};
    static const char *const lines[] = {
        "look 1: C5 promoted, one of the 2 best",
        "look 2: C3 promoted, one of the 2 best",
        "look 3: C4 promoted, one of the 2 best",
        "look 3: C5 demoted, C3 and C4 are ahead",
        "below", /* both, in one look or in two */
        "below",
        "C7 demoted, by HAKMEM_TINY_POLICY_PROFILE=legacy",
    };
    struct child_end end;
    unit_rerun("log", logging, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "status %#x: %s", (unsigned)end.status, end.err);
    size_t found = 0;
    for (char *rest = end.err, *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        static const char head[] = "hakmem: policy: ";
        REQUIRE(found < sizeof lines / sizeof *lines, "one line too many: %s", line);
        REQUIRE(strncmp(line, head, sizeof head - 1) == 0, "'%s'", line);
        const char *text = line + sizeof head - 1;
        const char *what = strchr(text, 'C');
        if (strncmp(text, "look 0: ", 8) == 0) continue; /* where auto is not the default */
        if (strcmp(lines[found], "below") == 0)
            expect_line(what, what[1] == '3' ? "C3 demoted, below 1000" : "C4 demoted, below 1000");
        else
            expect_line(lines[found][0] == 'C' ? what : text, lines[found]);
        found++;
    }
    assert_int_equal(found, sizeof lines / sizeof *lines);
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof bodies / sizeof *bodies; i++) {
        if (strcmp(argv[1], bodies[i].name) != 0) continue;
        hak_options_load();
        unit_open_shards(hak_shard_count());
        clock_ms = hak_os_now_ms() + 1000;
        hak_band_cost_pass(clock_ms); /* from here on it counts */
        bodies[i].body();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_come_after_rounds_of_calls),
        cmocka_unit_test(looks_come_after_a_time),
        cmocka_unit_test(looks_at_many_shards_have_pieces),
        cmocka_unit_test(looks_at_many_shards_wait_for_each),
        cmocka_unit_test(options_change_bands_at_once),
        cmocka_unit_test(learning_begins_anew_after_a_pause),
        cmocka_unit_test(a_child_of_a_fork_may_look),
        cmocka_unit_test(the_log_has_a_line_for_each_change),
    };
    return cmocka_run_group_tests_name("look", tests, NULL, NULL);
}
