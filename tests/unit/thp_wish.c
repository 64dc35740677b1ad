/* thp_wish.c: a look asks the kernel about few superslabs, finds slabs behind large heaps', and the probes that it
 * reads are not counted among those with huge pages. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "classes/classes.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/thp_wish.h"
#include "region/region.h"
#include "region/thp.h"

enum {
    CALLS_MOST = 4, /* of mincore in a look */
    FIRST = 100,    /* zones that no other code of the program uses */
    END = 116,
    SUPERS_MAX = 4000,
    NEW_HUGE = 200,
};

static unsigned calls; /* of mincore */
static bool all_absent;

/* Instead of libc's: all pages are in memory, or none is. */
int mincore(void *addr, size_t size, unsigned char *pages) {
    (void)addr;
    calls++;
    memset(pages, !all_absent, size / hak_os_page_size());
    return 0;
}

static uint16_t long_blocks(void) {
    unsigned longest = 1;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
        if (hak_classes[i].size > hak_classes[longest].size) longest = i;
    return hak_owner(0, longest);
}

/* A heap of which zones FIRST .. END - 1 have these wishes; looked at whenever it has grown by one more. */
static void looks_are_short(const hak_thp_wish_t *wishes, unsigned wish_count, unsigned least) {
    static hak_unit_t units[HAK_SUPERSLAB_UNITS_MAX];
    size_t end = hak_thp_range(END - 1).end >> hak_map.super_shift;
    hak_superslab_t *supers = aligned_alloc(HAK_LINE, end * sizeof *supers);
    unsigned most = 0;
    REQUIRE(supers != NULL, "no memory");
    memset(supers, 0, end * sizeof *supers);
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS_MAX; i++)
        hak_store_relaxed(&units[i].owner, long_blocks());
    for (size_t i = 0; i < end; i++) {
        supers[i].units = units;
        hak_store_relaxed(&supers[i].mapped, true);
    }
    for (unsigned zone = FIRST; zone < END; zone++)
        hak_thp_mapped(NULL, hak_thp_range(zone), wishes[(zone - FIRST) % wish_count]);
    for (unsigned zone = FIRST + 1; zone < END; zone++) {
        for (all_absent = false;; all_absent = true) {
            calls = 0;
            hak_thp_wish_t wish =
                hak_thp_wish_of(supers, hak_thp_range(zone).end >> hak_map.super_shift);
            REQUIRE(calls <= CALLS_MOST, "%u calls with %u zones", calls, zone + 1);
            assert_int_equal(wish, all_absent && calls ? HAK_THP_AGAINST : HAK_THP_PROBE);
            if (calls > most) most = calls;
            if (all_absent) break;
        }
    }
    REQUIRE(most >= least, "at most %u calls", most);
    for (unsigned zone = FIRST; zone < END; zone++) hak_thp_unmapped(hak_thp_range(zone));
    free(supers);
}

/* Zones that are probes only in part give fewer samples than those without huge pages, or as many. */
static void a_look_is_short(void **state) {
    (void)state;
    static const hak_thp_wish_t probes[] = {HAK_THP_PROBE}, against[] = {HAK_THP_AGAINST};
    /* Where a probe is one superslab: three of them, and a zone without huge pages below. */
    static const hak_thp_wish_t mixed[END - FIRST] = {
        [0] = HAK_THP_NONE, [1] = HAK_THP_ALL,  [2] = HAK_THP_PROBE,  [3] = HAK_THP_ALL,
        [4] = HAK_THP_ALL,  [5] = HAK_THP_ALL,  [6] = HAK_THP_PROBE,  [7] = HAK_THP_ALL,
        [8] = HAK_THP_ALL,  [9] = HAK_THP_ALL,  [10] = HAK_THP_PROBE, [11] = HAK_THP_ALL,
        [12] = HAK_THP_ALL, [13] = HAK_THP_ALL, [14] = HAK_THP_ALL,   [15] = HAK_THP_ALL,
    };
    looks_are_short(probes, 1, 2);
    looks_are_short(against, 1, CALLS_MOST);
    looks_are_short(mixed, sizeof mixed / sizeof *mixed, CALLS_MOST);
}

