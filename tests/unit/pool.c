/* pool.c: units in stages, runs of every length, purge, and what fork's child repairs. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "pool/pool.h"

enum { HELD_MAX = 400, NEVER_MS = 1 << 30, SECONDS = 20 };

typedef struct {
    uint64_t stage2, stage3, purge_calls, purged_units;
    size_t dirty, used;
} counts_t;

static counts_t counts(void) {
    return (counts_t){
        hak_pool_stats.stage2,       hak_pool_stats.stage3,      hak_pool_stats.purge_calls,
        hak_pool_stats.purged_units, hak_pool_stats.dirty_units, hak_pool_stats.used_units,
    };
}

/* ---- Units that a test holds ----------------------------------------------------------------- */

static struct {
    hak_slab_t *slab;
    unsigned count;
} held[HELD_MAX];

/* Held units have an owner, as the pool's callers give them; so a rebuild leaves them alone. */
static hak_slab_t *take_units(unsigned count, bool *zeroed) {
    hak_slab_t *slab = hak_pool_take(count, zeroed);
    REQUIRE(slab != NULL, "no memory for %u units", count);
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(slab[i].owner == 0, "unit %u of %u is handed out although it is in use", i, count);
        REQUIRE(slab[i].base == slab->base + i * (size_t)HAK_UNIT_SIZE, "%u units are not in a row",
                count);
        slab[i].owner = hak_owner(0, HAK_CLASS_RUN);
    }
    hak_superslab_t *super = hak_region_superslab_of(slab);
    REQUIRE(hak_region_superslab_of(&slab[count - 1]) == super, "%u units of two superslabs",
            count);
    return slab;
}

static hak_slab_t *take(unsigned count) {
    bool zeroed;
    return take_units(count, &zeroed);
}

static void give(hak_slab_t *slab, unsigned count) {
    for (unsigned i = 0; i < count; i++) slab[i].owner = 0;
    hak_pool_give(slab, count);
}

static void fill(hak_slab_t *slab, unsigned count) {
    memset(slab->base, 0xEE, (size_t)count * HAK_UNIT_SIZE);
}

static bool is_zero(const hak_slab_t *slab, unsigned count) {
    for (size_t i = 0; i < (size_t)count * HAK_UNIT_SIZE; i++)
        if (slab->base[i] != 0) return false;
    return true;
}

