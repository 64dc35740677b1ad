/* lazy_table.h: tables of records that are made at their first use.
 *
 * A record is found by its number, without a lock. It never moves and is never freed, so a thread
 * may keep its address. The first records may be static memory: making them cannot fail, and a
 * small process pays nothing for the others.
 *
 * PROTOCOL of a record
 *
 *   M1  memory that is zero, and that no other thread knows of
 *   M2  end = the number + 1, unless it is larger already
 *   M3  CAS of the place, NULL -> the record, with release. A thread that loses gives its memory
 *       back and uses the winner's record
 *   R   a load of the place, with acquire: NULL, or a record as it was at M3 or as its users left
 *       it
 *
 * M1 to M3 are made inside the gate (os/gate.h): the child of a fork has the record in the table, or its memory among
 * the free records.
 *
 * A walk over the table goes up to `end`. It may miss a record that is being made, which is still
 * empty.
 *
 * Rejected:
 *  - M3 before M2: a thread could hold a lock of a record that no walk finds. The check of lock
 *    ranks (os/lock_rank.h) finds a lock's rank by such a walk.
 *  - addresses for all records at once: mlockall also counts unused addresses. */
#pragma once

#include "base/base.h"

enum { HAK_LAZY_TABLE_MOST = 256 };

typedef struct {
    _Atomic unsigned end; /* atomic; no record from here on is made; only grows */
    _Atomic(void *) places[HAK_LAZY_TABLE_MOST]; /* atomic; NULL until the record is made */
} HAK_ALIGNED(HAK_LINE) hak_lazy_table_t;

/* R. */
HAK_FAST_PATH void *hak_lazy_table_at(const hak_lazy_table_t *table, unsigned number) {
    return hak_load_acquire(&table->places[number]); /* partner: M3 */
}

/* The record, which is made if it is not there. `own`: static memory for it, or NULL. Returns NULL
 * without memory. */
void *hak_lazy_table_open(hak_lazy_table_t *table, unsigned number, void *own, size_t size);

/* The first record from `number` on that is made; HAK_LAZY_TABLE_MOST at the end. */
unsigned hak_lazy_table_next(const hak_lazy_table_t *table, unsigned number);

/* The next made record after `number`, from 0 again at the end; `number` itself when there is no
 * other. */
unsigned hak_lazy_table_after(const hak_lazy_table_t *table, unsigned number);

/* The same among those from `first` on, below `end`; `number` is one of them. */
unsigned hak_lazy_table_after_within(const hak_lazy_table_t *table, unsigned number, unsigned first,
                                     unsigned end);

/* True when a lock is one of the `count` locks, `stride` bytes apart, that each record has from
 * `offset` on. */
bool hak_lazy_table_has(const hak_lazy_table_t *table, const void *lock, size_t offset,
                        size_t count, size_t stride);
