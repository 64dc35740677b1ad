/* lock.h: the one kind of lock: a word, a short spin, then a futex.
 *
 * State: 0 free, 1 held, 2 held and somebody may sleep, 3 and 4 the same of a kept lock.
 *   acquire: CAS 0 -> 1; else spin; else CAS 0 -> 2, or CAS to 2 or 4 and sleep.
 *   release: CAS 1 -> 0; else exchange 0 and wake one.
 * A thread that wakes takes the lock as 2, since others may still sleep: at most
 * one needless wake, never a lost one.
 *
 * Who acquires a lock is inside the gate (gate.h) until its release: a fork waits for that, and
 * no lock is held in the child. A lock that a fork must not wait for is taken apart from the gate:
 * its holder may be at work for long, and the child resets it.
 *
 * A thread that holds every lock there is may keep them (a report that may have interrupted
 * anything): then it is the keeper, for whom acquire and release of a kept lock
 * do nothing, so that code that locks can run. A lock that was not kept works as ever.
 *   keep:    add 2, of a held lock
 *   unkeep:  exchange 0; wake one when it was 4
 * Rejected: to let the keeper's release open the lock and close it again, since others would
 * slip in; and to tell a kept lock by the keeper alone, since new locks are made meanwhile.
 *
 * The order of all locks is in rank.h; the debug build checks it. The refresh's and the snapshot's
 * are apart from the gate, and only ever tried: nobody who is inside waits for them. The snapshot's
 * is held while the report reads caches under the list's. */
#ifndef HAK_LOCK_H
#define HAK_LOCK_H

#include "base/base.h"
#include "os/gate.h"
#include "os/rank.h"

typedef struct {
    _Atomic uint32_t state;
} hak_lock_t;

/* For functions that go through locks in their order; false ends it. */
typedef bool (*hak_lock_visit_t)(hak_lock_t *lock, void *context);

void hak_lock_wait(hak_lock_t *lock);
void hak_lock_wake(hak_lock_t *lock); /* the release of a lock that is not just held */

/* Keeps a lock that the caller holds, and lets it go. In between the caller is the keeper, as
 * the second function says; there is one at a time, since it holds all locks. */
void hak_lock_keep(hak_lock_t *lock);
void hak_lock_unkeep(hak_lock_t *lock);
void hak_lock_set_keeper(bool keeper);
bool hak_lock_is_keeper(void);

/* Acquires, but gives up when *tries are used up; about a millisecond each. */
bool hak_lock_acquire_within(hak_lock_t *lock, unsigned *tries);
bool hak_lock_acquire_apart_within(hak_lock_t *lock, unsigned *tries);

/* Long work under a lock: if a fork waits, and this is all that the caller is inside for, the lock
 * is released until the fork is done. */
void hak_lock_let_fork_in(hak_lock_t *lock);

/* Its rank is the caller's. */
HAK_FAST_PATH bool hak_lock_take_free(hak_lock_t *lock) {
    uint32_t free_state = 0;
    return hak_load_relaxed(&lock->state) == 0 && hak_cas_acquire(&lock->state, &free_state, 1);
}

/* Apart from the gate. */
HAK_FAST_PATH bool hak_lock_try_apart(hak_lock_t *lock) {
    bool taken = hak_lock_take_free(lock);
    if (taken) HAK_RANK_TAKEN(lock);
    return taken;
}

HAK_FAST_PATH void hak_lock_acquire_apart(hak_lock_t *lock) {
    uint32_t free_state = 0;
    HAK_RANK_WAIT(lock);
    if (HAK_UNLIKELY(!hak_cas_acquire(&lock->state, &free_state, 1))) hak_lock_wait(lock);
}

HAK_FAST_PATH void hak_lock_release_apart(hak_lock_t *lock) {
    uint32_t held = 1;
    HAK_RANK_RELEASE(lock);
    if (HAK_UNLIKELY(!hak_cas_release(&lock->state, &held, 0))) hak_lock_wake(lock);
}

/* False also while a fork is under way, unless the caller is inside. */
HAK_FAST_PATH bool hak_lock_try(hak_lock_t *lock) {
    if (hak_load_relaxed(&lock->state) != 0 || !hak_gate_try_enter()) return false;
    if (hak_lock_try_apart(lock)) return true;
    hak_gate_leave();
    return false;
}

HAK_FAST_PATH void hak_lock_acquire(hak_lock_t *lock) {
    hak_gate_enter();
    hak_lock_acquire_apart(lock);
}

HAK_FAST_PATH void hak_lock_release(hak_lock_t *lock) {
    hak_lock_release_apart(lock);
    hak_gate_leave();
}

/* In the child of a fork, of a lock apart: nobody else lives, so the lock is simply free. */
HAK_FAST_PATH void hak_lock_reset(hak_lock_t *lock) {
    HAK_RANK_RESET(lock);
    hak_store_relaxed(&lock->state, 0);
}

#endif