/* Pages that the kernel has for these units. */
static unsigned resident_pages(const hak_slab_t *slab, unsigned count) {
    unsigned char pages[HAK_SUPERSLAB_SIZE / 4096];
    unsigned resident = 0;
    size_t size = (size_t)count * HAK_UNIT_SIZE;
    assert_int_equal(mincore(slab->base, size, pages), 0);
    for (size_t i = 0; i < size / hak_os_page_size(); i++) resident += pages[i] & 1;
    return resident;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void runs_of_every_length(void **state) {
    (void)state;
    counts_t before = counts();
    for (unsigned count = 1; count <= HAK_SUPERSLAB_UNITS; count++) {
        held[count].slab = take(count);
        fill(held[count].slab, count);
        assert_int_equal(counts().used, before.used + count * (count + 1) / 2);
    }
    for (unsigned count = 1; count <= HAK_SUPERSLAB_UNITS; count++) give(held[count].slab, count);
    assert_int_equal(counts().used, before.used);
}

static void the_stages_are_counted(void **state) {
    (void)state;
    /* A whole superslab is taken from what is free, or is a new one. */
    counts_t before = counts();
    unsigned taken = 0;
    while (counts().stage3 == before.stage3) held[taken++].slab = take(HAK_SUPERSLAB_UNITS);
    counts_t after = counts();
    assert_int_equal(after.stage3, before.stage3 + 1);
    assert_int_equal(after.stage2, before.stage2 + (taken - 1) * HAK_SUPERSLAB_UNITS);
    /* Given back and taken again, it is no new one. */
    before = counts();
    for (unsigned count = 1; count <= HAK_SUPERSLAB_UNITS; count++) {
        give(held[0].slab, HAK_SUPERSLAB_UNITS);
        held[1].slab = take(count);
        give(held[1].slab, count);
        held[0].slab = take(HAK_SUPERSLAB_UNITS);
    }
    after = counts();
    assert_int_equal(after.stage3, before.stage3);
    assert_int_equal(after.stage2, before.stage2 + 136 + 16 * HAK_SUPERSLAB_UNITS);
    give(held[0].slab, HAK_SUPERSLAB_UNITS);
    for (unsigned i = 2; i < taken; i++) give(held[i].slab, HAK_SUPERSLAB_UNITS);
}

/* A new superslab is for the first unit alone: the others come from what is there, if any. */
static void single_units_come_and_go_together(void **state) {
    (void)state;
    enum { UNITS = HAK_SUPERSLAB_UNITS };
    hak_slab_t *units[UNITS];
    bool zeroed[UNITS];
    unsigned taken = 0;
    counts_t before = counts();
    while (counts().stage3 == before.stage3) held[taken++].slab = take(UNITS);
    give(held[0].slab, UNITS); /* now something is free, and the newest superslab is full */
    counts_t middle = counts();
    assert_int_equal(hak_pool_take_units(UNITS, units, zeroed), UNITS);
    assert_int_equal(counts().stage3, middle.stage3);
    assert_int_equal(counts().stage2, middle.stage2 + UNITS);
    assert_int_equal(counts().used, middle.used + UNITS);
    for (unsigned i = 0; i < UNITS; i++) {
        REQUIRE(units[i]->owner == 0, "unit %u is handed out although it is in use", i);
        units[i]->owner = hak_owner(0, HAK_CLASS_RUN);
        units[i]->next = i ? units[i - 1] : NULL;
    }
    for (unsigned i = 0; i < UNITS; i++) units[i]->owner = 0;
    hak_pool_give_list(units[UNITS - 1]);
    assert_int_equal(counts().used, middle.used);
    for (unsigned i = 1; i < taken; i++) give(held[i].slab, UNITS);
}

static void holes_are_filled_first(void **state) {
    (void)state;
    hak_slab_t *super = take(HAK_SUPERSLAB_UNITS);
    fill(super, HAK_SUPERSLAB_UNITS);
    /* Holes of 1, 2, 3 and 4 units, each behind one that stays. */
    give(super + 1, 1), give(super + 3, 2), give(super + 6, 3), give(super + 10, 4);
    uint64_t stage3 = counts().stage3;
    for (unsigned i = 0; i < 10; i++) {
        held[i].slab = take(1);
        REQUIRE(held[i].slab > super && held[i].slab < super + HAK_SUPERSLAB_UNITS,
                "a unit is taken elsewhere while the superslab freed into last has %u", 10 - i);
    }
    assert_int_equal(counts().stage3, stage3);
    for (unsigned i = 0; i < 10; i++) give(held[i].slab, 1);
    /* A run of five fits none of the holes, one of four only the last. */
    held[0].slab = take(5);
    assert_true(held[0].slab + 5 <= super || held[0].slab >= super + HAK_SUPERSLAB_UNITS);
    held[1].slab = take(4);
    assert_ptr_equal(held[1].slab, super + 10);
    give(held[0].slab, 5);
    give(held[1].slab, 4);
    give(super, 1), give(super + 2, 1), give(super + 5, 1), give(super + 9, 1);
    give(super + 14, 2);
}

/* Not only in the superslab that was freed into last. */
static void any_run_that_is_long_enough_serves(void **state) {
    (void)state;
    uint64_t stage3 = counts().stage3;
    unsigned taken = 0;
    /* From here on nothing is free but what this test gives back. */
    while (counts().stage3 == stage3) held[taken++].slab = take(1);
    for (unsigned i = 1; i < HAK_SUPERSLAB_UNITS; i++) held[taken++].slab = take(1);
    hak_slab_t *one = take(HAK_SUPERSLAB_UNITS), *two = take(HAK_SUPERSLAB_UNITS);
    stage3 = counts().stage3;
    for (unsigned count = 2; count <= HAK_SUPERSLAB_UNITS; count++) {
        unsigned start = HAK_SUPERSLAB_UNITS - count;
        give(one + start, count);
        give(two + 5, 1);
        REQUIRE(take(count) == one + start, "%u units are not taken where they are free", count);
        assert_ptr_equal(take(1), two + 5);
    }
    assert_int_equal(counts().stage3, stage3);
    give(one, HAK_SUPERSLAB_UNITS);
    give(two, HAK_SUPERSLAB_UNITS);
    while (taken) give(held[--taken].slab, 1);
}

static void zeroed_is_said_only_of_zeros(void **state) {
    (void)state;
    bool zeroed;
    for (unsigned turn = 0; turn < 300; turn++) {
        unsigned i = unit_random(HELD_MAX / 10), count = 1 + unit_random(HAK_SUPERSLAB_UNITS);
        if (held[i].count) {
            give(held[i].slab, held[i].count);
            held[i].count = 0;
            if (turn % 7 == 0) hak_pool_purge(0);
            continue;
        }
        held[i].slab = take_units(count, &zeroed);
        held[i].count = count;
        REQUIRE(!zeroed || is_zero(held[i].slab, count), "%u units that are not zero", count);
        fill(held[i].slab, count);
    }
    for (unsigned i = 0; i < HELD_MAX; i++) {
        if (held[i].count) give(held[i].slab, held[i].count);
        held[i].count = 0;
    }
}

static void a_purge_gives_pages_back(void **state) {
    (void)state;
    bool zeroed;
    hak_pool_purge(0);
    assert_int_equal(counts().dirty, 0);
    hak_slab_t *slab = take(5);
    fill(slab, 5);
    assert_int_equal(resident_pages(slab, 5), 5 * HAK_UNIT_SIZE / hak_os_page_size());
    counts_t before = counts();
    give(slab, 5);
    assert_int_equal(counts().dirty, before.dirty + 5);
    assert_int_equal(hak_pool_purge(NEVER_MS), 0);
    assert_int_equal(resident_pages(slab, 5), 5 * HAK_UNIT_SIZE / hak_os_page_size());
    assert_int_equal(hak_pool_purge(0), 5);
    assert_int_equal(resident_pages(slab, 5), 0);
    assert_int_equal(counts().dirty, 0);
    assert_int_equal(counts().purged_units, before.purged_units + 5);
    assert_int_equal(counts().purge_calls, before.purge_calls + 1);
    assert_int_equal(hak_pool_purge(0), 0);
    slab = take_units(5, &zeroed);
    assert_true(!zeroed || is_zero(slab, 5));
    give(slab, 5);
}

/* Only free units are purged, and only those that were used: not their neighbours. */
static void a_purge_spares_what_is_in_use(void **state) {
    (void)state;
    hak_slab_t *super = take(HAK_SUPERSLAB_UNITS);
    fill(super, HAK_SUPERSLAB_UNITS);
    hak_pool_purge(0);
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS; i += 3) give(super + i, 1);
    assert_int_equal(hak_pool_purge(0), 6);
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS; i++) {
        bool in_use = i % 3 != 0;
        REQUIRE((super[i].base[100] != 0) == in_use, "unit %u %s", i,
                in_use ? "was purged although it is in use" : "was not purged");
        if (in_use) give(super + i, 1);
    }
}

