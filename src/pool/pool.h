/* pool.h: the shared pool of units, in superslabs, and their purge.
 *
 * Three stages serve a request for a slab, and each is counted: an empty slab that the shard's
 * bin kept (stage 1, counted there), a free unit of a superslab that exists (stage 2), a new
 * superslab from the region (stage 3).
 *
 * A freed unit keeps its pages (it is "dirty"), and the pool prefers it to untouched units. When
 * no unit of its superslab was freed for PURGE_DELAY_MS the pages are purged: at the next pass
 * if the superslab is wholly free, otherwise in a round of partial release. A round takes place
 * every TINY_SS_PARTIAL_INTERVAL epochs. An epoch ends 250 ms after the one before it, or with
 * its 1,024th slab event (a slab taken or given), whichever comes first.
 *
 * Thread-safe. One lock, taken once per span or batch of slabs, never per block. */
#pragma once

#include "base/base.h"
#include "os/lock.h"
#include "pool/purge_budget.h"
#include "region/region.h"

/* Takes and gives of units or superslabs write the first line only. */
typedef struct {
    _Atomic uint64_t stage2; /* units served from a superslab that existed */
    _Atomic size_t used_units;
    _Atomic size_t dirty_units;   /* free units that still have pages */
    _Atomic uint64_t near_units;  /* taken with pages on the caller's node, of several nodes */
    _Atomic uint64_t far_units;   /* the same on another node */
    size_t large_units;           /* pool lock; that large heaps own, in use or not */
    _Atomic uint32_t slab_events; /* slabs taken and given in the present epoch (purge.c) */
    _Atomic uint64_t stage3       /* new superslabs, those mapped again included */
        HAK_ALIGNED(HAK_LINE);
    _Atomic uint64_t unmapped; /* superslabs whose addresses were given back */
    _Atomic uint64_t huge;     /* new superslabs for which huge pages were requested */
    _Atomic uint64_t purge_calls;
    _Atomic uint64_t purged_units;
    _Atomic uint64_t purged_partial;  /* purged units of superslabs with slabs in use */
    _Atomic uint64_t row_looks;       /* superslabs at which searches for a row began */
    _Atomic uint64_t populated_units; /* by SS_PREFAULT; atomic addition */
    _Atomic size_t held_units;        /* dirty units that wait for a round */
    _Atomic size_t ragged_units;      /* in slabs of ragged classes (hak_class_is_ragged); shards
                                         write it by atomic addition */
    _Atomic size_t stocks;            /* shards that took units ahead so far; atomic addition */
    _Atomic size_t other_bins;  /* of shards other than the first: bins that have had a slab, a few
                                   less; atomic addition */
    _Atomic size_t first_units; /* in first chunks of heaps (large/fine_grain.h); atomic addition */
} hak_pool_stats_t;             /* written under the pool lock, any thread reads */

extern hak_pool_stats_t hak_pool_stats;

/* The same for slow calls, which ask at each refill: in lines that are written only when the figures have
 * changed by a part (lists.h). Exact while they are small. */
typedef struct {
    _Atomic uint32_t used_units;                  /* modulo 2^32 */
    _Atomic bool has_dirty HAK_ALIGNED(HAK_LINE); /* some free units have pages */
    _Atomic bool has_much_dirty; /* more than one for every HAK_ABOUT_PART in use */
} hak_pool_about_t;

extern hak_pool_about_t hak_pool_about;

/* Threads far outnumber the CPUs: cache/cpu_depot.h. Atomic; a hint. */
extern _Atomic bool hak_pool_crowded;
extern hak_lock_t hak_pool_lock;

/* Takes `count` adjacent units of one superslab. `*zeroed`: all of them read as zero. NULL when
 * there is no memory. The caller sets the units' class, and stays inside the gate (os/gate.h)
 * until it has done that. It is also inside the gate from the moment when it clears the class
 * until it has given the units back. */
hak_unit_t *hak_pool_take(unsigned count, bool *zeroed);

/* Takes the `count` units behind a row of `before` units that begins with `first`. False when they
 * lie behind the end of the superslab or are not free, or when there is no memory. */
bool hak_pool_take_behind(hak_unit_t *first, unsigned before, unsigned count);

/* True when units that were taken together must be given back together. */
bool hak_pool_gives_whole(void);

/* Takes up to `want` (>= 1) units, each on its own, in one critical section. Only the first one may
 * need a new superslab: *grown tells whether it did. Returns how many it took. If the last one was never
 * touched, also takes up to `more` untouched units of its line of the map, of a wholly free superslab if there is any;
 * these are `stocked`, and linked by `next` into *ahead. */
unsigned hak_pool_take_units(unsigned want, hak_unit_t **units, bool *zeroed, unsigned more,
                             hak_unit_t **ahead, bool *grown);

/* Gives units back; their class entry must be NONE already. */
void hak_pool_give(hak_unit_t *slab, unsigned count);

/* The same for a list of single units, linked by `next`; 64 of them in one critical section. */
void hak_pool_give_list(hak_unit_t *list);

/* Gives back units that were taken ahead and not touched since. */
void hak_pool_give_ahead(hak_unit_t *list);

/* Gives a unit back that was taken and not touched since; `zeroed` is what the take returned. The
 * unit has no pages, unless SS_PREFAULT made them. */
void hak_pool_give_unused(hak_unit_t *unit, bool zeroed);

/* Populates the pages of fresh memory, if SS_PREFAULT is `level`. */
void hak_pool_prefault(char *start, size_t size, int level);

/* Takes `least` to `most` adjacent, wholly free superslabs and marks them as large. Returns the
 * first, and their number in *taken; NULL when there is no memory. */
hak_superslab_t *hak_pool_take_superslabs(unsigned least, unsigned most, unsigned *taken);

/* Gives a superslab back. The caller has cleared the owners and classes of its units, and set
 * its `dirty` mask. */
void hak_pool_give_superslab(hak_superslab_t *super);

/* The lender is a function of a higher layer that may have wholly free superslabs. The pool calls
 * it, without its lock, before it takes fresh memory; the function gives one superslab back, or
 * returns false when there is none. `is_near`: one of the caller's node. */
typedef bool (*hak_pool_lender_t)(bool is_near);
void hak_pool_set_lender(hak_pool_lender_t lender);

/* Asks the lender for one superslab; true when the pool got it. The caller holds the pool's lock,
 * which is released for the call and taken again. */
bool hak_pool_borrow(bool is_near);

/* Number of mapped superslabs, owned by the pool or by large heaps. */
size_t hak_pool_superslabs(void);

/* Number of dirty units that a purge will reach, now or later. */
size_t hak_pool_purgeable(void);
