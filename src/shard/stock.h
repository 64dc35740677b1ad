/* stock.h: units that a shard has and no bin: untouched ones, taken from the pool ahead of need, and former slabs.
 *
 * While a heap grows, each shard takes slabs of its own, and on a large machine all of them wait for the
 * pool's lock. So a shard that has slabs already takes a few units more under that lock, as long as they
 * were never touched: they have no pages. They lie in its stock until it needs them, or until the next
 * pass (thread/purge_trigger.c) gives them back. The first shards have stocks once there are others (hak_shard_is_plain):
 * small processes have none.
 *
 * Slabs that a program leaves for other classes go to a second list, a few of them, and become the shard's next
 * slabs: by way of the pool they would go to another CPU, with all the lines that this one has of them.
 *
 * PROTOCOL of either list
 *
 *   K1  list = first.exchange(NULL): the units are this thread's
 *   K2  CAS of `first`, NULL -> what is left of the list. A thread that loses gives it back to the pool
 *
 * While nobody makes passes, since the helper sleeps (thread/helper_thread.c), former slabs would stay. So it closes the stocks
 * before its last look at what is left:
 *
 *   C1  closed = true; fence; every stock goes to the pool
 *   C2  who has kept former slabs: fence; if closed, all of the list go to the pool. Either the helper finds them, or
 *       the thread sees that the stocks are closed
 *
 * A plain shard may become one with a stock meanwhile: then C1 may pass it over. But a thread in C2 that sees the stock
 * open has seen the shard's new state before its fence, so the helper sees it behind its own.
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
} hak_stock_t;

/* As hak_pool_take_units, from the stock of the shard, if that is not empty. *drawn: units
 * that left the pool, those that are in the stock now included; *grown: for them the heap has grown. Inside the gate. */
unsigned hak_stock_take(unsigned shard, unsigned want, hak_unit_t **units, bool *zeroed,
                        unsigned *drawn, bool *grown);

/* True when the shard has former slabs. No lock: a hint. */
bool hak_stock_has_former(unsigned shard);

/* Keeps some units of a list of former slabs, which belong to no bin; the others go to the pool. Inside the gate. */
void hak_stock_keep(unsigned shard, hak_unit_t *list);

/* Gives the stock back to the pool. */
void hak_stock_release(unsigned shard);

/* Gives every stock back, and until they are opened none keeps former slabs. One thread calls both. */
extern _Atomic bool hak_stock_closed; /* atomic */
void hak_stock_close(void);
void hak_stock_open(void);
