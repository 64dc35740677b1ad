/* large.h: blocks above 64 KiB up to 1 MiB, runs of units of one superslab.
 *
 * A run's first unit carries its length, the others how far they are from it, so
 * any pointer into a run leads to its start. Thread-safe. */
#ifndef HAK_LARGE_H
#define HAK_LARGE_H

#include "base/base.h"
#include "region/slab.h"

typedef struct {
    size_t count; /* blocks in use */
    size_t bytes; /* that they may use */
} hak_large_stats_t;

/* A run of at least `size` bytes (64 KiB < size <= 1 MiB), at a multiple of 64 KiB.
 * *zeroed: it reads as zero. NULL without memory. */
void *hak_large_alloc(size_t size, bool *zeroed);

/* Frees the run that begins at `slab`. False when it is free already. */
bool hak_large_free(hak_slab_t *slab);

/* What is in use now. */
hak_large_stats_t hak_large_stats(void);

#endif
