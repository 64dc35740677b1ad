/* huge_table.h: the existing huge blocks: tables from a block's start to its size. The start determines the table of a
 * block; each table has a lock of its own.
 *
 * The tables use open addressing and are at most half full. The high bits of a hash give the place of a block, so a
 * table twice as long has the blocks in the same order; a walk follows this order. When a table is full, a larger one
 * is made without the lock and replaces it. The entries of the smaller one move over a few at a time, whenever a block
 * is entered. So no step under the lock is as long as the table. The thread that enters or takes out the block with
 * which the smaller table becomes empty removes that table, and gives its pages back without the lock.
 *
 * A block that is taken out is entered in a ring in the same lock section, for the error line of a second free. So a
 * thread that does not find the block in the table finds it in the ring, unless HAK_FREED_MAX other blocks have been
 * taken out since.
 *
 * Everything is done under the table's lock, except making slots. */
#pragma once

#include "base/base.h"
#include "os/lock.h"

typedef struct {
    uintptr_t start; /* 0: a free slot */
    size_t size;
    uint64_t note; /* see hak_huge_note; 0 for none */
} hak_mapping_t;

typedef struct {
    hak_mapping_t *slots;
    unsigned size; /* a power of two, or 0 */
    unsigned used;
} hak_slots_t;

/* All under the lock. */
typedef struct {
    hak_lock_t lock;
    unsigned in_hand; /* blocks for which room is kept */
    hak_slots_t current;
    hak_slots_t former; /* its entries move to the current ones */
    size_t next_out;    /* below it, the former slots are empty */
    unsigned gone;      /* blocks taken out so far; the last are in the ring behind `current` */
} HAK_ALIGNED(HAK_LINE) hak_huge_table_t;

enum {
    HAK_HUGE_TABLE_MAX = 128,
    HAK_FREED_MAX = 256, /* blocks in the ring of a table */
    HAK_HUGE_WALKED =
        512, /* slots that a walk looks at in one lock section, beside the rest of a cluster */
    HAK_HUGE_ORDER_BITS = 32, /* bits of a block's place in the order of a walk */
};

extern hak_huge_table_t hak_huge_table[HAK_HUGE_TABLE_MAX];

/* Tables in use: twice as many as there were CPUs when the first table was needed, rounded up to a power of two, at
 * most HAK_HUGE_TABLE_MAX. */
unsigned hak_huge_table_count(void);

/* The table of a block that starts there. */
hak_huge_table_t *hak_huge_table_of(uintptr_t start);

/* NULL when no block starts there. Valid until the next call of put or remove. */
hak_mapping_t *hak_huge_table_find(hak_huge_table_t *table, uintptr_t start);

/* Number of slots that are needed to enter one more block; 0 when there is room. */
size_t hak_huge_table_wanted(const hak_huge_table_t *table);

/* Makes `count` free slots and room for the ring; without memory `slots` is NULL in the result. Without the lock. */
hak_slots_t hak_huge_table_make(size_t count);

/* The table uses *slots from now on. Afterwards *slots has what the caller must give back without the lock: the former
 * slots, if they are empty; or the same slots, if the table has as many by now or its former ones are not empty yet. */
void hak_huge_table_use(hak_huge_table_t *table, hak_slots_t *slots);

/* Takes the former slots out of the table if they have become empty; otherwise `slots` is NULL in the result. Called at
 * the end of each lock section in which a block is entered or taken out, so a table never keeps empty slots. */
hak_slots_t hak_huge_table_take_empty(hak_huge_table_t *table);

/* Gives back slots that are in no table; `slots.slots` may be NULL. May make a system call, so without the lock. */
void hak_huge_table_unmake(hak_slots_t slots);

/* Enters a block; the table has room for it. */
void hak_huge_table_put(hak_huge_table_t *table, hak_mapping_t mapping);

/* Takes a block out, and enters it in the ring. */
void hak_huge_table_remove(hak_huge_table_t *table, hak_mapping_t *mapping);

/* Size of the last block that began there and was taken out; 0 if it is not known. */
size_t hak_huge_table_freed_size(const hak_huge_table_t *table, uintptr_t start);

/* The first takes a block out but keeps room for it; the second puts it back. A caller that does not put it back gives
 * up the room (in_hand). */
void hak_huge_table_take_in_hand(hak_huge_table_t *table, hak_mapping_t *mapping);
void hak_huge_table_put_back(hak_huge_table_t *table, hak_mapping_t mapping);

/* Calls `visit` for some of the blocks; *at is 0 at first; false when all blocks have been visited. The lock may be
 * released between two calls: a block that is in the table all the time is visited once, because the order follows a
 * hash of the start, not the slots, in which blocks move. `visit` returns whether to continue. */
typedef bool (*hak_mapping_visitor_t)(const hak_mapping_t *mapping, void *context);
bool hak_huge_table_walk(hak_huge_table_t *table, size_t *at, hak_mapping_visitor_t visit,
                         void *context);
