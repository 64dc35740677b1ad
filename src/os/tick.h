/* tick.h: when a thread checks for due work (thread/purge_trigger.c).
 *
 * Each slow call adds its bytes and HAK_TICK_CALL to a counter of its thread. Above
 * HAK_TICK_INTERVAL the thread checks for work. hak_tick_hurry makes the next slow call check, and
 * notes the missing bytes as owed, so that the thread reads the clock no more often. A slow call
 * without due work costs one addition and one branch, and touches nothing shared.
 *
 * Owner thread only. A signal handler between two steps may make a check early or late. */
#pragma once

#include "base/base.h"

enum { HAK_TICK_CALL = 64 * 1024, HAK_TICK_INTERVAL = 64 * HAK_TICK_CALL };

typedef struct {
    uint32_t spent; /* bytes since the clock was last read; of one call at most an interval */
    uint32_t owed;  /* the part of `spent` that hak_tick_hurry added */
} hak_tick_t;

extern __thread hak_tick_t hak_tick;

/* True when the thread must check for due work. */
HAK_FAST_PATH bool hak_tick_spend(size_t size) {
    const uint32_t bytes = (uint32_t)hak_min(size, HAK_TICK_INTERVAL);
    return HAK_UNLIKELY((hak_tick.spent += bytes + HAK_TICK_CALL) > HAK_TICK_INTERVAL);
}

void hak_tick_hurry(void);

/* Subtracts what is owed. True when the thread must also read the clock: then a new interval
 * begins. */
bool hak_tick_settle(void);
