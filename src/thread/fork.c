/* fork.c: no lock is held and no list half changed when a process forks.
 *
 * The forking thread takes every lock in lock order, so what the child inherits
 * is whole but for two things that need no lock: other threads' caches, and remote
 * frees between two of their steps. Both are put right in the child. */
#include <pthread.h>

#include "large/huge.h"
#include "os/lock.h"
#include "pool/pool.h"
#include "region/meta.h"
#include "region/region.h"
#include "shard/shard.h"
#include "thread/thread.h"

static void before_fork(void) {
    hak_thread_list_lock();
    hak_shard_lock_all();
    hak_lock_acquire(&hak_pool_lock);
    hak_lock_acquire(&hak_region_lock);
    hak_lock_acquire(&hak_huge_lock);
    hak_lock_acquire(&hak_meta_lock);
}

static void after_fork_parent(void) {
    hak_lock_release(&hak_meta_lock);
    hak_lock_release(&hak_huge_lock);
    hak_lock_release(&hak_region_lock);
    hak_lock_release(&hak_pool_lock);
    hak_shard_unlock_all();
    hak_thread_list_unlock();
}

/* With a single thread there was nobody to leave anything unfinished. */
static void after_fork_child(void) {
    hak_lock_reset(&hak_meta_lock);
    hak_lock_reset(&hak_huge_lock);
    hak_lock_reset(&hak_region_lock);
    hak_lock_reset(&hak_pool_lock);
    bool purger = hak_purger_forget();
    bool others = hak_thread_list_rebuild();
    if (others || purger) {
        hak_shard_rebuild();
        hak_pool_rebuild();
    } else {
        hak_shard_unlock_all();
    }
}

void hak_fork_install(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }
