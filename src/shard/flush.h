/* flush.h: a batch of blocks comes back to its slabs. */
#pragma once

#include "base/base.h"

/* Gives `count` blocks of one class back. A block that was free already is reported
 * (hak_error_report), the others are given all the same. */
void hak_shard_flush(unsigned home, unsigned class_index, void *const *blocks, unsigned count);

/* The same for callers that stay inside the gate: returns a block that was free already, or NULL. They
 * report it outside, since the program's handler of SIGABRT may start a thread that forks. */
void *hak_shard_flush_inside(unsigned home, unsigned class_index, void *const *blocks,
                             unsigned count);
void hak_shard_report_twice(const void *block, unsigned class_index);
