/* large.h: blocks above 64 KiB up to 1 MiB, and smaller ones at multiples of 128 KiB to 2 MiB,
 * cut from runs of superslabs.
 *
 * A block is a whole number of grains (4 KiB). A free one merges with its free neighbours at once;
 * the best fit is reused, wherever it lies, before fresh memory is touched: in the heap of the
 * thread's CPU, among blocks that threads on other CPUs gave back there, in the other heaps, as
 * far as they can spare some, and in all of those where there is no fresh memory. A fresh run has
 * room for L25_RUN_FACTOR blocks. The protocol is in heap.h. Thread-safe. */
#ifndef HAK_LARGE_H
#define HAK_LARGE_H

#include "base/base.h"
#include "os/lock.h"
#include "pool/budget.h"
#include "region/unit.h"
#include "region/superslab.h"

typedef struct {
    size_t count, bytes;            /* blocks in use */
    size_t idle_bytes;              /* free memory that still has pages */
    size_t transfer_bytes;          /* in transfer arrays */
    uint64_t local, remote, stolen; /* blocks reused, by source */
    uint64_t runs, run_units;       /* fresh runs, and their units of 64 KiB */
    uint64_t transferred, spilled;  /* blocks into transfer arrays, and on from full ones */
    uint64_t resized;               /* in place */
    uint64_t purge_calls;
} hak_large_stats_t;

/* The heap of the CPU the caller runs on. */
unsigned hak_large_home(void);

/* A block of at least `size` bytes (64 KiB < size <= 1 MiB) at a multiple of `align`
 * (a power of two up to HAK_LARGE_ALIGN_MAX), zeroed if told so. `home` is the caller's heap.
 * NULL without memory. */
void *hak_large_alloc(unsigned home, size_t size, size_t align, bool zero);

/* Frees a block; returns its bytes, or 0 when no block in use begins there. `block` is in a
 * unit of runs. */
size_t hak_large_free(unsigned home, void *block);

/* The block in use around `pointer`; false when there is none. */
bool hak_large_find(const void *pointer, void **start, size_t *size);

/* Resizes a block where it stands, to more than 64 KiB; false when it cannot be. */
bool hak_large_resize(void *block, size_t size);

/* Purges what has been free for `delay_ms`, as far as the budget allows, in heap *at and those behind
 * it; returns bytes. Must be called now and then, or freed blocks keep their pages. It is done when
 * *at is the count of heaps. */
size_t hak_large_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget);

/* Bytes of free memory that still have pages. The first is exact, the second cheap
 * and up to 4 MiB behind for each heap. */
size_t hak_large_idle(void);
size_t hak_large_idle_about(void);

hak_large_stats_t hak_large_stats(void);

/* Bytes of blocks in use in each grain of a unit; in pages.c. False when the unit is in
 * no large heap now. No lock is taken: a view. */
bool hak_large_used_bytes(const hak_unit_t *unit, uint16_t used[HAK_UNIT_GRAINS]);

/* Visits every lock in order, until a visit says false. */
bool hak_large_each_lock(hak_lock_visit_t visit, void *context);

#endif
