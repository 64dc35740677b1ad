/* fork.c: no lock is held and no list half changed when a process forks.
 *
 * The forking thread takes every lock in lock order, so what the child inherits
 * is whole but for two things that need no lock: other threads' caches, and remote
 * frees between two of their steps. Both are put right in the child. */
#include <pthread.h>

#include "large/huge.h"
#include "large/large.h"
#include "os/lock.h"
#include "pool/pool.h"
#include "region/meta.h"
#include "region/region.h"
#include "shard/shard.h"
#include "thread/look.h"
#include "thread/thread.h"

/* glibc takes the lock of its list of streams after these handlers, and a stream's
 * buffer is allocated with that lock held: it has to come before ours. The lock is
 * recursive. Other libcs have no such names. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

/* glibc's word for "no second thread": then no lock can be in another's hands, and a
 * fork in a signal handler that interrupted malloc must not wait for its own. */
extern char __libc_single_threaded __attribute__((weak));

static bool alone; /* of the fork under way; forks are serialised by libc */

static void before_fork(void) {
    alone = &__libc_single_threaded && __libc_single_threaded;
    if (alone) return;
    if (_IO_list_lock) _IO_list_lock();
    hak_thread_list_lock();
    hak_shard_lock_all();
    hak_large_lock_all();
    hak_lock_acquire(&hak_pool_lock);
    hak_lock_acquire(&hak_region_lock);
    hak_lock_acquire(&hak_huge_lock);
    hak_lock_acquire(&hak_meta_lock);
}

static void after_fork_parent(void) {
    if (alone) return;
    hak_lock_release(&hak_meta_lock);
    hak_lock_release(&hak_huge_lock);
    hak_lock_release(&hak_region_lock);
    hak_lock_release(&hak_pool_lock);
    hak_large_unlock_all();
    hak_shard_unlock_all();
    hak_thread_list_unlock();
    if (_IO_list_unlock) _IO_list_unlock();
}

/* Where there never was another thread, nobody can have left anything unfinished. */
static void after_fork_child(void) {
    hak_thread_renumber();
    if (alone) return;
    if (_IO_list_resetlock) _IO_list_resetlock();
    hak_lock_reset(&hak_meta_lock);
    hak_lock_reset(&hak_huge_lock);
    hak_lock_reset(&hak_region_lock);
    hak_lock_reset(&hak_pool_lock);
    hak_look_forget();
    bool purger = hak_purger_forget();
    bool others = hak_thread_list_rebuild();
    if (others || purger) {
        hak_shard_rebuild();
        hak_large_rebuild();
        hak_pool_rebuild();
    } else {
        hak_large_unlock_all();
        hak_shard_unlock_all();
    }
}

void hak_fork_install(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }
