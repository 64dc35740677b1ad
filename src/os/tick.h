/* tick.h: how long a thread makes slow calls before it looks at what is due (thread/purge.c).
 *
 * Each slow call adds its bytes, and HAK_TICK_CALL for itself; above HAK_TICK_INTERVAL the thread
 * looks. Who notes something that does not wait that long hurries: the thread's next tick is a
 * look, and what it lacked is owed, so that looks at the clock become no more frequent. So a
 * call that finds nothing due is one addition and one branch, and touches nothing that is shared.
 *
 * A thread's own; a signal handler between two steps may make a look come early or late. */
#ifndef HAK_TICK_H
#define HAK_TICK_H

#include "base/base.h"

enum { HAK_TICK_CALL = 64 * 1024, HAK_TICK_INTERVAL = 64 * HAK_TICK_CALL };

typedef struct {
    size_t spent; /* since the last look at the clock */
    size_t owed;  /* of that, what was not */
} hak_tick_t;

extern __thread hak_tick_t hak_tick;

/* True when the thread shall look. */
HAK_FAST_PATH bool hak_tick_spend(size_t size) {
    return HAK_UNLIKELY((hak_tick.spent += size + HAK_TICK_CALL) > HAK_TICK_INTERVAL);
}

void hak_tick_hurry(void);

/* Takes back what is owed; true when the clock is due, too, and starts its next interval. */
bool hak_tick_settle(void);

#endif
