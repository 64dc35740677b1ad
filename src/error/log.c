/* log.c: writes lines to stderr: diagnoses, and the events that options ask for. */
#include "error/log.h"

#include <stdio.h>

#include "os/file.h"

void hak_log_line(const char *head, const char *format, va_list arguments) {
    HAK_KEEP_ERRNO();
    char line[256];
    int begin = snprintf(line, sizeof line, "%s", head);
    size_t size = begin > 0 ? hak_min((size_t)begin, sizeof line / 2) : 0;
    int body = vsnprintf(line + size, sizeof line - size - 1, format, arguments);
    size = hak_min(size + (body > 0 ? (size_t)body : 0), sizeof line - 2);
    line[size] = '\n';
    hak_os_write_stderr(line, size + 1);
}

void hak_log(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hak_log_line("hakmem: ", format, arguments);
    va_end(arguments);
}
