/* tick.c: the rarely called functions of tick.h. */
#include "os/tick.h"

__thread hak_tick_t hak_tick;

void hak_tick_hurry(void) {
    if (hak_tick.spent >= HAK_TICK_INTERVAL) return;
    hak_tick.owed += HAK_TICK_INTERVAL - hak_tick.spent;
    hak_tick.spent = HAK_TICK_INTERVAL;
}

bool hak_tick_settle(void) {
    hak_tick.spent -= hak_min(hak_tick.owed, hak_tick.spent);
    hak_tick.owed = 0;
    if (hak_tick.spent <= HAK_TICK_INTERVAL) return false;
    hak_tick.spent = 0;
    return true;
}
