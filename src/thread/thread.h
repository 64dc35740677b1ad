/* thread.h: threads: their caches, their exit, fork, the helper thread, and the purge work that
 * slow calls do. */
#ifndef HAK_THREAD_H
#define HAK_THREAD_H

#include "base/base.h"
#include "cache/cache.h"
#include "os/lock.h"
#include "os/tick.h"

/* The calling thread's cache, made on first use. NULL when the thread is exiting, or there is no
 * memory for a cache; then the shards serve block by block. */
hak_cache_t *hak_thread_cache(void);

/* The same for free. A thread that has only freed blocks so far gets no cache for the first few of
 * them: libc frees the blocks of an exiting thread after the thread's destructors have run, and no
 * destructor would give a cache back that was made then. */
hak_cache_t *hak_thread_cache_of_free(void);

/* Empties one magazine of a cache that waits for a thread; looks at *caches caches at most. True
 * when all of them are empty. */
bool hak_thread_flush_waiting(unsigned *caches);

/* The helper thread that purges; in purger.c. Start it when the heap is large, wake
 * it when much waits to be purged or no thread is left; it is gone in a fork's child. */
enum { HAK_PURGER_ASLEEP = 3 };
extern _Atomic uint32_t hak_purger_state;
void hak_purger_start(void);
void hak_purger_wake_up(void);
void hak_purger_note(void); /* the program is at work: a look is due once it rests */
void hak_purger_urge(void); /* something is noted that does not wait for its next round */
void hak_purger_forget(void);

/* Wakes the helper thread if it sleeps. The caller has changed something under a lock and released
 * the lock. Without the fence, two threads that each free a part of what justifies a wake-up could
 * both miss the other's part. On x86-64 the release of the lock is the fence: each free of a large
 * block comes here, and one more fence would wait for all stores of the program. */
HAK_FAST_PATH void hak_purger_wake(void) {
    hak_fence_after_update();
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_purger_state) == HAK_PURGER_ASLEEP))
        hak_purger_wake_up();
}

/* The ticks are called at the end of the slow paths of malloc and free. Now and then a tick calls
 * the look (in purge.c), which does a piece of purge work. */
void hak_thread_look(size_t size, bool is_free);

HAK_FAST_PATH void hak_thread_tick_malloc(size_t size) {
    if (hak_tick_spend(size)) hak_thread_look(size, false);
}
HAK_FAST_PATH void hak_thread_tick_free(size_t size) {
    hak_purger_wake();
    if (hak_tick_spend(size)) hak_thread_look(size, true);
}

/* Computes all values again that depend on options, after an option was changed. */
void hak_thread_apply_options(void);

/* A function of a higher layer that is called at intervals: by the helper thread in each of its
 * rounds or, if there is no helper, by slow calls. `at_once`: the program is young, and the next
 * call may come much later. Set once, before main. With a watcher the helper is started early. */
typedef void (*hak_watcher_t)(bool at_once);
void hak_thread_set_watcher(hak_watcher_t watcher);
hak_watcher_t hak_thread_watcher(void); /* NULL for none */
void hak_purger_start_early(void);
bool hak_purger_runs(void);

/* Default of HAKMEM_CACHE_BUDGET for each CPU: bytes of free blocks in caches. */
enum { HAK_BUDGET_PER_CPU = 30 * 1024 * 1024 };

/* Checks now and then the number of CPUs, and adapts shards and budgets to it. `at_once`: checks
 * now, since the process gets its second thread. */
void hak_thread_follow_cpus(uint64_t now_ms, bool at_once);

/* Number of threads that have a cache now. */
unsigned hak_thread_count(void);

/* Threads whose home is the shard with most of them. */
unsigned hak_thread_shard_most(void);

/* Gives back everything that is free: blocks in the caller's cache and in waiting caches, empty
 * slabs, free pages. Returns bytes purged. In purge.c. */
size_t hak_thread_purge_all(void);

/* The newest of all caches ever made; they are linked by `next`. A cache never leaves the list, and
 * new ones enter at its head, so the list can be read without a lock. */
hak_cache_t *hak_thread_caches(void);

/* Protects the only buffer for a collection of the statistics. Only the lock of the live page's
 * refresh is taken before it. A fork does not wait for it, since a thread may be printing from the
 * buffer for long; the child sets it free. In fork.c. */
extern hak_lock_t hak_snapshot_lock;

/* Fork handlers, once; in fork.c. */
void hak_fork_install(void);

extern hak_lock_t hak_thread_list_lock;

/* Visits the stack lock of every cache, until a visit returns false. List lock held. */
bool hak_thread_each_stack_lock(hak_lock_visit_t visit, void *context);

/* In the child of a fork: notes the new number of the thread, also when it was the only thread. */
void hak_thread_renumber(void);
/* In the child of a fork, after hak_gate_reset: forgets the other threads. Does not access their
 * caches. */
void hak_thread_forget_others(void);

#endif
