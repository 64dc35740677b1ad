/* lock.h: the only kind of lock: one word, a short spin, then a futex.
 *
 * State: 0 free, 1 held, 2 held and some thread may sleep.
 *   acquire: CAS 0 -> 1; otherwise spin; otherwise CAS 0 -> 2, or CAS to 2 and sleep.
 *   release: CAS 1 -> 0; otherwise exchange 0 and wake one sleeper.
 * A thread that wakes takes the lock as 2, since other threads may still sleep. So there may be a
 * needless wake, but no wake is lost.
 *
 * A thread that acquires a lock is inside the gate (gate.h) until it releases the lock: a fork
 * waits for that, so in the child no lock is held. A lock that a fork must not wait for is taken
 * apart from the gate: its holder may work for a long time, and the child resets the lock.
 *
 * lock_rank.h has the order of all locks; the debug build checks it. The locks REPORT, SNAPSHOT and
 * REFRESH are apart from the gate, and no thread inside the gate waits for them. REFRESH is only
 * tried. SNAPSHOT is held while caches are read under their locks. The report at exit is written
 * under it; a report to a stream of the program is not. */
#pragma once

#include "base/base.h"
#include "os/gate.h"
#include "os/lock_rank.h"

typedef struct {
    _Atomic uint32_t state;
} hak_lock_t;

void hak_lock_wait(hak_lock_t *lock);
void hak_lock_wake(hak_lock_t *lock); /* releases a lock whose state is 2, and wakes a sleeper */

/* Acquire, but give up when *tries are used up; a try takes about a millisecond. */
bool hak_lock_acquire_apart_within(hak_lock_t *lock, unsigned *tries);

/* Called during long work under a lock. If a fork waits, and this lock is the only reason why the
 * caller is inside the gate, releases the lock until the fork is done. */
void hak_lock_let_fork_in(hak_lock_t *lock);

/* Takes the lock if it is free. The caller notes the rank. */
HAK_FAST_PATH bool hak_lock_take_free(hak_lock_t *lock) {
    uint32_t free_state = 0;
    return hak_load_relaxed(&lock->state) == 0 && hak_cas_acquire(&lock->state, &free_state, 1);
}

/* Apart from the gate. */
HAK_FAST_PATH bool hak_lock_try_apart(hak_lock_t *lock) {
    bool taken = hak_lock_take_free(lock);
    if (taken) hak_lock_rank_taken(lock);
    return taken;
}

HAK_FAST_PATH void hak_lock_acquire_apart(hak_lock_t *lock) {
    uint32_t free_state = 0;
    hak_lock_rank_wait(lock);
    if (HAK_UNLIKELY(!hak_cas_acquire(&lock->state, &free_state, 1))) hak_lock_wait(lock);
}

HAK_FAST_PATH void hak_lock_release_apart(hak_lock_t *lock) {
    uint32_t held = 1;
    hak_lock_rank_release(lock);
    if (HAK_UNLIKELY(!hak_cas_release(&lock->state, &held, 0))) hak_lock_wake(lock);
}

/* Also false while a fork is under way, unless the caller is inside the gate. */
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

/* Releases a lock that all threads only try: none sleeps until it is free, so a store will do. The first is apart from the
 * gate, or inside it all the time. */
HAK_FAST_PATH void hak_lock_release_tried_apart(hak_lock_t *lock) {
    hak_lock_rank_release(lock);
    hak_store_release(&lock->state, 0); /* partner: hak_lock_take_free */
}

HAK_FAST_PATH void hak_lock_release_tried(hak_lock_t *lock) {
    hak_lock_release_tried_apart(lock);
    hak_gate_leave();
}

/* For a caller that is inside the gate from before it acquires the lock until after it has released it. */
HAK_FAST_PATH void hak_lock_acquire_inside(hak_lock_t *lock) { hak_lock_acquire_apart(lock); }
HAK_FAST_PATH void hak_lock_release_inside(hak_lock_t *lock) { hak_lock_release_apart(lock); }

/* Acquires the lock, and releases it at the end of the enclosing block. */
#define HAK_HOLD(lock) HAK_HOLD_AS(lock, __LINE__)
#define HAK_HOLD_AS(lock, line) HAK_HOLD_BY(lock, line)
#define HAK_HOLD_BY(lock, line)                                                     \
    __attribute__((unused, cleanup(hak_lock_drop))) hak_lock_t *const held_##line = \
        hak_lock_hold(lock)
HAK_FAST_PATH hak_lock_t *hak_lock_hold(hak_lock_t *lock) {
    hak_lock_acquire(lock);
    return lock;
}
HAK_FAST_PATH void hak_lock_drop(hak_lock_t *const *lock) { hak_lock_release(*lock); }

/* For a lock apart from the gate, in the child of a fork: there is no other thread, so the lock is
 * set free. */
HAK_FAST_PATH void hak_lock_reset(hak_lock_t *lock) {
    hak_lock_rank_reset(lock);
    hak_store_relaxed(&lock->state, 0);
}
