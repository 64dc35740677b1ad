/* range.h: which addresses are HAKMEM's own, and what lies there: for whoever explains a
 * process's resident memory from outside. */
#ifndef HAK_RANGE_H
#define HAK_RANGE_H

#include "base/base.h"

typedef enum {
    HAK_RANGE_HEAP,    /* units of 64 KiB */
    HAK_RANGE_RECORDS, /* map, descriptors, records */
    HAK_RANGE_HUGE,    /* huge blocks in use */
    HAK_RANGE_KEPT,    /* freed mappings, kept for reuse */
    HAK_RANGE_KINDS
} hak_range_kind_t;

typedef void (*hak_range_visitor_t)(void *context, hak_range_kind_t kind, const void *start,
                                    size_t size);

/* Each calls `visit` for its ranges, most of them under a lock: it must not allocate. */
void hak_region_each_range(hak_range_visitor_t visit, void *context);
void hak_meta_each_range(hak_range_visitor_t visit, void *context);
void hak_huge_each_range(hak_range_visitor_t visit, void *context);

#endif
