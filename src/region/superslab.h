/* superslab.h: the record of one superslab: 8, 16 or 32 adjacent units (SS_SIZE says how many),
 * which begin at a multiple of their size.
 *
 * Invariant under the pool lock, for every unit i of the superslab:
 *   free bit i set   <=> the unit belongs to the pool
 *   dirty bit i clear => the unit is zero and has no pages
 *   units in use = units - number of free bits
 *
 * A superslab belongs to the pool (its units are slabs, or free) or, as a whole, to one large heap.
 * In a large heap no unit is free to the pool; the heap's lock protects `dirty`, `freed_ms` and the
 * list of dirty superslabs instead of the pool's lock; and these hold under the heap's lock:
 *   used_grains = grains that are part of blocks, or claimed by a purge
 *   touched bit clear => the grain is zero and has no pages
 *   clean_grains = grains - number of touched bits
 *   dirty bit i set <=> a grain of unit i is touched */
#pragma once

#include "base/base.h"
#include "region/unit.h"

enum {
    HAK_SUPERSLAB_SHIFT_MIN = 3, /* log2 of the units: 512 KiB */
    HAK_SUPERSLAB_SHIFT_MAX = 5, /* 2 MiB */
    HAK_SUPERSLAB_UNITS_MAX = 1 << HAK_SUPERSLAB_SHIFT_MAX,
    HAK_SUPERSLAB_SIZE_MAX = HAK_SUPERSLAB_UNITS_MAX * HAK_UNIT_SIZE,
    HAK_GRAIN_SHIFT = 12, /* unit of large blocks, independent of the page size */
    HAK_GRAIN_SIZE = 1 << HAK_GRAIN_SHIFT,
    HAK_UNIT_GRAINS = HAK_UNIT_SIZE / HAK_GRAIN_SIZE,
    HAK_SUPERSLAB_GRAINS_MAX = HAK_UNIT_GRAINS * HAK_SUPERSLAB_UNITS_MAX,
    HAK_SUPERSLAB_WORDS_MAX = HAK_SUPERSLAB_GRAINS_MAX / 64,
};

typedef struct hak_superslab {
    hak_unit_t *units;                             /* constant; the first descriptor */
    struct hak_superslab *next, *prev;             /* pool lock; list by longest free run */
    struct hak_superslab *dirty_next, *dirty_prev; /* pool lock; a list, oldest first */
    uint32_t free;                                 /* pool lock; bit per unit */
    uint32_t dirty;                                /* pool lock; bit per unit */
    uint64_t freed_ms : 48;                        /* pool lock; time of the last free of a unit */
    uint64_t clean_grains : 16;                    /* large heap lock */
    uint8_t longest;                               /* pool lock; longest free run, its list */
    bool on_dirty;                                 /* pool lock; in a list by dirty_next */
    bool held;                                     /* pool lock; waits for a round of partial
                                                      release, in the list `held` */
    bool large;                                    /* pool lock; belongs to a large heap */
    bool kept : 1;                                 /* pool lock; free, but the region keeps it
                                                      mapped */
    bool had_huge : 1;                             /* pool lock to write; constant while mapped: its
                                                      zone has or had huge pages */
    uint8_t node;                                  /* pool lock; the node of its memory, or of the
                                                      last it had (os/numa_topology.h) */
    uint16_t used_grains;                          /* large heap lock */
    uint64_t touched[HAK_SUPERSLAB_WORDS_MAX];     /* large heap lock; bit per grain */
    /* A look-up of a pointer reads this line, which hardly anybody writes. */
    _Atomic bool mapped HAK_ALIGNED(HAK_LINE); /* region lock to write; false: a hole */
    bool unmapped; /* region lock; in its list of holes, by next and prev */
    _Atomic uint16_t
        heap_owner; /* large heap lock to write; that of its units, 0: of no large heap */
    _Atomic(_Atomic uint64_t *) records; /* atomic; NULL, then constant; record.h */
    _Atomic(struct hak_states *) states; /* the same; hardened/state.h */
} HAK_ALIGNED(HAK_LINE) hak_superslab_t;

/* True when no unit was freed for `delay_ms`. False when one was freed after `now_ms` was read, so
 * that a purge does not chase the frees of other threads for ever. A clock of 48 bits does not wrap
 * in the life of a machine. */
HAK_FAST_PATH bool hak_superslab_is_of_age(const hak_superslab_t *super, uint64_t now_ms,
                                           uint32_t delay_ms) {
    return super->freed_ms + (uint64_t)delay_ms <= now_ms;
}

_Static_assert(sizeof(hak_superslab_t) == (size_t)3 * HAK_LINE,
               "a superslab record is three cache lines: of the pool, of a heap, of all");
_Static_assert(offsetof(hak_superslab_t, touched) == HAK_LINE, "the lines are as said");
