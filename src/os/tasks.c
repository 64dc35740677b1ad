/* tasks.c: reads the state of the process's threads; ends a thread. */
#include "os/tasks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "os/open_files.h"

/* Fields of proc_pid_stat(5), counted from the end of the name, since a name may have blanks. The state is field 1. */
enum { STATE = 1, THREADS = 18, CODE = 50, DIGIT_END = 10 };

typedef struct {
    unsigned field, threads, code; /* `code` as waitpid gives it */
    char state;
} look_t;

static bool take_char(char c, void *context) {
    look_t *look = context;
    if (c == ')') *look = (look_t){0}; /* the last one ends the name */
    look->field += c == ' ';
    if (look->field == STATE && c != ' ') look->state = c;
    const unsigned digit = (unsigned)c - '0';
    unsigned *number = look->field == THREADS ? &look->threads : &look->code;
    if ((look->field == THREADS || look->field == CODE) && digit < DIGIT_END)
        *number = *number * DIGIT_END + digit;
    return true;
}

/* The file describes the first thread, which stays as a zombie until all others have ended, and is counted. */
bool hak_os_is_last_task(int *status) {
    look_t look = {0};
    hak_os_each_char("/proc/self/stat", take_char, &look);
    *status = (int)(look.code >> 8 & 0xff);
    return look.state == 'Z' && look.threads == 2;
}

void hak_os_end_task(int status) {
    for (;;) syscall(SYS_exit, status);
}
