/* sampler.h: which calls of malloc are sampled, and how they come to the slow half.
 *
 * There are two kinds of samples. GUARD_SAMPLE gives each call the same chance, 1 / GUARD_SAMPLE
 * (hardened/guard_sample.h). The heap profiler draws each allocated byte with probability 1 / rate, and
 * samples the block that it is part of: a block of `s` bytes with 1 - exp(-s / rate)
 * (profile/samples.h).
 *
 * WHICH. For both kinds, the probability of a call depends only on its size class, not on the caller or on
 * earlier calls. So in one thread and class the number of calls between two sampled ones has a
 * geometric distribution. A thread draws that number separately for each kind and class; a draw does not
 * depend on earlier draws, or on other classes and threads. Blocks above 64 KiB have no class; for them
 * a thread counts bytes.
 *
 * HOW. The hot path of malloc has no instruction that counts. While calls are sampled, the routes of a
 * cache (route[] in cache.h) lead to shares: second magazines, which malloc takes from and free
 * never fills. The slow path moves blocks from the magazine to the share, no more of them than may be
 * allocated before the next sampled call. So each pop is counted before it happens, and the share is
 * empty when a sampled call is due. Calls that no route serves are slow, and are counted one by one.
 * Rejected: to sample when a magazine is refilled. A program that frees and allocates in turn
 * refills it seldom or never, so its calls would not be sampled. Also rejected: to bound the magazine
 * so that pushes do not fill it; then each free is slow.
 *
 * Invariant of a kind and class in a thread, between calls:
 *   left + blocks in the share = calls before the next sampled one
 *
 * The sampler lies behind the cache in one record, at HAK_SAMPLER_AT, since routes are offsets. The
 * owner of the cache owns it; other threads count the blocks of a share under the stack lock. A
 * thread without a cache samples nothing. */
#pragma once

#include "base/base.h"
#include "cache/cache.h"

typedef enum { HAK_SAMPLER_GUARD, HAK_SAMPLER_PROFILE, HAK_SAMPLER_KINDS } hak_sampler_kind_t;

_Static_assert((int)HAK_CACHE_SIZE <= (int)HAK_SAMPLER_AT, "a sampler lies behind its cache");

typedef struct {
    hak_magazine_t shares[HAK_CLASS_SMALL + 1];        /* top, base and slots are used */
    uint64_t left[HAK_SAMPLER_KINDS][HAK_CLASS_LIMIT]; /* 1 + calls before the sampled one that no
                                                         share serves; LARGE of the profiler: 1 +
                                                         bytes; 0: not drawn yet */
    uint64_t random;                                   /* state of the generator */
} hak_sampler_t;

enum { HAK_SAMPLER_SIZE = HAK_SAMPLER_AT + sizeof(hak_sampler_t) }; /* of a cache with a sampler */

HAK_FAST_PATH hak_sampler_t *hak_sampler_of(const hak_cache_t *cache) {
    return cache->has_sampler ? (hak_sampler_t *)((uintptr_t)cache + HAK_SAMPLER_AT) : NULL;
}

/* True when the options ask for samples of a kind, or of any; they are loaded. */
bool hak_sampler_has(hak_sampler_kind_t kind);
bool hak_sampler_is_wanted(void);

/* True once calls are counted: by the process's only thread, hak_sampler_start switches it on. */
extern _Atomic bool hak_sampler_started;
HAK_FAST_PATH bool hak_sampler_on(void) { return HAK_UNLIKELY(hak_is_set(&hak_sampler_started)); }
void hak_sampler_start(hak_cache_t *cache);

/* Bytes of which the profiler draws one on average; 1: every block is sampled. Constant once a cache
 * has a sampler. */
uint64_t hak_sampler_rate(void);

/* A number with the exponential distribution of mean 1, from a generator's state. */
double hak_sampler_exponential(uint64_t *random);

/* Makes the routes of a cache lead to its shares. Its record has HAK_SAMPLER_SIZE bytes. */
void hak_sampler_begin(hak_cache_t *cache);

/* Draws a new state of the generator. The present distances stay: a part of each is counted in a share, where a handler
 * may have interrupted a pop. */
void hak_sampler_seed(hak_sampler_t *sampler);

/* Counts a call for a block of a class whose blocks have `size` bytes, or of `size` bytes of LARGE. True:
 * it is to be sampled. */
bool hak_sampler_due(hak_sampler_t *sampler, hak_sampler_kind_t kind, unsigned class_index,
                     size_t size);

/* The same for most calls of a class above SMALL, which no share serves: true when only the profiler counts
 * them and this one is not due; then it is counted. */
HAK_FAST_PATH bool hak_sampler_passes(const hak_cache_t *cache, unsigned class_index) {
    const size_t row = HAK_SAMPLER_AT + offsetof(hak_sampler_t, left[HAK_SAMPLER_PROFILE]);
    if (!cache->unguarded) return false;
    uint64_t *left = (uint64_t *)((uintptr_t)cache + class_index * sizeof *left + row);
    if (*left <= 1) return false;
    --*left;
    return true;
}

/* Pops a block of the share of a class, which is counted already; NULL when there is none. */
HAK_FAST_PATH void *hak_sampler_pop(hak_sampler_t *sampler, unsigned class_index) {
    if (class_index > HAK_CLASS_SMALL) return NULL;
    void **top = hak_load_relaxed(&sampler->shares[class_index].top), *block = *top;
    if (block) hak_store_relaxed(&sampler->shares[class_index].top, top - 1);
    return block;
}

/* Fills the empty share of a class from the magazine; false when there is nothing to move, or the next
 * call is a sampled one. Where few blocks go round the shard gives as many more, so the time
 * between two slow calls grows. */
bool hak_sampler_fill(hak_cache_t *cache, unsigned class_index);

/* Blocks in the share of a class; the stack lock is held, or the caller owns the cache. */
size_t hak_sampler_count(const hak_cache_t *cache, unsigned class_index);

/* Takes up to `most` blocks back from the share of a class. */
size_t hak_sampler_take_back(hak_cache_t *cache, unsigned class_index, void **blocks, size_t most);

/* Forgets what the shares hold, without a look at it. */
void hak_sampler_reset(hak_cache_t *cache);
