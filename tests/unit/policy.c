/* policy.c: which bands the policy promotes, for given costs. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "policy/policy.h"

enum { BANDS = HAK_POLICY_BANDS, LOOK_MS = 250, LOOKS_A_SECOND = 4 };
enum { C0 = 1, C1 = 2, C2 = 4, C3 = 8, C4 = 16, C5 = 32, C6 = 64, C7 = 128 };

/* Adds what each band costs in a look and looks. */
static bool look(hak_policy_t *policy, const hak_shard_costs_t *more, uint64_t elapsed_ms) {
    hak_shard_costs_t costs[BANDS];
    for (unsigned band = 0; band < BANDS; band++) {
        costs[band].locks = policy->seen[band].locks + more[band].locks;
        costs[band].misses = policy->seen[band].misses + more[band].misses;
        costs[band].warm = policy->seen[band].warm + more[band].warm;
    }
    return hak_policy_learn(policy, costs, elapsed_ms);
}

/* Locks a second make a score of four times as much. */
static bool look_at_locks(hak_policy_t *policy, const uint64_t *locks) {
    hak_shard_costs_t more[BANDS] = {{0}};
    for (unsigned band = 0; band < BANDS; band++) more[band].locks = locks[band] / LOOKS_A_SECOND;
    return look(policy, more, LOOK_MS);
}

static uint32_t choose(hak_policy_t *policy, uint32_t promoted) {
    return hak_policy_choose(policy, promoted, HAK_POLICY_AUTO, HAK_LEARN_ON);
}

/* ---- One look -------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    uint64_t locks[BANDS]; /* a second */
    uint32_t before, bands;
    hak_policy_profile_t profile;
    hak_policy_learn_t learn;
} rows[] = {
    {"two bands", {0, 0, 4000, 0, 8000}, 0, C2 | C4 | C7, HAK_POLICY_AUTO, HAK_LEARN_ON},
    {"the two best of all",
     {4000, 5000, 6000, 7000, 3000, 9000, 400, 100000},
     0,
     C3 | C5 | C7,
     HAK_POLICY_AUTO,
     HAK_LEARN_ON},
    {"C7 is no matter of scores", {0}, 0, C7, HAK_POLICY_AUTO, HAK_LEARN_ON},
    {"one band", {0, 4000}, 0, C1 | C7, HAK_POLICY_AUTO, HAK_LEARN_ON},
    {"just enough", {248, 252, 0}, 0, C1 | C7, HAK_POLICY_AUTO, HAK_LEARN_ON},
    {"a tie: larger blocks", {4000, 4000, 4000}, 0, C1 | C2 | C7, HAK_POLICY_AUTO, HAK_LEARN_ON},
    {"a tie: who is there stays",
     {4000, 4000, 4000, 4000},
     C0 | C1 | C7,
     C0 | C1 | C7,
     HAK_POLICY_AUTO,
     HAK_LEARN_ON},
    {"a little better is not enough",
     {4000, 4000, 5900},
     C0 | C1 | C7,
     C0 | C1 | C7,
     HAK_POLICY_AUTO,
     HAK_LEARN_ON},
    {"clearly better",
     {4400, 4000, 6100},
     C0 | C1 | C7,
     C0 | C2 | C7,
     HAK_POLICY_AUTO,
     HAK_LEARN_ON},
    {"two clearly better",
     {4000, 4000, 0, 0, 7000, 0, 8000},
     C0 | C1 | C7,
     C4 | C6 | C7,
     HAK_POLICY_AUTO,
     HAK_LEARN_ON},
    {"who is there needs less", {168, 164}, C0 | C1 | C7, C0 | C7, HAK_POLICY_AUTO, HAK_LEARN_ON},
    {"from all to two",
     {4000, 5000, 6000, 7000, 8000, 3000, 2000, 1000},
     UINT8_MAX,
     C3 | C4 | C7,
     HAK_POLICY_AUTO,
     HAK_LEARN_ON},
    {"observing", {0, 0, 4000, 0, 8000}, 0, C7, HAK_POLICY_AUTO, HAK_LEARN_OBSERVE},
    {"observing from now on",
     {0, 0, 4000, 0, 8000},
     C2 | C4 | C7,
     C7,
     HAK_POLICY_AUTO,
     HAK_LEARN_OBSERVE},
    {"not learning", {0, 0, 4000, 0, 8000}, C2, C7, HAK_POLICY_AUTO, HAK_LEARN_OFF},
    {"legacy", {0, 0, 4000, 0, 8000}, C2 | C7, 0, HAK_POLICY_LEGACY, HAK_LEARN_ON},
    {"C5 to C7", {0, 0, 4000, 0, 8000}, C2, C5 | C6 | C7, HAK_POLICY_C5_7_ONLY, HAK_LEARN_ON},
    {"all", {0, 0, 4000}, 0, UINT8_MAX, HAK_POLICY_TINYPLUS_ALL, HAK_LEARN_OFF},
};

