/* explore.h: runs a few cooperating threads in every order there is.
 *
 * A thread gives up the processor only at a step: an atomic operation, or a call of
 * explore_step() or explore_await(). At each step every thread that can go on is a choice. An
 * execution is one sequence of choices; the explorer repeats the scenario from its start, each time
 * with the last choice that has an alternative changed, until none has (depth first).
 *
 * An execution is broken off in a state that an earlier one was in. A state is what each thread has
 * done and seen, and the last store to each atomic variable (memory.h); threads are deterministic,
 * so equal states have equal futures. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS_MAX = 6 }; /* thread 0 is the explorer itself: prepare, finally */

/* Of a program whose every order is too many: each execution is a process of its own, and a thread
 * is stopped before it waits or ends only so often, and only at words that threads share. */
typedef struct {
    unsigned preemptions; /* every order with so many is tried, where that is not... */
    unsigned most;        /* ...more than this; then so many by chance, the same each time */
    unsigned samples;     /* and so many with more preemptions, by chance as well */
} explore_bounds_t;

typedef struct {
    const char *name;
    void (*prepare)(void);                     /* makes the first state, each time anew */
    void (*bodies[EXPLORE_THREADS_MAX])(void); /* one thread each; ended by NULL */
    void (*always)(void);                      /* fails when a state between steps is wrong */
    void (*finally)(void);                     /* the same, after the last thread's end */
    const char *(*describe)(const volatile void *variable); /* its name, for the report */
    bool heavy;                                             /* takes long: only on request */
    const explore_bounds_t *bounds;                         /* NULL: every order */
    unsigned later;   /* bit per thread: begins when another one starts it */
    unsigned daemons; /* bit per thread: an execution may end while it waits, or sleeps again */
} explore_scenario_t;

typedef struct {
    uint64_t executions; /* to their end, or to a state known already */
    uint64_t states;
    const char *failure; /* NULL when every execution was right */
    bool exhausted;      /* no execution is left */
} explore_result_t;

/* Explores a scenario until it is exhausted, an execution fails, or `limit` of them were right. Each order
 * begins elsewhere: depth first, an early choice is changed last, so what it hides is found late in one order
 * and at once in another. A bounded search has order 0 only. */
explore_result_t explore(const explore_scenario_t *scenario, unsigned order, uint64_t limit);

/* Prints the execution that failed, step by step. */
void explore_report(void);

/* The running thread: 0, or its position among the bodies plus 1. */
extern unsigned explore_current;
inline unsigned explore_thread(void) { return explore_current; }

/* Any other thread may run here; the second: the caller goes on with what lies at an address. */
void explore_step(void);
void explore_step_at(const volatile void *address);

/* The same, and the caller goes on only in a state in which ready(argument) holds. */
void explore_await(bool (*ready)(const void *argument), const void *argument);

/* The caller sleeps for a while: the others go on first, and it does when nobody else can, or, in a
 * bounded search, when it preempts somebody. */
void explore_sleep(void);

/* A choice that is not the scheduler's: every number below `count` is tried. */
unsigned explore_choose(unsigned count);

/* Each thread has contents of its own in this variable, at its start the present ones; once, before
 * the first exploration. It stands for __thread, of which the explorer's threads have one in common. */
void explore_keep_apart(void *variable, size_t size);

/* Starts one of the threads that the scenario says are for later; waits for its end. */
void explore_start(unsigned thread);
void explore_join(unsigned thread);

/* The other threads are gone, wherever they are: the child of a fork. */
void explore_stop_others(void);

/* Adds a line to the report, while an execution that failed is repeated for it. In all others the
 * arguments are not even made: names are most of the work of an access. */
#define explore_note(...)                                   \
    do {                                                    \
        if (explore_noting) explore_note_line(__VA_ARGS__); \
    } while (0)
extern bool explore_noting;
__attribute__((format(printf, 1, 2))) void explore_note_line(const char *format, ...);

/* Name of a variable in such a line. */
const char *explore_name(const volatile void *variable);

/* Ends this execution as a violation. Returns to no one. */
__attribute__((format(printf, 1, 2), noreturn)) void explore_fail(const char *format, ...);

#define EXPLORE_CHECK(condition, ...)                \
    do {                                             \
        if (!(condition)) explore_fail(__VA_ARGS__); \
    } while (0)
