/* age.c: memory that has been free for weeks is old enough to purge, although ages wrap. The test adds to the
 * program's clock. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "large/large.h"
#include "os/os.h"
#include "pool/pool.h"
#include "purge.h"

enum { DELAY_MS = 1000, SIZE = 500000 };

#define DAY_MS ((uint64_t)24 * 3600 * 1000)

static const char *const variables[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0", NULL};

/* 31 and 32 bits of milliseconds wrap after 24.9 and 49.7 days. */
static const unsigned idle_days[] = {1, 24, 25, 30, 49, 50, 74, 75, 365, 3650};

static uint64_t later_ms;

uint64_t __real_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return __real_hak_os_now_ms() + later_ms; }

static void large_memory_is_of_age(const void *days) {
    char *block = hak_large_alloc(0, SIZE, 1, false);
    memset(block, 1, SIZE);
    CHECK(hak_large_free(0, block), "no block");
    CHECK(purge_large(DELAY_MS) == 0, "it is too young");
    later_ms = *(const unsigned *)days * DAY_MS;
    CHECK(purge_large(DELAY_MS) >= SIZE, "it keeps its pages");
}

static void free_units_are_of_age(const void *days) {
    bool zeroed;
    hak_unit_t *unit = hak_pool_take(1, &zeroed), *last = hak_pool_take(1, &zeroed);
    memset(unit->base, 1, HAK_UNIT_SIZE);
    hak_pool_give(unit, 1);
    CHECK(purge_pool(DELAY_MS, true) == 0, "it is too young");
    uint64_t purged = hak_pool_stats.purged_units;
    later_ms = *(const unsigned *)days * DAY_MS;
    purge_pool(DELAY_MS, false); /* the epochs that have passed unseen end: a round is due */
    CHECK(hak_pool_stats.purged_units > purged, "it keeps its pages");
    /* And the clock of the epochs goes on: another round comes, three epochs later. */
    hak_pool_give(last, 1);
    purged = hak_pool_stats.purged_units;
    later_ms += 60000;
    purge_pool(DELAY_MS, false);
    CHECK(hak_pool_stats.purged_units > purged, "no second round");
}

static void after_each(void (*body)(const void *days), const char *what) {
    for (unsigned i = 0; i < sizeof idle_days / sizeof *idle_days; i++)
        unit_child(body, &idle_days[i], 60, what);
}

static void large_heaps(void **state) {
    (void)state;
    after_each(large_memory_is_of_age, "large heaps");
}

static void the_pool(void **state) {
    (void)state;
    after_each(free_units_are_of_age, "the pool");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_heaps),
        cmocka_unit_test(the_pool),
    };
    return cmocka_run_group_tests_name("age", tests, NULL, NULL);
}
