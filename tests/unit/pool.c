/* pool.c: the stages of a unit, runs of every length, superslabs, huge pages; pool_purge.c has the purges. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "options/options.h"
#include "os/os.h"
#include "pool/lists.h"
#include "pool/pool.h"
#include "pool/purge.h"
#include "pool_units.h"
#include "purge.h"

enum { HELD_MAX = 400 };

static struct {
    hak_unit_t *slab;
    unsigned count;
} held[HELD_MAX];

static void runs_of_every_length(void **state) {
    (void)state;
    counts_t before = counts();
    for (unsigned count = 1; count <= hak_superslab_units(); count++) {
        held[count].slab = take(count);
        fill(held[count].slab, count);
        assert_int_equal(counts().used, before.used + count * (count + 1) / 2);
    }
    for (unsigned count = 1; count <= hak_superslab_units(); count++) give(held[count].slab, count);
    assert_int_equal(counts().used, before.used);
}

static void the_stages_are_counted(void **state) {
    (void)state;
    unsigned units = hak_superslab_units();
    /* A whole superslab is taken from what is free, or is a new one. */
    counts_t before = counts();
    unsigned taken = 0;
    while (counts().stage3 == before.stage3) held[taken++].slab = take(hak_superslab_units());
    counts_t after = counts();
    assert_int_equal(after.stage3, before.stage3 + 1);
    assert_int_equal(after.stage2, before.stage2 + (taken - 1) * hak_superslab_units());
    /* Given back and taken again, it is no new one. */
    before = counts();
    for (unsigned count = 1; count <= hak_superslab_units(); count++) {
        give(held[0].slab, hak_superslab_units());
        held[1].slab = take(count);
        give(held[1].slab, count);
        held[0].slab = take(hak_superslab_units());
    }
    after = counts();
    assert_int_equal(after.stage3, before.stage3);
    assert_int_equal(after.stage2, before.stage2 + units * (units + 1) / 2 + units * units);
    give(held[0].slab, hak_superslab_units());
    for (unsigned i = 2; i < taken; i++) give(held[i].slab, hak_superslab_units());
}

/* A new superslab is for the first unit alone: the others come from what is there, if any. */
static void single_units_come_and_go_together(void **state) {
    (void)state;
    const unsigned count = hak_superslab_units();
    hak_unit_t *units[HAK_SUPERSLAB_UNITS_MAX];
    bool zeroed[HAK_SUPERSLAB_UNITS_MAX];
    unsigned taken = 0;
    counts_t before = counts();
    while (counts().stage3 == before.stage3) held[taken++].slab = take(count);
    give(held[0].slab, count); /* now something is free, and the newest superslab is full */
    counts_t middle = counts();
    hak_unit_t *ahead;
    bool grown;
    assert_int_equal(hak_pool_take_units(count, units, zeroed, count, &ahead, &grown), count);
    assert_int_equal(counts().stage3, middle.stage3);
    assert_int_equal(counts().stage2, middle.stage2 + count);
    assert_int_equal(counts().used, middle.used + count);
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(units[i]->owner == 0, "unit %u is handed out although it is in use", i);
        units[i]->owner = hak_owner(0, HAK_CLASS_LARGE);
        units[i]->next = i ? units[i - 1] : NULL;
    }
    for (unsigned i = 0; i < count; i++) units[i]->owner = 0;
    hak_pool_give_list(units[count - 1]);
    assert_int_equal(counts().used, middle.used);
    for (unsigned i = 1; i < taken; i++) give(held[i].slab, count);
}

static void holes_are_filled_first(void **state) {
    (void)state;
    hak_unit_t *super = take(hak_superslab_units());
    fill(super, hak_superslab_units());
    /* Holes of 1 and 3 units, each behind one that stays. */
    give(super + 1, 1), give(super + 3, 3);
    uint64_t stage3 = counts().stage3;
    for (unsigned i = 0; i < 4; i++) {
        held[i].slab = take(1);
        REQUIRE(held[i].slab > super && held[i].slab < super + hak_superslab_units(),
                "a unit is taken elsewhere while the superslab freed into last has %u", 4 - i);
    }
    assert_int_equal(counts().stage3, stage3);
    for (unsigned i = 0; i < 4; i++) give(held[i].slab, 1);
    /* A run of four fits none of the holes, one of three only the last. */
    held[0].slab = take(4);
    assert_true(held[0].slab + 4 <= super || held[0].slab >= super + hak_superslab_units());
    held[1].slab = take(3);
    assert_ptr_equal(held[1].slab, super + 3);
    give(held[0].slab, 4);
    give(held[1].slab, 3);
    give(super, 1), give(super + 2, 1), give(super + 6, hak_superslab_units() - 6);
}

