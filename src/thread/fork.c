/* fork.c: no lock is held and no list half changed when a process forks.
 *
 * The forking thread takes every lock in lock order, so what the child inherits
 * is whole but for two things that need no lock: other threads' caches, and remote
 * frees between two of their steps. Both are put right in the child. Mappings that are on
 * their way to or from the system belong to nobody's table: the fork waits for those calls.
 *
 * WHEN THE LOCKS ARE TAKEN. Handlers run before a fork in the reverse order of their
 * registration, and after it in that order. Whoever has registered before us runs while the
 * locks are held, and two things may go wrong:
 *
 *   its handler allocates         then it would wait for locks that its own thread has.
 *       So the locks are kept (os/lock.h): the forking thread passes them. All is whole as
 *       long as it runs alone, and what it does in the child before our handler differs in
 *       nothing from what the child does later: the repair works on what it finds.
 *   its handler waits for a lock of its own, whose holder waits for one of ours in malloc
 *       Nobody could let go. Only an order helps: our locks last, so our handlers first. The
 *       loader initialises this library before any other (-z initfirst), and its constructor
 *       registers them. Where there is no other library, the first malloc does it: libc's
 *       pages for it would be a third of what the smallest program pays for us.
 *
 * The first covers what the second cannot: the archive in a program, whose constructors run
 * after those of its libraries, and a library that comes by dlopen. Rejected: to take the
 * locks without handlers, by interposing fork, since libc and clone have other ways to it. */
#include <pthread.h>

#include "large/huge.h"
#include "large/large.h"
#include "os/os.h"
#include "pool/pool.h"
#include "shard/shard.h"
#include "shard/warm.h"
#include "thread/locks.h"
#include "thread/look.h"
#include "thread/purge.h"
#include "thread/thread.h"

/* glibc takes the lock of its list of streams after these handlers, and a stream's
 * buffer is allocated with that lock held: it has to come before ours. The lock is
 * recursive. Other libcs have no such names. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

hak_lock_t hak_snapshot_lock;

/* Of the fork under way. glibc calls these handlers without a lock of its own, so two threads that
 * fork at once both write here, and both write false. */
static _Atomic bool alone;

static void before_fork(void) {
    /* No lock can be in another's hands, and a fork in a signal handler that interrupted malloc
     * must not wait for its own. */
    hak_store_relaxed(&alone, hak_os_is_single_threaded());
    if (hak_load_relaxed(&alone)) return;
    if (_IO_list_lock) _IO_list_lock();
    hak_huge_close();
    hak_locks_keep();
}

static void after_fork_parent(void) {
    if (hak_load_relaxed(&alone)) return;
    hak_huge_open();
    hak_locks_let_go();
    if (_IO_list_unlock) _IO_list_unlock();
}

/* Where there never was another thread, nobody can have left anything unfinished. */
static void after_fork_child(void) {
    hak_thread_renumber();
    if (hak_load_relaxed(&alone)) return;
    if (_IO_list_resetlock) _IO_list_resetlock();
    hak_lock_reset(&hak_snapshot_lock);
    hak_locks_reset();
    hak_huge_reset();
    hak_look_forget();
    hak_purge_forget();
    bool purger = hak_purger_forget();
    bool others = hak_thread_list_rebuild();
    if (others || purger) {
        hak_shard_rebuild();
        hak_large_rebuild();
        hak_pool_rebuild();
    } else {
        hak_warm_unclaim_all();
    }
}

void hak_fork_install(void) {
    static _Atomic bool installed;
    if (!atomic_exchange(&installed, true))
        pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
