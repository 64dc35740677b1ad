/* block.h - one block of the model: the request, the block that came, and what its bytes must be. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum block_origin {
    FROM_MALLOC,        /* free_sized may take it */
    FROM_ALIGNED_ALLOC, /* free_aligned_sized may take it */
    FROM_OTHER
};

struct block {
    void *ptr; /* NULL: no block */
    size_t size;
    size_t usable;
    size_t alignment; /* requested; 0: none */
    uint64_t id;      /* of the pattern in it */
    enum block_origin origin;
};

/* Checks a new block (alignment, usable size, overlap with any live block), enters it into the
 * shadow and fills it up to its usable end. Returns NULL, or what is wrong. */
const char *block_accept(struct block *block);

/* Checks that a block is still as it was when accepted. Returns NULL, or what is wrong. */
const char *block_verify(const struct block *block);

/* Does ptr begin with the first bytes of the pattern that block was filled with? */
bool block_is_prefix(const struct block *block, const void *ptr, size_t bytes);

/* Takes the block out of the shadow; the caller frees it then. Returns NULL, or what is wrong. */
const char *block_retire(const struct block *block);

/* Are all of these bytes 0? */
bool bytes_are_zero(const void *ptr, size_t size);
