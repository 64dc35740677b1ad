/* pool.c: superslabs in lists by their longest free run; purge oldest first. */
#include "pool/pool.h"

#include "options/options.h"
#include "os/os.h"
#include "region/commit.h"

hak_pool_stats_t hak_pool_stats;
hak_lock_t hak_pool_lock;

/* Under the lock. lists[n]: superslabs whose longest free run is n units. */
static hak_superslab_t *lists[HAK_SUPERSLAB_UNITS + 1];
static hak_superslab_t *dirty_oldest, *dirty_newest;

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

static void dirty_remove(hak_superslab_t *super) {
    if (!super->on_dirty) return;
    *(super->dirty_prev ? &super->dirty_prev->dirty_next : &dirty_oldest) = super->dirty_next;
    *(super->dirty_next ? &super->dirty_next->dirty_prev : &dirty_newest) = super->dirty_prev;
    super->on_dirty = false;
}

static void dirty_append(hak_superslab_t *super) {
    super->dirty_next = NULL;
    super->dirty_prev = dirty_newest;
    *(dirty_newest ? &dirty_newest->dirty_next : &dirty_oldest) = super;
    dirty_newest = super;
    super->on_dirty = true;
}

static uint32_t mask_of(unsigned start, unsigned count) {
    return (uint32_t)((((uint64_t)1 << count) - 1) << start);
}

/* The superslab that was freed into last, when it has a dirty run long enough
 * (its pages are there, and warm); else the tightest fit of all, which may touch
 * fresh pages. For one unit: no fresh page is touched while a dirty one is free. */
static hak_superslab_t *choose(unsigned count) {
    if (dirty_newest && run_starts(dirty_newest->free & dirty_newest->dirty, count))
        return dirty_newest;
    for (unsigned n = count; n <= HAK_SUPERSLAB_UNITS; n++)
        if (lists[n]) return lists[n];
    return NULL;
}

void hak_pool_prefault(char *start, size_t size, int level) {
    if (HAK_LIKELY(hak_option(HAK_OPTION_SS_PREFAULT) != level)) return;
    if (hak_os_populate(start, size))
        hak_add_relaxed(&hak_pool_stats.populated_units, size >> HAK_UNIT_SHIFT);
}

/* A fresh superslab, under SS_PREFAULT=2 with all its pages: then it is charged whole,
 * and dirty. Under the lock. */
static hak_superslab_t *fresh_superslab(void) {
    hak_superslab_t *super = hak_region_take_superslab();
    if (!super) return NULL;
    HAK_COUNT(&hak_pool_stats.stage3, 1);
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_SS_PREFAULT) == 2) &&
        hak_commit_charge(HAK_SUPERSLAB_SIZE)) {
        hak_pool_prefault(super->slabs[0].base, HAK_SUPERSLAB_SIZE, 2);
        super->dirty = mask_of(0, HAK_SUPERSLAB_UNITS);
        super->freed_ms = (uint32_t)hak_os_now_ms();
        HAK_COUNT(&hak_pool_stats.dirty_units, HAK_SUPERSLAB_UNITS);
        dirty_append(super);
    }
    list_insert(super);
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
    HAK_COUNT(&hak_pool_stats.dirty_units, -was_dirty);
    HAK_COUNT(&hak_pool_stats.used_units, count);
    list_remove(super);
    super->free &= ~mask;
    super->dirty |= mask;
    list_insert(super);
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

/* Lock held. */
static void give_locked(hak_superslab_t *super, hak_slab_t *slab, unsigned count, uint32_t now) {
    add_free(super, mask_of((unsigned)(slab - super->slabs), count));
    super->freed_ms = now;
    dirty_remove(super);
    dirty_append(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, count);
    HAK_COUNT(&hak_pool_stats.used_units, -(size_t)count);
}

void hak_pool_give(hak_slab_t *slab, unsigned count) {
    hak_superslab_t *super = hak_region_superslab_of(slab);
    uint32_t now = (uint32_t)hak_os_now_ms();
    hak_lock_acquire(&hak_pool_lock);
    give_locked(super, slab, count, now);
    hak_lock_release(&hak_pool_lock);
}

void hak_pool_give_list(hak_slab_t *list) {
    uint32_t now = (uint32_t)hak_os_now_ms();
    hak_lock_acquire(&hak_pool_lock);
    while (list) {
        hak_slab_t *next = list->next;
        give_locked(hak_region_superslab_of(list), list, 1, now);
        list = next;
    }
    hak_lock_release(&hak_pool_lock);
}

/* A superslab goes over to a large heap, whole. Under the lock. */
static void hand_over(hak_superslab_t *super) {
    HAK_COUNT(&hak_pool_stats.dirty_units, -(size_t)hak_bit_count(super->dirty));
    HAK_COUNT(&hak_pool_stats.used_units, HAK_SUPERSLAB_UNITS);
    list_remove(super);
    dirty_remove(super);
    super->free = 0;
    list_insert(super);
    super->large = true;
}

