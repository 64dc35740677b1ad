/* rng.h - a small random generator, so that a seed repeats a run. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state; /* never 0 */
};

/* Neighbouring seeds give unrelated sequences. */
static inline struct rng rng_make(uint64_t seed) {
    uint64_t mixed = (seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
    mixed ^= mixed >> 29;
    return (struct rng){mixed != 0 ? mixed : 1};
}

static inline uint64_t rng_next(struct rng *rng) {
    uint64_t x = rng->state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    rng->state = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

/* A number below the bound, which is not 0. */
static inline size_t rng_below(struct rng *rng, size_t bound) {
    return (size_t)((rng_next(rng) >> 11) % bound);
}

/* A size in least..most, 1 or more, where each doubling is equally likely. */
static inline size_t rng_size(struct rng *rng, size_t least, size_t most) {
    unsigned doublings = 0;
    while (least << doublings < most) doublings++;
    size_t bound = least << (doublings > 0 ? 1 + rng_below(rng, doublings) : 0);
    if (bound > most) bound = most;
    return bound / 2 > least ? bound / 2 + rng_below(rng, bound - bound / 2 + 1)
                             : least + rng_below(rng, bound - least + 1);
}

static inline void rng_shuffle(struct rng *rng, void **table, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t other = rng_below(rng, i);
        void *one = table[other];
        table[other] = table[i - 1];
        table[i - 1] = one;
    }
}
