/* bounded.h: the search of explore.c where every order is too many; internal to the explorer.
 *
 * A thread is preempted only at a word that threads share: which words those are is learned from
 * executions by chance. Each execution is a process of its own, since what a whole engine writes,
 * maps and keeps cannot be put back; what outlives it lies in memory that these processes share. */
#pragma once

#include "explore.h"

enum { BOUNDED_CHOICES_MAX = 4096, BOUNDED_NOTES_MAX = 40000, BOUNDED_NOTE_SIZE = 120 };

typedef struct {
    uint8_t taken, count;
} bounded_choice_t;

/* One execution: its choices, and how it failed. */
typedef struct {
    bounded_choice_t path[BOUNDED_CHOICES_MAX];
    unsigned path_length;
    char failure[400];
    char notes[BOUNDED_NOTES_MAX][BOUNDED_NOTE_SIZE];
    unsigned note_count;
} bounded_run_t;

/* In explore.c: carries out one execution of the present scenario; true when it was right. */
bool explore_execute(void);

/* The record that all processes share. */
bounded_run_t *bounded_run(void);

/* One execution in a process of its own. */
bool bounded_execute(void);

/* The whole search, or `limit` executions of it. `next_path`: goes to the next choices, depth first; false after the last. */
explore_result_t bounded_explore(const explore_bounds_t *bounds, uint64_t limit,
                                 bool (*next_path)(void));

/* What the scheduler asks: a new execution; whether a thread that could go on with `address` may be
 * stopped there; it was; the first one to take of `count` choices. */
void bounded_begin(void);
bool bounded_may_preempt(const volatile void *address);
void bounded_preempted(void);
unsigned bounded_choose(unsigned count, bool is_preemption);

/* Two threads have touched a word in this execution, and one of them wrote. */
void bounded_note_shared(const volatile void *address);
