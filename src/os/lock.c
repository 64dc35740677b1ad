/* lock.c: the slow paths of the lock; the protocol is in lock.h. */
#include "os/lock.h"

#include "os/os.h"

enum { SPIN_COUNT = 100 };
enum { FREE = 0, WAITED = 2, KEPT = 3, KEPT_WAITED = 4, KEEP = 2 };

/* The thread that keeps all locks; other threads only compare it with themselves. */
static _Atomic uintptr_t keeper;

void hak_lock_set_keeper(bool own) { hak_store_relaxed(&keeper, own ? hak_os_thread() : 0); }

bool hak_lock_is_keeper(void) {
    uintptr_t thread = hak_load_relaxed(&keeper);
    return thread != 0 && thread == hak_os_thread();
}

static bool passes(hak_lock_t *lock) {
    return hak_load_relaxed(&lock->state) >= KEPT && hak_lock_is_keeper();
}

HAK_SLOW_PATH void hak_lock_wait(hak_lock_t *lock) {
    if (passes(lock)) return;
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (hak_lock_take_free(lock)) return;
        hak_cpu_relax();
    }
    for (;;) {
        uint32_t seen = hak_load_relaxed(&lock->state);
        uint32_t waited = seen < KEPT ? WAITED : KEPT_WAITED;
        if (seen != waited && !hak_cas_acquire(&lock->state, &seen, waited)) continue;
        if (seen == FREE) return;
        hak_os_futex_wait(&lock->state, waited);
    }
}

static void open_and_wake(hak_lock_t *lock, uint32_t waited) {
    if (atomic_exchange_explicit(&lock->state, FREE, memory_order_release) == waited)
        hak_os_futex_wake(&lock->state, false);
}

/* Leaves a kept lock as it is: only the keeper can come here with one. */
HAK_SLOW_PATH void hak_lock_wake(hak_lock_t *lock) {
    if (hak_load_relaxed(&lock->state) < KEPT) open_and_wake(lock, WAITED);
}

void hak_lock_keep(hak_lock_t *lock) {
    HAK_RANK_FORGET(lock);
    hak_add_relaxed(&lock->state, KEEP);
}

void hak_lock_unkeep(hak_lock_t *lock) {
    open_and_wake(lock, KEPT_WAITED);
    hak_gate_leave();
}

static bool acquire_within(hak_lock_t *lock, unsigned *tries, bool apart) {
    while (!(apart ? hak_lock_try_apart(lock) : hak_lock_try(lock))) {
        if (*tries == 0) return false;
        --*tries;
        hak_os_sleep_ms(1);
    }
    return true;
}

bool hak_lock_acquire_within(hak_lock_t *lock, unsigned *tries) {
    return acquire_within(lock, tries, false);
}

bool hak_lock_acquire_apart_within(hak_lock_t *lock, unsigned *tries) {
    return acquire_within(lock, tries, true);
}

void hak_lock_let_fork_in(hak_lock_t *lock) {
    if (HAK_LIKELY(!hak_gate_is_awaited()) || hak_gate_thread.depth > 1) return;
    hak_lock_release(lock);
    hak_lock_acquire(lock);
}
