/* pool.c: superslabs in lists by their longest free run; purge oldest first. */
#include "pool/pool.h"

#include "options/options.h"
#include "os/os.h"
#include "region/commit.h"

hak_pool_stats_t hak_pool_stats;
hak_lock_t hak_pool_lock;

/* Under the lock. Units that large heaps have; how full those are is not known here. */
static size_t large_units;

/* Under the lock. lists[n]: superslabs whose longest free run is n units. */
static hak_superslab_t *lists[HAK_SUPERSLAB_UNITS_MAX + 1];

/* Under the lock. Superslabs with dirty free units, by the time of the last free; those of
 * them that hold slabs in use, and came of age between two rounds of partial release. */
static struct {
    hak_superslab_t *oldest, *newest;
} dirty, held;

/* Under the lock. */
static struct {
    uint64_t count;   /* epochs so far */
    uint64_t round;   /* the one of the last round of partial release */
    uint64_t ends_ms; /* of the present one: when it has lasted long enough */
    uint32_t events;  /* slabs taken and given in it */
    bool is_open;     /* a round is under way: it may take several pieces */
} epoch;

enum {
    EPOCH_MS = 250,
    EPOCH_EVENTS = 1024,
    GIVEN_AT_ONCE = 64,  /* units under one lock */
    ROWS_LOOKED_AT = 32, /* starts of rows that a large heap's request looks at */
};

_Atomic size_t hak_pool_lent;
static _Atomic(hak_pool_lender_t) lender;

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

static unsigned longest_run(uint32_t mask) {
    unsigned length = 0;
    for (; mask; mask &= mask >> 1) length++;
    return length;
}

static void list_remove(hak_superslab_t *super) {
    if (super->prev)
        super->prev->next = super->next;
    else
        lists[super->longest] = super->next;
    if (super->next) super->next->prev = super->prev;
}

static void list_insert(hak_superslab_t *super) {
    super->longest = (uint8_t)longest_run(super->free);
    super->prev = NULL;
    super->next = lists[super->longest];
    if (super->next) super->next->prev = super;
    lists[super->longest] = super;
}

static unsigned dirty_count(const hak_superslab_t *super) {
    return super->free & super->dirty ? hak_bit_count(super->free & super->dirty) : 0;
}

static void dirty_remove(hak_superslab_t *super) {
    if (!super->on_dirty) return;
    if (super->held) HAK_COUNT(&hak_pool_stats.held_units, -(size_t)dirty_count(super));
    hak_superslab_t **oldest = super->held ? &held.oldest : &dirty.oldest;
    hak_superslab_t **newest = super->held ? &held.newest : &dirty.newest;
    *(super->dirty_prev ? &super->dirty_prev->dirty_next : oldest) = super->dirty_next;
    *(super->dirty_next ? &super->dirty_next->dirty_prev : newest) = super->dirty_prev;
    super->on_dirty = super->held = false;
}

static void append(hak_superslab_t *super, hak_superslab_t **oldest, hak_superslab_t **newest) {
    super->dirty_next = NULL;
    super->dirty_prev = *newest;
    *(*newest ? &(*newest)->dirty_next : oldest) = super;
    *newest = super;
    super->on_dirty = true;
}

static void dirty_append(hak_superslab_t *super) { append(super, &dirty.oldest, &dirty.newest); }

/* It waits for a round of partial release. */
static void hold(hak_superslab_t *super) {
    dirty_remove(super);
    append(super, &held.oldest, &held.newest);
    super->held = true;
    HAK_COUNT(&hak_pool_stats.held_units, dirty_count(super));
}

static uint32_t mask_of(unsigned start, unsigned count) {
    return (uint32_t)((((uint64_t)1 << count) - 1) << start);
}

static uint32_t all_units(void) { return mask_of(0, hak_superslab_units()); }

/* TINY_USE_SUPERSLAB=0: a slab has a superslab to itself. Its other units are not in use,
 * and not free either. */
static bool one_slab_each(void) { return !hak_option(HAK_OPTION_TINY_USE_SUPERSLAB); }

/* The superslab that was freed into last, when it has a dirty run long enough
 * (its pages are there, and warm); else the tightest fit of all, which may touch
 * fresh pages. For one unit: no fresh page is touched while a dirty one is free. */
