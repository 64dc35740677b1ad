/* thread.h: threads: their caches, and their exit.
 *
 * NOVICES. Where there are very many threads, most of them rest most of the time, and what a cache keeps
 * counts once for each. So where the share of a thread in HAKMEM_CACHE_BUDGET has become small (cache_budget.c), a
 * new thread goes without a cache: each of its calls goes to the depot of the CPU that it runs on
 * (cache/cpu_depot.h), of which there are as many as threads can run. It gets a cache when it has made eight
 * times as many calls within two seconds as there are threads with a cache: the more of them, the more each
 * must be worth. A cache that waits for a thread is there anyway: its first call takes that. The calls of a
 * novice are its own to count. It has no destructor, no home and no place in a group.
 *
 * Rejected: to take caches back from threads that rest. A thread may have been stopped between two
 * instructions of a pop, also where it is in a system call now: in a signal handler. */
#pragma once

#include "base/base.h"
#include "cache/cache.h"
#include "os/lock.h"
#include "thread/cache_budget.h"

/* The calling thread's cache, made on first use. NULL when the thread is exiting or a novice, or there is no
 * memory for a cache; then depots or shards serve block by block. */
hak_cache_t *hak_thread_cache(void);

/* The same for free. No free makes a cache, unless the 15 calls before it, and since the thread is due for
 * one, were frees as well: libc frees the blocks of an exiting thread after the thread's destructors have
 * run, and no destructor would give a cache back that was made then. From the eighth of these calls on a
 * destructor tells that the thread ends: then it gets none. */
hak_cache_t *hak_thread_cache_of_free(void);

/* False when nobody tells of threads that end: before the first one has a cache, and in a process that has no key left.
 * Then they count for ever. */
bool hak_thread_sees_ends(void);

/* This code may be unmapped next: no thread that ends runs any of it. */
void hak_thread_forsake(void);

/* Gives back what a cache holds on the hardened path. Called by its thread. */
void hak_thread_flush_quarantine(hak_cache_t *cache);

/* Empties one magazine of a cache that waits for a thread; looks at *caches caches at most. True
 * when all of them are empty. */
bool hak_thread_flush_waiting(unsigned *caches);

/* Computes all values again that depend on options, after an option was changed. */
void hak_thread_apply_options(void);

/* Checks now and then the number of CPUs and the limit of memory, and adapts shards and budgets to them.
 * `at_once`: checks now, since the process gets its second thread. */
void hak_thread_follow_cpus(uint64_t now_ms, bool at_once);

/* Adapts now to the CPUs and the memory that the process may use. Some syscalls. */
void hak_thread_look_at_limits(void);

/* The newest of all caches ever made; they are linked by `next`. A cache never leaves the list, and
 * new ones enter at its head, so the list can be read without a lock. */
hak_cache_t *hak_thread_caches(void);

extern hak_lock_t hak_thread_list_lock;

/* In the child of a fork: notes the new number of the thread, also when it was the only thread. */
void hak_thread_renumber(void);
/* In the child of a fork, after hak_gate_reset: forgets the other threads. Does not access their
 * caches. */
void hak_thread_forget_others(void);
