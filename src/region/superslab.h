/* superslab.h: the record of one superslab, an aligned MiB of sixteen units.
 *
 * Invariant under the pool lock, for every unit i of the superslab:
 *   free bit i set   <=> the unit belongs to the pool
 *   dirty bit i clear => the unit is zero and has no pages
 *   units in use = 16 - number of free bits */
#ifndef HAK_SUPERSLAB_H
#define HAK_SUPERSLAB_H

#include "base/base.h"
#include "region/slab.h"

enum {
    HAK_SUPERSLAB_UNITS = 16,
    HAK_SUPERSLAB_SIZE = HAK_SUPERSLAB_UNITS * HAK_UNIT_SIZE,
};

typedef struct hak_superslab {
    hak_slab_t *slabs;                             /* constant; sixteen descriptors */
    struct hak_superslab *next, *prev;             /* pool lock; list by longest free run */
    struct hak_superslab *dirty_next, *dirty_prev; /* pool lock; oldest first */
    uint32_t free;                                 /* pool lock; bit per unit */
    uint32_t dirty;                                /* pool lock; bit per unit */
    uint32_t freed_ms;                             /* pool lock; when a unit came back last */
    uint8_t longest;                               /* pool lock; longest free run, its list */
    bool on_dirty;                                 /* pool lock */
} hak_superslab_t;

_Static_assert(sizeof(hak_superslab_t) <= HAK_LINE, "a superslab record is one cache line");

#endif
