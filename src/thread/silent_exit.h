/* silent_exit.h: caches of threads that ended without a word.
 *
 * libc calls the destructors of a thread's keys in four rounds. A thread that allocates for the first time in the last
 * round gets a cache, but its end is not reported to us. The same holds for a thread that ends by the system call
 * itself, and for all threads of a process that has no key left. Such a cache counts as in use, and no thread can use
 * its blocks. So a start looks for such a cache first. If it took a waiting cache instead, that would replace the entry
 * in the table below, and the abandoned cache would be lost for ever.
 *
 * PROOF THAT A THREAD IS GONE. A cache belongs to the thread-local memory of a thread, in which hak_cache lies. If
 * hak_cache is new when a thread starts, the thread has that memory to itself, because libc gives it to a thread only
 * when the former one is gone. So if a cache has recorded the place of this memory, its thread is gone, and the new
 * thread may take the cache. No other thread ever may. The system is not asked, so reused thread numbers, namespaces,
 * filters and a libc that reports wrong numbers do not matter. If another thread continues with a thread's memory, it
 * has that thread's cache.
 *
 * A table has, for each place, the cache that a thread got there last, until the thread gives it up. So a start reads
 * no cache to which its present thread writes. Two places may share an entry: then the cache of the first one may stay
 * with its thread.
 *
 * PROTOCOL. Only a thread itself sets `place` of a cache to its own place. Only that thread clears it, or the next
 * thread of the place; in the child of a fork, a thread that takes a lost cache sets it to its own place.
 *
 *   A1  the new thread finds a cache that is not lost, and then finds its own place in it. From here on only this
 *       thread changes the cache: in the child of a fork, other threads take only lost caches. Such a thread writes its
 *       place before it marks the cache as no longer lost (hak_gate_take, release; partner: the look, acquire), so a
 *       thread that sees the mark also sees the place
 *   A2  under the lock of its home's group the former thread no longer counts. The cache's post stays taken, so in the
 *       child of a fork the cache is lost, like every cache on its way
 *   A3  a regular end: CAS of the entry, own cache -> NULL, while the cache still belongs to the thread. Later another
 *       thread may own the entry, with a cache at a place that shares it. It is a CAS because a thread at such a place
 *       may record another cache in the meantime
 *
 * The new thread can read all that the former thread wrote to its cache: libc orders the end of a thread before the
 * next use of its memory.
 *
 * Rejected:
 *  - Thread numbers and tgkill: a filter, a preloaded getpid, a clone into another namespace and reused numbers each
 *    made a living thread look gone.
 *  - A robust mutex in each cache, which the kernel marks when its owner ends. libc chains all robust mutexes
 *    that a thread holds: those of the program would lead to our records, and a stale one of the program would
 *    break each end of a thread.
 *  - /proc/self/task: not available in every process, and a walk over all threads.
 *
 * NOT COVERED. Such a cache stays with its thread as before:
 *  - until a thread starts at its place; the cache of the first thread, and the first cache of the process, for ever;
 *  - if its thread ended inside the engine (post.inside): locks and memory that it held there also stay held;
 *  - in the child of _Fork or of a clone without fork handlers: a thread of the parent may have been stopped in the
 *    middle of a change of its magazine, which is not an end. So a cache of another process number stays.
 * If a signal handler ends a thread by the system call itself, during a slow call but outside the gate, the magazine
 * may be half changed; a regular end never leaves it so. */
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

/* Called by a thread that gives its cache up, before another thread may own it: no start need look for it. */
void hak_silent_exit_clear(hak_cache_t *cache);

/* Takes the cache of a former thread at the place of the calling one, which has none; NULL if there is none to be
 * taken. Inside the gate. The caller joins. */
hak_cache_t *hak_silent_exit_take(void);
