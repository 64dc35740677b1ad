/* verify.c: the equations of superslab.h and lists.h, executed. */
#include "pool/verify.h"

#include "base/bits.h"
#include "pool/lists.h"
#include "pool/pool.h"
#include "region/verify.h"

static const char superslab[] = "superslab", pool[] = "pool";

void hak_superslab_check(hak_check_t *check, const hak_superslab_t *super) {
    hak_check_equal(check, superslab, super, "longest = longest run of free units", super->longest,
                    hak_bits_longest(super->free));
    hak_check_that(check, superslab, super, "a held one is in that list",
                   !super->held || super->on_dirty || super->large);
    hak_check_that(check, superslab, super, "one that the region keeps is wholly free",
                   !super->kept || super->free == hak_all_units());
    hak_check_that(check, superslab, super, "a held one has a slab in use",
                   !super->held || super->free != hak_all_units());
    if (super->large) {
        hak_check_equal(check, superslab, super, "no unit of a large heap is free to the pool",
                        super->free, 0);
    } else if (super->on_dirty) {
        hak_check_that(check, superslab, super,
                       "a superslab in a list of dirty ones has free dirty units",
                       (super->free & super->dirty) != 0);
    }
}

typedef struct {
    hak_check_t *check;
    size_t superslabs, used_units, dirty_units, held_units, unasked;
    size_t in_run[HAK_SUPERSLAB_UNITS_MAX + 1], on_dirty[2], on_held;
} sums_t;

static void check_unit(sums_t *sums, const hak_superslab_t *super, unsigned i) {
    const hak_unit_t *unit = &super->units[i];
    uint16_t owner = hak_load_relaxed(&unit->owner);
    bool is_free = super->free >> i & 1, is_used = owner != 0 || unit->stocked;
    sums->used_units += is_used;
    hak_check_equal(sums->check, "unit", unit, "base = its address", (uintptr_t)unit->base,
                    (uintptr_t)super->units[0].base + ((size_t)i << HAK_UNIT_SHIFT));
    hak_check_equal(sums->check, "unit", unit, "the map has its class", hak_map_class(unit),
                    owner ? hak_owner_class(owner) : HAK_CLASS_NONE);
    if (!hak_one_slab_each() || is_free)
        hak_check_that(sums->check, "unit", unit,
                       "it is free <=> it has no owner, nor is it in a stock", is_free == !is_used);
    if (owner && !super->large)
        hak_check_that(sums->check, "unit", unit, "a unit in use may have pages",
                       super->dirty >> i & 1);
}

static void check_superslab(hak_superslab_t *super, void *context) {
    sums_t *sums = context;
    hak_superslab_check(sums->check, super);
    hak_check_that(sums->check, superslab, super, "it knows whether its zone has or had huge pages",
                   super->had_huge ==
                       (hak_region_wishes_huge(super) || hak_region_refuses_huge(super)));
    sums->superslabs++;
    sums->in_run[super->longest]++;
    sums->unasked += super->longest == hak_superslab_units() && !super->kept;
    for (unsigned i = 0; i < hak_superslab_units(); i++) check_unit(sums, super, i);
    if (super->large) return;
    unsigned dirty = hak_lists_dirty_count(super);
    hak_check_that(sums->check, superslab, super,
                   "it has free dirty units <=> it is in a list of them",
                   (dirty != 0) == super->on_dirty);
    sums->dirty_units += dirty;
    if (super->held) sums->held_units += dirty;
    if (!super->on_dirty) return;
    ++*(super->held ? &sums->on_held : &sums->on_dirty[super->had_huge]);
}

/* By `next` and `prev`, or by those of the dirty ones. */
static HAK_BEHIND size_t check_list(sums_t *sums, unsigned node, const hak_superslab_t *first,
                                    bool is_dirty, size_t length) {
    size_t count = 0;
    const hak_superslab_t *before = NULL;
    for (const hak_superslab_t *super = first; super && count <= length; count++) {
        hak_check_that(sums->check, superslab, super, "next and prev agree in the list",
                       (is_dirty ? super->dirty_prev : super->prev) == before);
        hak_check_equal(sums->check, superslab, super, "it is in a list of its node", super->node,
                        node);
        before = super;
        super = is_dirty ? super->dirty_next : super->next;
    }
    return count;
}

