/* lock.h: the one kind of lock: a word, a short spin, then a futex.
 *
 * State: 0 free, 1 held, 2 held and somebody may sleep.
 *   acquire: CAS 0 -> 1; else spin; else exchange 2 and sleep while it was not 0.
 *   release: exchange 0; wake one when it was 2.
 * A thread that wakes takes the lock as 2, since others may still sleep: at most
 * one needless wake, never a lost one.
 *
 * Lock order, outermost first (taken in this order by fork as well):
 *   thread list -> shard bins (by shard, then class) -> large heaps (each: heap, then its
 *   transfer array) -> pool -> region -> huge -> meta
 * The lock of a refresh of the live page comes before all; it is only ever tried.
 * The lock of thread/look.c is taken with none of them held, and holds none.
 * A second shard bin is only ever tried, never waited for, while one is held. */
#ifndef HAK_LOCK_H
#define HAK_LOCK_H

#include "base/base.h"

typedef struct {
    _Atomic uint32_t state;
} hak_lock_t;

void hak_lock_wait(hak_lock_t *lock);
void hak_lock_wake(hak_lock_t *lock);

HAK_FAST_PATH bool hak_lock_try(hak_lock_t *lock) {
    uint32_t free_state = 0;
    return hak_load_relaxed(&lock->state) == 0 && hak_cas_acquire(&lock->state, &free_state, 1);
}

HAK_FAST_PATH void hak_lock_acquire(hak_lock_t *lock) {
    uint32_t free_state = 0;
    if (HAK_UNLIKELY(!hak_cas_acquire(&lock->state, &free_state, 1))) hak_lock_wait(lock);
}

HAK_FAST_PATH void hak_lock_release(hak_lock_t *lock) {
    if (HAK_UNLIKELY(atomic_exchange_explicit(&lock->state, 0, memory_order_release) == 2))
        hak_lock_wake(lock);
}

/* In the child of a fork: nobody else lives, so the lock is simply free. */
HAK_FAST_PATH void hak_lock_reset(hak_lock_t *lock) { hak_store_relaxed(&lock->state, 0); }

#endif
