/* sampler.c: the distances between samples, and the shares that malloc takes from while the profiler is on. */
#include "cache_calls.h"

#include <math.h>

#include "cache/sampler.h"
#include "profile/samples.h"

enum { SIZE = 224, RATE = 65536 };

static unsigned class_of_size(void) { return hak_class_of(SIZE); }

/* A cache with a sampler. */
static hak_cache_t *make_with_sampler(void) {
    hak_cache_t *cache = make_cache(64 * MIB);
    assert_true(cache->has_sampler && hak_sampler_rate() == RATE);
    return cache;
}

static void distances_are_exponential(void **state) {
    (void)state;
    enum { DRAWS = 400000 };
    uint64_t random = 7;
    double sum = 0, squares = 0;
    unsigned above_1 = 0, above_3 = 0;
    for (unsigned i = 0; i < DRAWS; i++) {
        double x = hak_sampler_exponential(&random);
        assert_true(x >= 0 && x < 64);
        sum += x;
        squares += x * x;
        above_1 += x > 1;
        above_3 += x > 3;
    }
    REQUIRE(fabs(sum / DRAWS - 1) < 0.01, "the mean is %g", sum / DRAWS);
    REQUIRE(fabs(squares / DRAWS - 2) < 0.04, "the mean square is %g", squares / DRAWS);
    REQUIRE(fabs((double)above_1 / DRAWS - 0.367879) < 0.004, "%u above 1", above_1);
    REQUIRE(fabs((double)above_3 / DRAWS - 0.049787) < 0.002, "%u above 3", above_3);
}

/* How many of `count` allocations are due, against five standard errors. */
static void check_due(unsigned class_index, size_t size, unsigned count) {
    hak_cache_t *cache = make_with_sampler();
    double p = 1 - exp(-(double)size / RATE), due = 0;
    for (unsigned i = 0; i < count; i++)
        due += hak_sampler_due(hak_sampler_of(cache), HAK_SAMPLER_PROFILE, class_index, size);
    REQUIRE(fabs(due - count * p) < 5 * sqrt(count * p * (1 - p)) + 1, "%g of %u are due, not %g",
            due, count, count * p);
    drop_cache(cache);
}

static void a_byte_is_drawn_at_the_rate(void **state) {
    (void)state;
    check_due(class_of_size(), SIZE, 2000000);
    check_due(hak_class_of(8), 8, 4000000);
    check_due(hak_class_of(8192), 8192, 200000);
    check_due(HAK_CLASS_LARGE, 100000, 100000);
    check_due(HAK_CLASS_LARGE, 10000000, 1000);
}

static void a_weight_is_one_over_p(void **state) {
    (void)state;
    for (size_t size = 1; size < (size_t)1 << 32; size += size / 3 + 1) {
        double weight = (double)hak_sample_weight(size) / 65536;
        double exact = -1 / expm1(-(double)size / RATE);
        REQUIRE(fabs(weight / exact - 1) < 1e-4, "the weight of %zu is %g, not %g", size, weight,
                exact);
    }
}

/* left + blocks in the share, less what was popped. */
static void what_is_shared_is_counted(void **state) {
    (void)state;
    hak_cache_t *cache = make_with_sampler();
    hak_sampler_t *sampler = hak_sampler_of(cache);
    unsigned class_index = class_of_size(), popped = 0;
    uint64_t *left = &sampler->left[HAK_SAMPLER_PROFILE][class_index];
    void *blocks[64];
    swing(cache, class_index, 100);
    while (*left < 300) hak_sampler_due(sampler, HAK_SAMPLER_PROFILE, class_index, SIZE);
    assert_false(hak_sampler_due(sampler, HAK_SAMPLER_GUARD, class_index, SIZE)); /* it is off */
    for (unsigned turn = 0; turn < 5; turn++) {
        size_t there = hak_cache_count(cache, class_index);
        uint64_t before = *left;
        assert_true(hak_sampler_fill(cache, class_index));
        size_t shared = hak_sampler_count(cache, class_index);
        assert_true(shared > 0 && *left + shared == before && *left >= 1);
        assert_true(hak_cache_count(cache, class_index) >= there);
        while (popped < 60 && hak_sampler_count(cache, class_index))
            blocks[popped++] = hak_sampler_pop(sampler, class_index);
        before = *left + hak_sampler_count(cache, class_index);
        hak_cache_flush_all(cache);
        assert_int_equal(*left, before);
        assert_int_equal(hak_cache_count(cache, class_index), 0);
        while (popped) hak_cache_overflow(cache, class_index, blocks[--popped]);
    }
    drop_cache(cache);
}

static void the_sampled_one_finds_an_empty_share(void **state) {
    (void)state;
    hak_cache_t *cache = make_with_sampler();
    hak_sampler_t *sampler = hak_sampler_of(cache);
    unsigned class_index = class_of_size();
    swing(cache, class_index, 100);
    sampler->left[HAK_SAMPLER_PROFILE][class_index] = 1;
    sampler->left[HAK_SAMPLER_GUARD][class_index] = 10;
    assert_false(hak_sampler_fill(cache, class_index));
    sampler->left[HAK_SAMPLER_PROFILE][class_index] = 3;
    assert_true(hak_sampler_fill(cache, class_index));
    assert_int_equal(hak_sampler_count(cache, class_index), 2);
    assert_int_equal(sampler->left[HAK_SAMPLER_PROFILE][class_index], 1);
    assert_int_equal(sampler->left[HAK_SAMPLER_GUARD][class_index], 8);
    for (unsigned i = 0; i < 2; i++)
        hak_cache_overflow(cache, class_index, hak_sampler_pop(sampler, class_index));
    assert_null(hak_sampler_pop(sampler, class_index));
    assert_true(hak_sampler_due(sampler, HAK_SAMPLER_PROFILE, class_index, SIZE));
    drop_cache(cache);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv,
                          (const char *const[]){"HAKMEM_PROF=1", "HAKMEM_PROF_RATE=65536",
                                                "HAKMEM_PROF_FILE=/dev/null", "HAKMEM_SHARDS=4",
                                                "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    unit_open_shards(4);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_are_exponential),
        cmocka_unit_test(a_byte_is_drawn_at_the_rate),
        cmocka_unit_test(a_weight_is_one_over_p),
        cmocka_unit_test(what_is_shared_is_counted),
        cmocka_unit_test(the_sampled_one_finds_an_empty_share),
    };
    watchdog(100, "a sampler test hangs");
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
