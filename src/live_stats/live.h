/* live.h: makes the live page and keeps it up to date (HAKMEM_LIVE=1).
 *
 * The page is refreshed about every 250 ms, less often if that would take more than 1 % of the
 * time. The helper thread does it (thread/helper_thread.c); slow calls do it if there is no helper,
 * because an option forbids it, the program has no threads yet, or the system refuses one. The
 * fast paths never do it. */
#pragma once

#include "base/base.h"

/* Whether the page is wanted; constant after start. */
extern _Atomic bool hak_live_on;

/* Makes the page. Called once, before main, when the option is set. If the system refuses, the
 * process goes on without a page. */
HAK_SLOW_PATH void hak_live_start(void);

/* Gives the page and its file back, before the code of this library goes. */
void hak_live_forsake(void);

/* Notes the size that a slow call of malloc requests. Any thread calls it. */
HAK_SLOW_PATH void hak_live_note_request(size_t size);
