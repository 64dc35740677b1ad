/* error.c: prints the diagnosis, then aborts or returns, as HAKMEM_ON_ERROR says. */
#include "error/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "error/log.h"
#include "options/options.h"

enum { ON_ERROR_ABORT = 0 };

static void print(const char *function, const char *format, va_list arguments) {
    char head[64];
    snprintf(head, sizeof head, "hakmem: %s(): ", function);
    hak_log_line(head, format, arguments);
}

void hak_error_line(const char *function, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print(function, format, arguments);
    va_end(arguments);
}

void hak_error_end(void) {
    if (hak_option(HAK_OPTION_ON_ERROR) == ON_ERROR_ABORT) abort();
}

void hak_error_report(const char *function, const char *format, ...) {
    HAK_KEEP_ERRNO();
    va_list arguments;
    va_start(arguments, format);
    print(function, format, arguments);
    va_end(arguments);
    hak_error_end();
}

void hak_error_double_free(const char *function, const void *block, size_t size) {
    hak_error_report(function, HAK_ERROR_DOUBLE_FREE, block, size);
}
