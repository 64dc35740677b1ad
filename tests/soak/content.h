/* content.h - the bytes of a block: a pattern that no other block and no earlier life of this
 * block has.
 *
 * Word i of a block holds key + i * step, and the key is made from the block's address, size and
 * number. So every stray write shows, and so does a part of another block. Blocks above
 * CONTENT_DENSE hold one such word in each page, at the same offset, and their first and last word. One
 * in a hundred of them is filled completely. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENT_DENSE ((size_t)65536)

struct content {
    void *ptr;
    size_t size; /* bytes of the pattern */
    uint64_t key;
    uint64_t number; /* unique in the run */
    bool whole;
};

/* The difference from the pattern, over the words that are checked. */
struct content_fault {
    size_t offset; /* of the first word that differs */
    size_t last;   /* of the last one */
    size_t count;
    uint64_t expected;
    uint64_t found;
};

/* Writes the pattern to size bytes at ptr. */
struct content content_fill(void *ptr, size_t size, uint64_t number);

/* Do the first `limit` bytes at ptr hold the pattern? ptr is the block, or where it was moved to. */
bool content_is_right(const struct content *content, const void *ptr, size_t limit);

/* The same, slowly, and says what differs. */
struct content_fault content_fault(const struct content *content, const void *ptr, size_t limit);

/* Offset of the first byte that is not 0, or size. */
size_t content_first_nonzero(const void *ptr, size_t size);