static hak_superslab_t *choose(unsigned count) {
    hak_superslab_t *newest = dirty.newest ? dirty.newest : held.newest;
    if (HAK_UNLIKELY(one_slab_each())) return lists[hak_superslab_units()];
    if (newest && run_starts(newest->free & newest->dirty, count)) return newest;
    for (unsigned n = count; n <= hak_superslab_units(); n++)
        if (lists[n]) return lists[n];
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

/* True when slabs that their blocks fill have almost all that there is of the
 * region: then more will be used, too. Not under a limit, which a huge page could break.
 * Under the lock. */
static bool is_dense(void) {
    size_t units = hak_pool_superslabs() * hak_superslab_units();
    size_t used = hak_load_relaxed(&hak_pool_stats.used_units);
    size_t others = large_units + hak_load_relaxed(&hak_pool_stats.ragged_units);
    return used >= others + (units - units / 8) && hak_option(HAK_OPTION_THP) &&
           !hak_option(HAK_OPTION_LIMIT) && !hak_option(HAK_OPTION_LIMIT_SOFT);
}

/* A superslab from the region joins the free ones. Under SS_PREFAULT=2 with all its pages: then it
 * is charged whole, and dirty. Under the lock. */
static void enter(hak_superslab_t *super) {
    HAK_COUNT(&hak_pool_stats.stage3, 1);
    if (hak_region_wishes_huge(super)) HAK_COUNT(&hak_pool_stats.huge, 1);
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_SS_PREFAULT) == 2) &&
        hak_commit_charge(hak_superslab_size())) {
        hak_pool_prefault(super->slabs[0].base, hak_superslab_size(), 2);
        super->dirty = all_units();
        super->freed_ms = hak_os_now_ms();
        HAK_COUNT(&hak_pool_stats.dirty_units, hak_superslab_units());
        dirty_append(super);
    }
    list_insert(super);
}

/* Behind all others. Under the lock, as the next one. */
static hak_superslab_t *last_superslab(void) {
    hak_superslab_t *super = hak_region_take_superslab(is_dense());
    if (super) enter(super);
    return super;
}

static hak_superslab_t *fresh_superslab(void) {
    hak_superslab_t *super = hak_region_take_unmapped();
    if (!super) return last_superslab();
    enter(super);
    return super;
}

static hak_slab_t *take_from(hak_superslab_t *super, unsigned count, bool *zeroed) {
    uint32_t starts = run_starts(super->free & super->dirty, count);
    if (!starts) starts = run_starts(super->free, count);
    unsigned start = hak_lowest_bit(starts);
    uint32_t mask = mask_of(start, count);
    *zeroed = (super->dirty & mask) == 0;
    size_t was_dirty = super->dirty & mask ? hak_bit_count(super->dirty & mask) : 0;
    if (was_dirty < count && !hak_commit_charge((count - was_dirty) << HAK_UNIT_SHIFT)) return NULL;
    unsigned before = dirty_count(super);
    list_remove(super);
    super->free &= HAK_UNLIKELY(one_slab_each()) ? 0 : ~mask;
    super->dirty |= mask;
    list_insert(super);
    size_t fewer = before - dirty_count(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, -fewer);
    if (super->held) HAK_COUNT(&hak_pool_stats.held_units, -fewer);
    HAK_COUNT(&hak_pool_stats.used_units, count);
    epoch.events++;
    if (super->on_dirty && (super->free & super->dirty) == 0) dirty_remove(super);
    return &super->slabs[start];
}

/* Asks for a superslab that is held free elsewhere, without the lock; true when the
 * pool has got one. */
static bool borrow(void) {
    hak_pool_lender_t function = hak_load_relaxed(&lender);
    if (HAK_LIKELY(!function || hak_load_relaxed(&hak_pool_lent) == 0)) return false;
    hak_lock_release(&hak_pool_lock);
    bool lent = function();
    hak_lock_acquire(&hak_pool_lock);
    return lent;
}

/* Lock held. */
static hak_slab_t *take_locked(unsigned count, bool *zeroed) {
    hak_superslab_t *super = choose(count);
    if (!super && borrow()) super = choose(count);
    if (super) {
        HAK_COUNT(&hak_pool_stats.stage2, count);
    } else {
        super = fresh_superslab();
    }
    return super ? take_from(super, count, zeroed) : NULL;
}

