/* visits.c: visits of shards that were due while nobody could make them. */
#include "unit.h"

#include "hakmem.h"
#include "pool/purge_budget.h"
#include "shard/sparse.h"
#include "thread/purge_trigger.h"

enum { DUE = 100000, MOST = 64, SECONDS = 60 };

static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};

static unsigned visits;

size_t __real_hak_shard_visit(hak_budget_t *budget);
size_t __wrap_hak_shard_visit(hak_budget_t *budget);
size_t __wrap_hak_shard_visit(hak_budget_t *budget) {
    visits++;
    return __real_hak_shard_visit(budget);
}

/* The end of a slow call, which becomes the owner of the work. */
static void look_when_much_is_due(void) {
    hak_store_relaxed(&hak_shard_grown, DUE);
    hak_store_relaxed(&hak_shard_visits_due, DUE);
    hak_budget_note(HAK_NOTE_GROWN | HAK_NOTE_VISIT);
    visits = 0;
    hak_purge_look(1, false);
    assert_int_equal(hak_load_relaxed(&hak_shard_grown), 0);
    assert_int_equal(hak_load_relaxed(&hak_shard_visits_due), 0);
}

/* The owner may have been a trim that took a second, while other threads took slabs. */
static void a_call_makes_few(void **state) {
    (void)state;
    look_when_much_is_due();
    REQUIRE(visits > 0 && visits <= MOST, "%u visits in one call", visits);
}

/* While nothing is purged, nothing piles up for the time when the program sets a delay. */
static void without_purges_none_are_due(void **state) {
    (void)state;
    assert_int_equal(hakmem_option_set("HAKMEM_PURGE_DELAY_MS", "-1"), 0);
    look_when_much_is_due();
    assert_int_equal(visits, 0);
    assert_int_equal(hakmem_option_set("HAKMEM_PURGE_DELAY_MS", "500"), 0);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    hakmem_free(hakmem_malloc(100));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_makes_few),
        cmocka_unit_test(without_purges_none_are_due),
    };
    watchdog(SECONDS, "a test of visits hangs");
    return cmocka_run_group_tests_name("visits", tests, NULL, NULL);
}
