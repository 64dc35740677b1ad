/* error.h: reports a caller's mistake in one line on stderr, then aborts. */
#pragma once

#include "base/base.h"

/* Prints "hakmem: FUNCTION(): " and the formatted text (without a line end), then aborts.
 * With HAKMEM_ON_ERROR=report it returns, and the caller ignores the wrong call. The caller
 * holds no lock. Does not allocate. */
__attribute__((format(printf, 2, 3))) HAK_SLOW_PATH void hak_error_report(const char *function,
                                                                          const char *format, ...);

/* The two halves of it, for callers that print more lines in between. */
__attribute__((format(printf, 2, 3))) HAK_SLOW_PATH void hak_error_line(const char *function,
                                                                        const char *format, ...);
HAK_SLOW_PATH void hak_error_end(const void *pointer);

/* The report in HAKMEM_ERROR_FILE. What the thread prints between these two calls is appended to
 * the file, too; hak_error_close then adds the caller's stack and what is known of the pointer.
 * hak_error_line calls the first, hak_error_end the second. */
void hak_error_begin(void);
void hak_error_close(const void *pointer);

/* Prints return addresses, a line each, from the innermost one. */
typedef void (*hak_error_print_t)(const char *format, ...) __attribute__((format(printf, 1, 2)));
void hak_error_stack(hak_error_print_t print, const uintptr_t *frames, unsigned count);

/* The function of a higher layer that tells about a pointer. Set before the program has threads. */
typedef void (*hak_error_describe_t)(const void *pointer);
void hak_error_set_describe(hak_error_describe_t function);

/* The function of a higher layer that is called before abort(). The program's handler of SIGABRT may jump back: then the
 * functions below the report never return, and what they hold must be given up. */
typedef void (*hak_error_give_up_t)(void);
extern hak_error_give_up_t hak_error_give_up; /* set when the process starts */

/* The text for a double free; %p and %zu are the block and its usable size. */
#define HAK_ERROR_DOUBLE_FREE "double free: %p is a block of %zu bytes that is already free"

/* The arguments for "%zu %s", a number of bytes. */
#define HAK_ERROR_BYTES(size) (size), (size) == 1 ? "byte" : "bytes"

/* Reports a double free of a block of `size` bytes. */
HAK_SLOW_PATH void hak_error_double_free(const char *function, const void *block, size_t size);