hak_slab_t *hak_pool_take(unsigned count, bool *zeroed) {
    hak_lock_acquire(&hak_pool_lock);
    hak_slab_t *slab = take_locked(count, zeroed);
    hak_lock_release(&hak_pool_lock);
    if (slab && *zeroed) hak_pool_prefault(slab->base, (size_t)count << HAK_UNIT_SHIFT, 1);
    return slab;
}

unsigned hak_pool_take_units(unsigned want, hak_slab_t **units, bool *zeroed) {
    unsigned taken = 0;
    hak_lock_acquire(&hak_pool_lock);
    do {
        units[taken] = take_locked(1, &zeroed[taken]);
    } while (units[taken] && ++taken < want && choose(1));
    hak_lock_release(&hak_pool_lock);
    for (unsigned i = 0; i < taken; i++)
        if (zeroed[i]) hak_pool_prefault(units[i]->base, HAK_UNIT_SIZE, 1);
    return taken;
}

/* Adds units to a superslab's free ones; they are dirty unless told otherwise. */
static void add_free(hak_superslab_t *super, uint32_t mask) {
    list_remove(super);
    super->free |= mask;
    list_insert(super);
}

/* Whether live superslabs give their free pages back now. Under the lock. */
static bool round_is_due(void) {
    return hak_option(HAK_OPTION_TINY_SS_PARTIAL) &&
           epoch.count - epoch.round >= (uint64_t)hak_option(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL);
}

/* Ends the epoch if it has lasted long enough, or those that have passed since unseen. */
static void look_at_clock(uint64_t now) {
    if (epoch.ends_ms == 0) epoch.ends_ms = now + EPOCH_MS;
    if (now < epoch.ends_ms) return;
    uint64_t ended = 1 + (now - epoch.ends_ms) / EPOCH_MS;
    epoch.count += ended;
    epoch.ends_ms += ended * EPOCH_MS;
    epoch.events = 0;
}

/* Ends the epoch if it had slab events enough, and says so when a round is due for that. */
static void count_given(uint64_t now) {
    if (HAK_LIKELY(++epoch.events < EPOCH_EVENTS)) return;
    epoch.count++;
    epoch.ends_ms = now + EPOCH_MS;
    epoch.events = 0;
    if (round_is_due()) hak_budget_note(HAK_NOTE_ROUND);
}

/* TINY_USE_SUPERSLAB=0: the slab's pages go back before the slab does. */
static void give_whole(hak_superslab_t *super, hak_slab_t *slab, unsigned count) {
    uint32_t mask = mask_of((unsigned)(slab - super->slabs), count);
    bool is_clean = hak_os_purge(slab->base, (size_t)count << HAK_UNIT_SHIFT);
    hak_lock_acquire(&hak_pool_lock);
    HAK_COUNT(&hak_pool_stats.purge_calls, 1);
    if (HAK_LIKELY(is_clean)) {
        super->dirty &= ~mask;
        HAK_COUNT(&hak_pool_stats.purged_units, count);
        hak_commit_release((size_t)count << HAK_UNIT_SHIFT);
    }
    add_free(super, all_units());
    if (super->dirty) dirty_append(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, dirty_count(super));
    HAK_COUNT(&hak_pool_stats.used_units, -(size_t)count);
    hak_lock_release(&hak_pool_lock);
}

/* Lock held. */
static void give_locked(hak_superslab_t *super, hak_slab_t *slab, unsigned count, uint64_t now) {
    dirty_remove(super);
    add_free(super, mask_of((unsigned)(slab - super->slabs), count));
    super->freed_ms = now;
    dirty_append(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, count);
    HAK_COUNT(&hak_pool_stats.used_units, -(size_t)count);
    count_given(now);
}

void hak_pool_give(hak_slab_t *slab, unsigned count) {
    hak_superslab_t *super = hak_region_superslab_of(slab);
    if (HAK_UNLIKELY(one_slab_each())) {
        give_whole(super, slab, count);
        return;
    }
    uint64_t now = hak_os_now_ms();
    hak_lock_acquire(&hak_pool_lock);
    give_locked(super, slab, count, now);
    hak_lock_release(&hak_pool_lock);
}

