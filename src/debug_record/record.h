/* record.h: debug records of mid and large blocks (HAKMEM_HDR_LIGHT): the requested size, the place
 * of the call, and whether the block is in use.
 *
 * A superslab gets a table, outside itself, with its first such block. For each 2 KiB the table has
 * one word and, with call sites, an address. These blocks are longer than 2 KiB, so at most one
 * begins in each 2 KiB. A table is never freed, even when its superslab is unmapped, so any thread
 * may read any record at any time.
 *
 *   word = magic of the state << 32 | half of the block's start, counted in its 2 KiB << 22
 *          | requested size;   0 = no block with a record has begun here
 *
 * PROTOCOL. A record is opened by the thread that has just taken the block, before the
 * program gets it, and closed by the thread that frees the block, before it gives the block to a
 * shard or heap. So the record of a block that the program holds says "in use". Closing is a
 * compare-and-swap: of two racing frees one wins; the other is a double free and changes nothing.
 *  - Rejected: closing the record after the block was given back. Another thread may have got the
 *    block by then, and have opened the record.
 *  - Rejected: a load, then a store. Both of two racing frees would find "in use".
 * The locks of shards and heaps order the accesses to a word together with those to its block. A
 * record of a block that another thread holds is read for diagnosis only.
 *
 * With records, threads have no magazines for mid blocks, so each call for such a block gets here.
 * Before the options are known, full records are kept, since the blocks may be freed later. */
#pragma once

#include "base/base.h"
#include "region/superslab.h"

typedef enum {
    HAK_RECORDS_UNSETTLED, /* the options are not known yet; the same as FULL */
    HAK_RECORDS_FULL,
    HAK_RECORDS_LIGHT, /* no call sites */
    HAK_RECORDS_OFF,
} hak_records_t;

typedef enum {
    HAK_RECORD_NONE,
    HAK_RECORD_IN_USE,
    HAK_RECORD_FREE,
    HAK_RECORD_DAMAGED, /* the word was not written as a record of this block */
} hak_record_state_t;

typedef struct {
    hak_record_state_t state;
    size_t size;      /* requested size; valid for IN_USE and FREE, as is `site` */
    const void *site; /* return address of the call; NULL when unknown */
} hak_record_t;

extern _Atomic uint8_t hak_records; /* hak_records_t; constant once settled */

/* True when records are kept, or may be kept. The second function decides that as soon as the
 * options are known. */
HAK_FAST_PATH bool hak_records_on(void) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_records) != HAK_RECORDS_OFF);
}
HAK_SLOW_PATH bool hak_records_settle(void);

/* `block` is the start of a mid or large block, in all of these. */

/* The caller has taken the block, or resized it where it stands. Without memory for a
 * table the block has no record. */
void hak_record_open(const void *block, size_t size, const void *site);

/* The caller is about to free the block. Returns the state before: IN_USE when it is
 * closed now, anything else when nothing has changed. */
hak_record_state_t hak_record_close(const void *block);

hak_record_t hak_record_read(const void *block);

/* Errors that records have shown; the code that reports one counts it. */
extern _Atomic uint64_t hak_record_errors;

/* Records in use in a superslab. */
unsigned hak_record_count(const hak_superslab_t *super);

/* Bytes of all tables. */
size_t hak_record_bytes(void);
