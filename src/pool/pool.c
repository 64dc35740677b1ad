/* pool.c: takes units and superslabs out of the pool, and gives them back. */
#include "pool/pool.h"

#include "commit/commit.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/grow.h"
#include "pool/lists.h"
#include "pool/purge.h"
#include "pool/verify.h"

hak_pool_stats_t hak_pool_stats HAK_OWN_LINE;
_Atomic bool hak_pool_crowded HAK_READ_OFTEN;
hak_pool_about_t hak_pool_about HAK_OWN_LINE;
hak_lock_t hak_pool_lock HAK_OWN_LINE;
HAK_LOCK_RANK(POOL, hak_pool_lock, hak_pool_check_at_release);

enum {
    GIVEN_AT_ONCE = 64,  /* units given back in one critical section */
    ROWS_LOOKED_AT = 32, /* superslabs at which a search for a row begins, at most */
    LOOKS_ELSEWHERE = 4, /* wholly free superslabs of another node, for one without pages */
    LOOK_UNITS = 256,    /* 16 MiB: units of existing superslabs between two looks at the limit */
};

static _Atomic(hak_pool_lender_t) lender HAK_READ_OFTEN;

void hak_pool_set_lender(hak_pool_lender_t function) { hak_store_relaxed(&lender, function); }

/* Bit i set <=> bits i .. i+count-1 of `mask` are set. */
static uint32_t run_starts(uint32_t mask, unsigned count) {
    for (unsigned have = 1; have < count;) {
        unsigned step = have < count - have ? have : count - have;
        mask &= mask >> step;
        have += step;
    }
    return mask;
}

static hak_superslab_t *tightest(const hak_lists_t *lists, unsigned from, unsigned end) {
    for (unsigned n = from; n < end; n++)
        if (lists->by_span[n]) return lists->by_span[n];
    return NULL;
}

/* Chooses a superslab of a node for `count` units: the one that received the last free, if it has a
 * dirty span of that length, whose pages are resident and probably in the CPU's cache; otherwise
 * the tightest fit, which may need fresh pages. A single unit never needs a fresh page while a free
 * dirty unit of the node exists. If there is one with room for `more` units beside them, which the same shard will use,
 * it comes before tighter ones: see shard/stock.h. */
static hak_superslab_t *choose(unsigned node, unsigned count, unsigned more) {
    const hak_lists_t *lists = &hak_lists[node];
    hak_superslab_t *newest = hak_lists_newest(lists);
    const unsigned all = hak_superslab_units(), row = hak_min(count + more, all);
    if (HAK_UNLIKELY(hak_one_slab_each())) return lists->by_span[all];
    if (newest && run_starts(newest->free & newest->dirty, count)) return newest;
    hak_superslab_t *super = tightest(lists, row, all + 1);
    return super || !more ? super : tightest(lists, count, row);
}

/* A superslab without pages from another node's lists. Any node may take it, since the first touch
 * decides where its pages are. */
static HAK_BEHIND hak_superslab_t *choose_untouched(unsigned here) {
    for (unsigned node = 0; node < hak_nodes(); node++) {
        hak_superslab_t *super = hak_lists[node].by_span[hak_superslab_units()];
        for (unsigned i = 0; node != here && super && i < LOOKS_ELSEWHERE; i++, super = super->next)
            if (!super->dirty) return super;
    }
    return NULL;
}

void hak_pool_prefault(char *start, size_t size, int level) {
    if (HAK_LIKELY(hak_option(HAK_OPTION_SS_PREFAULT) != level)) return;
    if (hak_os_populate(start, size))
        hak_add_relaxed(&hak_pool_stats.populated_units, size >> HAK_UNIT_SHIFT);
}

size_t hak_pool_superslabs(void) {
    uint64_t gone = hak_load_relaxed(&hak_pool_stats.unmapped);
    return hak_load_relaxed(&hak_pool_stats.stage3) - gone;
}

/* Counts units with pages as near or far, and gives a superslab without pages to the node that
 * takes its first unit. */
