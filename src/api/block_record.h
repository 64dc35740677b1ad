/* block_record.h: debug records of blocks. Apart from block.h, since its code lies behind what every
 * process runs (src/CMakeLists.txt). */
#pragma once

#include "api/block.h"

/* Debug records (debug_record/record.h). These functions do nothing while no records are kept, and for
 * blocks that have none. The last two report an error and return false; the caller then ignores
 * the call. */

/* Records that the program gets the block at `start` for `size` bytes, or keeps it for a new size.
 * Returns `start`, which may be NULL. */
HAK_SLOW_PATH void *hak_block_record(void *start, size_t size, const void *site);

/* Records that the block is freed, as one of `size` bytes; false when it was not in use, or was not
 * requested with that size. */
enum { HAK_ANY_SIZE = -1 };
HAK_SLOW_PATH bool hak_block_record_close(const char *function, const hak_block_t *block,
                                          size_t size);

/* True when hak_block_record_close would return false; reports nothing. */
HAK_SLOW_PATH bool hak_block_record_refuses(const void *pointer, size_t size);

/* True when the block is in use. */
HAK_SLOW_PATH bool hak_block_record_is_open(const char *function, const hak_block_t *block);
