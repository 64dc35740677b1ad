/* commit.c: the sum of committed bytes and its two limits. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "commit/commit.h"
#include "large/huge.h"
#include "large/large.h"
#include "pool/pool.h"
#include "purge.h"

static const char *const variables[] = {"HAKMEM_LIMIT=64M", "HAKMEM_LIMIT_SOFT=32M",
                                        "HAKMEM_PURGE_THREAD=0", "HAKMEM_SHARDS=2", NULL};

static const size_t limit = (size_t)64 << 20, soft = (size_t)32 << 20;

static void the_limit_is_exact(void **state) {
    (void)state;
    size_t before = hak_commit_bytes();
    uint64_t refused = hak_commit_refused();
    assert_true(before > 0 && before < limit);
    assert_true(hak_commit_charge(limit - before));
    assert_int_equal(hak_commit_bytes(), limit);
    assert_false(hak_commit_charge(1));
    assert_false(hak_commit_charge(SIZE_MAX));
    assert_int_equal(hak_commit_refused(), refused + 2);
    assert_true(hak_commit_charge(0));
    hak_commit_release(limit - before);
    assert_int_equal(hak_commit_bytes(), before);
}

static void the_soft_limit_calls_for_a_purge(void **state) {
    (void)state;
    hak_commit_pressure();
    size_t room = soft - hak_commit_bytes();
    assert_true(hak_commit_charge(room));
    assert_false(hak_commit_pressure());
    assert_true(hak_commit_charge(4096));
    assert_true(hak_commit_pressure());
    assert_false(hak_commit_pressure()); /* once */
    assert_true(hak_commit_charge(4096));
    assert_false(hak_commit_pressure());
    assert_true(hak_commit_charge(soft / 8));
    assert_true(hak_commit_pressure()); /* again, further up */
    hak_commit_release(room + 8192 + soft / 8);
}

/* What a tier cannot charge it does not serve; what is given back can be served again. */
static void every_tier_charges(void **state) {
    (void)state;
    size_t before = hak_commit_bytes(), records = 1 << 20; /* that it may take meanwhile */
    assert_true(hak_commit_charge(limit - before));
    assert_null(hak_huge_alloc(8 << 20, 1, false));
    bool zeroed;
    hak_unit_t *units[64];
    unsigned count = 0;
    while (count < 64 && (units[count] = hak_pool_take(1, &zeroed)) != NULL) count++;
    REQUIRE(count < 64, "the pool serves fresh units beyond the limit");
    while (count > 0) hak_pool_give(units[--count], 1);
    void *blocks[64];
    while (count < 64 && (blocks[count] = hak_large_alloc(0, 1 << 20, 1, false)) != NULL) count++;
    REQUIRE(count < 64, "the heap serves fresh blocks beyond the limit");
    while (count > 0) hak_large_free(0, blocks[--count]);
    hak_commit_release(limit - before);
    char *block = hak_huge_alloc(8 << 20, 1, false);
    assert_non_null(block);
    size_t charged = hak_commit_bytes() - before;
    assert_true(charged >= 8 << 20 && charged <= (8 << 20) + records);
    hak_huge_free(block);
    purge_huge(0);
    assert_true(hak_commit_bytes() <= before + records);
}

/* A heap keeps what it needs, but not where that would mean no memory for another CPU. */
static void what_others_have_serves_at_the_limit(void **state) {
    (void)state;
    enum { COUNT = 100, SIZE = 128 * 1024 };
    void *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        assert_non_null(blocks[i] = hak_large_alloc(0, SIZE, 1, false));
    for (unsigned i = 0; i < COUNT; i += 4) assert_true(hak_large_free(0, blocks[i]));
    size_t room = limit - hak_commit_bytes();
    assert_true(hak_commit_charge(room));
    for (unsigned i = 0; i < COUNT; i += 4)
        REQUIRE(blocks[i] = hak_large_alloc(1, SIZE, 1, false), "no memory after %u blocks", i / 4);
    assert_null(hak_large_alloc(1, SIZE, 1, false));
    for (unsigned i = 0; i < COUNT; i++) assert_true(hak_large_free(i % 4 ? 0 : 1, blocks[i]));
    hak_commit_release(room);
    purge_large(0); /* no free memory that needs no charge is left to others */
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(the_soft_limit_calls_for_a_purge),
        cmocka_unit_test(what_others_have_serves_at_the_limit),
        cmocka_unit_test(every_tier_charges),
    };
    return cmocka_run_group_tests_name("commit", tests, NULL, NULL);
}