static HAK_BEHIND void place(hak_superslab_t *super, size_t was_dirty) {
    const unsigned here = hak_node_here();
    hak_lists_remove(super);
    hak_lists_place(super, here);
    hak_lists_insert(super);
    if (super->node == here)
        HAK_ADD_OWNED(&hak_pool_stats.near_units, was_dirty);
    else
        HAK_ADD_OWNED(&hak_pool_stats.far_units, was_dirty);
}

/* How many of `count` units have pages. */
HAK_FAST_PATH size_t dirty_in(const hak_superslab_t *super, uint32_t mask, unsigned count) {
    if (!(super->dirty & mask)) return 0;
    return HAK_LIKELY(count == 1) ? 1 : hak_bit_count(super->dirty & mask);
}

/* Takes the free units of a mask. Lock held. */
static bool take_mask(hak_superslab_t *super, uint32_t mask, unsigned count, bool *zeroed) {
    *zeroed = (super->dirty & mask) == 0;
    const size_t was_dirty = dirty_in(super, mask, count);
    if (was_dirty < count && !hak_commit_charge((count - was_dirty) << HAK_UNIT_SHIFT))
        return false;
    const bool all = hak_one_slab_each();
    const size_t fewer = HAK_UNLIKELY(all) ? hak_lists_dirty_count(super) : was_dirty;
    if (hak_has_nodes()) place(super, was_dirty);
    super->dirty |= mask;
    hak_lists_set_free(super, HAK_UNLIKELY(all) ? 0 : super->free & ~mask);
    if (super->held) HAK_ADD_OWNED(&hak_pool_stats.held_units, -fewer);
    hak_pool_add(count, -fewer);
    hak_pool_count_taken();
    if (super->on_dirty && (super->free & super->dirty) == 0) hak_lists_remove_dirty(super);
    return true;
}

static HAK_BEHIND hak_unit_t *take_from(hak_superslab_t *super, unsigned count, bool *zeroed) {
    uint32_t starts = run_starts(super->free & super->dirty, count);
    if (!starts) starts = run_starts(super->free, count);
    const unsigned start = hak_lowest_bit(starts);
    return take_mask(super, hak_unit_mask(start, count), count, zeroed) ? &super->units[start]
                                                                        : NULL;
}

/* Takes up to `want` units of a superslab in one step: those with pages or, if there are none, others. Returns how many,
 * 0 if the limit forbids even one. Lock held. */
static unsigned take_some(hak_superslab_t *super, unsigned want, hak_unit_t **units, bool *zeroed) {
    uint32_t left = super->free & super->dirty;
    unsigned count = 1;
    if (!left) left = super->free;
    uint32_t mask = left & -left;
    units[0] = &super->units[hak_lowest_bit(left)];
    if (want > 1 && HAK_LIKELY(!hak_one_slab_each())) {
        while ((left &= left - 1) && count < want) {
            mask |= left & -left;
            units[count++] = &super->units[hak_lowest_bit(left)];
        }
    }
    if (HAK_UNLIKELY(!take_mask(super, mask, count, zeroed)))
        return count > 1 ? take_some(super, 1, units, zeroed) : 0;
    for (unsigned i = 1; i < count; i++) {
        zeroed[i] = zeroed[0];
        hak_pool_count_taken();
    }
    return count;
}

bool hak_pool_borrow(bool is_near) {
    hak_pool_lender_t function = hak_load_relaxed(&lender);
    if (HAK_LIKELY(!function)) return false;
    hak_lock_release(&hak_pool_lock);
    bool lent = function(is_near);
    hak_lock_acquire(&hak_pool_lock);
    return lent;
}

/* Counts units taken from existing superslabs. Now and then looks at the limit on the address
 * space, which may have been set since the heap grew last: slabs that stay partly empty would use
 * up what is free. Lock held. */
static void count_stage2(unsigned count) {
    HAK_ADD_OWNED(&hak_pool_stats.stage2, count);
    if (hak_load_relaxed(&hak_pool_stats.stage2) % LOOK_UNITS < count) hak_region_look_at_limit();
}

/* The last resort: memory of another node or, once the large heaps have lent some, of any node.
 * Lock held. */
