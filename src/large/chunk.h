/* chunk.h: the record of a chunk (fine.h), for those who cut it and who check it. */
#pragma once

#include "large/fine.h"

/* The descriptors of its units lead to it by `bits`. All but the constants under the lock of its heap. */
typedef struct hak_fine {
    hak_ring_t age; /* in the ring of its heap */
    struct hak_fine *next, *prev;
    hak_unit_t *units;
    uint64_t *in_use, *begins;
    uint32_t used, longest; /* grains */
    uint32_t hint;          /* where the next search begins */
    uint32_t grains;        /* constant, as the next two */
    uint8_t unit_count, shift;
    uint8_t list;
    bool is_first;  /* constant; its heap had no other one, and may never fill it */
    uint32_t epoch; /* of its heap when it was made, or was last spared */
} hak_fine_t;
_Static_assert(sizeof(hak_fine_t) <= 128, "records are powers of two");

HAK_FAST_PATH size_t hak_chunk_bytes(const hak_fine_t *fine) {
    return (size_t)fine->unit_count << HAK_UNIT_SHIFT;
}
HAK_FAST_PATH unsigned hak_chunk_list_of(size_t longest) {
    return longest ? hak_highest_bit(longest) + 1 : 0;
}
