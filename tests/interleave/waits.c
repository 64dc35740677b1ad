/* waits.c: the waiting half of the lock as the explorer's own; the real one has a checker by itself. */
#include "explore.h"
#include "memory.h"
#include "os/lock.h"

static bool is_free(const void *lock) { return ((const hak_lock_t *)lock)->state == 0; }

void hak_lock_wait(hak_lock_t *lock) {
    explore_await(is_free, lock);
    lock->state = 2;
    memory_atomic_end(&lock->state, "lock after a wait", true, true, __ATOMIC_ACQUIRE, 0, 2);
}

void hak_lock_wake(hak_lock_t *lock) {
    memory_atomic_begin(&lock->state, sizeof lock->state);
    lock->state = 0;
    memory_atomic_end(&lock->state, "release after a wait", true, true, __ATOMIC_RELEASE, 2, 0);
}
