/* live.h: HAKMEM_LIVE=1: makes the live page and keeps it up to date.
 *
 * Refreshed about every 250 ms, and less often where that would take more than 1 % of the
 * time: by the helper thread (thread/purger.c), or by slow calls where the program is not
 * allowed a thread, has none yet, or the system refuses one. Never by a fast call. */
#ifndef HAK_LIVE_H
#define HAK_LIVE_H

#include "base/base.h"

/* Whether the page is wanted; constant after start. */
extern bool hak_live_on;

/* Makes the page. Called once, before main, when the option is set. Where the system
 * refuses, the process goes on without a page. */
HAK_SLOW_PATH void hak_live_start(void);

/* Notes what a slow call of malloc is asked for. */
HAK_SLOW_PATH void hak_live_note_request(size_t size);

#endif