void hak_pool_give_list(hak_slab_t *list) {
    uint64_t now = hak_os_now_ms();
    bool each = one_slab_each();
    if (HAK_LIKELY(!each)) hak_lock_acquire(&hak_pool_lock);
    for (unsigned given = 1; list; given++) {
        hak_slab_t *next = list->next;
        hak_superslab_t *super = hak_region_superslab_of(list);
        if (HAK_UNLIKELY(each))
            give_whole(super, list, 1);
        else
            give_locked(super, list, 1, now);
        list = next;
        if (HAK_LIKELY(each || given % GIVEN_AT_ONCE)) continue;
        hak_lock_release(&hak_pool_lock); /* a sweep may bring as many as the heap has */
        hak_lock_acquire(&hak_pool_lock);
    }
    if (HAK_LIKELY(!each)) hak_lock_release(&hak_pool_lock);
}

/* A superslab goes over to a large heap, whole. Under the lock. */
static void hand_over(hak_superslab_t *super) {
    HAK_COUNT(&hak_pool_stats.dirty_units, -(size_t)hak_bit_count(super->dirty));
    HAK_COUNT(&hak_pool_stats.used_units, hak_superslab_units());
    list_remove(super);
    dirty_remove(super);
    super->free = 0;
    list_insert(super);
    super->large = true;
    large_units += hak_superslab_units();
}

/* How many wholly free superslabs, up to `most`, begin with this one. Under the lock. */
static unsigned free_row(const hak_superslab_t *first, unsigned most) {
    unsigned n = 1;
    while (n < most && hak_region_superslab_follows(&first[n - 1]) &&
           first[n].longest == hak_superslab_units())
        n++;
    return n;
}

/* The first of `least` to `most` wholly free superslabs in a row, *count; NULL and 0 when none
 * of the superslabs that became free last begins one. Rejected: to look at all of them, as
 * many as the heap has. Under the lock. */
static hak_superslab_t *find_row(unsigned least, unsigned most, unsigned *count) {
    hak_superslab_t *first = lists[hak_superslab_units()];
    for (unsigned i = 0; i < ROWS_LOOKED_AT && first; i++, first = first->next) {
        HAK_COUNT(&hak_pool_stats.row_looks, 1);
        if ((*count = free_row(first, most)) >= least) return first;
    }
    *count = 0;
    return NULL;
}

/* Whether a superslab is free, or was unmapped and now is. Under the lock. */
static bool joins_row(hak_superslab_t *super) {
    if (hak_region_is_mapped(super)) return super->longest == hak_superslab_units();
    if (!hak_region_map_again(super)) return false;
    enter(super);
    return true;
}

/* A row of superslabs that were unmapped, and of free ones among them. *count as in find_row. Under
 * the lock. */
static hak_superslab_t *map_row(unsigned least, unsigned most, unsigned *count) {
    hak_superslab_t *first;
    for (unsigned i = 0; i < ROWS_LOOKED_AT && (first = hak_region_take_unmapped()) != NULL; i++) {
        unsigned n = 1;
        enter(first);
        while (n < most && joins_row(&first[n])) n++;
        for (; n < least && joins_row(first - 1); n++) first--;
        *count = n;
        if (n >= least) return first;
    }
    *count = 0;
    return NULL;
}

/* While there are addresses that went back, the heap grows by no more than is needed: what it has
 * grown by has records for good. */
hak_superslab_t *hak_pool_take_superslabs(unsigned least, unsigned most, unsigned *taken) {
    hak_lock_acquire(&hak_pool_lock);
    unsigned n;
    hak_superslab_t *first = find_row(least, most, &n);
    if (n == 0) first = map_row(least, most, &n);
    if (HAK_UNLIKELY(hak_region_has_unmapped())) most = hak_max(least, n);
    while (n < most && (n == 0 || hak_region_superslab_is_last(&first[n - 1]))) {
        hak_superslab_t *super = last_superslab();
        if (!super || (super != first + n && n >= least)) break;
        if (n == 0 || super != first + n) { /* behind a hole: what is before stays behind */
            first = super;
            n = 0;
        }
        n++;
    }
    if (n < least) n = 0;
    for (unsigned i = 0; i < n; i++) hand_over(&first[i]);
    hak_lock_release(&hak_pool_lock);
    *taken = n;
    return n ? first : NULL;
}

