/* purge.c: gives the pages and addresses of free units back to the system, the oldest first;
 * counts the epochs between rounds of partial release. */
#include "pool/purge.h"

#include "commit/commit.h"
#include "options/options.h"
#include "os/gate.h"
#include "os/os.h"
#include "pool/lists.h"
#include "pool/pool.h"

enum {
    EPOCH_MS = 250,
    EPOCH_EVENTS = 1024,
    SPARE_UNITS = 512, /* 32 MiB of free addresses that stay mapped in any case */
    REFUSED_MAX = 64,  /* superslabs that the kernel refuses to unmap, in one call */
};

/* Under the lock. */
static struct {
    uint64_t count;   /* epochs so far */
    uint64_t round;   /* the epoch of the last round of partial release */
    uint64_t ends_ms; /* end of the present epoch, by time */
    bool is_open;     /* a round is under way: it may take several pieces */
} epoch HAK_OWN_LINE;

/* True when a round of partial release is due. Under the lock. */
static bool round_is_due(void) {
    return hak_option(HAK_OPTION_TINY_SS_PARTIAL) &&
           epoch.count - epoch.round >= (uint64_t)hak_option(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL);
}

uint64_t hak_pool_round_ms(void) {
    bool allowed = hak_option(HAK_OPTION_TINY_SS_PARTIAL) != 0;
    return allowed ? (uint64_t)hak_option(HAK_OPTION_TINY_SS_PARTIAL_INTERVAL) * EPOCH_MS : 0;
}

/* Ends the epoch if its time is over, and counts all epochs that have passed since. */
static void look_at_clock(uint64_t now) {
    if (epoch.ends_ms == 0) epoch.ends_ms = now + EPOCH_MS;
    if (now < epoch.ends_ms) return;
    uint64_t ended = 1 + (now - epoch.ends_ms) / EPOCH_MS;
    epoch.count += ended;
    epoch.ends_ms += ended * EPOCH_MS;
    hak_store_relaxed(&hak_pool_stats.slab_events, 0);
}

HAK_COMMON void hak_pool_count_taken(void) { HAK_ADD_OWNED(&hak_pool_stats.slab_events, 1); }

/* Counts a slab given. Ends the epoch if it had enough slab events, and sets a note if a round is
 * due because of that. */
HAK_COMMON void hak_pool_count_given(uint64_t now) {
    HAK_ADD_OWNED(&hak_pool_stats.slab_events, 1);
    if (HAK_LIKELY(hak_load_relaxed(&hak_pool_stats.slab_events) < EPOCH_EVENTS)) return;
    epoch.count++;
    epoch.ends_ms = now + EPOCH_MS;
    hak_store_relaxed(&hak_pool_stats.slab_events, 0);
    if (round_is_due()) hak_budget_note(HAK_NOTE_ROUND);
}

/* A superslab has become a hole. If the neighbour `super` is free and kept, the region may now
 * allow to unmap it. Under the lock. */
static HAK_BEHIND void ask_again(hak_superslab_t *super) {
    if (!super || !super->kept) return;
    hak_lists_remove(super);
    hak_lists_insert(super);
}

static _Atomic(hak_purge_pages_watcher_t) purge_watcher;

HAK_OPTIONAL void hak_pool_set_purge_watcher(hak_purge_pages_watcher_t watcher) {
    hak_store_release(&purge_watcher, watcher); /* partner: tell_watcher */
}

/* Tells which units' pages have gone. No thread can take them yet: they are claimed, or the pool lock is held. */
static void tell_watcher(hak_superslab_t *super, uint32_t units) {
    /* Partner: hak_pool_set_purge_watcher. */
    const hak_purge_pages_watcher_t watcher = hak_load_acquire(&purge_watcher);
    if (HAK_UNLIKELY(watcher != NULL)) watcher(super, units);
}

/* Unmaps a wholly free superslab. If it stays mapped, only its place in the lists has changed.
 * Under the lock. */
