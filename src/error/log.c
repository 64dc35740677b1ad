/* log.c: writes lines to stderr: diagnoses, and the events that options ask for. */
#include "error/log.h"

#include <stdio.h>

#include "os/file.h"

static __thread int copy; /* the file of the copies + 1; 0 for none */

static void write_copy(const char *line, size_t size) {
    int error;
    if (HAK_UNLIKELY(copy != 0)) hak_os_write(copy - 1, line, size, &error);
}

/* Stores a line of `size` bytes at most, with its end; returns its length. */
static size_t make_line(char *line, size_t size, const char *head, const char *format,
                        va_list arguments) {
    int begin = snprintf(line, size, "%s", head);
    size_t used = begin > 0 ? hak_min((size_t)begin, size / 2) : 0;
    int body = vsnprintf(line + used, size - used - 1, format, arguments);
    used = hak_min(used + (body > 0 ? (size_t)body : 0), size - 2);
    line[used] = '\n';
    return used + 1;
}

void hak_log_line(const char *head, const char *format, va_list arguments) {
    HAK_KEEP_ERRNO();
    char line[256];
    size_t size = make_line(line, sizeof line, head, format, arguments);
    hak_os_write_stderr(line, size);
    write_copy(line, size);
}

void hak_log(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hak_log_line("hakmem: ", format, arguments);
    va_end(arguments);
}

void hak_log_copy_to(int file) { copy = file + 1; }

int hak_log_copies_to(void) { return copy - 1; }

void hak_log_to_copy(const char *format, ...) {
    HAK_KEEP_ERRNO();
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    write_copy(line, make_line(line, sizeof line, "hakmem: ", format, arguments));
    va_end(arguments);
}
