/* hardened.h: the settings of the hardened path, each part of which has an option, and the
 * process's secret.
 *
 * A process takes the hardened path when HAKMEM_HARDENED is 1; HAKMEM_PROFILE=HARDENED sets that
 * and all parts. Then no magazine has a stack (cache/cache.c): each malloc and free finds an empty
 * or a full magazine and comes to its slow half, which asks hak_hardened_on() first. So the hot
 * path of other processes has no instruction for it.
 *
 *   state.h    the exact state of each block, beside its slab: double and invalid frees
 *   canary.h   known bytes behind the requested size
 *   quarantine.h   a thread's quarantine and its free lists, random choice in both
 *   big.h      blocks above 64 KiB: state, guard page, quarantine without pages
 *   empty.h    blocks of size 0, at addresses that nobody can read or write
 *   guard.h    guard pages, and guard units between slabs
 *
 * OWNERS. The constructor writes the settings once, `on` last. A constructor of another library may
 * have started a thread before; that thread takes the hardened path from its first call that finds
 * `on` set. A block that was allocated before has the state NEVER and is served as in other
 * processes. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"

enum { HAK_QUARANTINE_USUAL = 256 }; /* the profile's: one byte is the number of a place */

typedef struct {
    _Atomic bool on;          /* written last; the rest is constant then */
    bool random;              /* RANDOM_PLACEMENT */
    bool zero;                /* ZERO_ON_FREE */
    bool check_freed;         /* CHECK_FREED, which needs ZERO_ON_FREE */
    bool canary;              /* CANARY */
    bool match;               /* CHECK_MISMATCH */
    bool guard;               /* GUARD_LARGE */
    bool empty;               /* GUARD_EMPTY */
    bool knows_old;           /* the blocks from before the path are OLD (state.h); true only if the
                                  process had one thread */
    uint32_t guard_units;     /* GUARD_UNITS */
    uint32_t quarantine;      /* QUARANTINE, as a power of two or 0 */
    uint32_t quarantine_mask; /* quarantine - 1, or 0 */
    uint32_t light_size;      /* largest light block; see quarantine.h */
    uint32_t wide_light;      /* so many sizes from HAK_WIDE_LEAST on are light */
    bool all;                 /* `random` to `match` are on, QUARANTINE is the usual one, no block
                                  is sampled, and each block that is not wide is light */
    uint64_t quarantine_bytes;        /* QUARANTINE_BYTES, without the part of light blocks */
    uint64_t secret, factor;          /* of canaries */
    uint64_t ones;                    /* 1 in each byte of a canary, and a mark on top */
    size_t wide;                      /* see base/bytes.h */
    uint16_t route[HAK_TINY_MAX / 8]; /* (size + canary - 1) / 8 -> offset of its free list */
} hak_hardened_t;

extern hak_hardened_t hak_hardened HAK_ALIGNED(HAK_LINE) __attribute__((visibility("hidden")));

HAK_FAST_PATH bool hak_hardened_on(void) {
    return HAK_UNLIKELY(hak_is_set(&hak_hardened.on)); /* partner: hak_hardened_switch_on */
}

/* Reads the options; once. */
void hak_hardened_switch_on(void);

/* A generator of random numbers, one for each thread. The place of the next block cannot be
 * predicted without reading the process's memory. */
typedef struct {
    uint64_t state; /* owner, as the other */
    uint64_t bytes; /* what hak_random_byte has left of a number, and a 1 behind it */
} hak_random_t;

void hak_random_seed(hak_random_t *random);

HAK_FAST_PATH uint64_t hak_random_whole(hak_random_t *random) {
    uint64_t state = random->state += 0x9E3779B97F4A7C15u;
    unsigned __int128 product = (unsigned __int128)state * (state ^ 0xD6E8FEB86659FD93u);
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

HAK_FAST_PATH uint32_t hak_random_next(hak_random_t *random) {
    return (uint32_t)hak_random_whole(random);
}

/* A byte: one number is good for seven. */
HAK_FAST_PATH size_t hak_random_byte(hak_random_t *random) {
    enum { ALL = 7 * 8 };
    uint64_t bytes = random->bytes;
    if (HAK_UNLIKELY(bytes >> 8 == 0))
        bytes = hak_random_whole(random) >> (64 - ALL) | (uint64_t)1 << ALL;
    random->bytes = bytes >> 8;
    return bytes & 0xff;
}

/* A number below `limit`. */
HAK_FAST_PATH uint32_t hak_random_below(hak_random_t *random, uint32_t limit) {
    return (uint32_t)((uint64_t)hak_random_next(random) * limit >> 32);
}
