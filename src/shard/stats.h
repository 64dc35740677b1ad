/* stats.h: the figures of slabs for the statistics and the live page. */
#pragma once

#include "shard/shard.h"

/* The figures of all bins of a class. */
typedef struct {
    uint64_t counts[HAK_SHARD_COUNTERS]; /* since the process began, as the next */
    uint64_t stage1;
    uint64_t remote; /* blocks that were freed without the lock of their bin */
    uint64_t slabs;  /* that exist now */
    uint64_t used;   /* blocks that are not free in their slab, remote ones included; without
                        those that threads carved (HAK_WARM_TAKEN) */
} hak_shard_stats_t;

/* Sums of the counts of all bins of a class. Each bin is locked separately and read in a bounded number of steps: at
 * rest the sums are exact, otherwise they may miss what moved in the meantime. */
hak_shard_stats_t hak_shard_stats(unsigned class_index);

/* Bytes of blocks in use, or in some thread's cache, in each grain of 4 KiB of a slab.
 * Returns the slab's class, HAK_CLASS_NONE when the unit is no slab now. */
unsigned hak_shard_used_bytes(const hak_unit_t *slab, uint16_t used[HAK_UNIT_GRAINS]);

/* The costs of a band since the process began, or per second. */
typedef struct {
    uint64_t locks;  /* times that locks of its bins were taken */
    uint64_t misses; /* refills that took blocks from a shard */
    uint64_t warm;   /* refills that a warm slab served, without the lock */
} hak_shard_costs_t;

/* Adds the costs of each tiny band since the process began, those of a few shards in each call: *at is 0 at first, and
 * the call that adds the last ones makes it 0 again and returns true. Takes no lock: the sums may be behind for a
 * moment, never ahead. */
bool hak_shard_add_costs(hak_shard_costs_t costs[HAK_BAND_MID], unsigned *at);