static HAK_BEHIND hak_unit_t *take_far(unsigned here, unsigned count, bool *zeroed) {
    hak_unit_t *unit = NULL;
    for (unsigned tries = 0; !unit && tries < 2 && (!tries || hak_pool_borrow(false)); tries++) {
        for (unsigned node = 0; !unit && node < hak_nodes(); node++) {
            hak_superslab_t *super = !tries && node == here ? NULL : choose(node, count, 0);
            if (super) unit = take_from(super, count, zeroed);
        }
    }
    if (unit) HAK_ADD_OWNED(&hak_pool_stats.stage2, count);
    return unit;
}

/* Used memory of the caller's node comes first, because its pages exist. Memory without pages comes next: a fault costs
 * once, but a line of another node costs at each miss. Memory that another node has freed is left to that node or to a
 * purge, and is used only if there is nothing else. `more`: see choose. Lock held. */
static hak_superslab_t *find(unsigned here, unsigned count, unsigned more) {
    hak_superslab_t *super = choose(here, count, more);
    if (!super && hak_pool_borrow(true)) super = choose(here, count, more);
    if (!super && hak_has_nodes()) super = choose_untouched(here);
    if (super) {
        count_stage2(count);
    } else {
        super = hak_pool_fresh_superslab();
        if (super && more) hak_pool_complete_line(super);
    }
    return super;
}

HAK_BEHIND hak_unit_t *hak_pool_take(unsigned count, bool *zeroed) {
    hak_lock_acquire(&hak_pool_lock);
    const unsigned here = hak_node_here();
    hak_superslab_t *super = find(here, count, 0);
    hak_unit_t *slab = super ? take_from(super, count, zeroed) : NULL;
    if (!slab && hak_has_nodes()) slab = take_far(here, count, zeroed);
    hak_lock_release(&hak_pool_lock);
    if (slab && *zeroed) hak_pool_prefault(slab->base, (size_t)count << HAK_UNIT_SHIFT, 1);
    return slab;
}

HAK_BEHIND bool hak_pool_take_behind(hak_unit_t *first, unsigned before, unsigned count) {
    hak_superslab_t *super = hak_region_superslab_of(first);
    const unsigned start = (unsigned)(first - super->units) + before;
    bool zeroed;
    HAK_HOLD(&hak_pool_lock);
    if (start + count > hak_superslab_units()) return false;
    const uint32_t mask = hak_unit_mask(start, count);
    /* While the block is in use, so is its superslab. This need not hold if the program frees the
     * block in the meantime, by mistake. */
    if (super->free & hak_unit_mask(start - before, before)) return false;
    return (super->free & mask) == mask && take_mask(super, mask, count, &zeroed);
}

HAK_BEHIND bool hak_pool_gives_whole(void) { return hak_one_slab_each(); }

/* Links the first `*most` free units of a superslab, or fewer, behind a list; none where some have pages. Returns the
 * new end of the list. In one step: each move of the superslab from list to list writes to neighbours' records, which
 * other CPUs wrote last. Lock held. */
static HAK_BEHIND hak_unit_t **take_ahead(hak_superslab_t *super, unsigned *most,
                                          hak_unit_t **end) {
    uint32_t mask = 0;
    unsigned count = 0;
    if (super->free & super->dirty) return end;
    for (uint32_t left = super->free; left && count < *most; left &= left - 1, count++)
        mask |= left & -left;
    if (!count || !hak_commit_charge((size_t)count << HAK_UNIT_SHIFT)) return end;
    *most -= count;
    hak_lists_remove(super);
    if (hak_has_nodes()) hak_lists_place(super, hak_node_here());
    super->free &= ~mask;
    super->dirty |= mask;
    hak_lists_insert(super);
    hak_pool_add(count, 0);
    for (; mask; mask &= mask - 1) {
        hak_unit_t *unit = &super->units[hak_lowest_bit(mask)];
        hak_pool_count_taken();
        unit->stocked = true;
        unit->next = NULL;
        *end = unit;
        end = &unit->next;
    }
    return end;
}

