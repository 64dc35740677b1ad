/* pool.h: the shared pool of units, in superslabs, and their purge.
 *
 * Three stages serve a request for a slab, each counted: an empty slab that the
 * shard bin kept (stage 1, counted there), a free unit of a live superslab
 * (stage 2), a new superslab from the region (stage 3).
 *
 * A freed unit keeps its pages ("dirty") and is preferred over untouched ones. When
 * nothing came back to its superslab for PURGE_DELAY_MS the pages go back: at once if
 * the superslab is wholly free, otherwise in a round of partial release, which takes
 * place every TINY_SS_PARTIAL_INTERVAL epochs. An epoch ends 250 ms after the one before
 * or with the 1,024th slab event (a slab taken or given), whichever comes first.
 * Thread-safe; one lock, taken once per span or batch of slabs, never per block. */
#ifndef HAK_POOL_H
#define HAK_POOL_H

#include "base/base.h"
#include "os/lock.h"
#include "pool/budget.h"
#include "region/region.h"

typedef struct {
    _Atomic uint64_t stage2;   /* units served from a live superslab */
    _Atomic uint64_t stage3;   /* new superslabs */
    _Atomic uint64_t unmapped; /* superslabs whose addresses were given back */
    _Atomic uint64_t huge;     /* those of them that huge pages were asked for */
    _Atomic uint64_t purge_calls;
    _Atomic uint64_t purged_units;
    _Atomic uint64_t purged_partial;  /* those of them in superslabs with slabs in use */
    _Atomic uint64_t row_looks;       /* superslabs that searches for a row began at */
    _Atomic uint64_t populated_units; /* by SS_PREFAULT; atomic addition */
    _Atomic size_t dirty_units;       /* free units that still have pages */
    _Atomic size_t held_units;        /* those of them that wait for a round */
    _Atomic size_t used_units;
    _Atomic size_t ragged_units; /* of slabs whose blocks leave much of them untouched;
                                    atomic addition, by shards */
} hak_pool_stats_t;              /* written under the pool lock, read by anyone */

extern hak_pool_stats_t hak_pool_stats;
extern hak_lock_t hak_pool_lock;

/* Takes `count` units in a row, of one superslab. `*zeroed`: all of them read as zero.
 * NULL without memory. The caller enters the class; it is inside the gate (os/gate.h) until then,
 * and from when it has taken units out of a class until it gives them. */
hak_unit_t *hak_pool_take(unsigned count, bool *zeroed);

/* Takes up to `want` (>= 1) units, each by itself, under one lock; beyond the first one only
 * what superslabs have free that are there. Returns how many. */
unsigned hak_pool_take_units(unsigned want, hak_unit_t **units, bool *zeroed);

/* Gives units back; their class entry must be NONE already. */
void hak_pool_give(hak_unit_t *slab, unsigned count);

/* The same for a list of single units, linked by `next`; 64 of them under one lock. */
void hak_pool_give_list(hak_unit_t *list);

/* Makes the pages of fresh memory, if SS_PREFAULT is `level`. */
void hak_pool_prefault(char *start, size_t size, int level);

/* Hands out `least` to `most` wholly free superslabs in a row; returns the first and how
 * many, NULL without memory. They are marked as large. */
hak_superslab_t *hak_pool_take_superslabs(unsigned least, unsigned most, unsigned *taken);

/* Takes a superslab back: owners and classes cleared, dirty units as `dirty` says. */
void hak_pool_give_superslab(hak_superslab_t *super);

/* Who may have wholly free superslabs to give back when the pool is about to take
 * fresh memory: how many, and the function that gives one back (false: none after
 * all). It is called without the pool's lock. */
typedef bool (*hak_pool_lender_t)(void);
extern _Atomic size_t hak_pool_lent;
void hak_pool_set_lender(hak_pool_lender_t lender);

/* Asks them for one; true when the pool has got it. Under the pool's lock, which is dropped. */
bool hak_pool_borrow(void);

/* Purges what has been free for longer than `delay_ms`; returns units purged. Superslabs
 * with slabs in use wait for their round, unless `all`. */
size_t hak_pool_purge(uint32_t delay_ms, bool all);

/* As much of that as the budget allows. It is done when the budget is not spent. */
size_t hak_pool_purge_piece(uint32_t delay_ms, bool all, hak_budget_t *budget);

/* Gives the addresses of wholly free superslabs back, where the address space is limited; returns
 * bytes. Not of those that the region keeps. */
size_t hak_pool_unmap_free(void);

/* Superslabs that there are, in the hands of the pool or of large heaps. */
size_t hak_pool_superslabs(void);

/* Dirty units that a purge will come to, now or later. */
size_t hak_pool_purgeable(void);

#endif