static hak_region_answer_t unmap(hak_superslab_t *super) {
    unsigned dirty_units = hak_lists_dirty_count(super);
    hak_lists_remove_dirty(super);
    hak_lists_remove(super);
    hak_region_answer_t answer = hak_region_unmap(super);
    if (answer != HAK_REGION_UNMAPPED) {
        hak_lists_insert_asked(super, answer == HAK_REGION_KEEPS);
        if (dirty_units) hak_lists_append_dirty(super);
        return answer;
    }
    ask_again(hak_region_superslab_before(super));
    ask_again(hak_region_is_mapped(super + 1) ? super + 1 : NULL);
    tell_watcher(super, super->dirty);
    super->dirty = 0;
    hak_pool_add(0, -(size_t)dirty_units);
    hak_commit_release((size_t)dirty_units << HAK_UNIT_SHIFT);
    HAK_ADD_OWNED(&hak_pool_stats.unmapped, 1);
    return answer;
}

/* Unmaps the first of a node's free superslabs; with `unasked`, only one that is not kept. NULL
 * when there is none, or when it is `end`. */
static hak_superslab_t *unmap_first(const hak_lists_t *lists, bool unasked,
                                    const hak_superslab_t *end, hak_region_answer_t *answer) {
    HAK_HOLD(&hak_pool_lock);
    hak_superslab_t *super = lists->by_span[hak_superslab_units()];
    if (!super || super == end || (unasked && super->kept)) return NULL;
    *answer = unmap(super);
    return super;
}

/* Unmaps a node's free superslabs until the region keeps one because unmapping it would split a
 * mapping. Then it tries all superslabs that were not tried yet, because one next to a hole splits
 * no mapping. A superslab that the region keeps is not tried again until a neighbour becomes a
 * hole. A superslab that the kernel refuses goes behind all untried ones and waits for the next
 * call. So each superslab is tried once, and again for each neighbour that becomes a hole. `left`
 * bounds the number of tries, since other threads may free superslabs meanwhile. */
static size_t unmap_free(const hak_lists_t *lists) {
    size_t unmapped = 0;
    unsigned refused = 0;
    bool unasked = false;
    hak_superslab_t *super, *first_refused = NULL;
    hak_region_answer_t answer;
    for (size_t left = 3 * hak_region_mapped_superslabs();
         left && refused < REFUSED_MAX &&
         (super = unmap_first(lists, unasked, first_refused, &answer)) != NULL;
         left--) {
        unmapped += answer == HAK_REGION_UNMAPPED;
        unasked |= answer != HAK_REGION_UNMAPPED;
        if (answer == HAK_REGION_REFUSED && refused++ == 0) first_refused = super;
    }
    return unmapped * hak_superslab_size();
}

/* First takes back the wholly free superslabs of large heaps; some have locked pages, which cannot
 * be purged but can be unmapped. The number of superslabs bounds that. Then unmaps what is free. */
HAK_BEHIND size_t hak_pool_unmap_free(void) {
    size_t bytes = 0;
    hak_lock_acquire(&hak_pool_lock);
    for (size_t left = hak_region_mapped_superslabs(); left && hak_pool_borrow(false); left--)
        continue;
    hak_lock_release(&hak_pool_lock);
    for (unsigned node = 0; node < hak_nodes(); node++) bytes += unmap_free(&hak_lists[node]);
    return bytes;
}

/* True when the mapped units are more than twice the units in use, plus SPARE_UNITS: the heap was
 * larger once. Under the lock. */
static bool has_addresses_to_spare(void) {
    size_t units = hak_pool_superslabs() * hak_superslab_units();
    return units > 2 * hak_load_relaxed(&hak_pool_stats.used_units) + SPARE_UNITS;
}

static uint32_t purge_halves(hak_superslab_t *super, unsigned start, unsigned count,
                             unsigned *splits);

