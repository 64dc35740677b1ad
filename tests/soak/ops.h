/* ops.h - the operations on one block, each with its checks. */
#ifndef TESTS_SOAK_OPS_H
#define TESTS_SOAK_OPS_H

#include "worker.h"

/* Makes a block of a random size of the tier, by the call. False when it was refused. */
bool op_make(struct worker *worker, struct block *block, enum call call, enum tier tier);

/* Gives a block another size of the tier. A refused one stays as it was. */
void op_resize(struct worker *worker, struct block *block, enum tier tier);

/* Checks a block and frees it. */
void op_free(struct worker *worker, struct block *block);

/* Hands a block to a random place's next thread, or frees it when that one's queue is full. */
void op_hand_over(struct worker *worker, struct block *block);

/* Looks at or shrinks the whole heap. */
void op_housekeeping(struct worker *worker);

#endif
