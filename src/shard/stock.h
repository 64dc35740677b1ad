/* stock.h: units that belong to a shard but to none of its bins: untouched units, taken from the pool ahead of need,
 * and former slabs.
 *
 * While a heap grows, each shard takes slabs of its own, and on a large machine all of them wait for the
 * pool's lock. So a shard takes more units under that lock, as long as they were never touched: they have no pages.
 * They are those of a whole line of the map (region/region.h). Each free reads such a line, and each slab that comes or
 * goes writes to it: shards that had units in one line would take it from each other. The units lie in the shard's
 * stock until it needs them, or until the next pass (thread/purge_trigger.c) gives them back. The first shards have
 * stocks once there are others (hak_shard_is_plain): small processes have none.
 *
 * When a program leaves a class for others, a few of its slabs go to a second list and become the shard's next slabs.
 * By way of the pool they would go to another CPU, although their lines are in this CPU's cache.
 *
 * PROTOCOL of either list
 *
 *   K1  list = first.exchange(NULL): the units are this thread's
 *   K2  CAS of `first`, NULL -> the rest of the list. If the CAS fails, the thread gives the rest back to the pool
 *
 * While the helper sleeps (thread/helper_thread.c), no thread makes passes, and former slabs would stay. So the helper
 * closes the stocks before its last look for memory to give back:
 *
 *   C1  closed = true; fence; every stock goes to the pool
 *   C2  a thread that has kept former slabs: fence; if closed, the whole list goes to the pool. Either the helper finds
 *       them, or the thread sees that the stocks are closed
 *
 * A plain shard may become one with a stock meanwhile: then C1 may pass it over. But a thread in C2 that sees the stock
 * open has seen the shard's new state before its fence, so the helper sees that state after its own fence.
 *
 * A thread stands between K1 and K2 inside the gate (os/gate.h), so the child of a fork loses nothing.
 *
 * Rejected: to take one unit off the list, which another thread may take and put back meanwhile (ABA). */
#pragma once

#include "base/base.h"
#include "region/unit.h"

typedef _Atomic(hak_unit_t *) hak_stock_list_t; /* atomic; units that are linked by `next` */

typedef struct {
    hak_stock_list_t untouched, former;
    _Atomic bool is_counted; /* atomic; in hak_pool_stats.stocks; once true it stays so */
} hak_stock_t;

/* As hak_pool_take_units, but from the stock of the shard if that is not empty. *drawn: units that left the pool,
 * including those that are now in the stock; *grown: whether the heap has grown for them. Inside the gate. */
unsigned hak_stock_take(unsigned shard, unsigned want, hak_unit_t **units, bool *zeroed,
                        unsigned *drawn, bool *grown);

/* True when the shard has former slabs. No lock: a hint. */
bool hak_stock_has_former(unsigned shard);

/* Keeps some units of a list of former slabs, which belong to no bin; the others go to the pool. Inside the gate. */
void hak_stock_keep(unsigned shard, hak_unit_t *list);

/* Gives the stock back to the pool. */
void hak_stock_release(unsigned shard);

/* Gives every stock back; until the stocks are opened again, none keeps former slabs. One thread calls both. */
extern _Atomic bool hak_stock_closed; /* atomic */
void hak_stock_close(void);
void hak_stock_open(void);
