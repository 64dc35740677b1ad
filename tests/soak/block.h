/* block.h - one block of the soak, and the reports about it. */
#pragma once

#include "content.h"
#include "tally.h"

struct own_heap;

struct block {
    struct content content; /* content.ptr NULL: no block */
    struct own_heap *heap;  /* NULL: the process's */
    size_t size;            /* requested; the content may extend to the usable end */
    uint64_t maker;         /* number of the thread that made it */
    enum call made_by;
};

/* Ends the test unless the block's bytes at ptr, up to `limit`, are as they were filled. */
void block_check(const struct block *block, const void *ptr, size_t limit, uint64_t life,
                 const char *when);

/* The same for the whole block where it is. */
void block_check_here(const struct block *block, uint64_t life, const char *when);