/* A heap of small pages whose newest superslabs are large heaps', and nothing that they have tells. Slabs below them, however
 * few, decide: here of absent pages or of present ones. */
static void large_heaps_hide_nothing(void **state) {
    (void)state;
    enum { SUPERS = 400, OLD = 40, SLABS_EVERY = 6 };
    static hak_unit_t units[HAK_SUPERSLAB_UNITS_MAX], none[HAK_SUPERSLAB_UNITS_MAX];
    static hak_superslab_t supers[SUPERS];
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS_MAX; i++)
        hak_store_relaxed(&units[i].owner, long_blocks());
    const hak_thp_range_t all = {0, (size_t)SUPERS << hak_map.super_shift};
    hak_thp_mapped(NULL, all, HAK_THP_NONE);
    for (size_t i = 0; i < SUPERS; i++) {
        supers[i].units = i < OLD ? units : none;
        hak_store_relaxed(&supers[i].mapped, true);
        hak_store_relaxed(&supers[i].heap_owner, i < OLD ? 0 : hak_owner(0, HAK_CLASS_LARGE));
    }
    all_absent = true;
    for (size_t carved = OLD; carved <= SUPERS; carved += OLD)
        assert_int_equal(hak_thp_wish_of(supers, carved), HAK_THP_AGAINST);
    for (size_t i = OLD; i < SUPERS; i += SLABS_EVERY) {
        supers[i].units = units;
        hak_store_relaxed(&supers[i].heap_owner, 0);
    }
    assert_int_equal(hak_thp_wish_of(supers, SUPERS), HAK_THP_AGAINST);
    all_absent = false;
    assert_int_equal(hak_thp_wish_of(supers, SUPERS), HAK_THP_PROBE);
    for (size_t i = 0; i < SUPERS; i++) {
        size_t unit = i << hak_map.super_shift;
        hak_thp_unmapped((hak_thp_range_t){unit, unit + hak_superslab_units()});
    }
}

static const hak_superslab_t *first_superslab;
static size_t asked, probed;

static void count_superslab(hak_superslab_t *super, void *context) {
    (void)context;
    if (!first_superslab) first_superslab = super;
    size_t unit = (size_t)(super - first_superslab) << hak_map.super_shift;
    hak_thp_range_t small = hak_thp_small_pages(hak_thp_of(unit));
    if (!hak_thp_wishes(unit)) return;
    if (unit >= small.first && unit < small.end)
        probed++;
    else
        asked++;
}

/* Slabs of long blocks, all in use: where the heap has huge pages, a part of it is a probe. */
static void probes_do_not_count_as_huge(void **state) {
    (void)state;
    static hak_unit_t *taken[SUPERS_MAX];
    unsigned count = 0;
    all_absent = false;
    while (count < SUPERS_MAX && hak_pool_stats.huge < NEW_HUGE) {
        bool zeroed;
        hak_unit_t *unit = taken[count] = hak_pool_take(hak_superslab_units(), &zeroed);
        REQUIRE(unit != NULL, "no memory");
        for (unsigned i = 0; i < hak_superslab_units(); i++)
            hak_store_relaxed(&unit[i].owner, long_blocks());
        count++;
    }
    hak_region_each_superslab(count_superslab, NULL);
    REQUIRE(probed > 0, "no probe");
    REQUIRE(hak_pool_stats.huge == asked, "%zu superslabs have huge pages, not %llu, and %zu none",
            asked, (unsigned long long)hak_pool_stats.huge, probed);
    while (count) {
        hak_unit_t *unit = taken[--count];
        for (unsigned i = 0; i < hak_superslab_units(); i++) hak_store_relaxed(&unit[i].owner, 0);
        hak_pool_give(unit, hak_superslab_units());
    }
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_DELAY_MS=-1", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_is_short),
        cmocka_unit_test(large_heaps_hide_nothing),
        cmocka_unit_test(probes_do_not_count_as_huge),
    };
    return cmocka_run_group_tests_name("thp_wish", tests, NULL, NULL);
}
