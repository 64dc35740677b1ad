/* log.h: one line per event on stderr, for the options that ask for it. */
#ifndef HAK_LOG_H
#define HAK_LOG_H

#include "base/base.h"

/* Prints "hakmem: " and the formatted text (no line end), in one write. Allocates
 * nothing and leaves errno as it is; may be called with locks held. */
__attribute__((format(printf, 1, 2))) HAK_SLOW_PATH void hak_log(const char *format, ...);

#endif
