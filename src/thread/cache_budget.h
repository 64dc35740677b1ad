/* cache_budget.h: how many threads there are, and how much the cache of each may hold.
 *
 * PROTOCOL. The count is the sum of the numbers that the groups report (home_group.h). A thread that changes the count
 * compares it with the count for which the budgets were set. They fit until there are an eighth more threads, or half
 * of them are gone. So if threads start and end all the time, they write nothing that others read, and a start or an
 * end that reports nothing only reads a flag. If the budgets do not fit, one thread sets them, and no thread waits for
 * it. Every few seconds, a look at the limits makes the groups report the exact numbers, and sets the budgets for them.
 *
 *   S1  add to the count; if the budgets do not fit, set `due`
 *   S2  if `due` is set: exchange `busy` with true, unless it is. If it was set, its setter does the rest
 *   S3  clear `due`; under the lock of the thread list, note the count and set the budgets, until they
 *       fit; then clear `busy`, and begin again at S2
 *
 * All accesses of the count, of what is noted, of `due` and of `busy` are sequentially consistent. If S2
 * finds `busy` set, S1 came before that thread's S2, which looks at `due` once more. A look sets budgets
 * without `busy`: if a thread has compared with the count noted before, its S1 came before the look's
 * comparison. So at rest the budgets fit.
 *
 * A thread does all that inside the gate (os/gate.h): the child of a fork never finds `busy` set.
 *
 * Rejected: to wait for the lock. When many threads start at once, each of them sets budgets that the
 * next one sets again. */
#pragma once

#include "base/base.h"

/* Default of HAKMEM_CACHE_BUDGET for each CPU: bytes of free blocks in caches. */
enum { HAK_BUDGET_PER_CPU = 30 * 1024 * 1024 };

/* Bytes of free blocks that all caches may hold together. */
size_t hak_thread_budget(void);

/* Number of threads that have a cache now, or fewer than twice as many. Exact for no thread and for one. */
unsigned hak_thread_count(void);

/* A group has this many more threads than it last reported; a negative number wraps. */
void hak_thread_add(unsigned more);

/* True when, with this many threads, a new thread must be a novice (thread.h). Takes no lock, and also publishes the
 * answer: many threads may start before the thread that sets the budgets runs again. */
bool hak_thread_note_crowd(unsigned count);

/* Sets the budgets again if that is due. Called after each start and each end. */
void hak_thread_fit(void);

/* Sets the budgets again, because an option or a limit has changed. Lock of the thread list held. */
void hak_thread_share(void);

/* In the child of a fork. */
void hak_thread_recount(unsigned threads);
