/* purge.h: the pool's free units go back to the system; pool.h says when. */
#pragma once

#include "pool/purge_budget.h"

/* Purges units that have been free for longer than `delay_ms`, as far as the budget allows; returns
 * their number. Superslabs with slabs in use wait for a round of partial release, unless `all` is
 * set. If the budget is not spent afterwards, no such unit is left. */
size_t hak_pool_purge_piece(uint32_t delay_ms, bool all, hak_budget_t *budget);

/* The watcher is a function of a higher layer. It is called for units of a superslab, a bit each, whose pages have gone
 * back, before any thread can take them. Set once. */
typedef void (*hak_purge_pages_watcher_t)(hak_superslab_t *super, uint32_t units);
void hak_pool_set_purge_watcher(hak_purge_pages_watcher_t watcher);

/* Milliseconds from one round of partial release to the next while no slab is taken or given; 0
 * when there are no rounds. */
uint64_t hak_pool_round_ms(void);

/* Unmaps wholly free superslabs, except those that the region keeps mapped. For a process whose
 * address space is limited. Returns bytes. */
size_t hak_pool_unmap_free(void);

/* Count slab events, which end epochs: a slab was taken; a slab was given back at `now`, which
 * may make a round of partial release due. Lock held. */
void hak_pool_count_taken(void);
void hak_pool_count_given(uint64_t now);
