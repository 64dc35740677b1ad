/* large_knobs.c: what each option of blocks above 64 KiB changes, in this program run again with it. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "large/large.h"
#include "large/view.h"
#include "options/environment.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"

/* Blocks of 100 KiB from heap 0, each freed by who has heap 1: prints the counters. */
static int show_counters(void) {
    void *blocks[42];
    for (unsigned turn = 0; turn < 3; turn++) {
        unsigned count = turn == 0 ? 42 : 21; /* later ones find more than they need */
        for (unsigned i = 0; i < count; i++) blocks[i] = hak_large_alloc(0, 100000, 1, false);
        for (unsigned i = 0; i < count; i++) CHECK(hak_large_free(1, blocks[i]), "not freed");
    }
    hak_large_stats_t stats = hak_large_stats();
    fprintf(stderr, "%llu %llu %llu %llu %llu %llu\n",
            (unsigned long long)stats.run_units / stats.runs, (unsigned long long)stats.transferred,
            (unsigned long long)stats.spilled, (unsigned long long)stats.remote,
            (unsigned long long)stats.purge_calls,
            (unsigned long long)hak_pool_stats.populated_units);
    return 0;
}

typedef struct {
    unsigned long long run, transferred, spilled, remote, purge_calls, populated;
} counters_t;

static counters_t counters_with(const char *setting) {
    struct child_end end;
    counters_t c = {0};
    const char *environment[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0", setting, NULL};
    unit_rerun("counters", environment, 60, &end);
    REQUIRE(end.status == 0 &&
                sscanf(end.err, "%llu %llu %llu %llu %llu %llu", &c.run, &c.transferred, &c.spilled,
                       &c.remote, &c.purge_calls, &c.populated) == 6,
            "%s: status %#x, %s", setting, (unsigned)end.status, end.err);
    return c;
}

static char populated_page[65536] __attribute__((aligned(65536)));

static void every_knob_shows(void **state) {
    (void)state;
    assert_true(counters_with("HAKMEM_L25_RUN_FACTOR=1").run <= 16);
    assert_true(counters_with("HAKMEM_L25_RUN_FACTOR=16").run > 16);
    counters_t none = counters_with("HAKMEM_L25_TC_SPILL=0");
    counters_t few = counters_with("HAKMEM_L25_TC_SPILL=4");
    counters_t many = counters_with("HAKMEM_L25_TC_SPILL=256");
    assert_int_equal(none.transferred, 0);
    assert_true(few.transferred > 0 && few.transferred < many.transferred);
    assert_true(few.spilled > 0);
    assert_int_equal(many.spilled, 0);
    assert_int_equal(many.transferred, 84);
    counters_t local = counters_with("HAKMEM_L25_PREF=local");
    counters_t remote = counters_with("HAKMEM_L25_PREF=remote");
    assert_true(remote.remote > local.remote);
    assert_int_equal(counters_with("HAKMEM_DISABLE_BATCH=0").purge_calls, 0);
    assert_true(counters_with("HAKMEM_DISABLE_BATCH=1").purge_calls >= 80);
    if (!hak_os_populate(populated_page, hak_os_page_size())) return; /* an older kernel */
    assert_int_equal(counters_with("HAKMEM_SS_PREFAULT=0").populated, 0);
    unsigned long long some = counters_with("HAKMEM_SS_PREFAULT=1").populated;
    assert_true(some > 0 && some < counters_with("HAKMEM_SS_PREFAULT=2").populated);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "counters") == 0) {
        hak_options_load();
        return show_counters();
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_knob_shows)};
    return cmocka_run_group_tests_name("large_knobs", tests, NULL, NULL);
}