void hak_pool_give_superslab(hak_superslab_t *super) {
    hak_lock_acquire(&hak_pool_lock);
    super->large = false;
    large_units -= hak_superslab_units();
    add_free(super, all_units());
    if (super->dirty) dirty_append(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, dirty_count(super));
    HAK_COUNT(&hak_pool_stats.used_units, -(size_t)hak_superslab_units());
    hak_lock_release(&hak_pool_lock);
}

/* The addresses of a wholly free superslab go back, and its pages with them, unless the region
 * keeps it. Under the lock. */
static bool unmap(hak_superslab_t *super) {
    unsigned dirty_units = dirty_count(super);
    dirty_remove(super);
    list_remove(super);
    bool done = hak_region_unmap(super);
    if (done) {
        super->dirty = 0;
        HAK_COUNT(&hak_pool_stats.dirty_units, -(size_t)dirty_units);
        hak_commit_release((size_t)dirty_units << HAK_UNIT_SHIFT);
        HAK_COUNT(&hak_pool_stats.unmapped, 1);
    } else {
        list_insert(super);
        if (dirty_units) dirty_append(super);
    }
    return done;
}

/* The same with any superslab. Its record may say that it is free after it was unmapped; it is
 * mapped again under the lock alone. */
static bool unmap_if_free(hak_superslab_t *super) {
    hak_lock_acquire(&hak_pool_lock);
    bool is_free = hak_load_relaxed(&super->mapped) && super->longest == hak_superslab_units();
    bool done = is_free && unmap(super);
    hak_lock_release(&hak_pool_lock);
    return done;
}

/* With a superslab those before it that are free, for it may be the last of a row. */
static void unmap_row(hak_superslab_t *super, void *context) {
    size_t *unmapped = context;
    for (; super && unmap_if_free(super); super = hak_region_superslab_before(super))
        *unmapped += hak_superslab_size();
}

/* False when the one that became free last is kept, or there is none. */
static bool unmap_newest(void) {
    hak_lock_acquire(&hak_pool_lock);
    hak_superslab_t *super = lists[hak_superslab_units()];
    bool done = super && unmap(super);
    hak_lock_release(&hak_pool_lock);
    return done;
}

/* First those that became free last, without a look at any other. One that is kept lies between
 * others, where it would make one piece more; then by address, since those beside a hole make
 * none. As many as there are now: others may free some all the time. */
size_t hak_pool_unmap_free(void) {
    size_t unmapped = 0;
    for (size_t left = hak_region_mapped_superslabs(); left && unmap_newest(); left--)
        unmapped += hak_superslab_size();
    hak_lock_acquire(&hak_pool_lock);
    bool is_rest = lists[hak_superslab_units()] != NULL;
    hak_lock_release(&hak_pool_lock);
    if (is_rest) hak_region_each_superslab(unmap_row, &unmapped);
    return unmapped;
}

/* Purges the units of `claimed`, run by run; returns those now known to be zero. */
static uint32_t purge_units(hak_superslab_t *super, uint32_t claimed) {
    uint32_t clean = 0;
    for (uint32_t rest = claimed; rest;) {
        unsigned start = hak_lowest_bit(rest);
        unsigned count = hak_lowest_bit(~((uint64_t)rest >> start));
        uint32_t mask = mask_of(start, count);
        if (hak_region_purge(super, super->slabs[start].base, (size_t)count << HAK_UNIT_SHIFT))
            clean |= mask;
        rest &= ~mask;
    }
    return clean;
}

/* Pages that the kernel would not take (locked ones) wait for another round. */
static void keep_dirty(hak_superslab_t *super, uint32_t mask, uint64_t now) {
    HAK_COUNT(&hak_pool_stats.dirty_units, hak_bit_count(mask));
    super->freed_ms = now;
    dirty_remove(super);
    dirty_append(super);
}

/* What is left of a superslab when a piece ends is the next one's first. */
static void put_first(hak_superslab_t *super) {
    if (super->on_dirty || !(super->free & super->dirty)) return;
    super->dirty_prev = NULL;
    super->dirty_next = dirty.oldest;
    *(dirty.oldest ? &dirty.oldest->dirty_prev : &dirty.newest) = super;
    dirty.oldest = super;
    super->on_dirty = true;
}

/* The next superslab to be purged. Without a round, one that holds slabs in use is put
 * aside. Under the lock. */
