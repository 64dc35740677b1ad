/* lock.c: the waiting half of the lock; the protocol is in lock.h. */
#include "os/lock.h"

#include "os/os.h"

enum { SPIN_COUNT = 100 };

HAK_SLOW_PATH void hak_lock_wait(hak_lock_t *lock) {
    for (int i = 0; i < SPIN_COUNT; i++) {
        if (hak_lock_try(lock)) return;
        hak_cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->state, 2, memory_order_acquire) != 0)
        hak_os_futex_wait(&lock->state, 2);
}

HAK_SLOW_PATH void hak_lock_wake(hak_lock_t *lock) { hak_os_futex_wake(&lock->state, false); }
