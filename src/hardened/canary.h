/* canary.h: known bytes behind the requested size of a block.
 *
 * A free and a resize check them (api/hardened_malloc.c, api/hardened_realloc.c), and hakmem_verify()
 * (verify.c). Blocks above 64 KiB have canaries of their own (big.c).
 *
 *   | requested bytes | up to 7 secret bytes, MARK | other bytes | MARK |
 *
 * The canary has at least one byte and at most eight: those between the requested size and the end of the block. None
 * is 0, so a string's 0 that is written one byte too far is seen. Each but the eighth depends on two secrets and on the
 * address, so the bytes behind one block do not tell those behind another. The last byte of a block is its mark, which a
 * write before the next block meets first. A block of a class with colours has none: blocks of these may be so long that
 * the mark would bring a page into memory.
 *  - Rejected: the lower half of the product alone. Its first byte, the one that an overflow meets first, depends on
 *    the lowest byte of the address only: all canaries of a class of 32 bytes began with one of eight values.
 *  - Rejected: the address as it is, without the first multiplication. The addresses of a heap are close together, so
 *    a byte took less than half of its values with one random factor in 200.
 *  - Rejected: a secret mark. It costs two instructions more in each call, and finds no more mistakes. */
#pragma once

#include <string.h>

#include "hardened/hardened.h"

/* LEAST: bytes of a block with its canary, at least: the class of 8 bytes has no room for one. */
enum { HAK_CANARY_LEAST = 9, HAK_CANARY_MARK = 0xFF };

HAK_FAST_PATH size_t hak_canary_whole(size_t size) {
    return hak_max(size + hak_hardened.canary, HAK_CANARY_LEAST);
}

/* True for a class whose blocks end with a mark. */
HAK_FAST_PATH bool hak_canary_marks(const hak_class_t *info) {
    return !hak_class_is_coloured(info);
}

/* The eight bytes; the last one is a mark. */
HAK_FAST_PATH uint64_t hak_canary_pattern(const void *block) {
    uint64_t low = (uintptr_t)block * 0x9E3779B97F4A7C15u ^ hak_hardened.secret;
    const uint64_t high = hak_multiply_by(&low, &hak_hardened.factor);
    return (low ^ high) | hak_hardened.ones;
}

/* `used` and `end`: the requested size, and the size of the block, which is larger and at least 8.
 * With less than eight bytes between them the last word of the block has the first bytes of the pattern on top.
 * `is_zero`: the block has no other contents yet. `marks`: hak_canary_marks of its class. */
HAK_FAST_PATH void hak_canary_put(char *block, size_t used, size_t end, bool is_zero, bool marks) {
    uint64_t pattern = hak_canary_pattern(block), last = 0;
    if (HAK_LIKELY(end - used >= sizeof pattern)) {
        memcpy(block + used, &pattern, sizeof pattern);
        if (marks) block[end - 1] = (char)HAK_CANARY_MARK;
        return;
    }
    unsigned shift = (unsigned)(sizeof pattern - (end - used)) * 8;
    if (!is_zero) memcpy(&last, block + end - sizeof last, sizeof last);
    last = (last & (((uint64_t)1 << shift) - 1)) | pattern << shift;
    memcpy(block + end - sizeof last, &last, sizeof last);
}

/* Removes it, so that the program finds no secret where the block is resized. The mark never is the program's. */
HAK_FAST_PATH void hak_canary_clear(char *block, size_t used, size_t end) {
    memset(block + used, 0, hak_min(end - used, sizeof(uint64_t)));
}

HAK_FAST_PATH bool hak_canary_holds(const char *block, size_t used, size_t end, bool marks) {
    uint64_t pattern = hak_canary_pattern(block), found;
    if (HAK_LIKELY(end - used >= sizeof pattern)) {
        memcpy(&found, block + used, sizeof found);
        return found == pattern && (!marks || block[end - 1] == (char)HAK_CANARY_MARK);
    }
    unsigned shift = (unsigned)(sizeof pattern - (end - used)) * 8;
    memcpy(&found, block + end - sizeof found, sizeof found);
    return (found ^ pattern << shift) >> shift == 0;
}
