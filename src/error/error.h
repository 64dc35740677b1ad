/* error.h: what a caller did wrong, in one line on stderr, then abort. */
#ifndef HAK_ERROR_H
#define HAK_ERROR_H

#include "base/base.h"

/* Prints "hakmem: FUNCTION(): " and the formatted text (no line end), and aborts;
 * with HAKMEM_ON_ERROR=report it returns, and the caller ignores the call that was
 * wrong. Call with no lock held. Does not allocate. */
__attribute__((format(printf, 2, 3))) HAK_SLOW_PATH void hak_error_report(const char *function,
                                                                          const char *format, ...);

/* What such a line says; %p and %zu are the block and its usable size. */
#define HAK_ERROR_DOUBLE_FREE "double free: %p is a block of %zu bytes that is already free"

/* A number of bytes for "%zu %s". */
#define HAK_ERROR_BYTES(size) (size), (size) == 1 ? "byte" : "bytes"

/* The line for a block of `size` bytes that is free already. */
HAK_SLOW_PATH void hak_error_double_free(const char *function, const void *block, size_t size);

#endif
