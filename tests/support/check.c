/* check.c - nothing here allocates: the allocator may be what has just failed. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Where the system makes huge pages unasked ("always"), what is resident depends on where blocks happen to lie. So
 * tests have those that the engine asks for, as with "madvise"; on kernels before 6.18 none. Children inherit it. */
__attribute__((constructor)) static void have_huge_pages_when_asked(void) {
    enum { EXCEPT_ADVISED = 2 };
    char text[64] = "";
    int file = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0 || !strstr(text, "[always]")) return;
    if (prctl(PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0) != 0)
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

static char late_message[200];

static void put(const char *text, size_t length) {
    while (length > 0) {
        ssize_t done = write(STDERR_FILENO, text, length);
        if (done <= 0) return;
        text += done;
        length -= (size_t)done;
    }
}

_Noreturn void check_failed(const char *file, int line, const char *format, ...) {
    char text[1000];
    const char *base = strrchr(file, '/');
    int head = snprintf(text, sizeof text, "FAIL %s:%d: ", base != NULL ? base + 1 : file, line);
    va_list list;
    va_start(list, format);
    int body = vsnprintf(text + head, sizeof text - (size_t)head - 1, format, list);
    va_end(list);
    size_t length = (size_t)head + (body > 0 ? (size_t)body : 0);
    if (length > sizeof text - 2) length = sizeof text - 2;
    text[length++] = '\n';
    put(text, length);
    if (getenv("TEST_ABORT")) abort(); /* only then libFuzzer keeps the input */
    _exit(1);
}

static void time_is_up(int signal_number) {
    (void)signal_number;
    put(late_message, strlen(late_message));
    _exit(1);
}

void watchdog(unsigned seconds, const char *what) {
    snprintf(late_message, sizeof late_message, "FAIL: still running after %u s: %s\n", seconds,
             what);
    signal(SIGALRM, time_is_up);
    alarm(seconds * PATIENCE);
}

unsigned long argument(int argc, char **argv, int index, unsigned long otherwise) {
    if (index >= argc) return otherwise;
    char *end;
    unsigned long value = strtoul(argv[index], &end, 0);
    CHECK(end != argv[index] && *end == 0, "argument %d, \"%s\", is not a number", index,
          argv[index]);
    return value;
}
