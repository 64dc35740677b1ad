/* ops.h - the operations on one block, each with its checks. */
#pragma once

#include "worker.h"

/* Allocates a block of a random size in the tier, by this function. False when the request is refused. */
bool op_make(struct worker *worker, struct block *block, enum call call, enum tier tier);

/* Resizes a block within the tier. If that is refused, the block keeps its size and contents. */
void op_resize(struct worker *worker, struct block *block, enum tier tier);

/* Checks a block and frees it. */
void op_free(struct worker *worker, struct block *block);

/* Puts a block into the queue of a random place, or frees it when that queue is full. */
void op_hand_over(struct worker *worker, struct block *block);

/* Calls a function that works on the whole heap: statistics or malloc_trim. */
void op_housekeeping(struct worker *worker);
