/* lock.c: the slow paths of the lock; the protocol is in lock.h. */
#include "os/lock.h"

#include "os/os.h"

enum { SPIN_COUNT = 100 };
enum { PAUSE_MOST = 16 }; /* calls of hak_cpu_relax between two looks */
enum { FREE = 0, WAITED = 2 };

/* Backs off while it spins: each look takes the cache line from the CPU that holds the lock, and
 * all spinning threads compete for a lock that becomes free. */
HAK_SLOW_PATH void hak_lock_wait(hak_lock_t *lock) {
    for (size_t left = SPIN_COUNT, pause = 1; left; left -= hak_min(left, pause)) {
        if (hak_lock_take_free(lock)) return;
        for (size_t i = 0; i < pause; i++) hak_cpu_relax();
        pause = hak_min(2 * pause, PAUSE_MOST);
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
