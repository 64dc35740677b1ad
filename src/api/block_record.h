/* block_record.h: debug records of blocks. Not in block.h, because this code lies behind the code that
 * every process runs (src/CMakeLists.txt). */
#pragma once

#include "api/block.h"

/* Debug records (debug_record/record.h). These functions do nothing while no records are kept, and for
 * blocks that have none. Those with a parameter `function` report an error and return false; the caller
 * then ignores the call. */

/* Records that the program gets the block at `start` for `size` bytes, or keeps it for a new size.
 * Returns `start`, which may be NULL. */
HAK_SLOW_PATH void *hak_block_record(void *start, size_t size, const void *site);

/* Records that the block is freed. False when it was not in use, or was requested with another size
 * than `size`. */
enum { HAK_ANY_SIZE = -1 };
HAK_SLOW_PATH bool hak_block_record_close(const char *function, const hak_block_t *block,
                                          size_t size);

/* True when hak_block_record_close would return false; reports nothing. */
HAK_SLOW_PATH bool hak_block_record_refuses(const void *pointer, size_t size);

/* False when the block was freed, or its record is damaged. */
HAK_SLOW_PATH bool hak_block_record_is_open(const char *function, const hak_block_t *block);
