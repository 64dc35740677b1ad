/* fork.c: what is done around a fork.
 *
 * The forking thread closes the gate (os/gate.h) and waits until no other thread is inside the
 * engine. What the child inherits is whole then, but for the caches of the threads that were left
 * behind: those are lost, and reset when a new thread gets one. Nothing is walked, and neither
 * process writes to the records of the heap.
 *
 * WHEN THE GATE IS CLOSED. Handlers run before a fork in the reverse order of their registration,
 * and after it in that order. Whoever has registered before us runs while the gate is closed, and
 * two things may go wrong:
 *
 *   its handler allocates         The forking thread passes its own gate, and no lock is held. All
 *       is whole, and what it does in the child before our handler differs in nothing from what
 *       the child does later, but that other threads count as alive.
 *   its handler waits for a lock of its own, whose holder waits at our gate in malloc
 *       Nobody could go on. Only an order helps: our gate last, so our handlers first. The
 *       loader initialises this library before any other (-z initfirst), and its constructor
 *       registers them. Where there is no other library, the first malloc does it: libc's
 *       pages for it would be a third of what the smallest program pays for us.
 *
 * The first covers what the second cannot: the archive in a program, whose constructors run
 * after those of its libraries, and a library that comes by dlopen. Rejected: to close the gate
 * without handlers, by interposing fork, since libc and clone have other ways to it. */
#include "thread/fork.h"

#include <pthread.h>

#include "os/gate.h"
#include "os/lock.h"
#include "os/os.h"
#include "thread/purge.h"
#include "thread/purger.h"
#include "thread/thread.h"
#include "thread/verify.h"

/* glibc takes the lock of its list of streams after these handlers, and a stream's
 * buffer is allocated with that lock held: it has to come before ours. The lock is
 * recursive. Other libcs have no such names. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

hak_lock_t hak_snapshot_lock; /* apart from the gate */
HAK_LOCK_RANK(SNAPSHOT, hak_snapshot_lock, NULL);

/* Of the fork under way. glibc calls these handlers without a lock of its own, so two threads that
 * fork at once both write here, and both write false. */
static _Atomic bool alone;

static void before_fork(void) {
    /* No lock can be in another's hands, and a fork in a signal handler that interrupted malloc
     * must not wait for its own. */
    hak_store_relaxed(&alone, hak_os_is_single_threaded());
    if (hak_load_relaxed(&alone)) return;
    if (_IO_list_lock) _IO_list_lock();
    hak_gate_close();
}

static void after_fork_parent(void) {
    if (hak_load_relaxed(&alone)) return;
    hak_gate_open();
    if (_IO_list_unlock) _IO_list_unlock();
}

/* Where there was no other thread, nothing was closed, and nobody is left behind. */
static void after_fork_child(void) {
    hak_thread_renumber();
    if (hak_load_relaxed(&alone)) return;
    if (_IO_list_resetlock) _IO_list_resetlock();
    hak_lock_reset(&hak_snapshot_lock);
    hak_verify_forget();
    hak_gate_reset();
    hak_purge_forget();
    hak_purger_forget();
    hak_thread_forget_others();
}

HAK_COMMON void hak_fork_install(void) {
    static _Atomic bool installed;
    if (!atomic_exchange(&installed, true))
        pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
