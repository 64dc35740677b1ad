/* chunk_search.h: finds room in a chunk. Everything here is under the lock of the chunk's heap. */
#pragma once

#include "base/bits.h"
#include "large/chunk.h"

/* A request, in grains. */
typedef struct {
    size_t grains, align;
    bool zero;            /* zero the block under the lock; set for short blocks only */
    hak_flight_t *flight; /* puts the block in flight; NULL: does not */
} hak_cut_t;

/* The first place where the request fits, in the free stretches that begin in from .. until - 1, or a little behind;
 * fine->grains if there is none. Raises *longest to the length of the stretches that are too short. */
static inline size_t hak_chunk_search(const hak_fine_t *fine, size_t from, size_t until,
                                      const hak_cut_t *request, size_t *longest) {
    size_t start = 0, length = 0; /* of the stretch that may go on */
    uint64_t mask = ~(uint64_t)0 << from % 64;
    for (size_t w = from / 64; w < hak_bits_words(fine->grains); w++, mask = ~(uint64_t)0) {
        uint64_t free = ~fine->in_use[w] & mask;
        if (length == 0 && w * 64 >= until) break;
        if (!(free & 1)) length = 0;
        while (free) {
            unsigned low = hak_lowest_bit(free), end = low;
            uint64_t taken = ~(free >> low);
            end += taken ? hak_lowest_bit(taken) : 64;
            if (length == 0) start = w * 64 + low;
            length += end - low;
            size_t at = hak_align_up(start, request->align);
            if (at + request->grains <= start + length) return at;
            *longest = hak_max(*longest, length);
            if (end == 64) break;
            length = 0;
            free &= ~(uint64_t)0 << end;
        }
    }
    return fine->grains;
}

/* The bits of `low` at which a row of `count` set bits begins, `count` being at most 64; `high` is the next word. */
HAK_FAST_PATH uint64_t hak_chunk_begins(uint64_t low, uint64_t high, size_t count) {
    for (size_t some = 1, more; some < count && low; some += more) {
        more = hak_min(some, count - some);
        low &= low >> more | high << (64 - more);
        high &= high >> more;
    }
    return low;
}

/* The first place for a request of up to 64 grains, from the hint on; fine->grains if there is none. */
static inline size_t hak_chunk_search_short(const hak_fine_t *fine, const hak_cut_t *request) {
    const size_t words = hak_bits_words(fine->grains), align = request->align;
    const uint64_t aligned = align < 64 ? ~(uint64_t)0 / (~(uint64_t)0 >> (64 - align)) : 1;
    uint64_t mask = ~(uint64_t)0 << fine->hint % 64;
    for (size_t w = fine->hint / 64; w < words; w++, mask = ~(uint64_t)0) {
        uint64_t high = w + 1 < words ? ~fine->in_use[w + 1] : 0;
        uint64_t begins =
            hak_chunk_begins(~fine->in_use[w] & mask, high, request->grains) & aligned;
        if (begins && (w * 64 & (align - 1)) < 64) return w * 64 + hak_lowest_bit(begins);
    }
    return fine->grains;
}
