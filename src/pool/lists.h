/* lists.h: the pool's lists of superslabs; internal to pool/, all under the pool's lock.
 *
 * Each node (os/numa_topology.h) has lists of its own, of the superslabs whose memory is there. A superslab
 * without pages may be in the lists of any node.
 *
 * Invariants, whenever the lock is free:
 *   by_span[n] = superslabs whose longest free span is n units; each superslab is in one list
 *   dirty, held = superslabs with free dirty units, in the order of their last frees. Those in
 *     `held` have slabs in use, and came of age between two rounds of partial release: they wait
 *     for the next round
 *   `kept` superslabs are wholly free, and the region has refused to unmap them because that would
 *     make too many pieces. They are last in their list: last_unasked is the last one before them
 *
 * dirty[1] is purged before dirty[0], and dirty[0] is used first. So the memory that a program
 * without a helper thread keeps (thread/purge_ahead.c) lies outside zones of huge pages. A zone of
 * huge pages empties in whatever order its blocks are freed, is unmapped, and may have huge pages
 * again (region/thp.h). */
#pragma once

#include "base/base.h"
#include "options/options.h"
#include "os/numa_topology.h"
#include "pool/pool.h"
#include "region/region.h"
#include "region/superslab_list.h"

typedef struct {
    hak_superslab_t *by_span[HAK_SUPERSLAB_UNITS_MAX + 1];
    hak_dirty_list_t dirty[2], held; /* dirty[1]: of zones that have or had huge pages */
    hak_superslab_t *rows_seen;    /* wholly free superslab at which the search for a row goes on */
    hak_superslab_t *last_unasked; /* wholly free; NULL when the region keeps all that are */
} hak_lists_t;

extern hak_lists_t hak_lists[HAK_NODES_MAX];

/* Adds to used_units and dirty_units. Slow calls of all threads read hak_pool_about: it is written only where it is
 * off by more than one part in HAK_ABOUT_PART. */
enum { HAK_ABOUT_PART = 128 };
bool hak_pool_has_much_dirty(size_t dirty, size_t used);
void hak_pool_add(size_t used, size_t dirty);

HAK_FAST_PATH uint32_t hak_unit_mask(unsigned start, unsigned count) {
    return (uint32_t)((((uint64_t)1 << count) - 1) << start);
}

HAK_FAST_PATH uint32_t hak_all_units(void) { return hak_unit_mask(0, hak_superslab_units()); }

/* TINY_USE_SUPERSLAB=0: a slab has a superslab to itself. The other units of the superslab are
 * neither in use nor free. */
HAK_FAST_PATH bool hak_one_slab_each(void) { return !hak_option(HAK_OPTION_TINY_USE_SUPERSLAB); }

/* Removes a superslab from its list by_span, or inserts it by its longest free span. */
void hak_lists_remove(hak_superslab_t *super);
void hak_lists_insert(hak_superslab_t *super);

/* Changes which units are free; the superslab becomes the first in the list of its longest free span. */
void hak_lists_set_free(hak_superslab_t *super, uint32_t free);

/* Inserts a wholly free superslab that stays mapped, behind those for which the region was not
 * asked yet. `keeps`: the region keeps it mapped; otherwise it becomes the last of those not asked
 * for. */
void hak_lists_insert_asked(hak_superslab_t *super, bool keeps);

/* Adds units to the free units of a superslab, and leaves `dirty` as it is. A held superslab leaves
 * `held`, since it may be wholly free now. */
void hak_lists_add_free(hak_superslab_t *super, uint32_t mask);

/* Number of free units with pages. */
unsigned hak_lists_dirty_count(const hak_superslab_t *super);

/* True when the superslab is the newest in its list `dirty`. */
bool hak_lists_is_newest(const hak_superslab_t *super);

/* Removes a superslab from its list `dirty` or `held`, if it is in one; appends it to its `dirty`
 * as the newest; puts it first there, when a piece has purged only a part of it; moves it to
 * `held`. */
void hak_lists_remove_dirty(hak_superslab_t *super);
void hak_lists_append_dirty(hak_superslab_t *super);
void hak_lists_put_first(hak_superslab_t *super);
void hak_lists_hold(hak_superslab_t *super);

/* Gives a superslab to a node, if it is wholly free and without pages; it is in no list. */
void hak_lists_place(hak_superslab_t *super, unsigned node);

/* The superslab to use first: that of the latest free, outside zones of huge pages if possible.
 * NULL when no free unit is dirty. */
hak_superslab_t *hak_lists_newest(const hak_lists_t *lists);
