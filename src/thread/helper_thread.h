/* helper_thread.h: the helper thread that gives memory back while the program does not call. */
#pragma once

#include "base/base.h"

enum { HAK_HELPER_ASLEEP = 3 };
extern _Atomic uint32_t hak_helper_state;

/* Starts the helper if the program has threads and the heap is large; the second one for a watcher (purge_trigger.h),
 * whatever the heap. */
void hak_helper_start(void);
void hak_helper_start_early(void);

/* Wakes the helper if much memory waits to be purged, or no thread counts any more; see hak_helper_wake. */
void hak_helper_wake_up(void);

/* The program is active: the helper makes a round. The second: there is work that cannot wait for the next round. */
void hak_helper_note(void);
void hak_helper_urge(void);

/* In the child of a fork, which has no helper; the second also in a child without fork handlers, where it forgets the
 * parent's helper. */
void hak_helper_forget(void);
void hak_helper_look_whose(void);

/* A thread that no longer counts is about to end: if none counts any more, the helper ends before it. */
void hak_helper_outlive(void);

/* True while there is a helper: the calls of the program then leave purge work to it. In a child without fork handlers
 * the first stays true until a call has noted work; the second finds out whose helper it is. */
bool hak_helper_runs(void);
bool hak_helper_is_here(void);

/* Wakes the helper thread if it sleeps. The caller has changed something under a lock and released the lock. Without
 * the fence, two threads might each free a part of the memory that justifies a wake-up, and each miss the other's part.
 * On x86-64 the release of the lock is the fence: each free of a large block calls this, and another fence would wait
 * for all stores of the program. */
HAK_FAST_PATH void hak_helper_wake(void) {
    hak_fence_after_update();
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_helper_state) == HAK_HELPER_ASLEEP))
        hak_helper_wake_up();
}
