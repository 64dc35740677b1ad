/* thread.h: threads: their caches, and their exit. */
#pragma once

#include "base/base.h"
#include "cache/cache.h"
#include "os/lock.h"
#include "thread/share.h"

/* The calling thread's cache, made on first use. NULL when the thread is exiting, or there is no
 * memory for a cache; then the shards serve block by block. */
hak_cache_t *hak_thread_cache(void);

/* The same for free. A thread that has only freed blocks so far gets no cache for the first few of
 * them: libc frees the blocks of an exiting thread after the thread's destructors have run, and no
 * destructor would give a cache back that was made then. */
hak_cache_t *hak_thread_cache_of_free(void);

/* Gives back what a cache holds on the hardened path. Called by its thread. */
void hak_thread_flush_holder(hak_cache_t *cache);

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
