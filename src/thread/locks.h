/* locks.h: all locks of the engine at once, for whoever must have everything at rest.
 *
 * They are kept (os/lock.h): the caller may call what locks as if nothing was locked, and
 * all others wait. Warm slabs (shard/warm.h) are claimed meanwhile: what is freed into them goes
 * the remote way, and their thread takes blocks from elsewhere. Two such callers cannot meet, since the first lock decides. */
#ifndef HAK_LOCKS_H
#define HAK_LOCKS_H

#include "base/base.h"

/* Waits for all locks but those of caches' stacks, which belong to threads that a fork leaves
 * behind. */
void hak_locks_keep(void);

/* All of them; false, and none, when one, or a warm slab, is not to be had within `tries`
 * milliseconds. */
bool hak_locks_keep_within(unsigned tries);

/* What either has taken. */
void hak_locks_let_go(void);

/* In the child of a fork: all are free; the claims on warm slabs are left as they are. */
void hak_locks_reset(void);

#endif
