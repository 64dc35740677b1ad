/* huge_table.h: which huge blocks there are: tables from a block's start to its size. The start says in
 * which table a block is; each has a lock of its own.
 *
 * Open addressing, at most half full. The high bits of a hash say where a block stands, so a table twice as long has
 * the blocks in the same order: a walk goes by that. When it is full, a larger one is made without the lock and
 * takes its place; what the smaller one holds moves over a few entries at a time, with the blocks
 * that are entered. So nothing here that is done under the lock is as long as the table. Who enters or takes out the
 * block with which the smaller one is empty takes it out, and gives its pages back without the lock.
 *
 * A block that is taken out is entered in a ring in the same section, for the line about a second free.
 * So whoever does not find it in the table finds it there, unless HAK_FREED_MAX others went since.
 *
 * Everything is under the table's lock, but for the making of slots. */
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
    unsigned in_hand; /* blocks that room is kept for */
    hak_slots_t current;
    hak_slots_t former; /* its entries move to the current ones */
    size_t next_out;    /* below it, the former slots are empty */
    unsigned gone; /* blocks taken out so far; the last ones: a ring behind the current slots */
} HAK_ALIGNED(HAK_LINE) hak_huge_table_t;

enum {
    HAK_HUGE_TABLE_MAX = 128,
    HAK_FREED_MAX = 256, /* blocks taken out last that a table knows */
    HAK_HUGE_WALKED =
        512, /* slots that a walk looks at under one lock, and the rest of a cluster */
    HAK_HUGE_ORDER_BITS = 32, /* of a place in the order of a walk */
};

extern hak_huge_table_t hak_huge_table[HAK_HUGE_TABLE_MAX];

/* Tables in use: twice as many as CPUs when the first was needed, or a little more. */
unsigned hak_huge_table_count(void);

/* The table of a block that starts there. */
hak_huge_table_t *hak_huge_table_of(uintptr_t start);

/* NULL when no block starts there. Valid until the next call of put or remove. */
hak_mapping_t *hak_huge_table_find(hak_huge_table_t *table, uintptr_t start);

/* Number of slots that are needed to enter one more block; 0 when there is room. */
size_t hak_huge_table_wanted(const hak_huge_table_t *table);

/* So many slots, all free, and room for the ring; NULL in them without memory. Without the lock. */
hak_slots_t hak_huge_table_make(size_t count);

/* From now on those. Afterwards *slots are for the caller to give back: those before, if they are empty; the same
 * when there are as many in the table by now, or earlier ones are not empty yet. */
void hak_huge_table_use(hak_huge_table_t *table, hak_slots_t *slots);

/* Takes the slots out that have been emptied; none, with NULL in them, is the usual answer. At the end of each section
 * in which a block is entered or taken out: so none wait in a table. */
hak_slots_t hak_huge_table_take_empty(hak_huge_table_t *table);

/* Gives slots back that are in no table, or NULL in them. Makes a system call: without the lock. */
void hak_huge_table_unmake(hak_slots_t slots);

/* There is room for it. */
void hak_huge_table_put(hak_huge_table_t *table, hak_mapping_t mapping);

/* Takes a block out, and enters it in the ring. */
void hak_huge_table_remove(hak_huge_table_t *table, hak_mapping_t *mapping);

/* Size of the last block that was taken out and began there, 0 when it is not known. */
size_t hak_huge_table_freed_size(const hak_huge_table_t *table, uintptr_t start);

/* Takes a block out, but room is kept for it, until the caller puts it back, or lets the room go. */
void hak_huge_table_take_in_hand(hak_huge_table_t *table, hak_mapping_t *mapping);
void hak_huge_table_put_back(hak_huge_table_t *table, hak_mapping_t mapping);

/* Calls `visit` for some of the blocks, *at being 0 at first; false when it has been all of
 * them. The lock may be dropped between two calls: a block that is in the table all the while is visited
 * once, since the order is that of a hash of the start, not that of the slots, in which blocks move.
 * `visit` returns whether to go on. */
typedef bool (*hak_mapping_visitor_t)(const hak_mapping_t *mapping, void *context);
bool hak_huge_table_walk(hak_huge_table_t *table, size_t *at, hak_mapping_visitor_t visit,
                         void *context);
