/* error.c: one line, then abort. */
#include "error/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "options/options.h"
#include "os/os.h"

enum { ON_ERROR_ABORT = 0 };

void hak_error_report(const char *function, const char *format, ...) {
    char line[256];
    int saved = errno;
    int head = snprintf(line, sizeof line, "hakmem: %s(): ", function);
    size_t size = head > 0 ? (size_t)head : 0;
    va_list arguments;
    va_start(arguments, format);
    int body = vsnprintf(line + size, sizeof line - size - 1, format, arguments);
    va_end(arguments);
    size = hak_min(size + (body > 0 ? (size_t)body : 0), sizeof line - 2);
    line[size] = '\n';
    /* One write, so that lines of several threads do not mix. */
    hak_os_write_stderr(line, size + 1);
    if (hak_option(HAK_OPTION_ON_ERROR) == ON_ERROR_ABORT) abort();
    errno = saved;
}

void hak_error_double_free(const char *function, const void *block, size_t size) {
    hak_error_report(function, HAK_ERROR_DOUBLE_FREE, block, size);
}