static hak_superslab_t *next_of_age(uint64_t now, uint32_t delay_ms, bool round,
                                    hak_budget_t *budget) {
    for (hak_superslab_t *super; (super = dirty.oldest) != NULL; hold(super)) {
        if (!hak_superslab_is_of_age(super, now, delay_ms)) break;
        if (hak_budget_is_spent(budget)) return NULL;
        hak_budget_look(budget, 1);
        if (round || super->free == all_units()) return super;
    }
    if (!round || !held.oldest || hak_budget_is_spent(budget)) return NULL;
    hak_budget_look(budget, 1);
    return held.oldest;
}

/* The free units with pages that one piece may give back. Under the lock. */
static uint32_t claim(hak_superslab_t *super, size_t bytes) {
    uint32_t claimed = super->free & super->dirty;
    while (hak_bit_count(claimed) > bytes >> HAK_UNIT_SHIFT)
        claimed &= ~((uint32_t)1 << hak_highest_bit(claimed));
    size_t units = hak_bit_count(claimed);
    if (super->free != all_units()) HAK_COUNT(&hak_pool_stats.purged_partial, units);
    dirty_remove(super);
    list_remove(super);
    super->free &= ~claimed;
    list_insert(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, -units);
    HAK_COUNT(&hak_pool_stats.purge_calls, 1);
    HAK_COUNT(&hak_pool_stats.purged_units, units);
    return claimed;
}

/* Purges one superslab, as far as the budget goes; returns the units that are zero now. The
 * free units are claimed under the lock and purged without it, so that no request waits for
 * the kernel; meanwhile they look used. *refused: the kernel would not take some. Lock held. */
static unsigned purge_superslab(hak_superslab_t *super, uint64_t now, hak_budget_t *budget,
                                bool *refused) {
    uint32_t claimed = claim(super, budget->bytes);
    hak_gate_enter(); /* until the claim ends: a fork's child would have it for ever */
    hak_lock_release(&hak_pool_lock);
    uint32_t clean = purge_units(super, claimed);
    hak_lock_acquire(&hak_pool_lock);
    hak_gate_leave();
    unsigned units = clean ? hak_bit_count(clean) : 0;
    super->dirty &= ~clean;
    hak_commit_release((size_t)units << HAK_UNIT_SHIFT);
    hak_budget_give(budget, (size_t)units << HAK_UNIT_SHIFT);
    add_free(super, claimed);
    *refused = clean != claimed;
    if (HAK_UNLIKELY(*refused))
        keep_dirty(super, claimed & ~clean, now);
    else
        put_first(super);
    return units;
}

/* Whether superslabs with slabs in use have their turn. Under the lock. */
static bool in_a_round(bool all) {
    bool allowed = hak_option(HAK_OPTION_TINY_SS_PARTIAL) != 0;
    if (round_is_due()) epoch.is_open = true;
    if (allowed && (all || epoch.is_open)) epoch.round = epoch.count;
    return allowed && (all || epoch.is_open);
}

size_t hak_pool_purge_piece(uint32_t delay_ms, bool all, hak_budget_t *budget) {
    size_t purged = 0;
    bool refused = false;
    uint64_t now = hak_os_now_ms();
    hak_lock_acquire(&hak_pool_lock);
    look_at_clock(now);
    bool round = in_a_round(all);
    hak_superslab_t *super;
    while (!refused && (super = next_of_age(now, delay_ms, round, budget)) != NULL) {
        purged += purge_superslab(super, now, budget, &refused);
        hak_lock_let_fork_in(&hak_pool_lock);
    }
    if (!hak_budget_is_spent(budget)) epoch.is_open = false;
    hak_lock_release(&hak_pool_lock);
    return purged;
}

size_t hak_pool_purge(uint32_t delay_ms, bool all) {
    hak_budget_t budget = HAK_BUDGET_ALL;
    return hak_pool_purge_piece(delay_ms, all, &budget);
}

size_t hak_pool_purgeable(void) {
    size_t held_units =
        hak_option(HAK_OPTION_TINY_SS_PARTIAL) ? 0 : hak_load_relaxed(&hak_pool_stats.held_units);
    size_t units = atomic_load(&hak_pool_stats.dirty_units); /* partner: see thread/purger.c */
    return units - hak_min(units, held_units);
}
