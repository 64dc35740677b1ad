/* ops.h - the operations of the model, each with its checks. */
#pragma once

#include <stdint.h>

#include "block.h"
#include "rng.h"

/* What sizes a run uses, and how many blocks each of its threads may hold. */
struct mix {
    const char *name;
    size_t least;
    size_t most;
    unsigned aligned_percent; /* how many of the requests carry an alignment */
    unsigned block_count;
};

/* The worker that an operation runs for; failures name it. */
struct worker {
    const struct mix *mix;
    struct rng rng;
    uint64_t seed;
    unsigned index;
    unsigned long op;     /* operations done so far */
    const char *function; /* the last one called */
    uint64_t next_id;
};

/* Fills an empty block by a random allocation function. */
void op_allocate(struct worker *worker, struct block *block);

/* Frees a block by a random function that may take it. */
void op_release(struct worker *worker, struct block *block);

/* Gives the block another size. */
void op_resize(struct worker *worker, struct block *block);

/* Checks the block. */
void op_verify(struct worker *worker, const struct block *block);

/* Calls a function that looks at or shrinks the whole heap. */
void op_housekeeping(struct worker *worker);

/* Fails the test: says what is wrong, and how to see it again. */
_Noreturn void worker_fail(const struct worker *worker, const struct block *block,
                           const char *wrong);
