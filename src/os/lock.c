/* lock.c: the slow paths of the lock; the protocol is in lock.h. */
#include "os/lock.h"

#include "os/os.h"

enum { SPIN_COUNT = 100 };
enum { FREE = 0, WAITED = 2 };

HAK_SLOW_PATH void hak_lock_wait(hak_lock_t *lock) {
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (hak_lock_take_free(lock)) return;
        hak_cpu_relax();
    }
    for (;;) {
        uint32_t seen = hak_load_relaxed(&lock->state);
        if (seen != WAITED && !hak_cas_acquire(&lock->state, &seen, WAITED)) continue;
        if (seen == FREE) return;
        hak_os_futex_wait(&lock->state, WAITED);
    }
}

HAK_SLOW_PATH void hak_lock_wake(hak_lock_t *lock) {
    if (atomic_exchange_explicit(&lock->state, FREE, memory_order_release) == WAITED)
        hak_os_futex_wake(&lock->state, false);
}

bool hak_lock_acquire_apart_within(hak_lock_t *lock, unsigned *tries) {
    for (; !hak_lock_try_apart(lock); --*tries) {
        if (*tries == 0) return false;
        hak_os_sleep_ms(1);
    }
    return true;
}

void hak_lock_let_fork_in(hak_lock_t *lock) {
    if (HAK_LIKELY(!hak_gate_is_awaited()) || hak_gate_thread.depth > 1) return;
    hak_lock_release(lock);
    hak_lock_acquire(lock);
}