/* Untouched units of a superslab, then of wholly free ones in the same line of the map. Lock held. */
static HAK_BEHIND hak_unit_t *take_line_ahead(hak_superslab_t *super, unsigned most) {
    hak_unit_t *first = NULL, **end = take_ahead(super, &most, &first);
    hak_superslab_t *other = super - hak_superslab_in_line(super);
    for (unsigned left = hak_superslabs_of_line(); left--; other++)
        if (other != super && hak_region_is_mapped(other) &&
            other->longest == hak_superslab_units())
            end = take_ahead(other, &most, end);
    return first;
}

unsigned hak_pool_take_units(unsigned want, hak_unit_t **units, bool *zeroed, unsigned more,
                             hak_unit_t **ahead, bool *grown) {
    unsigned taken = 0, here, some;
    *ahead = NULL;
    hak_lock_acquire(&hak_pool_lock);
    const uint64_t superslabs = hak_load_relaxed(&hak_pool_stats.stage3);
    do {
        hak_superslab_t *super = find(here = hak_node_here(), 1, more);
        some = super ? take_some(super, want - taken, &units[taken], &zeroed[taken]) : 0;
        if (some > 1) count_stage2(some - 1);
        if (!some && hak_has_nodes())
            some = (units[taken] = take_far(here, 1, &zeroed[taken])) != NULL;
        taken += some;
    } while (some && taken < want && choose(here, 1, 0));
    if (more && taken && zeroed[taken - 1])
        *ahead = take_line_ahead(hak_region_superslab_of(units[taken - 1]), more);
    *grown = hak_load_relaxed(&hak_pool_stats.stage3) != superslabs;
    hak_lock_release(&hak_pool_lock);
    for (unsigned i = 0; i < taken; i++)
        if (zeroed[i]) hak_pool_prefault(units[i]->base, HAK_UNIT_SIZE, 1);
    return taken;
}

/* TINY_USE_SUPERSLAB=0: purges the slab's pages, then gives the slab back. */
static HAK_BEHIND void give_whole(hak_superslab_t *super, hak_unit_t *slab, unsigned count) {
    uint32_t mask = hak_unit_mask((unsigned)(slab - super->units), count);
    bool is_clean = hak_os_purge(slab->base, (size_t)count << HAK_UNIT_SHIFT);
    HAK_HOLD(&hak_pool_lock);
    HAK_ADD_OWNED(&hak_pool_stats.purge_calls, 1);
    if (HAK_LIKELY(is_clean)) {
        super->dirty &= ~mask;
        HAK_ADD_OWNED(&hak_pool_stats.purged_units, count);
        hak_commit_release((size_t)count << HAK_UNIT_SHIFT);
    }
    hak_lists_add_free(super, hak_all_units());
    if (super->dirty) hak_lists_append_dirty(super);
    hak_pool_add(-(size_t)count, hak_lists_dirty_count(super));
}

/* Lock held. */
static void give_locked(hak_superslab_t *super, hak_unit_t *slab, unsigned count, uint64_t now) {
    const bool is_newest = hak_lists_is_newest(super);
    if (!is_newest) hak_lists_remove_dirty(super);
    hak_lists_add_free(super, hak_unit_mask((unsigned)(slab - super->units), count));
    super->freed_ms = now;
    if (!is_newest) hak_lists_append_dirty(super);
    hak_pool_count_given(now);
}

/* Gives the first GIVEN_AT_ONCE entries of the list back, and returns the others: it may be as long as the heap. */
static hak_unit_t *give_some(hak_unit_t *list, unsigned count, uint64_t now) {
    size_t units = 0;
    HAK_HOLD(&hak_pool_lock);
    for (unsigned i = 0; list && i < GIVEN_AT_ONCE; i++, units += count) {
        hak_unit_t *next = list->next;
        give_locked(hak_region_superslab_of(list), list, count, now);
        list = next;
    }
    hak_pool_add(-units, units);
    return list;
}

/* Each entry of the list, linked by `next`, is `count` units. */
static void give(hak_unit_t *list, unsigned count) {
    const uint64_t now = hak_os_now_ms();
    const bool each = hak_one_slab_each();
    while (HAK_LIKELY(!each) && list) list = give_some(list, count, now);
    for (hak_unit_t *next; list; list = next) {
        next = list->next;
        give_whole(hak_region_superslab_of(list), list, count);
    }
}

