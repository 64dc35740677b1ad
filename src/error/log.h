/* log.h: one line per event on stderr, for the options that ask for it. */
#ifndef HAK_LOG_H
#define HAK_LOG_H

#include <stdarg.h>

#include "base/base.h"

/* Prints a head and the formatted text, cut off at 255 bytes, as one line in one write, so
 * that lines of several threads do not mix. Allocates nothing, leaves errno as it is. */
void hak_log_line(const char *head, const char *format, va_list arguments);

/* Prints "hakmem: " and the formatted text (no line end), in one write. Allocates
 * nothing and leaves errno as it is; may be called with locks held. */
__attribute__((format(printf, 1, 2))) HAK_SLOW_PATH void hak_log(const char *format, ...);

#endif
