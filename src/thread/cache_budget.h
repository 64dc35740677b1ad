/* cache_budget.h: how many threads there are, and how much the cache of each may hold.
 *
 * PROTOCOL. The count is the sum of what the groups tell (home_group.h). Who changes it compares it with the
 * count that the budgets are made for. They fit until there are an eighth more threads, or half of them
 * are gone: where threads start and end all the time, they write nothing that others read, and a start or
 * an end that tells nothing reads a flag only. If the budgets do not fit, one thread sets them; nobody
 * waits for it. A look at the limits, each few seconds, lets the groups tell the exact numbers, and sets
 * the budgets for them.
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

/* A group has so many threads more than it told before; a negative number wraps. */
void hak_thread_add(unsigned more);

/* True when a new thread is to be a novice (thread.h) where there are so many threads. Takes no lock, and says so
 * to all: many threads may start before the one that sets the budgets runs again. */
bool hak_thread_note_crowd(unsigned count);

/* Sets the budgets anew if that is due. After each start and each end. */
void hak_thread_fit(void);

/* Sets the budgets anew: an option or a limit has changed. Lock of the thread list held. */
void hak_thread_share(void);

/* In the child of a fork. */
void hak_thread_recount(unsigned threads);
