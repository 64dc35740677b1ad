/* range.h: what a range of HAKMEM's own addresses holds. The layers that own ranges show them
 * (`..._each_range`) to code that explains a process's resident memory from outside. */
#pragma once

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
