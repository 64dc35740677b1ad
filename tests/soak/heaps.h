/* heaps.h - heaps of the program's own (hakmem_heap_new), one for each place at a time.
 *
 * The thread of a place makes the heap's blocks; all threads free and resize them, since they are handed
 * over as others are. The heap counts them: when all that are left lie in the place's own table, no other
 * thread uses the heap, and its thread may free all of them at once, or destroy the heap. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tally.h"

struct block;
struct worker;

struct own_heap {
    void *handle;        /* NULL for none; the place's thread alone */
    size_t limit;        /* the same; 0 for none */
    _Atomic size_t live; /* blocks, in the tables and queues of all places */
};

/* Makes a block in the heap of the worker's place, which is made first if there is none. */
void *heaps_allocate(struct worker *worker, enum call call, size_t size, size_t alignment);

/* hakmem_heap_realloc into the heap of the worker's place. */
void *heaps_resize(struct worker *worker, void *ptr, size_t size);

/* True when the heap's own limit may refuse a request. */
bool heaps_may_refuse(const struct own_heap *heap);

/* The block is a block of `heap` from now on, or of none (NULL). */
void heaps_enter(struct block *block, struct own_heap *heap);

/* Checks the heap's figures. If no other thread has a block of it, frees all blocks at once, and in half of
 * the cases destroys the heap. */
void heaps_end(struct worker *worker);

/* Destroys the heap of a place; no thread works there any more, and no block of it is left. */
void heaps_clear(struct own_heap *heap);
