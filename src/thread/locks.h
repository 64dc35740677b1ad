/* locks.h: all locks of the engine at once, for whoever must have everything at rest.
 *
 * They are kept (os/lock.h): the caller may call what locks as if nothing was locked, and all
 * others wait. Warm slabs (shard/warm.h) are claimed meanwhile: what is freed into them goes the
 * remote way, and their thread takes blocks from elsewhere. Two such callers cannot meet, since
 * the first lock decides. */
#ifndef HAK_LOCKS_H
#define HAK_LOCKS_H

#include "base/base.h"

/* False, and none, when one, or a warm slab, is not to be had within `tries` milliseconds. */
bool hak_locks_keep_within(unsigned tries);

void hak_locks_let_go(void);

#endif
