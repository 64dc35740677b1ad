/* os_calls.h - the system calls of the engine, counted, and failed by a plan.
 *
 * os_calls.c stands in for the functions of libc by which src/os asks the kernel. A program that is linked
 * with libhakmem.a has it in itself. As a library (OS_CALLS_PRELOADED), preloaded before libhakmem.so, it
 * touches only calls that come from that library. */
#pragma once

#include <pthread.h>

enum os_how {
    OS_ONCE,   /* call `at` fails */
    OS_ON,     /* and all that follow */
    OS_RANDOM, /* `at` is the seed: one call in 2, 4 or 16 */
    OS_HOWS
};

struct os_plan {
    unsigned long at; /* from 1 on; 0: none fails */
    enum os_how how;
    int error;
};

/* The plan that a process begins with: "AT HOW ERROR". Without it none fails. */
#define OS_PLAN "TEST_OS_PLAN"

/* The library writes the number of calls to this file when the process ends. */
#define OS_COUNT_FILE "TEST_OS_COUNT_FILE"

/* From now on; the count begins anew. */
void os_calls_plan(struct os_plan plan);

unsigned long os_calls_count(void);

/* pthread_create that never fails by a plan: the test's own threads. */
int os_calls_thread(pthread_t *thread, void *(*run)(void *), void *argument);
