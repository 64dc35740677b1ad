/* child.h - runs a function in a process of its own and tells how it ended. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct child_end {
    bool in_time;      /* false: it was still running and was killed */
    int status;        /* as waitpid gives it */
    size_t err_length; /* bytes written to stderr, as far as err holds them */
    char err[4096];    /* what it wrote to stderr, ended by a 0 */
};

/* Forks, calls body(context) in the child and waits. A body that returns ends the child with 0.
 * The child may run for as many seconds as said, times PATIENCE (check.h). */
void child_run(void (*body)(const void *context), const void *context, unsigned seconds,
               struct child_end *end);

/* The same, and fails this test with the child's words unless it ended with 0. */
void child_must_succeed(void (*body)(const void *context), const void *context, unsigned seconds,
                        const char *what);

/* What find() returns in a child that is forked here, and in a thread that is started here. */
uint64_t number_in_child(uint64_t (*find)(void));
uint64_t number_in_thread(uint64_t (*find)(void));

/* Calls part(0, count) to part(count - 1, count) at once, in a process each, and returns the sum of
 * what they return: failures, at most 255 each. For rows that mostly wait. */
unsigned child_share(unsigned count, unsigned (*part)(unsigned index, unsigned count));
