/* helper_thread.h: the helper thread that gives memory back while the program does not call. */
#pragma once

#include "base/base.h"

/* The helper thread that purges. It is started when the heap is large, and woken when much memory waits to be purged or
 * no thread is left; the child of a fork has none. */
enum { HAK_HELPER_ASLEEP = 3 };
extern _Atomic uint32_t hak_helper_state;
void hak_helper_start(void);
void hak_helper_wake_up(void);
void hak_helper_note(void); /* the program is active: a look is due once it is idle */
void hak_helper_urge(void); /* there is work that cannot wait for the next round */
void hak_helper_forget(void);
void hak_helper_look_whose(
    void); /* in the child of a clone without fork handlers: forgets the parent's */
/* A thread that no longer counts is about to end: if none counts any more, the helper ends before it. */
void hak_helper_outlive(void);

/* Wakes the helper thread if it sleeps. The caller has changed something under a lock and released the lock. Without
 * the fence, two threads might each free a part of the memory that justifies a wake-up, and each miss the other's part.
 * On x86-64 the release of the lock is the fence: each free of a large block calls this, and another fence would wait
 * for all stores of the program. */
HAK_FAST_PATH void hak_helper_wake(void) {
    hak_fence_after_update();
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_helper_state) == HAK_HELPER_ASLEEP))
        hak_helper_wake_up();
}
void hak_helper_start_early(void); /* for a watcher, see purge_trigger.h */
bool hak_helper_runs(
    void); /* what calls go by; in a child without fork handlers true until one of them notes work */
bool hak_helper_is_here(void);
