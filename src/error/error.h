/* error.h: reports a caller's mistake in one line on stderr, then aborts. */
#ifndef HAK_ERROR_H
#define HAK_ERROR_H

#include "base/base.h"

/* Prints "hakmem: FUNCTION(): " and the formatted text (without a line end), then aborts.
 * With HAKMEM_ON_ERROR=report it returns, and the caller ignores the wrong call. The caller
 * holds no lock. Does not allocate. */
__attribute__((format(printf, 2, 3))) HAK_SLOW_PATH void hak_error_report(const char *function,
                                                                          const char *format, ...);

/* The two halves of it, for callers that print more lines in between. */
__attribute__((format(printf, 2, 3))) HAK_SLOW_PATH void hak_error_line(const char *function,
                                                                        const char *format, ...);
HAK_SLOW_PATH void hak_error_end(void);

/* The text for a double free; %p and %zu are the block and its usable size. */
#define HAK_ERROR_DOUBLE_FREE "double free: %p is a block of %zu bytes that is already free"

/* The arguments for "%zu %s", a number of bytes. */
#define HAK_ERROR_BYTES(size) (size), (size) == 1 ? "byte" : "bytes"

/* Reports a double free of a block of `size` bytes. */
HAK_SLOW_PATH void hak_error_double_free(const char *function, const void *block, size_t size);

#endif
