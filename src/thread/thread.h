/* thread.h: the life of threads: their caches, their exit, fork, and the clock
 * that slow calls drive. */
#ifndef HAK_THREAD_H
#define HAK_THREAD_H

#include "base/base.h"
#include "cache/cache.h"
#include "os/lock.h"
#include "os/tick.h"

/* The calling thread's cache, made on first use. NULL when it is on its way out
 * or there is no memory for one; then the shards serve block by block. */
hak_cache_t *hak_thread_cache(void);

/* The same for free. A thread that has only freed so far gets no cache for its first
 * few blocks: libc frees a dead thread's own blocks after its destructors have run, and
 * a cache made then would never come back. */
hak_cache_t *hak_thread_cache_of_free(void);

/* Empties a magazine of one of the caches that wait for a thread, of *caches at most; true when
 * there is no more to empty. */
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

/* What was changed was changed under a lock, let go since; without the fence two threads that
 * each free a part of what is worth a wake-up could miss each other's. On x86-64 it is that of
 * the lock's release: each free of a large block comes by, and one more would wait for all
 * that the program has written. */
HAK_FAST_PATH void hak_purger_wake(void) {
    hak_fence_after_update();
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_purger_state) == HAK_PURGER_ASLEEP))
        hak_purger_wake_up();
}

/* Called at the end of the slow paths of malloc and of free. The look, in purge.c: now and then a
 * piece of purge work. */
void hak_thread_look(size_t size, bool is_free);

HAK_FAST_PATH void hak_thread_tick_malloc(size_t size) {
    if (hak_tick_spend(size)) hak_thread_look(size, false);
}
HAK_FAST_PATH void hak_thread_tick_free(size_t size) {
    hak_purger_wake();
    if (hak_tick_spend(size)) hak_thread_look(size, true);
}

/* After an option was changed: what was worked out from options is so anew. */
void hak_thread_apply_options(void);

/* What a layer above wants done at intervals: by the helper thread at each of its rounds or,
 * where there is none, by slow calls. `at_once`: the program is young, and each look may be
 * the last for long. Set once, before main. With a watcher the helper is started early. */
typedef void (*hak_watcher_t)(bool at_once);
void hak_thread_set_watcher(hak_watcher_t watcher);
hak_watcher_t hak_thread_watcher(void); /* NULL for none */
void hak_purger_start_early(void);
bool hak_purger_runs(void);

/* Bytes of free blocks in caches, for each CPU, where HAKMEM_CACHE_BUDGET does not say. */
enum { HAK_BUDGET_PER_CPU = 30 * 1024 * 1024 };

/* Looks now and then at the number of CPUs, which shards and budgets follow. `at_once`: the first
 * look is due, since the process gets a second thread. */
void hak_thread_follow_cpus(uint64_t now_ms, bool at_once);

/* Threads that have a cache now. */
unsigned hak_thread_count(void);

/* Gives back all that can be given: the caller's cache, waiting caches, empty
 * slabs, free pages. Returns bytes purged. In purge.c. */
size_t hak_thread_purge_all(void);

/* The newest cache, of all there ever were; they are linked by `next`. A cache never
 * leaves the list and new ones enter at its head, so the rest is read without a lock. */
hak_cache_t *hak_thread_caches(void);

/* Outermost but for a refresh of the live page: the one place for a collection of the statistics.
 * A fork does not wait for it, since somebody may be printing from there; in the child it is free.
 * In fork.c. */
extern hak_lock_t hak_snapshot_lock;

/* Fork handlers, once; in fork.c. */
void hak_fork_install(void);

extern hak_lock_t hak_thread_list_lock;

/* Visits the stack lock of every cache, until a visit says false. List lock held. */
bool hak_thread_each_stack_lock(hak_lock_visit_t visit, void *context);

/* In the child: the thread has another number there; also when it never was one of several. */
void hak_thread_renumber(void);
/* In the child, after hak_gate_reset: the other threads are gone. Their caches are not touched. */
void hak_thread_forget_others(void);

#endif