static void each_row_promotes_its_bands(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hak_policy_t policy = {0};
        look_at_locks(&policy, rows[i].locks);
        uint32_t bands = hak_policy_choose(&policy, rows[i].before, rows[i].profile, rows[i].learn);
        REQUIRE(bands == rows[i].bands, "%s: bands %#x, not %#x", rows[i].what, bands,
                rows[i].bands);
        bool learns = rows[i].profile == HAK_POLICY_AUTO && rows[i].learn == HAK_LEARN_ON;
        for (unsigned band = 0; band < BANDS; band++) {
            uint64_t score = rows[i].locks[band] * 4;
            if (learns && band != HAK_BAND_C7 && (rows[i].before >> band & 1)) score += score / 2;
            REQUIRE(policy.scores[band] == score, "%s: C%u has score %llu, not %llu", rows[i].what,
                    band, (unsigned long long)policy.scores[band], (unsigned long long)score);
        }
        assert_int_equal(hak_policy_choose(&policy, bands, rows[i].profile, rows[i].learn), bands);
    }
}

static void what_a_score_is_made_of(void **state) {
    (void)state;
    static const hak_shard_costs_t more[BANDS] = {
        {.locks = 100}, {.misses = 100}, {.warm = 100}, {.locks = 1, .misses = 2, .warm = 3}};
    hak_policy_t policy = {0};
    assert_true(look(&policy, more, LOOK_MS));
    choose(&policy, 0);
    assert_int_equal(policy.scores[0], 1600);
    assert_int_equal(policy.scores[1], 400);
    assert_int_equal(policy.scores[2], 2000);
    assert_int_equal(policy.scores[3], (4 + 2 + 15) * LOOKS_A_SECOND);
}

/* ---- Several looks ----------------------------------------------------------------------------- */

static void scores_are_averages_of_looks(void **state) {
    (void)state;
    static const uint64_t first[BANDS] = {8000}, later[BANDS] = {4000}, other[BANDS] = {0, 4000};
    hak_policy_t policy = {0};
    look_at_locks(&policy, first);
    assert_int_equal(policy.rates[0].locks, 8000);
    look_at_locks(&policy, later);
    assert_int_equal(policy.rates[0].locks, 6000);
    for (int i = 0; i < 40; i++) look_at_locks(&policy, later);
    REQUIRE(policy.rates[0].locks <= 4003, "a rate of %llu",
            (unsigned long long)policy.rates[0].locks);
    for (int i = 0; i < 40; i++) look_at_locks(&policy, other);
    assert_true(policy.rates[0].locks <= 3 && policy.rates[1].locks >= 3997);
    assert_int_equal(choose(&policy, 0), C1 | C7);
}

static void a_look_at_nothing_changes_nothing(void **state) {
    (void)state;
    static const uint64_t some[BANDS] = {0, 0, 0, 4000, 8000}, nothing[BANDS] = {0};
    hak_policy_t policy = {0}, before;
    assert_false(look_at_locks(&policy, nothing));
    assert_int_equal(policy.looks, 0);
    look_at_locks(&policy, some);
    uint32_t bands = choose(&policy, 0);
    before = policy;
    for (int i = 0; i < 100; i++) assert_false(look_at_locks(&policy, nothing));
    assert_memory_equal(&policy, &before, sizeof policy);
    assert_int_equal(choose(&policy, bands), bands);
}

static void time_is_bounded(void **state) {
    (void)state;
    static const struct {
        uint64_t elapsed_ms, rate;
    } times[] = {{0, 1000000}, {1, 1000000},    {250, 4000},       {500, 2000},
                 {501, 2000},  {3600000, 2000}, {UINT64_MAX, 2000}};
    static const hak_shard_costs_t more[BANDS] = {{.locks = 1000}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        hak_policy_t policy = {0};
        look(&policy, more, times[i].elapsed_ms);
        assert_int_equal(policy.rates[0].locks, times[i].rate);
    }
}

