/* silent_exit.h: caches of threads that ended without a word.
 *
 * libc calls the destructors of a thread's keys in four rounds. A thread that allocates first in the last round gets
 * a cache, and nobody tells us when it ends. The same goes for a thread that ends by the system call itself,
 * and for all threads of a process that has no key left. Such a cache counts as in use, and its blocks serve nobody. So a
 * start looks for one such cache first: a waiting cache would take its entry in the table below, and it would be lost
 * for good.
 *
 * WHAT PROVES THAT A THREAD IS GONE. A cache belongs to the thread-local memory of a thread, where hak_cache lies. A
 * thread at whose start hak_cache is new has that memory to itself, since libc gives it to a thread when the former one is
 * gone. So if a cache notes the place of this memory, its thread is gone, and the new one may take it. No other thread
 * ever may. The system is not asked, so neither numbers that are used again nor namespaces, filters or a libc
 * that lies about numbers matter; and a thread whose memory another thread goes on with has that one's cache.
 *
 * A table tells, for each place, the cache that a thread got there last, until the thread gives it up. So a start
 * reads no cache whose present thread writes to it. Two places may share an entry: then the cache of the first one may
 * stay with its thread.
 *
 * PROTOCOL. `place` of a cache becomes a thread's own only by that thread, and is cleared only by it; or by the next
 * thread of that place; or it becomes another thread's in the child of a fork, which takes a lost cache.
 *
 *   A1  the new thread finds a cache that is not lost, and then its own place in it. From here on only this thread
 *       changes it: in the child of a fork others take lost caches alone. Such a taker writes its place before the cache
 *       is no longer lost (hak_gate_take, release; partner: the look, acquire), so who sees that sees the place, too
 *   A2  under the lock of its home's group the former thread no longer counts. The cache's post stays taken, so in the
 *       child of a fork the cache is lost, as every one on its way is
 *   A3  an orderly end: CAS of the entry, own cache -> NULL, while the cache is still the thread's. Later another thread
 *       may have it, at a place that shares the entry, which is then that thread's. A CAS, since a thread at such a place
 *       may note another cache meanwhile
 *
 * What the former thread wrote to its cache is there to be read: libc orders its end before the next use of its memory.
 *
 * Rejected:
 *  - Numbers of threads, and tgkill: a filter, a preloaded getpid, a clone into another namespace and numbers that are used
 *    again each made a living thread look gone.
 *  - A robust mutex in each cache, which the kernel marks when its owner ends. libc chains all robust mutexes
 *    that a thread holds: those of the program would lead to our records, and a stale one of the program would
 *    break each end of a thread.
 *  - /proc/self/task: not there in every process, and a walk as long as there are threads.
 *
 * NOT COVERED. Such a cache stays with its thread as before:
 *  - until a thread starts at its place; the first thread's, and the first cache of the process, for ever;
 *  - if its thread ended inside the engine (post.inside): what it held there stays held, too;
 *  - in the child of _Fork or of a clone without fork handlers: a thread of the parent may have been stopped in the midst of
 *    an instruction's work on its magazine, which is no end. So a cache of another process number stays.
 * A thread that a signal handler ends by the system call itself, in the midst of a slow call but outside the gate,
 * leaves a magazine that may be half changed; no orderly end does. */
#pragma once

#include "cache/cache.h"
#include "os/os.h"

enum { HAK_PLACES_SHIFT = 9, HAK_PLACES = 1 << HAK_PLACES_SHIFT }; /* one page */

typedef _Atomic(hak_cache_t *) hak_place_t;
extern hak_place_t hak_places[HAK_PLACES]; /* atomic */

HAK_FAST_PATH hak_place_t *hak_place_of(uintptr_t place) {
    return &hak_places[(uint64_t)place * 0x9E3779B97F4A7C15u >> (64 - HAK_PLACES_SHIFT)];
}

/* The calling thread has got a cache, which the next thread at its place may find. Not for the first cache: a small
 * process need not have the table. */
HAK_FAST_PATH void hak_silent_exit_note(hak_cache_t *cache) {
    hak_place_t *entry = hak_place_of(hak_os_thread());
    if (hak_load_relaxed(entry) != cache) hak_store_release(entry, cache);
}

/* A thread gives its cache up, which is still its own: nobody need look for it. */
void hak_silent_exit_clear(hak_cache_t *cache);

/* Takes the cache of a former thread at the place of the calling one, which has none; NULL if there is none to be
 * taken. Inside the gate. The caller joins. */
hak_cache_t *hak_silent_exit_take(void);