static void a_purge_waits_for_its_delay(void **state) {
    (void)state;
    hak_slab_t *slab = take(1);
    fill(slab, 1);
    give(slab, 1);
    assert_int_equal(hak_pool_purge(10000), 0);
    usleep(60000);
    assert_true(hak_pool_purge(30) >= 1);
}

/* Pages that the kernel will not take. */
static void purge_locked_pages(const void *unused) {
    (void)unused;
    hak_pool_purge(0);
    hak_slab_t *slab = hak_pool_take(2, &(bool){false});
    memset(slab->base, 1, 2 * HAK_UNIT_SIZE);
    /* Not by the library's function: sanitizers make that one do nothing. */
    if (syscall(SYS_mlock, slab->base, HAK_UNIT_SIZE) != 0) return; /* not allowed to here */
    hak_pool_give(slab, 2);
    size_t purged = hak_pool_purge(0);
    size_t dirty = hak_pool_stats.dirty_units;
    CHECK(purged <= 1, "%zu units were purged, one of them locked", purged);
    CHECK(dirty >= 1 && dirty <= 2, "%zu units are dirty", dirty);
    for (unsigned i = 0; i < 2; i++) {
        bool zeroed;
        slab = hak_pool_take(1, &zeroed);
        CHECK(!zeroed || slab->base[0] == 0, "a locked page is said to be zero");
    }
    dirty = hak_pool_stats.dirty_units;
    CHECK(dirty == 0, "%zu units are dirty, none should be", dirty);
}