/* The same list of each node; `at`: where it begins in the lists of one. */
static HAK_BEHIND void check_each(sums_t *sums, size_t at, bool is_dirty, size_t length) {
    size_t count = 0;
    for (unsigned node = 0; node < HAK_NODES_MAX; node++) {
        const char *first = (const char *)&hak_lists[node] + at;
        count += check_list(sums, node, *(hak_superslab_t *const *)(const void *)first, is_dirty,
                            length);
    }
    hak_check_equal(sums->check, pool, &hak_lists, "superslabs in a list", count, length);
}

static void check_lists(sums_t *sums) {
    for (unsigned n = 0; n <= hak_superslab_units(); n++)
        check_each(sums, offsetof(hak_lists_t, by_span[n]), false, sums->in_run[n]);
    for (unsigned i = 0; i < 2; i++)
        check_each(sums, offsetof(hak_lists_t, dirty[i].oldest), true, sums->on_dirty[i]);
    check_each(sums, offsetof(hak_lists_t, held.oldest), true, sums->on_held);
}

/* Of the wholly free ones, `unasked` are not kept, and the first in their lists. */
static void check_kept(hak_check_t *check, size_t unasked) {
    for (unsigned node = 0; node < HAK_NODES_MAX; node++) {
        const hak_superslab_t *super = hak_lists[node].by_span[hak_superslab_units()], *last = NULL;
        for (; super && !super->kept && unasked > 0; unasked--) {
            last = super;
            super = super->next;
        }
        hak_check_that(check, pool, &hak_lists[node],
                       "what the region keeps is behind the last other free one",
                       hak_lists[node].last_unasked == last);
    }
    hak_check_equal(check, pool, &hak_lists, "free ones that the region does not keep", unasked, 0);
}

void hak_pool_check(hak_check_t *check) {
    sums_t sums = {.check = check};
    if (!hak_map.entries) return;
    hak_region_each_superslab(check_superslab, &sums);
    check_lists(&sums);
    hak_check_equal(check, pool, &hak_pool_stats, "superslabs", hak_pool_superslabs(),
                    sums.superslabs);
    hak_check_equal(check, pool, &hak_pool_stats, "used_units = units with an owner or in a stock",
                    hak_load_relaxed(&hak_pool_stats.used_units), sums.used_units);
    hak_check_equal(check, pool, &hak_pool_stats, "dirty_units = free units with pages",
                    hak_load_relaxed(&hak_pool_stats.dirty_units), sums.dirty_units);
    hak_check_equal(check, pool, &hak_pool_stats, "held_units = those that wait for a round",
                    hak_load_relaxed(&hak_pool_stats.held_units), sums.held_units);
    const size_t about = hak_load_relaxed(&hak_pool_about.used_units);
    hak_check_that(check, pool, &hak_pool_about, "it is near used_units and dirty_units",
                   hak_max(about, sums.used_units) - hak_min(about, sums.used_units) <=
                           about / HAK_ABOUT_PART &&
                       hak_load_relaxed(&hak_pool_about.has_dirty) == (sums.dirty_units != 0) &&
                       hak_load_relaxed(&hak_pool_about.has_much_dirty) ==
                           hak_pool_has_much_dirty(sums.dirty_units, sums.used_units));
    check_kept(check, sums.unasked);
}

#if HAKMEM_VERIFY
/* The newest of each list; the first of one more list by longest run each time. */
void hak_pool_check_at_release(const void *lock) {
    static unsigned run, node;
    hak_check_t check = {0};
    (void)lock;
    if (!hak_map.entries) return;
    run = run < hak_superslab_units() ? run + 1 : 0;
    if (run == 0) node = (node + 1) % hak_nodes();
    const hak_lists_t *lists = &hak_lists[node];
    const hak_superslab_t *some[] = {lists->by_span[run], lists->dirty[0].newest,
                                     lists->dirty[1].newest, lists->held.newest};
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++)
        if (some[i]) hak_superslab_check(&check, some[i]);
    if (some[0]) hak_check_equal(&check, superslab, some[0], "its list", some[0]->longest, run);
    hak_check_stop(&check);
}
#endif
