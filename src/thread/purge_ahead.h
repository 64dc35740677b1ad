/* purge_ahead.h: how much free memory a program without a helper thread keeps; purge_ahead.c says why. */
#pragma once

#include "base/base.h"

/* Bytes by which free memory with pages exceeds what may be kept, 0 if that is little; computed from sums that are
 * slightly out of date. */
size_t hak_purge_ahead_excess(void);

/* True when the program was emptying its heap at the last look (purge_ahead.c says how that shows), and more was committed
 * than may be kept. */
bool hak_purge_ahead_falls(void);

/* True when, at the last look, memory in use had stayed about the same for PURGE_DELAY_MS and had not risen since: then
 * allocations give memory back, too. */
bool hak_purge_ahead_rests(void);

/* True when the last look was some time ago, or much has changed since; a hint. */
bool hak_purge_ahead_is_due(uint64_t now_ms);

/* Looks at memory in use, and computes anew how much may be kept. Called by the owner of purge work
 * (purge_trigger.c). */
void hak_purge_ahead_look(uint64_t now_ms);

/* Notes that calls have given so many bytes back ahead of time. Called by the owner. */
void hak_purge_ahead_gave(size_t bytes);

/* In the child of a fork. */
void hak_purge_ahead_forget(void);
