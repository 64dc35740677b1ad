/* error.c: prints the diagnosis, then aborts or returns, as HAKMEM_ON_ERROR says. */
#include "error/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error/log.h"
#include "options/options.h"
#include "os/open_files.h"
#include "os/module.h"
#include "os/os.h"
#include "os/unwind.h"

enum { ON_ERROR_ABORT = 0, FRAMES = 32, PATH_SIZE = 1100 };

static hak_error_describe_t describe; /* constant once the options are known */

void hak_error_set_describe(hak_error_describe_t function) { describe = function; }

hak_error_give_up_t hak_error_give_up HAK_READ_OFTEN; /* its page is resident anyway */

static HAK_BEHIND _Noreturn void end_process(void) {
    if (hak_error_give_up) hak_error_give_up();
    abort();
}

void hak_error_begin(void) {
    char path[PATH_SIZE];
    const char *name = hak_option_text(HAK_OPTION_ERROR_FILE);
    if (!*name) return;
    int error = 0;
    hak_os_expand(name, path, sizeof path);
    int file = hak_os_append(path, &error);
    if (file < 0) hak_log("no report can be written to %s: %s", path, hak_os_reason(error));
    hak_log_copy_to(file);
}

void hak_error_stack(hak_error_print_t print, const uintptr_t *frames, unsigned count) {
    char module[64];
    uintptr_t offset;
    for (unsigned i = 0; i < count; i++) {
        const char *at = (const char *)frames[i] - 1; /* in the instruction that calls */
        if (hak_os_module_of(at, module, sizeof module, &offset))
            print("    #%u %s+%#zx", i, module, (size_t)offset);
        else
            print("    #%u %p", i, (const void *)at);
    }
}

/* Adds what only the report in the file has. */
static void add_details(const void *pointer, const void *site) {
    uintptr_t frames[FRAMES];
    unsigned count = hak_os_unwind(site, frames, FRAMES);
    hak_log_to_copy("  found in process %u by thread %u:", hak_os_process_id(), hak_os_thread_id());
    hak_error_stack(hak_log_to_copy, frames, count);
    if (describe && pointer) describe(pointer);
}

HAK_OUT_OF_LINE void hak_error_close(const void *pointer) {
    int file = hak_log_copies_to();
    if (file < 0) return;
    add_details(pointer, HAK_CALLER());
    hak_log_copy_to(-1);
    hak_os_close(file);
}

void hak_error_end(const void *pointer) {
    hak_error_close(pointer);
    if (hak_option(HAK_OPTION_ON_ERROR) == ON_ERROR_ABORT) end_process();
}

static void print_line(const char *function, const char *format, va_list arguments) {
    char head[64];
    hak_error_begin();
    snprintf(head, sizeof head, "hakmem: %s(): ", function);
    hak_log_line(head, format, arguments);
}

void hak_error_line(const char *function, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line(function, format, arguments);
    va_end(arguments);
}

void hak_error_report(const char *function, const char *format, ...) {
    HAK_KEEP_ERRNO();
    va_list arguments, first;
    va_start(arguments, format);
    va_copy(first, arguments);
    const char *conversion = strchr(format, '%'); /* in nearly every line the pointer comes first */
    const void *pointer = conversion && conversion[1] == 'p' ? va_arg(first, void *) : NULL;
    print_line(function, format, arguments);
    va_end(first);
    va_end(arguments);
    hak_error_end(pointer);
}

void hak_error_double_free(const char *function, const void *block, size_t size) {
    hak_error_report(function, HAK_ERROR_DOUBLE_FREE, block, size);
}