void hak_pool_give_list(hak_unit_t *list) { give(list, 1); }

void hak_pool_give(hak_unit_t *slab, unsigned count) {
    slab->next = NULL;
    give(slab, count);
}

void hak_pool_give_ahead(hak_unit_t *list) {
    HAK_HOLD(&hak_pool_lock);
    for (hak_unit_t *next; list; list = next) {
        hak_superslab_t *super = hak_region_superslab_of(list);
        uint32_t mask = hak_unit_mask((unsigned)(list - super->units), 1);
        next = list->next;
        list->stocked = false;
        super->dirty &= ~mask;
        hak_commit_release(HAK_UNIT_SIZE);
        hak_lists_add_free(super, mask);
        hak_pool_add(-(size_t)1, 0);
    }
}

HAK_BEHIND void hak_pool_give_unused(hak_unit_t *unit, bool zeroed) {
    bool untouched = zeroed && hak_option(HAK_OPTION_SS_PREFAULT) == 0 && !hak_one_slab_each();
    if (!untouched) {
        hak_pool_give(unit, 1);
        return;
    }
    unit->next = NULL;
    hak_pool_give_ahead(unit);
}

/* Hands a whole superslab over to a large heap. A program may use few pages of its large blocks. So if there are many
 * of them, their zones get no huge pages. Under the lock. */
static void hand_over(hak_superslab_t *super) {
    hak_pool_add(hak_superslab_units(), -(size_t)hak_bit_count(super->dirty));
    hak_lists_remove_dirty(super);
    if (hak_has_nodes()) place(super, hak_bit_count(super->dirty));
    hak_lists_set_free(super, 0);
    super->large = true;
    hak_pool_stats.large_units += hak_superslab_units();
    if (!super->dirty && hak_pool_is_mixed()) hak_region_refuse_huge(super);
}

/* The nodes whose superslabs make a row: one node or any; those without pages always count. */
enum { ANY_NODE = HAK_NODES_MAX };

/* Under the lock. */
static HAK_NEXT bool is_free_for(const hak_superslab_t *super, unsigned node) {
    if (super->longest != hak_superslab_units()) return false;
    return node == ANY_NODE ||
           ((super->node == node || !super->dirty) && !hak_pool_is_for_slabs(super));
}

/* Length of the row of wholly free superslabs that begins with `first`, up to `most`. Under the
 * lock. */
static HAK_NEXT unsigned free_row(const hak_superslab_t *first, unsigned most, unsigned node) {
    unsigned n = 0;
    while (n < most && (n == 0 || hak_region_is_mapped(&first[n])) && is_free_for(&first[n], node))
        n++;
    return n;
}

/* The first superslab of the free row that contains `super`, searched for over at most
 * ROWS_LOOKED_AT superslabs. Large heaps take rows from their beginning, because taking pairs
 * from the middle leaves single superslabs, a seventh of all, in which no pair fits. */
static HAK_NEXT hak_superslab_t *begin_of_row(hak_superslab_t *super, unsigned node) {
    hak_superslab_t *before = super;
    for (unsigned i = 0; i < ROWS_LOOKED_AT && before; i++) {
        super = before;
        before = hak_region_superslab_before(super);
        if (before && !is_free_for(before, node)) before = NULL;
    }
    return super;
}

/* A row that is searched for. */
typedef struct {
    unsigned least, most, node; /* node: or ANY_NODE */
    unsigned count;             /* answer; 0: none */
} row_t;

/* Searches for a row at the next superslabs of the list; *super is where the search ended. */
static HAK_NEXT hak_superslab_t *find_row_from(hak_superslab_t **super, unsigned looks,
                                               row_t *row) {
    for (unsigned i = 0; i < looks && *super; i++, *super = (*super)->next) {
        hak_superslab_t *begin = row->least > 1 ? begin_of_row(*super, row->node) : *super;
        HAK_ADD_OWNED(&hak_pool_stats.row_looks, 1);
        if ((row->count = free_row(begin, row->most, row->node)) >= row->least) return begin;
    }
    row->count = 0;
    return NULL;
}

