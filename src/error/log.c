/* log.c: lines about what the allocator does, not about what the program did wrong. */
#include "error/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "os/os.h"

void hak_log(const char *format, ...) {
    static const char head[] = "hakmem: ";
    char line[256];
    int saved = errno;
    size_t size = sizeof head - 1;
    __builtin_memcpy(line, head, size);
    va_list arguments;
    va_start(arguments, format);
    int body = vsnprintf(line + size, sizeof line - size - 1, format, arguments);
    va_end(arguments);
    size = hak_min(size + (body > 0 ? (size_t)body : 0), sizeof line - 2);
    line[size] = '\n';
    hak_os_write_stderr(line, size + 1);
    errno = saved;
}
