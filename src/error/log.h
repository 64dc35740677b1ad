/* log.h: writes one line per event to stderr. */
#pragma once

#include <stdarg.h>

#include "base/base.h"

/* Prints a head and the formatted text, cut off at 255 bytes, as one line in one write, so
 * that the lines of several threads do not mix. Does not allocate or change errno. */
void hak_log_line(const char *head, const char *format, va_list arguments);

/* Prints "hakmem: " and the formatted text (without a line end) in one write. Does not
 * allocate or change errno. The caller may hold locks. */
__attribute__((format(printf, 1, 2))) HAK_SLOW_PATH void hak_log(const char *format, ...);

/* From now on the calling thread's lines go to a file, too; -1 for none. */
void hak_log_copy_to(int file);
int hak_log_copies_to(void);

/* Prints such a line to that file alone. */
__attribute__((format(printf, 1, 2))) HAK_SLOW_PATH void hak_log_to_copy(const char *format, ...);