/* Not only in the superslab that was freed into last. */
static void any_run_that_is_long_enough_serves(void **state) {
    (void)state;
    uint64_t stage3 = counts().stage3;
    unsigned taken = 0;
    /* From here on nothing is free but what this test gives back. */
    while (counts().stage3 == stage3) held[taken++].slab = take(1);
    for (unsigned i = 1; i < hak_superslab_units(); i++) held[taken++].slab = take(1);
    hak_unit_t *one = take(hak_superslab_units()), *two = take(hak_superslab_units());
    stage3 = counts().stage3;
    for (unsigned count = 2; count <= hak_superslab_units(); count++) {
        unsigned start = hak_superslab_units() - count;
        give(one + start, count);
        give(two + 5, 1);
        REQUIRE(take(count) == one + start, "%u units are not taken where they are free", count);
        assert_ptr_equal(take(1), two + 5);
    }
    assert_int_equal(counts().stage3, stage3);
    give(one, hak_superslab_units());
    give(two, hak_superslab_units());
    while (taken) give(held[--taken].slab, 1);
}

static void zeroed_is_said_only_of_zeros(void **state) {
    (void)state;
    bool zeroed;
    for (unsigned turn = 0; turn < 300; turn++) {
        unsigned i = unit_random(HELD_MAX / 10), count = 1 + unit_random(hak_superslab_units());
        if (held[i].count) {
            give(held[i].slab, held[i].count);
            held[i].count = 0;
            if (turn % 7 == 0) purge_pool(0, true);
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

/* As a large heap takes them. */
static void superslabs_in_a_row(void **state) {
    (void)state;
    enum { ROW = 3, COUNT = 12 };
    hak_superslab_t *row[COUNT];
    unsigned taken, units = hak_superslab_units();
    size_t used = hak_pool_stats.used_units;
    for (unsigned i = 0; i < COUNT; i++) {
        row[i] = hak_pool_take_superslabs(i % ROW + 1, ROW, &taken);
        assert_non_null(row[i]);
        REQUIRE(taken > i % ROW && taken <= ROW, "%u superslabs for %u to %u", taken, i % ROW + 1,
                ROW);
        for (unsigned k = 0; k < taken; k++) {
            assert_ptr_equal(row[i][k].units[0].base,
                             row[i]->units[0].base + k * hak_superslab_size());
            assert_true(row[i][k].large);
        }
        used += (size_t)taken * units;
        assert_int_equal(hak_pool_stats.used_units, used);
        /* Only one goes back: a row of three begins nowhere here, then. */
        hak_pool_give_superslab(&row[i][taken - 1]);
        used -= units;
        if (taken == 1) row[i] = NULL;
    }
    for (unsigned i = 0; i < COUNT; i++)
        if (row[i]) hak_pool_give_superslab(row[i]);
}

/* Every second superslab is freed and unmapped, as far as the number of pieces allows; then the
 * others are free too, and most of them lie between others that are. */
static void what_is_free_can_be_unmapped(void **state) {
    (void)state;
    enum { COUNT = 8 * HAK_PIECES_MAX };
    static hak_superslab_t *supers[COUNT];
    unsigned taken;
    hak_pool_unmap_free();
    size_t before = hak_region_mapped_superslabs();
    for (unsigned i = 0; i < COUNT; i++)
        assert_non_null(supers[i] = hak_pool_take_superslabs(1, 1, &taken));
    for (unsigned first = 0; first < 2; first++) {
        for (unsigned i = first; i < COUNT; i += 2) hak_pool_give_superslab(supers[i]);
        size_t mapped = hak_region_mapped_superslabs();
        size_t bytes = hak_pool_unmap_free();
        assert_int_equal(mapped - hak_region_mapped_superslabs(), bytes / hak_superslab_size());
        REQUIRE(hak_region_mappings() < HAK_PIECES_MAX + 64, "%zu mappings", hak_region_mappings());
        while (hak_pool_unmap_free())
            continue; /* a whole piece that goes makes room for a hole elsewhere */
        assert_null(hak_lists[0].last_unasked); /* the next call asks for the first of them only */
    }
    /* What the region has mapped ahead stays. */
    size_t rest = hak_region_mapped_superslabs();
    REQUIRE(rest <= before + COUNT / 8, "%zu superslabs are mapped, %zu before", rest, before);
}

static unsigned unmaps_to_refuse;

bool __real_hak_os_unmap(void *start, size_t size);
bool __wrap_hak_os_unmap(void *start, size_t size);
bool __wrap_hak_os_unmap(void *start, size_t size) {
    if (!unmaps_to_refuse) return __real_hak_os_unmap(start, size);
    unmaps_to_refuse--;
    return false;
}

enum { KEPT_MOST = 4 * HAK_PIECES_MAX };
static hak_superslab_t *rows_of_kept[KEPT_MOST];

/* A heap of as many pieces as there may be, in which superslabs are free that the region keeps. */
static void make_kept(void) {
    unsigned taken;
    hak_pool_unmap_free();
    for (unsigned i = 0; i < KEPT_MOST; i++)
        assert_non_null(rows_of_kept[i] = hak_pool_take_superslabs(1, 1, &taken));
    for (unsigned i = 0; i < KEPT_MOST; i += 2) hak_pool_give_superslab(rows_of_kept[i]);
    while (hak_pool_unmap_free()) continue;
}

/* One in use; the region would keep it or not. */
static hak_superslab_t *take_back(bool keeps) {
    for (unsigned i = 1; i < KEPT_MOST; i += 2) {
        hak_superslab_t *super = rows_of_kept[i];
        if (!super || keeps != (hak_region_is_mapped(super + 1) &&
                                hak_region_superslab_before(super) != NULL))
            continue;
        rows_of_kept[i] = NULL;
        return super;
    }
    fail_msg("no superslab %s", keeps ? "between two" : "next to a hole");
    return NULL;
}

static void give_kept(void) {
    for (unsigned i = 1; i < KEPT_MOST; i += 2)
        if (rows_of_kept[i]) hak_pool_give_superslab(rows_of_kept[i]);
    while (hak_pool_unmap_free()) continue;
}

/* A search that went on behind the 64th of them would stumble. */
static void what_the_region_keeps_is_passed_over(void **state) {
    (void)state;
    enum { LOOKS = 64 };
    make_kept();
    hak_superslab_t *last = hak_lists[0].by_span[hak_superslab_units()], *behind;
    for (unsigned i = 0; i < LOOKS; i++) {
        assert_true(last->kept);
        last = last->next;
        assert_non_null(last);
    }
    hak_superslab_t *super = take_back(true);
    behind = last->next;
    last->next = (hak_superslab_t *)1;
    hak_pool_give_superslab(super);
    size_t unmapped = hak_pool_unmap_free();
    last->next = behind;
    assert_int_equal(unmapped, 0);
    assert_true(super->kept);
    give_kept();
}

/* It is asked for again, although one that the region keeps became free later. */
static void what_the_kernel_refuses_is_not_kept(void **state) {
    (void)state;
    make_kept();
    hak_superslab_t *refused = take_back(false), *later = take_back(true);
    hak_pool_give_superslab(refused);
    unmaps_to_refuse = 1;
    assert_int_equal(hak_pool_unmap_free(), 0);
    assert_int_equal(unmaps_to_refuse, 0);
    assert_true(hak_region_is_mapped(refused));
    hak_pool_give_superslab(later);
    REQUIRE(hak_pool_unmap_free() >= hak_superslab_size(), "it is kept");
    assert_false(hak_region_is_mapped(refused));
    give_kept();
}

/* No call asks the kernel without end, and the next one asks for others. */
static void a_call_is_refused_a_bounded_number_of_times(void **state) {
    (void)state;
    enum { COUNT = 200, TIMES = 1000 };
    static hak_superslab_t *supers[COUNT];
    unsigned taken;
    for (unsigned i = 0; i < COUNT; i++)
        assert_non_null(supers[i] = hak_pool_take_superslabs(1, 1, &taken));
    for (unsigned i = 0; i < COUNT; i++) hak_pool_give_superslab(supers[i]);
    unmaps_to_refuse = TIMES;
    assert_int_equal(hak_pool_unmap_free(), 0);
    REQUIRE(TIMES - unmaps_to_refuse <= 64, "%u refusals", TIMES - unmaps_to_refuse);
    unmaps_to_refuse = 0;
    while (hak_pool_unmap_free()) continue;
    assert_null(hak_lists[0].last_unasked);
}

/* Rows of superslabs come and their addresses go, again and again: the heap does not grow. */
static void unmapped_superslabs_make_rows(void **state) {
    (void)state;
    enum { TURNS = 60, FIRST_TURNS = 20, ROWS = 24, MOST = 3 };
    static hak_superslab_t *rows[ROWS];
    unsigned taken[ROWS];
    size_t end = 0;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        for (unsigned i = 0; i < ROWS; i++) {
            unsigned least = 1 + (i + turn) % MOST;
            rows[i] = hak_pool_take_superslabs(least, MOST, &taken[i]);
            REQUIRE(rows[i] && taken[i] >= least, "%u superslabs of %u", taken[i], least);
        }
        for (unsigned i = 0; i < ROWS; i++)
            for (unsigned k = 0; k < taken[i]; k++) hak_pool_give_superslab(&rows[i][k]);
        hak_pool_unmap_free();
        if (turn == FIRST_TURNS) end = hak_map.unit_end;
        REQUIRE(!end || hak_map.unit_end == end, "the heap has grown in turn %u", turn);
    }
}

/* Random requests against a record of who has which unit; take_units looks at it. */
/* Who asks for units behind a row that another thread gives back meanwhile gets none: the superslab may be a hole. */
static void behind_a_row_in_use_only(void **state) {
    bool zeroed;
    (void)state;
    hak_gate_enter();
    hak_unit_t *row = hak_pool_take(2, &zeroed);
    assert_non_null(row);
    bool taken = hak_pool_take_behind(row, 2, 1);
    hak_pool_give(row, taken ? 3 : 2);
    assert_true(taken);
    assert_false(hak_pool_take_behind(row, 2, 1));
    hak_gate_leave();
}

static void many_requests(void **state) {
    (void)state;
    counts_t before = counts();
    for (unsigned turn = 0; turn < 40000; turn++) {
        unsigned i = unit_random(HELD_MAX);
        if (held[i].count) {
            give(held[i].slab, held[i].count);
            held[i].count = 0;
        } else {
            held[i].count =
                unit_random(3) ? 1 + unit_random(2) : 1 + unit_random(hak_superslab_units());
            held[i].slab = take(held[i].count);
        }
    }
    size_t sum = 0;
    for (unsigned i = 0; i < HELD_MAX; i++) sum += held[i].count;
    assert_int_equal(counts().used, before.used + sum);
    for (unsigned i = 0; i < HELD_MAX; i++)
        if (held[i].count) give(held[i].slab, held[i].count);
    assert_int_equal(counts().used, before.used);
    /* At most 400 runs within a superslab were held: fragmentation costs no more than twice that. */
    REQUIRE(counts().stage3 - before.stage3 <= 2 * HELD_MAX, "%llu superslabs",
            (unsigned long long)(counts().stage3 - before.stage3));
}

enum { DENSE_MAX = 4000 };

static bool is_huge(const hak_unit_t *slab) {
    return hak_region_wishes_huge(hak_region_superslab_of(slab));
}

/* Huge pages are asked for when a large heap of slabs grows and is full, not otherwise. */
static void dense_growth_has_huge_pages(void **state) {
    (void)state;
    static hak_unit_t *dense[DENSE_MAX];
    enum { LARGE_COUNT = 1000 };
    static hak_superslab_t *large[LARGE_COUNT];
    unsigned taken;
    uint64_t huge = hak_pool_stats.huge;
    for (unsigned i = 0; i < LARGE_COUNT; i++) {
        REQUIRE((large[i] = hak_pool_take_superslabs(1, 1, &taken)) != NULL, "no memory");
        REQUIRE(!hak_region_wishes_huge(large[i]), "a large heap has superslab %u with huge pages",
                i);
    }
    REQUIRE(hak_pool_stats.huge == huge, "huge pages although large heaps have most superslabs");
    for (unsigned i = 0; i < LARGE_COUNT; i++) hak_pool_give_superslab(large[i]);

    uint64_t calls = hak_os_stats.madvise;
    unsigned count = 0;
    while (count < DENSE_MAX && hak_pool_stats.huge < huge + 20)
        dense[count++] = take(hak_superslab_units());
    REQUIRE(count < DENSE_MAX, "%u superslabs in use, and no huge pages", count);
    assert_true(hak_os_stats.madvise > calls);
    assert_true(is_huge(dense[count - 1]));
    /* A purge of a part takes them away, since the kernel would fill the gap, until nothing of the zone
     * is mapped any more. */
    hak_unit_t *last = dense[count - 1];
    uint64_t unmapped = hak_pool_stats.unmapped;
    give(last, 1);
    purge_pool(0, true);
    assert_false(is_huge(last));
    assert_int_equal(hak_pool_stats.unmapped, unmapped);
    give(last + 1, hak_superslab_units() - 1);
    purge_pool(0, true);
    assert_int_equal(hak_pool_stats.unmapped, unmapped + 1);
    const unsigned had = count--;
    while (count) give(dense[--count], hak_superslab_units());
    purge_pool(0, true);
    for (huge = hak_pool_stats.huge; count < had; count++)
        dense[count] = take(hak_superslab_units());
    REQUIRE(hak_pool_stats.huge >= huge + 10, "%llu superslabs with huge pages the second time",
            (unsigned long long)(hak_pool_stats.huge - huge));
    while (count) give(dense[--count], hak_superslab_units());
}

/* The same where large heaps have many superslabs, but these get none of the huge pages. */
static void slabs_beside_large_blocks_have_huge_pages(void **state) {
    (void)state;
    static hak_unit_t *dense[DENSE_MAX];
    enum { LARGE_COUNT = 1000, MORE = 20 };
    static hak_superslab_t *large[LARGE_COUNT + MORE];
    unsigned taken, count = 0;
    for (unsigned i = 0; i < LARGE_COUNT; i++)
        REQUIRE((large[i] = hak_pool_take_superslabs(1, 1, &taken)) != NULL, "no memory");
    uint64_t huge = hak_pool_stats.huge;
    while (count < DENSE_MAX && hak_pool_stats.huge < huge + 20)
        dense[count++] = take(hak_superslab_units());
    REQUIRE(count < DENSE_MAX, "%u superslabs in use, and no huge pages", count);
    assert_true(hak_region_asks_huge(hak_region_superslab_of(dense[count - 1])));
    for (unsigned i = LARGE_COUNT; i < LARGE_COUNT + MORE; i++) {
        REQUIRE((large[i] = hak_pool_take_superslabs(1, 1, &taken)) != NULL, "no memory");
        REQUIRE(!hak_region_asks_huge(large[i]), "a large heap has superslab %u with huge pages",
                i);
    }
    REQUIRE((uintptr_t)large[LARGE_COUNT]->units[0].base % HAK_SUPERSLAB_SIZE_MAX == 0,
            "the first one is the rest of a huge page that slabs have begun");
    hak_superslab_t *pair = hak_pool_take_superslabs(2, 2, &taken);
    REQUIRE(pair && taken == 2, "no pair");
    for (unsigned i = 0; i < 2; i++) hak_pool_give_superslab(&pair[i]);
    for (unsigned i = 0; i < LARGE_COUNT + MORE; i++) hak_pool_give_superslab(large[i]);
    while (count) give(dense[--count], hak_superslab_units());
}

/* Each bin of a shard other than the first has a slab of which a part was never used: a small heap with many of them
 * gets no huge pages, one that has become large beside them gets some. */
static void a_heap_of_many_bins_has_small_pages(void **state) {
    (void)state;
    static hak_unit_t *dense[DENSE_MAX];
    enum { EACH = 24 };
    unsigned count = 0;
    purge_pool(0, true); /* what is taken below is new */
    const size_t had = hak_pool_stats.used_units;
    const size_t bins = (had + 600 * hak_superslab_units()) / EACH;
    uint64_t huge = hak_pool_stats.huge;
    hak_add_relaxed(&hak_pool_stats.other_bins, bins);
    hak_store_relaxed(&hak_pool_crowded, true);
    while (count < 599) dense[count++] = take(hak_superslab_units());
    REQUIRE(hak_pool_stats.huge == huge, "%zu bins, and huge pages with %zu units in use", bins,
            (size_t)hak_pool_stats.used_units);
    while (count < DENSE_MAX && hak_pool_stats.huge < huge + 20)
        dense[count++] = take(hak_superslab_units());
    REQUIRE(count < DENSE_MAX, "%u superslabs in use, and no huge pages", count);
    hak_add_relaxed(&hak_pool_stats.other_bins, -bins);
    hak_store_relaxed(&hak_pool_crowded, false);
    while (count) give(dense[--count], hak_superslab_units());
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
        cmocka_unit_test(superslabs_in_a_row),
        cmocka_unit_test(what_is_free_can_be_unmapped),
        cmocka_unit_test(what_the_region_keeps_is_passed_over),
        cmocka_unit_test(what_the_kernel_refuses_is_not_kept),
        cmocka_unit_test(a_call_is_refused_a_bounded_number_of_times),
        cmocka_unit_test(unmapped_superslabs_make_rows),
        cmocka_unit_test(behind_a_row_in_use_only),
        cmocka_unit_test(dense_growth_has_huge_pages),
        cmocka_unit_test(slabs_beside_large_blocks_have_huge_pages),
        cmocka_unit_test(a_heap_of_many_bins_has_small_pages),
        cmocka_unit_test(many_requests), /* last: it may leave zones of huge pages */
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
