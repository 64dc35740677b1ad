/* fork.c: what is done around a fork.
 *
 * The forking thread closes the gate (os/gate.h) and waits until no other thread is inside the
 * engine. So the child inherits a whole engine. Only the caches of the threads that stayed behind are
 * lost; a new thread that gets one resets it. Neither process walks the heap or writes to its records.
 *
 * WHEN THE GATE IS CLOSED. Handlers run before a fork in the reverse order of their registration,
 * and after it in that order. So the handlers of a library that registered before us run while the gate
 * is closed. Two things may happen:
 *
 *   Such a handler allocates.
 *       The forking thread passes its own gate, and no lock is held. The engine is whole. In the child,
 *       before our own handler, the other threads still count as alive; nothing else differs.
 *   Such a handler waits for a lock of its library, and the lock's holder waits at our gate in malloc.
 *       Nobody could go on. Only the order helps: the gate must close last, so our handlers must be
 *       registered first. The loader initialises this library before any other (-z initfirst), and its
 *       constructor registers them. If there is no other library and the program does not ask the loader for
 *       pthread_atfork, the first malloc does it, because libc's pages for it would be a third of what the
 *       smallest program pays for HAKMEM. glibc allocates the 49th handler with the lock of its list held: that
 *       must not be the first malloc either.
 *
 * That the forking thread passes its gate also helps where the order fails: in a program that contains
 * the archive, whose constructors run after those of its libraries, and for a library that dlopen loads.
 * Rejected: closing the gate without handlers, by interposing fork. libc and clone have other ways to
 * fork. */
#include "thread/fork.h"

#include <pthread.h>

#include "cache/cache.h"
#include "os/gate.h"
#include "os/lock.h"
#include "os/open_files.h"
#include "os/os.h"
#include "os/program.h"
#include "thread/purge_trigger.h"
#include "thread/helper_thread.h"
#include "thread/thread.h"
#include "thread/verify.h"

/* glibc takes the lock of its list of streams after these handlers, and it allocates a stream's buffer
 * with that lock held. So that lock must be taken before the gate closes. It is recursive. A thread inside may
 * wait for it, and fork in a signal handler: so it is released between two rounds of a close (os/gate.h).
 * Other libcs do not have these names. */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern void _IO_list_resetlock(void) __attribute__((weak));

/* Apart from the gate. */
hak_lock_t hak_report_lock, hak_snapshot_lock;
HAK_LOCK_RANK(REPORT, hak_report_lock, NULL);
HAK_LOCK_RANK(SNAPSHOT, hak_snapshot_lock, NULL);

/* hak_gate_thread.forks counts the forks of this thread that closed the gate: a signal handler may fork in a
 * fork. Each thread has its own, since a handler of a fork that did not close it may start a thread whose fork does. */

static void before_fork(void) {
    /* With one thread nobody else can hold a lock, and a fork in a signal handler that interrupted
     * malloc must not wait for its own thread. */
    if (hak_os_is_single_threaded()) return;
    hak_helper_look_whose(); /* else it waits for the helper of another process */
    if (hak_gate_close(_IO_list_lock, _IO_list_unlock)) hak_gate_thread.forks++;
}

/* Nothing is under way where there was no other thread, and in the child of a fork that a handler made
 * in the midst of this one. */
static void after_fork_parent(void) {
    if (!hak_gate_thread.forks) return;
    hak_gate_thread.forks--;
    hak_gate_open();
    if (_IO_list_unlock) _IO_list_unlock();
}

/* If there was no other thread, the gate was not closed and no thread stayed behind; unless a handler
 * started one, whose fork has closed it. But a signal handler may have interrupted a piece of purge work, and need not
 * return. */
static void after_fork_child(void) {
    hak_thread_renumber();
    hak_thread_seed(hak_cache);
    if (!hak_gate_thread.forks && !hak_gate_is_awaited()) {
        hak_purge_forget_own();
        return;
    }
    hak_gate_thread.forks = 0;
    if (_IO_list_resetlock) _IO_list_resetlock();
    hak_lock_reset(&hak_report_lock);
    hak_lock_reset(&hak_snapshot_lock);
    hak_verify_forget();
    hak_gate_reset();
    hak_open_files_close_lost();
    hak_purge_forget();
    hak_helper_forget();
    hak_thread_forget_others();
    hak_gate_open(); /* a handler that ran before may have started threads, which wait there */
    /* Else a handler forked, and the thread may hold the lock for that. */
    if (!hak_gate_thread.depth) hak_thread_fit();
}

#ifdef __GLIBC__
/* What its pthread_atfork calls, with the handle of the library that the handlers belong to. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
#else
#define __register_atfork(prepare, parent, child, handle) pthread_atfork(prepare, parent, child)
#endif

HAK_COMMON void hak_fork_register(void (*prepare)(void), void (*parent)(void),
                                  void (*child)(void)) {
    if (HAK_UNLIKELY(hak_os_may_be_unloaded()))
        pthread_atfork(prepare, parent, child);
    else
        __register_atfork(prepare, parent, child, NULL);
}

HAK_COMMON void hak_fork_install(void) {
    static _Atomic bool installed;
    if (!atomic_exchange(&installed, true))
        hak_fork_register(before_fork, after_fork_parent, after_fork_child);
}
