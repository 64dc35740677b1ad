/* block.h: what a pointer is, and what to say when it is not a block.
 *
 * For everything but the hot paths of malloc and free. */
#ifndef HAK_BLOCK_H
#define HAK_BLOCK_H

#include "base/base.h"
#include "region/unit.h"

typedef enum {
    HAK_KIND_CACHED,  /* block of a size class */
    HAK_KIND_RUN,     /* large block */
    HAK_KIND_HUGE,    /* mapping of its own */
    HAK_KIND_FREED,   /* in memory of ours that is not in use */
    HAK_KIND_INSIDE,  /* in a block, not at its start */
    HAK_KIND_FOREIGN, /* not ours */
} hak_kind_t;

typedef struct {
    hak_kind_t kind;
    unsigned class_index; /* of CACHED */
    hak_unit_t *slab;     /* of CACHED */
    void *start;          /* of the block; NULL when FREED or FOREIGN */
    size_t size;          /* usable bytes; 0 when FOREIGN, or FREED and not known */
} hak_block_t;

hak_block_t hak_block_of(const void *pointer);

/* Reports a pointer that is not the start of a block in use. */
HAK_SLOW_PATH void hak_block_report(const char *function, const void *pointer,
                                    const hak_block_t *block);

/* What is done with a debug record (region/record.h), while records are kept; nothing for
 * blocks that have none. The last three report what is wrong, and are false then: the
 * call is to be ignored. */

/* Returns `start`, a block that the program gets for `size` bytes, or keeps for another
 * size; or NULL. */
HAK_SLOW_PATH void *hak_block_record(void *start, size_t size, const void *site);

/* The block is about to be freed. */
HAK_SLOW_PATH bool hak_block_close(const char *function, const hak_block_t *block);

/* Is it in use? */
HAK_SLOW_PATH bool hak_block_is_open(const char *function, const hak_block_t *block);

/* Was it asked for with this size? True for what is no block in use at all. */
HAK_SLOW_PATH bool hak_block_has_size(const char *function, const void *pointer, size_t size);

/* Reports a block that was free already. */
HAK_SLOW_PATH void hak_block_report_double(const char *function, const void *pointer);

HAK_FAST_PATH bool hak_block_usable(const hak_block_t *block) {
    return block->kind <= HAK_KIND_HUGE;
}

#endif
