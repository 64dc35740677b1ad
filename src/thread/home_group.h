/* home_group.h: the threads whose homes are a few neighbouring shards, and the waiting caches of these shards.
 *
 * On a large machine threads start and end on all CPUs at once. Each start and each end takes the lock of
 * one group of shards, which few CPUs use. A machine of up to eight CPUs has one group.
 *
 * PROTOCOL
 *
 *   start   Choose a group: that of the CPU or, if it has far more than its share of the threads, the
 *           next one with less. The thread counts there at once. Under the group's lock: take a cache
 *           that waits there, and join. A cache with blocks waits by the CPU on which it was put down,
 *           which has its lines and blocks: a thread on that CPU takes such a one first. If none
 *           waits: take one of another group under that group's lock, or a lost or a new one; then
 *           join under the lock of the chosen group. Before a new one is made, it looks for one whose
 *           thread ended without a word (silent_exit.h). On more CPUs than one group has, a new one also
 *           comes before one with blocks of another CPU, while few of these wait
 *   join    The cache gets its home in the group and the number of its thread; its post is taken. For a cache
 *           that waited here, only the count and the post change under the lock; what only its new thread
 *           writes follows when the lock is free again. A lost cache gets all of it before its post is taken
 *   end     Under the lock of the cache's home, ask whether the cache may wait with its blocks; without
 *           a lock, empty it if not. Then under the lock: the thread no longer counts, its post is
 *           released, and the cache waits there. From then on it may serve another thread. Before it takes
 *           that lock, the thread takes the cache out of the table of places (A3 of silent_exit.h)
 *   tell    After each change of its number of threads, the group tells the process (cache_budget.h) if there are
 *           more than it told last, or half as many (a quarter, in other groups than the first): where more
 *           than two threads of a group start and end all the time, no line of the process moves.
 *     T1    change the number
 *     T2    if there is something to report: replace the reported number by TELLING. If another thread was
 *           faster, that thread does the rest
 *     T3    add the difference to the process's count, store the number as reported, and begin again at T2
 *           All accesses are sequentially consistent: if T2 fails, T1 came before the reporting thread's
 *           next comparison. Only one thread of a group reports at a time, so the count is the sum of the
 *           reported numbers
 *
 * A thread holds the lock of one group at a time, and not that of the thread list. A start is one
 * section inside the gate (os/gate.h), and so is the last step of an end. So in the child of a fork each
 * cache waits, is lost, or belongs to the only thread. A cache waits in the group of its last home.
 *
 * Rejected:
 *  - To count a thread where it joins. Threads that start while another one holds the group's lock would
 *    all choose that group.
 *  - One counter of the process for starts and ends. At 192 CPUs, waiting for its line was a fifth of the
 *    time for which starts and ends waited.
 *  - To report under the group's lock. Threads that start at the same time choose a group before they take
 *    a lock, by the count of the process: they would see too few threads.
 *  - Lock-free stacks. They would need a counter beside the top (ABA), and the number of caches that keep
 *    their blocks would be counted separately from the stacks. */
#pragma once

#include "cache/cache.h"
#include "error/check.h"

/* The choice of a start. */
typedef struct {
    unsigned
        shard; /* of the CPU or, if its group has too many threads, of another group; that one is made */
    unsigned count; /* of homes, at the time of the choice */
} hak_seat_t;

/* The first also counts the caller. The second is for a caller that got no cache: it no longer counts. */
hak_seat_t hak_group_choose(void);
void hak_group_give_up(hak_seat_t seat);

/* Takes a waiting cache and joins; NULL when none waits. On a large machine, unless `any`, also NULL when those that
 * wait have blocks, are another CPU's, and are few: then a new cache moves fewer lines. */
hak_cache_t *hak_group_take(hak_seat_t seat, bool any);
void hak_group_join(hak_cache_t *cache, hak_seat_t seat);

/* True when a cache seems to wait in the group of the CPU. */
bool hak_group_has_waiting(void);

/* True on a large machine: there are several groups, and many caches may wait. */
bool hak_group_many(void);

/* True when the cache of an ending thread may wait with its blocks. */
bool hak_group_may_keep(const hak_cache_t *cache);
void hak_group_leave(hak_cache_t *cache, bool keeps);

/* The former thread of a cache is gone (silent_exit.h), and no longer counts; the caller joins. */
void hak_group_forget(hak_cache_t *cache);

/* Takes a waiting cache with blocks, for the caller to empty; NULL when there is none. It goes back
 * to its group. */
hak_cache_t *hak_group_take_full(void);
void hak_group_put_back(hak_cache_t *cache, bool holds);

/* How many such caches wait, those of ending threads included. Takes the lock of each group. */
unsigned hak_group_full(void);

/* Lets each group tell its exact number of threads. Inside the gate. */
void hak_group_tell_all(void);

/* Threads that have a cache: the number that the groups have reported, or the number in the group of the caller's CPU
 * if that is larger. The latter is never late; a thread that must report may not run for a while. */
unsigned hak_group_estimate(void);

/* Number of threads whose home is the shard with the most threads. */
unsigned hak_group_most(void);

/* In the child of a fork: only `own` has a thread; NULL for none. The second is called later, when other threads may
 * run that have no cache yet. */
void hak_group_forget_others(const hak_cache_t *own);
void hak_group_settle(const hak_cache_t *own);

void hak_group_check(hak_check_t *check, size_t caches);
