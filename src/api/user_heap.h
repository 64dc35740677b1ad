/* user_heap.h: realloc for blocks of the program's own heaps. */
#pragma once

#include "base/base.h"
#include "large/user_heap_table.h"

/* Resizes a block of `old` usable bytes. A block that does not belong to the heap becomes one of it. NULL with
 * ENOMEM; then the block is as it was. `size` is not 0. */
void *hak_user_heap_resize(hak_user_heap_t *heap, void *pointer, size_t old, size_t size,
                           const void *site);
