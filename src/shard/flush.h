/* flush.h: a batch of blocks comes back to its slabs. */
#pragma once

#include "base/base.h"

/* Blocks that were already free when they came back: blocks of one word of a slab, or a single block. */
typedef struct {
    char *first;   /* that of the lowest bit */
    uint64_t bits; /* a block each, `size` bytes apart; 0: there are none */
    uint32_t size;
} hak_twice_t;

/* Gives `count` blocks of one class back. Then each block that was already free is reported (hak_error_report): the
 * program's handler of SIGABRT may jump away, and no block may be lost by that. The array is the engine's from here on. */
void hak_shard_flush(unsigned home, unsigned class_index, void **blocks, unsigned count);

/* The same for callers that report later: when what they hold is whole again, and outside the gate, since the handler
 * may also free blocks, or start a thread that forks. Returns how many blocks were already free; they come first in the
 * array. */
unsigned hak_shard_flush_all_inside(unsigned home, unsigned class_index, void **blocks,
                                    unsigned count);

/* The same, but it ends at the first blocks that were already free, which are in *twice. Returns how many blocks are
 * done. */
unsigned hak_shard_flush_inside(unsigned home, unsigned class_index, void *const *blocks,
                                unsigned count, hak_twice_t *twice);

/* Stores blocks in an array, behind the `bad` ones that it has; returns how many these are now. */
unsigned hak_shard_list_twice(void **blocks, unsigned bad, const hak_twice_t *twice);

void hak_shard_report_one(const void *block, unsigned class_index);
void hak_shard_report_all(void *const *blocks, size_t count, unsigned class_index);
void hak_shard_report_twice(const hak_twice_t *twice, unsigned class_index);
