/* thread.h: threads: their caches, and their exit.
 *
 * NOVICES. In a program with very many threads, most threads are idle most of the time, but each cache keeps memory. So
 * if the share of a thread in HAKMEM_CACHE_BUDGET has become small (cache_budget.c), a new thread has no cache: each of
 * its calls goes to the depot of the CPU on which it runs (cache/cpu_depot.h); there are only as many depots as threads
 * can run. The thread gets a cache when it has made eight times as many calls within two seconds as there are threads
 * with a cache: the more caches there are, the more a further one must be worth. If a cache already waits for a thread,
 * the first call of a novice takes it. A novice counts its own calls. It has no destructor, no home and no place in a
 * group.
 *
 * Rejected: to take caches back from idle threads. A thread may have been interrupted between two instructions of a
 * pop, even if it is in a system call now: in a signal handler. */
#pragma once

#include "base/base.h"
#include "cache/cache.h"
#include "cache/sampler.h"
#include "hardened/quarantine.h"
#include "os/lock.h"
#include "thread/cache_budget.h"

/* The calling thread's cache, made on first use. NULL when the thread is exiting or a novice, or there is no
 * memory for a cache; then depots or shards serve block by block. */
hak_cache_t *hak_thread_cache(void);

/* The same for free. A free makes no cache, unless the 15 calls before it, since the thread became due for a cache,
 * were frees as well: libc frees the blocks of an exiting thread after the thread's destructors have run, and no
 * destructor would give back a cache that is made then. From the eighth of these calls on, a destructor is registered
 * that shows whether the thread is ending; if it is, the thread gets no cache. */
hak_cache_t *hak_thread_cache_of_free(void);

/* False when the end of threads is not reported: before the first thread has a cache, and in a process that has no key
 * left. Then threads count for ever. */
bool hak_thread_sees_ends(void);

/* This code may be unmapped next: from now on, no ending thread runs any of it. */
void hak_thread_forsake(void);

/* Gives a cache new random numbers, for the hardened path and for samples, if it is used there. Called by its thread.
 * Otherwise all children of a server would place their blocks alike, and so would those of their threads that get the
 * same waiting cache: what one of them shows would tell where the blocks of the others lie. And all of them would sample
 * the same calls, and miss the same mistakes. Of each class the first sampled call of a child is the one that its parent
 * has drawn. */
HAK_FAST_PATH void hak_thread_seed(const hak_cache_t *cache) {
    hak_quarantine_t *quarantine = hak_load_relaxed(&cache->quarantine);
    if (HAK_UNLIKELY(quarantine != NULL)) hak_random_seed(&quarantine->random);
    hak_sampler_t *sampler = hak_sampler_of(cache);
    if (HAK_UNLIKELY(sampler != NULL)) hak_sampler_seed(sampler);
}

/* Gives back the blocks that a cache holds on the hardened path. Called by its thread. */
void hak_thread_flush_quarantine(hak_cache_t *cache);

/* Empties one magazine of a cache that waits for a thread; looks at *caches caches at most. True
 * when all of them are empty. */
bool hak_thread_flush_waiting(unsigned *caches);

/* Computes all values again that depend on options, after an option was changed. */
void hak_thread_apply_options(void);

/* Checks the number of CPUs and the memory limit every few seconds, and adapts shards and budgets to them. `at_once`:
 * checks now, because the process gets its second thread. */
void hak_thread_follow_cpus(uint64_t now_ms, bool at_once);

/* Adapts now to the CPUs and the memory that the process may use. Some syscalls. */
void hak_thread_look_at_limits(void);

/* The newest of all caches ever made; they are linked by `next`. A cache never leaves the list, and
 * new ones enter at its head, so the list can be read without a lock. */
hak_cache_t *hak_thread_caches(void);

/* The calling thread may never return to the steps that are under way (thread.c): they have ended. */
void hak_thread_forget_steps(void);

extern hak_lock_t hak_thread_list_lock;

/* In the child of a fork: notes the new number of the thread, also when it was the only thread. */
void hak_thread_renumber(void);
/* In the child of a fork, after hak_gate_reset: forgets the other threads. Does not access their
 * caches. */
void hak_thread_forget_others(void);
