/* pool_purge.c: which free units a purge gives back, and when. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "commit/commit.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/purge_budget.h"
#include "pool/pool.h"
#include "pool/purge.h"
#include "pool_units.h"
#include "purge.h"

enum { HELD_MAX = 400, NEVER_MS = 1 << 30, SECONDS = 20 };

static hak_unit_t *held[HELD_MAX];

static void a_purge_gives_pages_back(void **state) {
    (void)state;
    bool zeroed;
    purge_pool(0, true);
    assert_int_equal(counts().dirty, 0);
    hak_unit_t *slab = take(5);
    fill(slab, 5);
    assert_int_equal(resident_pages(slab, 5), 5 * HAK_UNIT_SIZE / hak_os_page_size());
    counts_t before = counts();
    give(slab, 5);
    assert_int_equal(counts().dirty, before.dirty + 5);
    assert_int_equal(purge_pool(NEVER_MS, true), 0);
    assert_int_equal(resident_pages(slab, 5), 5 * HAK_UNIT_SIZE / hak_os_page_size());
    assert_int_equal(purge_pool(0, true), 5);
    assert_int_equal(resident_pages(slab, 5), 0);
    assert_int_equal(counts().dirty, 0);
    assert_int_equal(counts().purged_units, before.purged_units + 5);
    assert_int_equal(counts().purge_calls, before.purge_calls + 1);
    assert_int_equal(purge_pool(0, true), 0);
    slab = take_units(5, &zeroed);
    assert_true(!zeroed || is_zero(slab, 5));
    give(slab, 5);
}

/* Only free units are purged, and only those that were used: not their neighbours. */
static void a_purge_spares_what_is_in_use(void **state) {
    (void)state;
    hak_unit_t *super = take(hak_superslab_units());
    fill(super, hak_superslab_units());
    purge_pool(0, true);
    for (unsigned i = 0; i < hak_superslab_units(); i += 3) give(super + i, 1);
    assert_int_equal(purge_pool(0, true), (hak_superslab_units() + 2) / 3);
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        bool in_use = i % 3 != 0;
        REQUIRE((super[i].base[100] != 0) == in_use, "unit %u %s", i,
                in_use ? "was purged although it is in use" : "was not purged");
        if (in_use) give(super + i, 1);
    }
}

static void a_purge_waits_for_its_delay(void **state) {
    (void)state;
    hak_unit_t *slab = take(1);
    fill(slab, 1);
    give(slab, 1);
    assert_int_equal(purge_pool(10000, true), 0);
    usleep(60000);
    assert_true(purge_pool(30, true) >= 1);
}

static void set(hak_option_t option, const char *value) {
    assert_true(hak_option_assign(option, (hak_text_t){value, strlen(value)}, HAK_SOURCE_PROGRAM));
}

/* A superslab with a slab in use is for rounds of partial release, and not without the option. */
static void a_live_superslab_waits_for_its_round(void **state) {
    (void)state;
    unsigned units = hak_superslab_units();
    purge_pool(0, true);
    hak_unit_t *super = take(units);
    fill(super, units);
    set(HAK_OPTION_TINY_SS_PARTIAL, "0");
    give(super + 1, units - 1);
    assert_int_equal(purge_pool(0, true), 0);
    assert_int_equal(hak_pool_stats.held_units, units - 1);
    assert_int_equal(hak_pool_purgeable(), 0);
    /* Those that wait are taken before fresh ones. */
    hak_unit_t *again = take(1);
    assert_true(again > super && again < super + units);
    assert_int_equal(hak_pool_stats.held_units, units - 2);
    set(HAK_OPTION_TINY_SS_PARTIAL, "1");
    set(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL, "1024");
    assert_int_equal(purge_pool(0, false), 0);
    assert_int_equal(hak_pool_purgeable(), units - 2);
    uint64_t partial = hak_pool_stats.purged_partial;
    assert_int_equal(purge_pool(0, true), units - 2);
    assert_int_equal(hak_pool_stats.purged_partial, partial + units - 2);
    assert_int_equal(hak_pool_stats.held_units, 0);
    /* Wholly free, it waits for nothing. */
    give(again, 1);
    assert_int_equal(purge_pool(0, false), 0);
    give(super, 1);
    assert_int_equal(purge_pool(0, false), 2);
    assert_int_equal(hak_pool_stats.purged_partial, partial + units - 2);
}