/* Purges a span; returns the units that now read as zero. */
static uint32_t purge_span(hak_superslab_t *super, unsigned start, unsigned count,
                           unsigned *splits) {
    if (HAK_LIKELY(
            hak_region_purge(super, super->units[start].base, (size_t)count << HAK_UNIT_SHIFT)))
        return hak_unit_mask(start, count);
    return purge_halves(super, start, count, splits);
}

/* If the kernel refuses the whole span, purges it by halves, at most *splits times: then a locked
 * page keeps its own unit, not the span. */
static HAK_BEHIND uint32_t purge_halves(hak_superslab_t *super, unsigned start, unsigned count,
                                        unsigned *splits) {
    if (count == 1 || *splits == 0) return 0;
    --*splits;
    uint32_t clean = purge_span(super, start, count / 2, splits);
    return clean | purge_span(super, start + count / 2, count - count / 2, splits);
}

/* Purges the units of `claimed`, span by span; returns those that now read as zero. */
static uint32_t purge_units(hak_superslab_t *super, uint32_t claimed, unsigned splits) {
    uint32_t clean = 0;
    for (uint32_t rest = claimed; rest;) {
        unsigned start = hak_lowest_bit(rest);
        unsigned count = hak_lowest_bit(~((uint64_t)rest >> start));
        clean |= purge_span(super, start, count, &splits);
        rest &= ~hak_unit_mask(start, count);
    }
    return clean;
}

/* Keeps units dirty whose pages the kernel refused to purge, since they are locked. They count as
 * freed now, and a later purge tries again. */
static HAK_BEHIND void keep_dirty(hak_superslab_t *super, uint32_t mask) {
    hak_pool_add(0, hak_bit_count(mask));
    super->freed_ms = hak_os_now_ms();
    hak_lists_remove_dirty(super);
    hak_lists_append_dirty(super);
}

/* A walk over the superslabs that are of age. `last`: those that were last in the lists when the
 * walk began, unless it has passed them. Refused superslabs go behind them, so the kernel is asked
 * for each superslab once. */
typedef struct {
    uint64_t now;
    const hak_superslab_t *last[HAK_NODES_MAX][2];
    unsigned nodes;
    uint32_t delay_ms;
    bool round; /* also superslabs with slabs in use */
} aged_t;

/* The next superslab of one list to purge. Outside a round, superslabs with slabs in use are moved
 * to `held`. Under the lock. */
static hak_superslab_t *next_of_list(aged_t *aged, unsigned node, unsigned list,
                                     hak_budget_t *budget) {
    const hak_superslab_t **last = &aged->last[node][list];
    for (hak_superslab_t *super; *last && (super = hak_lists[node].dirty[list].oldest) != NULL;
         hak_lists_hold(super)) {
        if (!hak_superslab_is_of_age(super, aged->now, aged->delay_ms)) break;
        if (hak_budget_is_spent(budget)) return NULL;
        hak_budget_look(budget, 1);
        if (super == *last) *last = NULL;
        if (aged->round || super->free == hak_all_units()) return super;
    }
    return NULL;
}

/* The next superslab to purge. Under the lock. */
static hak_superslab_t *next_of_age(aged_t *aged, hak_budget_t *budget) {
    hak_superslab_t *super = NULL;
    for (unsigned list = 2; !super && list-- > 0;)
        for (unsigned node = 0; !super && node < aged->nodes; node++)
            super = next_of_list(aged, node, list, budget);
    if (super || !aged->round || hak_budget_is_spent(budget)) return super;
    for (unsigned node = 0; !super && node < aged->nodes; node++)
        super = hak_lists[node].held.oldest;
    if (super) hak_budget_look(budget, 1);
    return super;
}

/* Claims free dirty units of a superslab, up to `bytes`: removes them from the free ones. Under
 * the lock. */