/* A total that is read while it goes round may be less than it was. */
static void a_total_that_falls_behind_is_no_cost(void **state) {
    (void)state;
    hak_policy_t policy = {0};
    hak_shard_costs_t costs[BANDS] = {{.locks = 70000}, {.locks = 1000}};
    hak_policy_learn(&policy, costs, LOOK_MS);
    costs[0].locks -= 65536;
    assert_false(hak_policy_learn(&policy, costs, LOOK_MS));
    costs[1].locks += 500;
    assert_true(hak_policy_learn(&policy, costs, LOOK_MS));
    assert_int_equal(policy.seen[0].locks, 70000);
    assert_int_equal(policy.rates[0].locks, 70000 * LOOKS_A_SECOND / 2);
    costs[0].locks = 70100;
    hak_policy_learn(&policy, costs, LOOK_MS);
    assert_int_equal(policy.seen[0].locks, 70100);
}

/* ---- Promotion does not undo itself -------------------------------------------------------------- */

/* A program that makes `refills` in each band a look, give or take a quarter, and as many
 * flushes. Warm slabs save the lock and the miss of a refill in a promoted band. */
static uint32_t live_on(hak_policy_t *policy, uint32_t bands, const unsigned *refills, int looks,
                        unsigned *changes) {
    for (int i = 0; i < looks; i++) {
        hak_shard_costs_t more[BANDS] = {{0}};
        for (unsigned band = 0; band < BANDS; band++) {
            uint64_t count = refills[band] * (75 + unit_random(51)) / 100;
            bool is_promoted = bands >> band & 1;
            more[band].locks = is_promoted ? count : 2 * count;
            *(is_promoted ? &more[band].warm : &more[band].misses) = count;
        }
        look(policy, more, LOOK_MS);
        uint32_t before = bands;
        bands = choose(policy, before);
        *changes += (unsigned)__builtin_popcount(before ^ bands);
    }
    return bands;
}

static void bands_of_equal_cost_do_not_take_turns(void **state) {
    (void)state;
    static const unsigned equal[BANDS] = {1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000};
    static const unsigned near[BANDS] = {1000, 1100, 950, 1050, 900, 1020, 980, 1000};
    for (int i = 0; i < 50; i++) {
        hak_policy_t policy = {0};
        unsigned changes = 0;
        live_on(&policy, 0, i % 2 ? near : equal, 400, &changes);
        REQUIRE(changes <= 5, "%u changes", changes); /* of three bands, and one early mistake */
    }
}

static void another_phase_has_other_bands(void **state) {
    (void)state;
    static const unsigned first[BANDS] = {0, 1000, 1200, 300},
                          second[BANDS] = {0, 300, 0, 0, 900, 950};
    hak_policy_t policy = {0};
    unsigned changes = 0;
    uint32_t bands = live_on(&policy, 0, first, 100, &changes);
    assert_int_equal(bands, C1 | C2 | C7);
    bands = live_on(&policy, bands, second, 8, &changes);
    assert_int_equal(bands, C4 | C5 | C7);
    assert_true(changes <= 3 + 4 + 2);
}

static void one_mask_for_all_threads(void **state) {
    (void)state;
    uint32_t before = hak_policy_bands;
    hak_policy_bands = C5 | C7;
    assert_true(hak_policy_promoted(hak_class_of(256)));
    assert_true(hak_policy_promoted(hak_class_of(1025)));
    assert_false(hak_policy_promoted(hak_class_of(512)));
    hak_policy_bands = UINT8_MAX;
    assert_false(hak_policy_promoted(hak_class_of(HAK_TINY_MAX + 1)));
    hak_policy_bands = before;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_promotes_its_bands),
        cmocka_unit_test(what_a_score_is_made_of),
        cmocka_unit_test(scores_are_averages_of_looks),
        cmocka_unit_test(a_look_at_nothing_changes_nothing),
        cmocka_unit_test(time_is_bounded),
        cmocka_unit_test(a_total_that_falls_behind_is_no_cost),
        cmocka_unit_test(bands_of_equal_cost_do_not_take_turns),
        cmocka_unit_test(another_phase_has_other_bands),
        cmocka_unit_test(one_mask_for_all_threads),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
