/* purge_ahead.c: how much free memory is kept without a helper, after changes of the memory in use. The test
 * gives the figures and the clock. */
#include "thread/purge_ahead.h"

#include "commit/commit.h"
#include "hakmem.h"
#include "large/huge.h"
#include "unit.h"

enum { LOOK_MS = 50, LEAST_MIB = 16, MOST_MIB = 1024 };

static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};

static uint64_t now_ms = (uint64_t)1 << 40;

static void spend(size_t mib, unsigned ms) {
    size_t kept_bytes = atomic_load(&hak_huge_stats.kept_bytes);
    atomic_store(&hak_huge_stats.held_bytes, kept_bytes + (mib << 20));
    for (unsigned i = 0; i < ms; i += LOOK_MS) hak_purge_ahead_look(now_ms += LOOK_MS);
}

/* MiB, as far as one can see: more is free than may be kept. */
static size_t kept(void) {
    const size_t all = (size_t)1 << 40;
    atomic_store(&hak_huge_stats.kept_bytes, all);
    return (all - hak_purge_ahead_excess()) >> 20;
}

static void touch(size_t mib) { CHECK(hak_commit_charge(mib << 20), "no memory"); }

/* What is in use has pages, always. */
static void begin(void) {
    touch(MOST_MIB);
    hak_purge_ahead_forget();
    spend(8, LOOK_MS);
}

static bool is_about(size_t mib, size_t wanted) { return mib + 2 >= wanted && mib <= wanted + 2; }

/* A look is due where something may have changed, and not at each call of each thread. */
static void looks_are_few(const void *unused) {
    (void)unused;
    begin();
    spend(512, LOOK_MS);
    CHECK(!hak_purge_ahead_is_due(now_ms), "a second look is due");
    CHECK(!hak_purge_ahead_is_due(now_ms - 20000), "an old time makes a look due");
    CHECK(hak_purge_ahead_is_due(now_ms + LOOK_MS), "no look is due after %d ms", LOOK_MS);
    spend(500, 0);
    CHECK(!hak_purge_ahead_is_due(now_ms), "a look is due for little");
    spend(256, 0);
    CHECK(hak_purge_ahead_is_due(now_ms), "no look is due for a fall by half");
    spend(768, 0);
    CHECK(hak_purge_ahead_is_due(now_ms), "no look is due for a rise by half");
    hak_purge_ahead_forget();
    CHECK(hak_purge_ahead_is_due(now_ms), "no look is due in the child of a fork");
}

/* The rest of a heap that was large, and whose slabs stay: its waves are no end, but what falls below them is. */
static void waves_of_what_is_left_are_no_end(const void *unused) {
    (void)unused;
    begin();
    spend(800, LOOK_MS);
    spend(40, LOOK_MS);
    CHECK(hak_purge_ahead_falls(), "a fall to a twentieth is none");
    spend(40, 1000);
    for (unsigned i = 0; i < 4; i++) {
        spend(70, 2 * LOOK_MS);
        for (size_t mib = 65; mib > 40; mib -= 5) {
            spend(mib, LOOK_MS);
            CHECK(!hak_purge_ahead_falls(), "wave %u is an end at %zu MiB", i, mib);
        }
    }
    spend(30, LOOK_MS);
    CHECK(hak_purge_ahead_falls(), "what falls further is no end");
    spend(600, LOOK_MS);
    spend(100, LOOK_MS);
    CHECK(hak_purge_ahead_falls(), "the end of a second rise is none");
}

/* What HUGE_CACHE keeps is committed, and no heap is emptied to give it back. */
static void what_is_kept_on_purpose_does_not_count(const void *unused) {
    (void)unused;
    atomic_store(&hak_huge_stats.kept_bytes, (size_t)900 << 20);
    begin();
    CHECK(hakmem_option_set("HAKMEM_HUGE_CACHE", "2G") == 0, "the option cannot be set");
    spend(100, LOOK_MS);
    spend(40, LOOK_MS);
    CHECK(!hak_purge_ahead_falls(), "the heap is emptied for what is kept");
    spend(5, LOOK_MS);
    CHECK(hak_purge_ahead_falls(), "the heap is not emptied");
}