/* A unit that nobody touched goes back without pages, and is not charged; one whose pages are there is dirty. */
static void an_unused_unit_stays_clean(void **state) {
    (void)state;
    bool zeroed = false;
    purge_pool(0, true);
    size_t charged = hak_commit_bytes();
    counts_t before = counts();
    hak_unit_t *unit = take_units(1, &zeroed);
    assert_true(zeroed);
    unit->owner = 0;
    hak_pool_give_unused(unit, zeroed);
    assert_int_equal(counts().dirty, before.dirty);
    assert_int_equal(hak_commit_bytes(), charged);
    set(HAK_OPTION_SS_PREFAULT, "1");
    unit = take_units(1, &zeroed);
    unit->owner = 0;
    hak_pool_give_unused(unit, zeroed);
    set(HAK_OPTION_SS_PREFAULT, "0");
    assert_int_equal(counts().dirty, before.dirty + 1);
    unit = take_units(1, &zeroed);
    assert_false(zeroed);
    unit->owner = 0;
    hak_pool_give_unused(unit, zeroed);
    assert_int_equal(counts().dirty, before.dirty + 1);
    purge_pool(0, true);
}

static void (*in_purge)(void); /* called in the midst of the next purge */
static bool refuses;

static size_t
    refused_every; /* a range with a unit whose number can be divided by this is refused; 0: none */
static unsigned purges;

static bool is_refused(const char *start, size_t size) {
    uintptr_t first = (uintptr_t)start >> HAK_UNIT_SHIFT, count = size >> HAK_UNIT_SHIFT;
    return refused_every && hak_align_up(first, refused_every) < first + count;
}

bool __real_hak_os_purge(void *addr, size_t size);
bool __wrap_hak_os_purge(void *addr, size_t size);
bool __wrap_hak_os_purge(void *addr, size_t size) {
    void (*now)(void) = in_purge;
    in_purge = NULL;
    purges++;
    if (now) now();
    return !refuses && !is_refused(addr, size) && __real_hak_os_purge(addr, size);
}

static hak_unit_t *last_used; /* in use, of the superslab that is purged */

static void free_the_last(void) {
    give(last_used, 1);
    assert_int_equal(purge_pool(0, false), 0);
    assert_int_equal(hak_pool_stats.held_units, 1);
}

/* A superslab becomes wholly free while it waits for a round: a purge ends, or untouched units come back
 * that were taken ahead. It waits no more, and the sum of those that wait is right. */
static void what_waits_becomes_free(void **state) {
    (void)state;
    unsigned units = hak_superslab_units();
    hak_unit_t *one, *ahead;
    bool grown;
    bool zeroed;
    set(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL, "1024");
    purge_pool(0, true);
    for (unsigned i = 0; i < 2; i++) {
        hak_unit_t *super = take(units);
        fill(super, units);
        give(super, units - 1);
        last_used = super + units - 1;
        refuses = i > 0;
        in_purge = free_the_last;
        hak_budget_t some = {UINT32_MAX, (size_t)units * HAK_UNIT_SIZE}; /* for one purge */
        assert_int_equal(hak_pool_purge_piece(0, true, &some), refuses ? 0 : units - 1);
        assert_int_equal(hak_pool_stats.held_units, 0);
        refuses = false;
        assert_int_equal(purge_pool(0, false), i > 0 ? units : 1);
    }
    unsigned count = 0;
    do { /* until all that is free is whole superslabs */
        held[count] = take(1);
    } while (hak_bit_count(hak_region_superslab_of(held[count++])->free) + 1 < units);
    give(held[--count], 1);
    purge_pool(0, true);
    assert_int_equal(hak_pool_take_units(1, &one, &zeroed, 3, &ahead, &grown), 1);
    assert_non_null(ahead);
    one->owner = hak_owner(0, HAK_CLASS_LARGE);
    give(one, 1);
    assert_int_equal(purge_pool(0, false), 0);
    assert_int_equal(hak_pool_stats.held_units, 1);
    hak_pool_give_ahead(ahead);
    assert_int_equal(purge_pool(0, false), 1);
    assert_int_equal(hak_pool_stats.held_units, 0);
    while (count) give(held[--count], 1);
    set(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL, "4");
}

/* 1,024 slabs taken or given are an epoch, though the clock stands still. */
static void slab_events_end_an_epoch(void **state) {
    (void)state;
    enum { EPOCHS = 500 };
    purge_pool(0, true);
    set(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL, "1024");
    hak_unit_t *one = take(2);
    fill(one, 2);
    give(one + 1, 1);
    assert_int_equal(purge_pool(0, false), 0);
    set(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL, "500");
    for (unsigned i = 0; i < EPOCHS * 512; i++) give(take(1), 1);
    size_t dirty = hak_pool_stats.dirty_units;
    assert_int_equal(purge_pool(0, false), dirty);
    give(one, 1);
    set(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL, "4");
}

/* Many superslabs, of each of which the kernel takes all but one unit: a purge asks for all, and counts what goes
 * back. A piece that asks in vain does so a bounded number of times. */
