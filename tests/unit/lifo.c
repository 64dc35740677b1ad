/* lifo.c: blocks that leave a ring of mid blocks stay with the thread, up to TLS_LO_MAX of a class, until
 * the class is idle. */
#include "cache_calls.h"

#include "cache/lifo.h"

enum { LIFO = 64, RESTS = 57, BUSY = 49 };

static void what_leaves_the_ring_is_kept(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(64 * MIB);
    for (unsigned turn = 0; turn < 20; turn++) swing(cache, RESTS, 200);
    assert_int_equal(hak_lifo_count(cache, RESTS), LIFO);
    assert_true(hak_cache_count(cache, RESTS) > LIFO);
    hak_cache_flush_all(cache);
    assert_int_equal(hak_cache_count(cache, RESTS), 0);
    drop_cache(cache);
}

static void a_lifo_rests_with_its_ring(void **state) {
    (void)state;
    hak_cache_t *cache = make_cache(64 * MIB);
    for (unsigned turn = 0; turn < 20; turn++) swing(cache, RESTS, 200);
    be_slow(cache, BUSY, 400);
    assert_int_equal(hak_cache_count(cache, RESTS), 0);
    assert_int_equal(hak_lifo_count(cache, BUSY), LIFO);
    drop_cache(cache);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_TLS_LO_MAX=64", "HAKMEM_SHARDS=4",
                                                      "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    unit_open_shards(4);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leaves_the_ring_is_kept),
        cmocka_unit_test(a_lifo_rests_with_its_ring),
    };
    watchdog(100, "a lifo test hangs");
    return cmocka_run_group_tests_name("lifo", tests, NULL, NULL);
}
