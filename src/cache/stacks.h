/* stacks.h: memory for the stacks of a cache's magazines.
 *
 * A cache cuts its stacks out of chunks of records (meta/meta.h), and a stack that one of its
 * magazines gave up serves another. So it takes the lock of the process once a chunk, not once a
 * stack. A chunk is as long as all chunks before it, up to a limit: few blocks need few bytes. */
#pragma once

#include "base/base.h"

/* The stacks of a cache; NULL before the first one. The owner of the cache reads and writes them. */
typedef struct hak_stacks hak_stacks_t;

/* A stack of `slots` slots, a power of two from 2 to 2048, for a thread at home in a shard; its contents are undefined.
 * NULL when there is no memory. */
void **hak_stacks_take(hak_stacks_t **stacks, unsigned shard, unsigned slots);

/* `slots` as in the request. */
void hak_stacks_put(hak_stacks_t *stacks, void **stack, unsigned slots);