/* Finds a row of `least` to `most` wholly free superslabs of the row's node; returns the first. One
 * half of the search starts at the superslabs that became free last. The other half continues where
 * the previous search ended, since single superslabs gather at the front of the list. Rejected:
 * looking at all of them, since that would be a walk as long as the heap. Under the lock. */
static hak_superslab_t *find_row(hak_lists_t *lists, row_t *row) {
    hak_superslab_t *newest = lists->by_span[hak_superslab_units()];
    hak_superslab_t *found = find_row_from(&newest, ROWS_LOOKED_AT / 2, row);
    if (HAK_LIKELY(found || !newest)) return found;
    if (!lists->rows_seen) lists->rows_seen = newest;
    return find_row_from(&lists->rows_seen, ROWS_LOOKED_AT / 2, row);
}

/* The same among the superslabs of other nodes: those without pages or, for ANY_NODE, all. Under
 * the lock. */
static HAK_BEHIND hak_superslab_t *find_row_elsewhere(row_t *row) {
    hak_superslab_t *found = NULL;
    for (unsigned node = 0; !found && node < hak_nodes(); node++) {
        hak_superslab_t *super = hak_lists[node].by_span[hak_superslab_units()];
        if (node != row->node) found = find_row_from(&super, LOOKS_ELSEWHERE, row);
    }
    return found;
}

/* Makes a row out of unmapped superslabs, which it maps again, and free ones between them. *count: its length, 0 for
 * none. Under the lock. */
static hak_superslab_t *map_row(unsigned least, unsigned most, unsigned *count) {
    hak_superslab_t *first;
    for (unsigned i = 0; i < ROWS_LOOKED_AT && (first = hak_region_take_unmapped(false)) != NULL;
         i++) {
        unsigned n = 1;
        hak_pool_enter(first);
        while (n < most && hak_pool_joins_row(&first[n])) n++;
        for (; n < least && hak_pool_joins_row(first - 1); n++) first--;
        *count = n;
        if (n >= least) return first;
    }
    *count = 0;
    return NULL;
}

/* While the region has unmapped superslabs, it grows by no more than is needed, because the records
 * of new superslabs are never given back. */
HAK_NEXT hak_superslab_t *hak_pool_take_superslabs(unsigned least, unsigned most, unsigned *taken) {
    HAK_HOLD(&hak_pool_lock);
    row_t row = {least, most, hak_node_here(), 0};
    hak_superslab_t *first = find_row(&hak_lists[row.node], &row);
    if (!first && hak_has_nodes()) first = find_row_elsewhere(&row);
    unsigned n = row.count;
    if (n == 0) first = map_row(least, most, &n);
    if (HAK_UNLIKELY(hak_region_has_unmapped())) most = hak_max(least, n);
    while (n < most && (n == 0 || hak_region_superslab_is_last(&first[n - 1]))) {
        hak_superslab_t *super = hak_pool_last_for_large(n == 0);
        if (!super || (n >= least && super != first + n)) break;
        if (n == 0 || super != first + n) { /* not adjacent: a new row begins here */
            first = super;
            n = 0;
        }
        n++;
    }
    if (n < least) n = 0;
    if (n == 0) {
        row.node = ANY_NODE;
        first = find_row_elsewhere(&row);
        n = row.count;
    }
    for (unsigned i = 0; i < n; i++) hand_over(&first[i]);
    *taken = n;
    return n ? first : NULL;
}

HAK_NEXT void hak_pool_give_superslab(hak_superslab_t *super) {
    HAK_HOLD(&hak_pool_lock);
    super->large = false;
    hak_pool_stats.large_units -= hak_superslab_units();
    hak_lists_add_free(super, hak_all_units());
    if (super->dirty) hak_lists_append_dirty(super);
    hak_pool_add(-(size_t)hak_superslab_units(), hak_lists_dirty_count(super));
}

size_t hak_pool_purgeable(void) {
    size_t held_units =
        hak_option(HAK_OPTION_TINY_SS_PARTIAL) ? 0 : hak_load_relaxed(&hak_pool_stats.held_units);
    size_t units = atomic_load(&hak_pool_stats.dirty_units); /* partner: thread/helper_thread.c */
    return units - hak_min(units, held_units);
}
