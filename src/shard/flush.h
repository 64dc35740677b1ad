/* flush.h: a batch of blocks comes back to its slabs. */
#pragma once

#include "base/base.h"

/* Blocks that were already free when they came back: blocks of one word of a slab, or a single block. */
typedef struct {
    char *first;   /* that of the lowest bit */
    uint64_t bits; /* a block each, `size` bytes apart; 0: there are none */
    uint32_t size;
} hak_twice_t;

/* Gives `count` blocks of one class back. Each block that was already free is reported
 * (hak_error_report); the others are given back. */
void hak_shard_flush(unsigned home, unsigned class_index, void *const *blocks, unsigned count);

/* The same for callers that report later. Returns how many blocks are done: all, or those up to the first
 * blocks that were already free, which are in *twice. The caller reports these when what it holds is whole again, and
 * outside the gate: the program's handler of SIGABRT may free blocks, or start a thread that forks. */
unsigned hak_shard_flush_inside(unsigned home, unsigned class_index, void *const *blocks,
                                unsigned count, hak_twice_t *twice);

void hak_shard_report_one(const void *block, unsigned class_index);
void hak_shard_report_twice(const hak_twice_t *twice, unsigned class_index);
