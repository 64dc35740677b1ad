/* lists.h: the lists that superslabs of the pool are in; internal to pool/, all under its lock.
 *
 * Invariants, whenever the lock is free:
 *   by_span[n] = superslabs whose longest free span is n units; each is in one of them
 *   dirty, held = superslabs with free dirty units, by the time of the last free: held are those
 *     that hold slabs in use, and came of age between two rounds of partial release */
#ifndef HAK_LISTS_H
#define HAK_LISTS_H

#include "base/base.h"
#include "options/options.h"
#include "region/region.h"

typedef struct {
    hak_superslab_t *by_span[HAK_SUPERSLAB_UNITS_MAX + 1];
    struct {
        hak_superslab_t *oldest, *newest;
    } dirty, held;
    hak_superslab_t *rows_seen; /* of the wholly free ones, the next to be looked at for a row */
} hak_lists_t;

extern hak_lists_t hak_lists;

HAK_FAST_PATH uint32_t hak_unit_mask(unsigned start, unsigned count) {
    return (uint32_t)((((uint64_t)1 << count) - 1) << start);
}

HAK_FAST_PATH uint32_t hak_all_units(void) { return hak_unit_mask(0, hak_superslab_units()); }

/* TINY_USE_SUPERSLAB=0: a slab has a superslab to itself. Its other units are not in use,
 * and not free either. */
HAK_FAST_PATH bool hak_one_slab_each(void) { return !hak_option(HAK_OPTION_TINY_USE_SUPERSLAB); }

/* By the longest free span. */
void hak_lists_remove(hak_superslab_t *super);
void hak_lists_insert(hak_superslab_t *super);

/* Adds units to a superslab's free ones; they are dirty unless told otherwise. */
void hak_lists_add_free(hak_superslab_t *super, uint32_t mask);

/* Free units with pages. */
unsigned hak_lists_dirty_count(const hak_superslab_t *super);

/* Out of the list of dirty or of held ones, if it is in one; behind the newest dirty one; before
 * the oldest, for what is left of a superslab when a piece ends; into the held ones. */
void hak_lists_remove_dirty(hak_superslab_t *super);
void hak_lists_append_dirty(hak_superslab_t *super);
void hak_lists_put_first(hak_superslab_t *super);
void hak_lists_hold(hak_superslab_t *super);

/* Slab events that epochs are counted in: a slab was taken; a slab was given at `now`, which may
 * make a round of partial release due. In purge.c. */
void hak_pool_count_taken(void);
void hak_pool_count_given(uint64_t now);

#endif
