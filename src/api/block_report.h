/* block_report.h: the report of a wrong pointer. Its code lies behind what every process runs
 * (src/CMakeLists.txt). */
#pragma once

#include "api/block.h"

/* Reports a pointer that is not the start of a block in use, or whose block is freed a second
 * time. */
HAK_SLOW_PATH void hak_block_report(const char *function, const void *pointer,
                                    const hak_block_t *block);

/* Reports a second free of the block, or of memory at `pointer` that is part of no block now. */
HAK_SLOW_PATH void hak_block_report_double(const char *function, const void *pointer,
                                           const hak_block_t *block);

/* Writes " (3000 bytes, allocated at prog+0x1234)" for a block, or for the last block that began
 * at `start`; an empty text without a record. The address lies in the call instruction, as
 * addr2line needs it. Returns `text`. */
enum { HAK_BLOCK_ORIGIN_SIZE = 120 };
HAK_SLOW_PATH const char *hak_block_origin(const hak_block_t *block, const void *start,
                                           char text[HAK_BLOCK_ORIGIN_SIZE]);
