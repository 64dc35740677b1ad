/* view.h: the contents of large heaps, for statistics and for the live page. Thread-safe; the heaps are read one after
 * another, so the sums are not those of a single moment. */
#pragma once

#include "base/base.h"
#include "region/superslab.h"

typedef struct {
    size_t count, bytes;            /* blocks in use */
    size_t idle_bytes;              /* free memory that still has pages */
    size_t transfer_bytes;          /* in transfer arrays */
    uint64_t local, remote, stolen; /* blocks reused, by source */
    uint64_t runs, run_units;       /* fresh runs of superslabs, and their units of 64 KiB */
    uint64_t transferred, spilled;  /* blocks put into transfer arrays; full arrays drained */
    uint64_t resized;               /* in place */
    uint64_t purge_calls;
} hak_large_stats_t;

hak_large_stats_t hak_large_stats(void);

/* Bytes of free memory that still have pages. */
size_t hak_large_idle(void);

/* Bytes of blocks in use in each grain of a unit. False when the unit is in no large heap now. Not a snapshot: no lock
 * is held from one grain to the next, except for a chunk (fine_grain.h), whose heap is locked once. */
bool hak_large_used_bytes(const hak_unit_t *unit, uint16_t used[HAK_UNIT_GRAINS]);
