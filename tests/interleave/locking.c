/* locking.c: a lock taken in steps that the explorer sees: this file is instrumented, world.c is
 * not. */
#include "world.h"

bool world_lock(hak_lock_t *lock, void *unused) {
    (void)unused;
    hak_lock_acquire(lock);
    return true;
}