hak_superslab_t *hak_pool_take_superslabs(unsigned count, unsigned *taken) {
    unsigned n = 0;
    hak_lock_acquire(&hak_pool_lock);
    hak_superslab_t *first = lists[HAK_SUPERSLAB_UNITS];
    while (first && n < count && first[n].longest == HAK_SUPERSLAB_UNITS) {
        hand_over(&first[n++]);
        if (!hak_region_superslab_follows(&first[n - 1])) break;
    }
    /* Fresh ones lie behind the last of their region. */
    while (n < count && (n == 0 || !hak_region_superslab_follows(&first[n - 1]))) {
        hak_superslab_t *super = fresh_superslab();
        if (!super) break;
        if (n && super != first + n) break; /* in another region: it stays in the pool */
        hand_over(super);
        if (n++ == 0) first = super;
    }
    hak_lock_release(&hak_pool_lock);
    *taken = n;
    return n ? first : NULL;
}

void hak_pool_give_superslab(hak_superslab_t *super) {
    hak_lock_acquire(&hak_pool_lock);
    super->large = false;
    add_free(super, mask_of(0, HAK_SUPERSLAB_UNITS));
    if (super->dirty) dirty_append(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, hak_bit_count(super->dirty));
    HAK_COUNT(&hak_pool_stats.used_units, -(size_t)HAK_SUPERSLAB_UNITS);
    hak_lock_release(&hak_pool_lock);
}

/* Purges the units of `claimed`, run by run; returns those now known to be zero. */
static uint32_t purge_units(const hak_superslab_t *super, uint32_t claimed) {
    uint32_t clean = 0;
    for (uint32_t rest = claimed; rest;) {
        unsigned start = hak_lowest_bit(rest);
        unsigned count = hak_lowest_bit(~((uint64_t)rest >> start));
        uint32_t mask = mask_of(start, count);
        if (hak_os_purge(super->slabs[start].base, (size_t)count << HAK_UNIT_SHIFT)) clean |= mask;
        rest &= ~mask;
    }
    return clean;
}

/* Pages that the kernel would not take (locked ones) wait for another round. */
static void keep_dirty(hak_superslab_t *super, uint32_t mask, uint32_t now) {
    HAK_COUNT(&hak_pool_stats.dirty_units, hak_bit_count(mask));
    super->freed_ms = now;
    dirty_remove(super);
    dirty_append(super);
}

/* The free units are claimed under the lock and purged without it, so that no
 * request waits for the kernel; meanwhile they look used. */
size_t hak_pool_purge(uint32_t delay_ms) {
    size_t purged = 0;
    uint32_t now = (uint32_t)hak_os_now_ms();
    hak_lock_acquire(&hak_pool_lock);
    for (hak_superslab_t *super; (super = dirty_oldest) != NULL;) {
        /* Signed: a unit may have come back since the clock was read. */
        if ((int32_t)(now - super->freed_ms) < (int32_t)delay_ms) break;
        uint32_t claimed = super->free & super->dirty;
        dirty_remove(super);
        list_remove(super);
        super->free &= ~claimed;
        list_insert(super);
        size_t units = hak_bit_count(claimed);
        HAK_COUNT(&hak_pool_stats.dirty_units, -units);
        HAK_COUNT(&hak_pool_stats.purge_calls, 1);
        HAK_COUNT(&hak_pool_stats.purged_units, units);
        hak_lock_release(&hak_pool_lock);
        uint32_t clean = purge_units(super, claimed);
        hak_lock_acquire(&hak_pool_lock);
        super->dirty &= ~clean;
        hak_commit_release((size_t)hak_bit_count(clean) << HAK_UNIT_SHIFT);
        add_free(super, claimed);
        purged += hak_bit_count(clean);
        if (HAK_UNLIKELY(clean != claimed)) {
            keep_dirty(super, claimed & ~clean, now);
            break;
        }
    }
    hak_lock_release(&hak_pool_lock);
    return purged;
}

/* Units without an owner are free, whatever the dead threads were about to do with
 * them; what one of them was purging may be dirty or not. */
static void rebuild_superslab(hak_superslab_t *super, void *context) {
    (void)context;
    uint32_t unowned = 0;
    if (super->large) {
        HAK_COUNT(&hak_pool_stats.used_units, HAK_SUPERSLAB_UNITS);
        return;
    }
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS; i++)
        if (hak_load_relaxed(&super->slabs[i].owner) == 0) unowned |= 1u << i;
    if (unowned != super->free) add_free(super, unowned);
    uint32_t dirty = super->free & super->dirty;
    if (dirty && !super->on_dirty) dirty_append(super);
    HAK_COUNT(&hak_pool_stats.dirty_units, dirty ? hak_bit_count(dirty) : 0);
    HAK_COUNT(&hak_pool_stats.used_units, HAK_SUPERSLAB_UNITS - hak_bit_count(super->free));
}

void hak_pool_rebuild(void) {
    hak_store_relaxed(&hak_pool_stats.dirty_units, 0);
    hak_store_relaxed(&hak_pool_stats.used_units, 0);
    hak_region_each_superslab(rebuild_superslab, NULL);
}
