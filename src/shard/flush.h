/* flush.h: a batch of blocks comes back to its slabs. */
#pragma once

#include "base/base.h"

/* Gives `count` blocks of one class back. A block that was free already is reported
 * (hak_error_report), the others are given all the same. */
void hak_shard_flush(unsigned home, unsigned class_index, void *const *blocks, unsigned count);
