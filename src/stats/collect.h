/* collect.h: reads the counters of all layers. */
#pragma once

#include "stats/stats.h"

/* Collects all figures. They are 11 KB, and a thread's stack may have no more than 16 KB, so there
 * is one static place for them: it belongs to the caller until hak_stats_end, and other callers
 * wait. In between the caller must call no code outside the library. */
const hak_stats_t *hak_stats_begin(void);
void hak_stats_end(void);

/* The same for a caller that may have interrupted any code, for instance exit() in a signal
 * handler. NULL when a lock is not free within a second: then the interrupted code probably holds
 * it, and the figures would be wrong. */
const hak_stats_t *hak_stats_try_begin(void);