/* Nobody can know that the first fall is no end. */
static void the_first_fall_gives_back(const void *unused) {
    (void)unused;
    begin();
    spend(512, 1000);
    spend(8, LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept", kept());
}

static void a_swing_is_kept(const void *unused) {
    (void)unused;
    begin();
    for (unsigned i = 0; i < 5; i++) {
        spend(512, 200);
        spend(8, LOOK_MS);
        CHECK(i == 0 || kept() > 400, "%zu MiB are kept after swing %u", kept(), i);
    }
}

/* Between its rounds the program makes no call, or nearly none. */
static void after_a_rest_nothing_is_kept(const void *unused) {
    enum { REST_MS = 1000 };
    (void)unused;
    begin();
    for (unsigned i = 0; i < 10; i++) {
        spend(512, 200);
        spend(8, LOOK_MS);
        CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept after round %u", kept(), i);
        if (i % 2)
            spend(9, REST_MS);
        else
            now_ms += REST_MS;
    }
}

/* What was given back before the rest is not missed. */
static void after_a_rest_nothing_is_missed(const void *unused) {
    enum { REST_MS = 1000, LEFT = 100 };
    (void)unused;
    begin();
    for (unsigned i = 0; i < 5; i++) {
        CHECK(hak_commit_charge((size_t)500 << 20), "no memory");
        spend(512, 200);
        spend(LEFT, LOOK_MS);
        CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept after round %u", kept(), i);
        hak_commit_release((size_t)500 << 20);
        hak_purge_ahead_gave((size_t)500 << 20);
        spend(8, LOOK_MS);
        now_ms += REST_MS;
    }
}

/* A swing ends when the program has stayed for the delay where it was, at the bottom or above. */
static void a_swing_ends_at_rest(const void *unused) {
    enum { DELAY_MS = 500, MIDDLE = 200 };
    a_swing_is_kept(unused);
    CHECK(!hak_purge_ahead_rests(), "a program that swings rests");
    spend(8, DELAY_MS + LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept at rest", kept());
    CHECK(hak_purge_ahead_rests(), "a program at rest does not rest");
    spend(512, LOOK_MS);
    CHECK(!hak_purge_ahead_rests(), "a program that has risen rests");
    a_swing_is_kept(unused);
    spend(MIDDLE, DELAY_MS + LOOK_MS);
    CHECK(kept() <= MIDDLE, "%zu MiB are kept above %d", kept(), MIDDLE);
}

static void a_rise_may_be_slow(const void *unused) {
    enum { STEPS = 12, STEP_MS = 200 };
    (void)unused;
    begin();
    for (unsigned i = 0; i < 3; i++) {
        for (size_t mib = 8, k = 0; k < STEPS; k++) spend(mib += 504 / STEPS, STEP_MS);
        spend(8, LOOK_MS);
        CHECK(i == 0 || kept() > 400, "%zu MiB are kept after swing %u", kept(), i);
    }
}

static void without_a_delay_nothing_is_kept(const void *unused) {
    (void)unused;
    CHECK(hakmem_option_set("PURGE_DELAY_MS", "0") == 0, "the option cannot be set");
    begin();
    for (unsigned i = 0; i < 5; i++) {
        spend(512, 200);
        spend(8, LOOK_MS);
        CHECK(kept() <= 1, "%zu MiB are kept after swing %u", kept(), i);
    }
}

/* A thread reads the clock, waits, and becomes the owner of purge work after another one has been. */
static void an_old_time_forgets_nothing(const void *unused) {
    enum { OLD_MS = 20000 };
    a_swing_is_kept(unused);
    const size_t before = kept();
    hak_purge_ahead_look(now_ms - OLD_MS);
    CHECK(kept() == before, "%zu MiB are kept, then %zu", before, kept());
}

/* Four seconds at the top, two thirds of an hour in all: those that cost pages are few. */
static void slow_swings_are_learnt(const void *unused) {
    enum { SWINGS = 100, FEW = 8 };
    unsigned costly = 0;
    (void)unused;
    begin();
    for (unsigned i = 0; i < SWINGS; i++) {
        spend(512, 4000);
        spend(8, LOOK_MS);
        costly += kept() < 400;
    }
    CHECK(costly <= FEW, "%u of %u swings gave their pages back", costly, SWINGS);
}

static void what_was_learnt_is_forgotten(const void *unused) {
    (void)unused;
    begin();
    for (unsigned i = 0; i < 20; i++) {
        spend(512, 4000);
        spend(8, LOOK_MS);
    }
    CHECK(kept() > 400, "%zu MiB are kept", kept());
    spend(8, 15 * 60 * 1000);
    CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept for ever", kept());
    the_first_fall_gives_back(NULL);
}

static void give_back(size_t mib) {
    hak_commit_release(mib << 20);
    hak_purge_ahead_gave(mib << 20);
}

/* Frees have given back what lay in gaps, and then the program needs as much: so much more is kept as long as a
 * multiple of it is in use. */
static void what_was_missed_is_kept(const void *unused) {
    enum { GAPS = 64, FEW = 8 };
    (void)unused;
    begin();
    touch(512);
    spend(512, 1000);
    give_back(GAPS);
    spend(512, LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept before any is missed", kept());
    touch(GAPS);
    spend(512, LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB + GAPS), "%zu MiB are kept", kept());
    touch(GAPS);
    spend(512, LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB + GAPS), "%zu MiB are kept for what was never there", kept());
    spend(FEW, LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB + FEW / 2), "%zu MiB are kept after a fall", kept());
}

