/* bits.h: bitmaps in words of 64 bits. Bits are numbered from the lowest of the first word on. */
#pragma once

#include "base/base.h"

HAK_FAST_PATH size_t hak_bits_words(size_t bits) { return (bits + 63) / 64; }

HAK_FAST_PATH bool hak_bits_has(const uint64_t *bits, size_t at) {
    return bits[at / 64] >> at % 64 & 1;
}

/* The bits first .. end-1, as far as they are in word number `w`. */
HAK_FAST_PATH uint64_t hak_bits_within(size_t w, size_t first, size_t end) {
    if (end <= w * 64 || first >= w * 64 + 64) return 0;
    uint64_t bits = ~(uint64_t)0;
    if (first > w * 64) bits &= bits << (first - w * 64);
    if (end < w * 64 + 64) bits &= ~(uint64_t)0 >> (w * 64 + 64 - end);
    return bits;
}

/* The first bit from `at` on that is `value`, or `end`. */
static inline size_t hak_bits_next(const uint64_t *bits, size_t at, size_t end, bool value) {
    const uint64_t flip = value ? 0 : ~(uint64_t)0;
    for (; at < end; at = (at | 63) + 1) {
        uint64_t word = (bits[at / 64] ^ flip) >> at % 64;
        if (word) return hak_min(at + hak_lowest_bit(word), end);
    }
    return end;
}

/* The bit behind the last one before `at` that is set; 0 when there is none. */
static inline size_t hak_bits_end_before(const uint64_t *bits, size_t at) {
    for (; at > 0; at = (at - 1) & ~(size_t)63) {
        uint64_t word = bits[(at - 1) / 64] << (63 - (at - 1) % 64);
        if (word) return at - (63 - hak_highest_bit(word));
    }
    return 0;
}

/* Length of the longest row of set bits in a word. */
static inline unsigned hak_bits_longest(uint32_t word) {
    unsigned length = 0;
    for (; word; word &= word >> 1) length++;
    return length;
}

/* Inverts `count` bits, all of which are alike. */
static inline void hak_bits_turn(uint64_t *bits, size_t at, size_t count) {
    for (size_t some; count; at += some, count -= some) {
        some = hak_min(64 - at % 64, count);
        HAK_ASSERT(some - 1 < 64);
        bits[at / 64] ^= (~(uint64_t)0 >> (64 - some)) << at % 64;
    }
}

/* Copies `count` bits, from number `at` of `from` on, to where `to` has zeros from number `to_at` on. */
static inline void hak_bits_copy(uint64_t *to, size_t to_at, const uint64_t *from, size_t at,
                                 size_t count) {
    for (size_t some; count; to_at += some, at += some, count -= some) {
        some = hak_min(64 - hak_max(to_at % 64, at % 64), count);
        HAK_ASSERT(some - 1 < 64);
        const uint64_t bits = from[at / 64] >> at % 64 & ~(uint64_t)0 >> (64 - some);
        to[to_at / 64] |= bits << to_at % 64;
    }
}
