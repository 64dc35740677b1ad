/* abandoned.h: caches of threads that ended without a word.
 *
 * libc calls the destructors of a thread's keys in four rounds. A thread that allocates first in the last round gets
 * a cache, and nobody tells us when it ends. The same goes for a thread that ends by the system call itself,
 * and for all threads of a process that has no key left. Such a cache has its thread's number, counts as in use, and its
 * blocks serve nobody. So a start that finds no waiting cache looks at a few others before a new one is made.
 *
 * WHAT PROVES THAT A THREAD IS GONE. The kernel finds no thread of this number in this process (tgkill, ESRCH). Its
 * code cannot run any more then. That holds only if both numbers mean the same to the kernel as they did when
 * the cache got them, so the cache also has the number of the process that its thread belonged to:
 *
 *   child of _Fork, or of a clone that copies memory: no fork handler has run, and its only thread has the cache of a
 *       thread of another process. The process's number differs: not judged.
 *   vfork, and a clone that shares memory: the child may have got the cache for its parent's thread, which
 *       goes on with it after the child. The process's number differs: not judged by the parent. The child
 *       judges none of its parent's, either.
 *   a clone into a new pid namespace: its first process is number 1 there. So a process with the number 1 judges
 *       none.
 *   number used again: if another thread of the process has it now, the cache looks alive, until that ends.
 *
 * PROTOCOL. A cache leaves its thread by one of two hands, both under the lock of its home's group: the thread's own
 * (hak_group_leave), or that of a start which proves that the thread is gone.
 *
 *   A1  without a lock of the group: if the thread seems to be gone, take the lock of its home's group
 *   A2  under that lock, ask all again: number, process, home, and the kernel. While the lock is held no other thread
 *       can take the cache from its thread, so the answer is about the thread that has the cache now
 *   A3  under the same lock, the dead thread no longer counts, and the cache has no number. Its post stays
 *       taken, so in the child of a fork the cache is lost, as every one on its way is
 *
 * What the thread wrote to its cache is there to be read: the kernel ended it under locks that tgkill takes, too.
 *
 * Rejected:
 *  - The verdict of A1 alone. Another start may have taken the cache meanwhile and given it to a thread that
 *    got the dead one's number.
 *  - A robust mutex in each cache, which the kernel marks when its owner ends. libc chains all robust mutexes
 *    that a thread holds: those of the program would lead to our records, and a stale one of the program would
 *    break each end of a thread.
 *  - /proc/self/task: not there in every process, and a walk as long as there are threads.
 *
 * NOT COVERED. Such a cache stays with its thread as before:
 *  - in process number 1, in the children above, and where a filter refuses tgkill;
 *  - if its thread ended inside the engine (post.inside): what it held there stays held, too.
 * And the proof fails, so that two threads would have one cache,
 *  - if a descendant by _Fork or clone alone, without fork handlers on the way, gets the number of the process that
 *    its memory is from: after that has ended and all numbers have gone round, or in another pid namespace that it
 *    enters by setns.
 * A thread that a signal handler ends by the system call itself, in the midst of a slow call but outside the gate,
 * leaves a magazine that may be half changed; no orderly end does. */
#pragma once

#include "cache/cache.h"

/* Takes the cache of a thread that is gone; NULL if the next few that it looks at have none such. Inside the
 * gate. */
hak_cache_t *hak_abandoned_take(void);

/* True when a thread of this process had the cache, is gone and was at home in `shard`. A fact while the lock of the
 * group of `shard` is held, else a guess. */
bool hak_abandoned_is(hak_cache_t *cache, unsigned process, unsigned shard);
