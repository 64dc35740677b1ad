/* user_heap.h: what realloc has to know of the program's own heaps. */
#pragma once

#include "base/base.h"
#include "large/user_heap_table.h"

/* Resizes a block of `old` bytes that may be used, which becomes a block of the heap if it is none. NULL
 * with ENOMEM; then the block is as it was. `size` is not 0. */
void *hak_user_heap_resize(hak_user_heap_t *heap, void *pointer, size_t old, size_t size,
                           const void *site);