static void locked_units_hide_no_others(void **state) {
    (void)state;
    enum { SUPERS = 40, LOOKS = 64, DELAY_MS = 300 };
    unsigned units = hak_superslab_units(), most = 0;
    hak_unit_t *supers[SUPERS];
    purge_pool(0, true);
    for (unsigned i = 0; i < SUPERS; i++) fill(supers[i] = take(units), units);
    for (unsigned i = 0; i < SUPERS; i++)
        for (unsigned k = 0; k < units; k++)
            if (k % 2 == 0) give(supers[i] + k, 1);
    refused_every = units;
    counts_t before = counts();
    uint64_t partial = hak_pool_stats.purged_partial;
    assert_int_equal(purge_pool(0, true), SUPERS * (units / 2 - 1));
    assert_int_equal(counts().dirty, SUPERS);
    assert_int_equal(counts().purged_units, before.purged_units + SUPERS * (units / 2 - 1));
    assert_int_equal(hak_pool_stats.purged_partial, partial + SUPERS * (units / 2 - 1));
    usleep(2000);
    purges = 0;
    assert_int_equal(hak_pool_purge_piece(0, true, &(hak_budget_t){LOOKS, SIZE_MAX}), 0);
    assert_true(purges > 0 && purges <= LOOKS / 4);
    /* What is behind them goes back when pieces have been there a few times. */
    give(supers[0] + 3, 1);
    usleep((DELAY_MS + 10) * 1000);
    for (unsigned done = 0; !done; most++) {
        REQUIRE(most < SUPERS * 4 / LOOKS + 2, "a free unit stays in %u pieces", most);
        done = (unsigned)hak_pool_purge_piece(DELAY_MS, true, &(hak_budget_t){LOOKS, SIZE_MAX});
    }
    refused_every = 0;
    assert_int_equal(purge_pool(0, true), SUPERS);
    assert_int_equal(counts().dirty, 0);
    for (unsigned i = 0; i < SUPERS; i++)
        for (unsigned k = 1; k < units; k++)
            if (k % 2 != 0 && (i > 0 || k != 3)) give(supers[i] + k, 1);
}

/* One locked unit keeps its own pages, not those of its span; where all are locked the kernel is not asked for each. */
static void a_locked_unit_keeps_no_others(void **state) {
    (void)state;
    enum { SUPERS = 6 };
    unsigned units = hak_superslab_units(), most = 1 + 2 * HAK_PURGE_SPLITS;
    hak_unit_t *supers[SUPERS];
    purge_pool(0, true);
    for (unsigned i = 0; i < SUPERS; i++) fill(supers[i] = take(units), units);
    for (unsigned i = 0; i < SUPERS; i++) give(supers[i], units);
    refuses = true;
    purges = 0;
    assert_int_equal(purge_pool(0, true), 0);
    REQUIRE(purges <= SUPERS + most, "%u calls in vain for %d superslabs", purges, SUPERS);
    assert_int_equal(counts().dirty, SUPERS * units);
    refuses = false;
    refused_every = units;
    purges = 0;
    assert_int_equal(purge_pool(0, true), SUPERS * (units - 1));
    assert_int_equal(counts().dirty, SUPERS);
    REQUIRE(purges <= SUPERS * most, "%u calls for %d superslabs", purges, SUPERS);
    for (unsigned i = 0; i < SUPERS; i++) {
        size_t pages = resident_pages(supers[i], units);
        REQUIRE(pages <= HAK_UNIT_SIZE / hak_os_page_size(), "%zu pages are left", pages);
    }
    refused_every = 0;
    assert_int_equal(purge_pool(0, true), SUPERS);
    assert_int_equal(counts().dirty, 0);
}

/* Pages that the kernel will not take. */
static void purge_locked_pages(const void *unused) {
    (void)unused;
    purge_pool(0, true);
    hak_unit_t *slab = hak_pool_take(2, &(bool){false});
    memset(slab->base, 1, 2 * HAK_UNIT_SIZE);
    /* Not by the library's function: sanitizers make that one do nothing. */
    if (syscall(SYS_mlock, slab->base, HAK_UNIT_SIZE) != 0) return; /* not allowed to here */
    hak_pool_give(slab, 2);
    size_t purged = purge_pool(0, true);
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

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_DELAY_MS=-1", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_purge_gives_pages_back),
        cmocka_unit_test(a_purge_spares_what_is_in_use),
        cmocka_unit_test(a_purge_waits_for_its_delay),
        cmocka_unit_test(an_unused_unit_stays_clean),
        cmocka_unit_test(a_live_superslab_waits_for_its_round),
        cmocka_unit_test(what_waits_becomes_free),
        cmocka_unit_test(slab_events_end_an_epoch),
        cmocka_unit_test(locked_units_hide_no_others),
        cmocka_unit_test(a_locked_unit_keeps_no_others),
        cmocka_unit_test(locked_pages_stay_dirty),
    };
    return cmocka_run_group_tests_name("pool, purges", tests, NULL, NULL);
}
