/* record.h: debug records of mid and large blocks (HAKMEM_HDR_LIGHT): who asked for how
 * many bytes, and whether the block is in use.
 *
 * A superslab gets a table beside it with its first such block: one word, and with call
 * sites one address more, for each 2 KiB. These blocks are longer than that, so at most
 * one begins in each. A table is never given back, and stays where its superslab is
 * unmapped and mapped again; so anyone may look at any record at any time.
 *
 *   word = magic of its state << 32 | start, counted in its 2 KiB << 21 | size asked for
 *   0    = no block with a record has begun here
 *
 * PROTOCOL. A record is opened by the thread that has just taken the block, before the
 * program gets it, and closed by the one that frees it, before the block goes anywhere.
 * So of a block that the program holds it says "in use". Closing is a compare-and-swap:
 * of two racing frees one wins, and the other is a double free and touches nothing.
 *  - Rejected: to close after the block was given. Another thread may have it by then,
 *    and have opened it.
 *  - Rejected: to look, and then store. Both of two racing frees would find "in use".
 * Each word is passed on with its block, by the locks of shards and heaps; what is read
 * of a block in other hands is for diagnosis only.
 *
 * With records threads have no rings of mid blocks, so each of their calls gets here. As
 * long as the options are not known, records are kept in full: what was allocated by then
 * may be freed when they are. */
#ifndef HAK_RECORD_H
#define HAK_RECORD_H

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
    HAK_RECORD_DAMAGED, /* what stands there was not written as a record of this block */
} hak_record_state_t;

typedef struct {
    hak_record_state_t state;
    size_t size;      /* asked for; of IN_USE and FREE, as the next */
    const void *site; /* address behind the call, NULL when it is not known */
} hak_record_t;

extern _Atomic uint8_t hak_records; /* hak_records_t; constant once settled */

/* True when records are kept, or may be; the second settles that, once the options are
 * known. */
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

/* Errors that records have shown; whoever reports one counts it. */
extern _Atomic uint64_t hak_record_errors;

/* Records in use in a superslab. */
unsigned hak_record_count(const hak_superslab_t *super);

/* Bytes of all tables. */
size_t hak_record_bytes(void);

#endif