/* What a steady program misses once more, after it has been forgotten in part, it keeps longer. */
static void the_missed_are_few(const void *unused) {
    enum { GAPS = 64, SECONDS = 600, FEW = 8 * GAPS };
    size_t missed = 0;
    (void)unused;
    begin();
    touch(512);
    for (unsigned ms = 0; ms < SECONDS * 1000; ms += LOOK_MS) {
        spend(512, LOOK_MS);
        const size_t most = kept() - LEAST_MIB;
        if (most >= GAPS) continue;
        give_back(GAPS - most);
        touch(GAPS - most);
        missed += GAPS - most;
    }
    CHECK(missed <= FEW, "%zu MiB were given back and touched again", missed);
    spend(512, 15 * 60 * 1000);
    CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept for ever", kept());
}

/* What was missed while little was in use is no reason to keep more once much is. */
static void no_more_is_missed_than_was_in_use(const void *unused) {
    enum { ROUNDS = 20, GAPS = 64, MUCH = 1024 };
    (void)unused;
    begin();
    touch(GAPS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        give_back(GAPS);
        touch(GAPS);
        spend(8, LOOK_MS);
    }
    spend(MUCH, LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB + 8), "%zu MiB are kept", kept());
}

/* A page now and then that is missed does not keep the rest from being forgotten. */
static void little_that_is_missed_keeps_little(const void *unused) {
    enum { GAPS = 64, SECONDS = 10, LITTLE = 128 << 10 };
    (void)unused;
    begin();
    touch(512);
    spend(512, 1000);
    give_back(GAPS);
    touch(GAPS);
    spend(512, LOOK_MS);
    CHECK(is_about(kept(), LEAST_MIB + GAPS), "%zu MiB are kept", kept());
    for (unsigned i = 0; i < SECONDS * 4; i++) {
        hak_commit_release(LITTLE);
        hak_purge_ahead_gave(LITTLE);
        CHECK(hak_commit_charge(LITTLE), "no memory");
        spend(512, 250);
    }
    CHECK(is_about(kept(), LEAST_MIB), "%zu MiB are kept", kept());
}

/* One block in 64 is left, so no slab is free. */
static void free_blocks_beside_others_are_not_in_use(const void *unused) {
    enum { BLOCKS = 128 << 10, SIZE = 512, LEFT = 64 };
    static void *blocks[BLOCKS];
    (void)unused;
    begin();
    spend(0, LOOK_MS);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hakmem_malloc(SIZE);
        CHECK(blocks[i] != NULL, "no memory");
    }
    spend(0, LOOK_MS);
    CHECK(!hak_purge_ahead_falls(), "a full heap is being emptied");
    for (unsigned i = 0; i < BLOCKS; i++)
        if (i % LEFT != 0) hakmem_free(blocks[i]);
    spend(0, LOOK_MS);
    CHECK(hak_purge_ahead_falls(), "a heap in which one block in %d is left is not empty", LEFT);
}

static void each(void **state) {
    (void)state;
    unit_child(looks_are_few, NULL, 20, "looks");
    unit_child(waves_of_what_is_left_are_no_end, NULL, 20, "waves");
    unit_child(what_is_kept_on_purpose_does_not_count, NULL, 20, "what HUGE_CACHE keeps");
    unit_child(the_first_fall_gives_back, NULL, 20, "a first fall");
    unit_child(a_swing_is_kept, NULL, 20, "swings");
    unit_child(after_a_rest_nothing_is_kept, NULL, 20, "swings with rests");
    unit_child(after_a_rest_nothing_is_missed, NULL, 20, "what was given before a rest");
    unit_child(a_swing_ends_at_rest, NULL, 20, "rests");
    unit_child(a_rise_may_be_slow, NULL, 20, "slow rises");
    unit_child(without_a_delay_nothing_is_kept, NULL, 20, "no delay");
    unit_child(an_old_time_forgets_nothing, NULL, 20, "an old time");
    unit_child(slow_swings_are_learnt, NULL, 20, "slow swings");
    unit_child(what_was_learnt_is_forgotten, NULL, 20, "swings that end");
    unit_child(what_was_missed_is_kept, NULL, 20, "gaps");
    unit_child(the_missed_are_few, NULL, 20, "steady gaps");
    unit_child(no_more_is_missed_than_was_in_use, NULL, 20, "gaps of a small program");
    unit_child(little_that_is_missed_keeps_little, NULL, 20, "small gaps");
#ifndef __SANITIZE_THREAD__ /* has a thread of its own */
    unit_child(free_blocks_beside_others_are_not_in_use, NULL, 20, "free blocks in slabs");
#else
    (void)free_blocks_beside_others_are_not_in_use;
#endif
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {cmocka_unit_test(each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