static void locked_pages_stay_dirty(void **state) {
    (void)state;
    unit_child(purge_locked_pages, NULL, SECONDS, "purge of locked pages");
}

/* The child of a fork: units that nobody owns and the pool does not have. */
static void a_rebuild_finds_lost_units(void **state) {
    (void)state;
    counts_t before = counts();
    hak_slab_t *kept = take(3), *lost = take(4);
    for (unsigned i = 0; i < 4; i++) lost[i].owner = 0;
    hak_pool_rebuild();
    assert_int_equal(counts().used, before.used + 3);
    hak_superslab_t *super = hak_region_superslab_of(lost);
    unsigned first = (unsigned)(lost - super->slabs);
    assert_int_equal(super->free >> first & 0xf, 0xf);
    uint64_t stage3 = counts().stage3;
    hak_slab_t *again = take(4);
    assert_int_equal(counts().stage3, stage3);
    give(again, 4);
    give(kept, 3);
    hak_pool_rebuild();
    assert_int_equal(counts().used, before.used);
}

/* Random requests against a record of who has which unit; take_units looks at it. */
static void many_requests(void **state) {
    (void)state;
    counts_t before = counts();
    for (unsigned turn = 0; turn < 40000; turn++) {
        unsigned i = unit_random(HELD_MAX);
        if (held[i].count) {
            give(held[i].slab, held[i].count);
            held[i].count = 0;
        } else {
            held[i].count = unit_random(3) ? 1 + unit_random(2) : 1 + unit_random(16);
            held[i].slab = take(held[i].count);
        }
    }
    size_t sum = 0;
    for (unsigned i = 0; i < HELD_MAX; i++) sum += held[i].count;
    assert_int_equal(counts().used, before.used + sum);
    for (unsigned i = 0; i < HELD_MAX; i++)
        if (held[i].count) give(held[i].slab, held[i].count);
    assert_int_equal(counts().used, before.used);
    /* At most 400 runs of 16 units were held: fragmentation costs no more than twice that. */
    REQUIRE(counts().stage3 - before.stage3 <= 2 * HELD_MAX, "%llu superslabs",
            (unsigned long long)(counts().stage3 - before.stage3));
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_DELAY_MS=-1", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_run_that_is_long_enough_serves),
        cmocka_unit_test(runs_of_every_length),
        cmocka_unit_test(the_stages_are_counted),
        cmocka_unit_test(single_units_come_and_go_together),
        cmocka_unit_test(holes_are_filled_first),
        cmocka_unit_test(zeroed_is_said_only_of_zeros),
        cmocka_unit_test(a_purge_gives_pages_back),
        cmocka_unit_test(a_purge_spares_what_is_in_use),
        cmocka_unit_test(a_purge_waits_for_its_delay),
        cmocka_unit_test(locked_pages_stay_dirty),
        cmocka_unit_test(a_rebuild_finds_lost_units),
        cmocka_unit_test(many_requests),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