static uint32_t claim(hak_superslab_t *super, size_t bytes) {
    uint32_t claimed = super->free & super->dirty;
    while (hak_bit_count(claimed) > bytes >> HAK_UNIT_SHIFT)
        claimed &= ~((uint32_t)1 << hak_highest_bit(claimed));
    hak_lists_remove_dirty(super);
    hak_lists_remove(super);
    super->free &= ~claimed;
    hak_lists_insert(super);
    hak_pool_add(0, -(size_t)hak_bit_count(claimed));
    HAK_ADD_OWNED(&hak_pool_stats.purge_calls, 1);
    return claimed;
}

/* Purges one superslab, as far as the budget allows; returns the number of units that are zero
 * now. It claims the free units under the lock and purges them without it, so that no request
 * waits for the kernel; meanwhile they count as used. Lock held. */
static unsigned purge_superslab(hak_superslab_t *super, unsigned *splits, hak_budget_t *budget) {
    bool partial = super->free != hak_all_units();
    uint32_t claimed = claim(super, budget->bytes);
    hak_gate_enter(); /* until the claim ends: in the child of a fork it would never end */
    hak_lock_release(&hak_pool_lock);
    uint32_t clean = purge_units(super, claimed, *splits);
    tell_watcher(super, clean);
    hak_lock_acquire(&hak_pool_lock);
    hak_gate_leave();
    unsigned units = clean ? hak_bit_count(clean) : 0;
    /* If several units were refused, those of the other superslabs are probably locked, too; a
     * single refused unit says nothing about them. */
    if (units == 0 && claimed & (claimed - 1)) *splits = 0;
    HAK_ADD_OWNED(&hak_pool_stats.purged_units, units);
    if (partial) HAK_ADD_OWNED(&hak_pool_stats.purged_partial, units);
    super->dirty &= ~clean;
    hak_commit_release((size_t)units << HAK_UNIT_SHIFT);
    hak_budget_give(budget, (size_t)units << HAK_UNIT_SHIFT);
    hak_lists_add_free(super, claimed);
    if (HAK_UNLIKELY(clean != claimed))
        keep_dirty(super, claimed & ~clean);
    else
        hak_lists_put_first(super);
    bool is_clean = super->free == hak_all_units() && !super->dirty;
    if (is_clean && (has_addresses_to_spare() || hak_region_refuses_huge(super))) unmap(super);
    return units;
}

/* True when superslabs with slabs in use are purged, too. Under the lock. */
static bool in_a_round(bool all) {
    bool allowed = hak_option(HAK_OPTION_TINY_SS_PARTIAL) != 0;
    if (round_is_due()) epoch.is_open = true;
    if (allowed && (all || epoch.is_open)) epoch.round = epoch.count;
    return allowed && (all || epoch.is_open);
}

size_t hak_pool_purge_piece(uint32_t delay_ms, bool all, hak_budget_t *budget) {
    size_t purged = 0;
    unsigned refused = 0, most_refused = hak_budget_refusals(budget), splits = HAK_PURGE_SPLITS;
    uint64_t now = hak_os_now_ms();
    hak_lock_acquire(&hak_pool_lock);
    look_at_clock(now);
    aged_t aged = {
        .now = now, .nodes = hak_nodes(), .delay_ms = delay_ms, .round = in_a_round(all)};
    for (unsigned node = 0; node < aged.nodes; node++)
        for (unsigned list = 0; list < 2; list++)
            aged.last[node][list] = hak_lists[node].dirty[list].newest;
    hak_superslab_t *super;
    while (refused < most_refused && (super = next_of_age(&aged, budget)) != NULL) {
        unsigned units = purge_superslab(super, &splits, budget);
        purged += units;
        refused += units == 0;
        hak_lock_let_fork_in(&hak_pool_lock);
    }
    if (!hak_budget_is_spent(budget) && refused < most_refused) epoch.is_open = false;
    hak_lock_release(&hak_pool_lock);
    return purged;
}
