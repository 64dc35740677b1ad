/* block.h: classifies a pointer, and reports one that is not a block.
 *
 * The hot paths of malloc and free do not use it. */
#ifndef HAK_BLOCK_H
#define HAK_BLOCK_H

#include "base/base.h"
#include "region/unit.h"

typedef enum {
    HAK_KIND_CACHED,  /* block of a size class */
    HAK_KIND_RUN,     /* large block */
    HAK_KIND_HUGE,    /* huge block: a mapping of its own */
    HAK_KIND_FREED,   /* in memory of HAKMEM that is not in use */
    HAK_KIND_INSIDE,  /* in a block, not at its start */
    HAK_KIND_FOREIGN, /* not in HAKMEM's memory */
} hak_kind_t;

typedef struct {
    hak_kind_t kind;
    unsigned class_index; /* of CACHED */
    hak_unit_t *slab;     /* of CACHED */
    void *start;          /* of the block; NULL when FREED or FOREIGN */
    size_t size;          /* usable bytes; 0 when FOREIGN, or when FREED and the size is unknown */
} hak_block_t;

hak_block_t hak_block_of(const void *pointer);

/* Reports a pointer that is not the start of a block in use. */
HAK_SLOW_PATH void hak_block_report(const char *function, const void *pointer,
                                    const hak_block_t *block);

/* Debug records (record/record.h). These functions do nothing while no records are kept, and for
 * blocks that have none. The last three report an error and return false; the caller then ignores
 * the call. */

/* Records that the program gets the block at `start` for `size` bytes, or keeps it for a new size.
 * Returns `start`, which may be NULL. */
HAK_SLOW_PATH void *hak_block_record(void *start, size_t size, const void *site);

/* Records that the block is freed; false when it was not in use. */
HAK_SLOW_PATH bool hak_block_close(const char *function, const hak_block_t *block);

/* True when the block is in use. */
HAK_SLOW_PATH bool hak_block_is_open(const char *function, const hak_block_t *block);

/* True when the block was requested with this size, and for a pointer that is not a block in
 * use. */
HAK_SLOW_PATH bool hak_block_has_size(const char *function, const void *pointer, size_t size);

/* Reports a free of memory that is already free. */
HAK_SLOW_PATH void hak_block_report_double(const char *function, const void *pointer);

HAK_FAST_PATH bool hak_block_usable(const hak_block_t *block) {
    return block->kind <= HAK_KIND_HUGE;
}

#endif
