/* sampler.c: draws the distances between sampled calls, and fills the shares. */
#include "cache/sampler.h"

#include <string.h>

#include "cache/stacks.h"
#include "options/options.h"
#include "os/os.h"
#include "shard/shard.h"

enum {
    SHARE_BYTES = 32 * 1024, /* of blocks in a share, at most, but... */
    SLOTS_LEAST = 32,        /* ...so many slots in any case, sentinel included, and... */
    SLOTS_MOST = 512,        /* ...not more than these */
};

/* 0 until a cache has a sampler, then constant: all threads that set it store the same value. */
static _Atomic uint64_t rate;

static HAK_NEAR_CONSTANT void *const empty_slot = NULL;

_Atomic bool hak_sampler_started HAK_READ_OFTEN;

HAK_COMMON bool hak_sampler_has(hak_sampler_kind_t kind) {
    return kind == HAK_SAMPLER_GUARD
               ? hak_option(HAK_OPTION_GUARD_SAMPLE) && !hak_option(HAK_OPTION_HARDENED)
               : hak_option(HAK_OPTION_PROF) || hak_option(HAK_OPTION_LEAK);
}

HAK_COMMON bool hak_sampler_is_wanted(void) {
    return hak_sampler_has(HAK_SAMPLER_GUARD) || hak_sampler_has(HAK_SAMPLER_PROFILE);
}

uint64_t hak_sampler_rate(void) { return hak_load_relaxed(&rate); }

void hak_sampler_start(hak_cache_t *cache) {
    hak_sampler_begin(cache);
    hak_store_relaxed(&hak_sampler_started, true);
}

/* -ln(u) for a random u = m / 2^k, 1 <= m < 2: k * ln 2 - ln m, the latter by the series of
 * 2 artanh((m - 1) / (m + 1)), whose error is below 10^-9. */
double hak_sampler_exponential(uint64_t *random) {
    const double ln_2 = 0.6931471805599453;
    *random += 0x9E3779B97F4A7C15u;
    uint64_t bits = *random;
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBu;
    bits = (bits ^ bits >> 31) | 1;
    unsigned highest = hak_highest_bit(bits);
    double m = (double)(bits << (63 - highest) >> 11) / 4503599627370496.0; /* 2^52 */
    double t = (m - 1) / (m + 1), square = t * t, sum = 0;
    for (int i = 15; i > 0; i -= 2) sum = sum * square + 2.0 / i;
    return (64 - highest) * ln_2 - sum * t;
}

/* 1 + how many calls for `size` bytes come before the next sampled one. */
static uint64_t draw(hak_sampler_t *sampler, hak_sampler_kind_t kind, size_t size) {
    uint64_t each = kind == HAK_SAMPLER_GUARD ? (uint64_t)hak_option(HAK_OPTION_GUARD_SAMPLE)
                                              : hak_load_relaxed(&rate);
    if (!hak_sampler_has(kind)) return UINT64_MAX;
    if (each == 1) return 1;
    double distance =
        hak_sampler_exponential(&sampler->random) *
        (kind == HAK_SAMPLER_GUARD ? (double)each - 0.5 : (double)each / (double)size);
    return 1 + (uint64_t)distance;
}

HAK_COMMON void hak_sampler_reset(hak_cache_t *cache) {
    hak_sampler_t *sampler = hak_sampler_of(cache);
    if (!sampler) return;
    for (unsigned i = 0; i <= HAK_CLASS_SMALL; i++)
        sampler->shares[i] = (hak_magazine_t){.top = (void **)(uintptr_t)&empty_slot};
}

HAK_BEHIND void hak_sampler_seed(hak_sampler_t *sampler) { sampler->random = hak_os_random(); }

/* A leak report alone is about every block. */
HAK_BEHIND void hak_sampler_begin(hak_cache_t *cache) {
    if (cache->has_sampler) return;
    if (hak_load_relaxed(&rate) == 0)
        hak_store_relaxed(
            &rate, hak_option(HAK_OPTION_PROF) ? (uint64_t)hak_option(HAK_OPTION_PROF_RATE) : 1);
    cache->has_sampler = true;
    hak_sampler_t *sampler = hak_sampler_of(cache);
    memset(sampler, 0, sizeof *sampler);
    hak_sampler_reset(cache);
    hak_sampler_seed(sampler);
    cache->unguarded = !hak_sampler_has(HAK_SAMPLER_GUARD);
    for (unsigned i = 0; i <= HAK_SMALL_MAX / 8; i++)
        cache->route[i] = (uint16_t)(HAK_SAMPLER_AT + (hak_class_by_8[i] << HAK_MAGAZINE_SHIFT));
}

bool hak_sampler_due(hak_sampler_t *sampler, hak_sampler_kind_t kind, unsigned class_index,
                     size_t size) {
    uint64_t *left = &sampler->left[kind][class_index];
    bool by_bytes = kind == HAK_SAMPLER_PROFILE && class_index == HAK_CLASS_LARGE;
    size_t step = by_bytes ? size : 1, unit = by_bytes ? 1 : size;
    if (HAK_UNLIKELY(*left == 0)) *left = draw(sampler, kind, unit);
    bool is_due = *left <= step;
    *left = HAK_UNLIKELY(is_due) ? draw(sampler, kind, unit) : *left - step;
    return is_due;
}

/* Calls that a share may serve: fewer than are left of any kind. */
static uint64_t least_left(const hak_sampler_t *sampler, unsigned class_index) {
    uint64_t least = UINT64_MAX;
    for (unsigned kind = 0; kind < HAK_SAMPLER_KINDS; kind++) {
        uint64_t left = sampler->left[kind][class_index];
        if (left < least) least = left;
    }
    return least ? least - 1 : 0;
}

/* The share of a class has `more` blocks more. */
static void count(hak_sampler_t *sampler, unsigned class_index, uint64_t more) {
    for (unsigned kind = 0; kind < HAK_SAMPLER_KINDS; kind++)
        sampler->left[kind][class_index] -= more;
}

static size_t count_of(const hak_magazine_t *share) {
    return share->slots ? (size_t)(hak_load_relaxed(&share->top) - share->base) : 0;
}

size_t hak_sampler_count(const hak_cache_t *cache, unsigned class_index) {
    const hak_sampler_t *sampler = hak_sampler_of(cache);
    return sampler && class_index <= HAK_CLASS_SMALL ? count_of(&sampler->shares[class_index]) : 0;
}

size_t hak_sampler_take_back(hak_cache_t *cache, unsigned class_index, void **blocks, size_t most) {
    hak_sampler_t *sampler = hak_sampler_of(cache);
    size_t taken = hak_min(hak_sampler_count(cache, class_index), most);
    for (size_t i = 0; i < taken; i++) blocks[i] = hak_sampler_pop(sampler, class_index);
    if (taken) count(sampler, class_index, -(uint64_t)taken);
    return taken;
}

static bool make_stack(hak_cache_t *cache, hak_magazine_t *share, size_t size) {
    size_t slots = hak_ceil_pow2(hak_min(hak_max(SHARE_BYTES / size, SLOTS_LEAST), SLOTS_MOST));
    void **base = hak_stacks_take(&cache->stacks, cache->shard, (unsigned)slots);
    if (!base) return false;
    base[0] = NULL;
    hak_lock_acquire(&cache->stack_lock);
    share->base = base;
    share->slots = (uint16_t)slots;
    hak_store_relaxed(&share->top, base);
    hak_lock_release(&cache->stack_lock);
    return true;
}

/* Moves the newest blocks of a magazine to its share, on top of what lies there; returns how many. */
HAK_FAST_PATH size_t move(hak_magazine_t *magazine, hak_magazine_t *share, size_t most) {
    void **top = hak_load_relaxed(&magazine->top), **to = hak_load_relaxed(&share->top);
    size_t some = hak_min((size_t)(top - magazine->base), most);
    memcpy(to + 1, top - some + 1, some * sizeof *top);
    hak_store_relaxed(&magazine->top, top - some); /* first, so that no block is counted twice */
    hak_store_relaxed(&share->top, to + some);
    return some;
}

HAK_BEHIND bool hak_sampler_fill(hak_cache_t *cache, unsigned class_index) {
    if (class_index > HAK_CLASS_SMALL) return false;
    hak_sampler_t *sampler = hak_sampler_of(cache);
    hak_magazine_t *magazine = &cache->magazines[class_index],
                   *share = sampler->shares + class_index;
    uint64_t left = least_left(sampler, class_index);
    if (!magazine->slots || !left) return false;
    if (HAK_UNLIKELY(!share->slots) && !make_stack(cache, share, hak_classes[class_index].size))
        return false;
    size_t most = hak_min(share->slots - 1u, left), some = move(magazine, share, most);
    count(sampler, class_index, some);
    /* A magazine that holds few blocks is refilled, as without samples. */
    void *block = some * 2 <= most ? hak_cache_refill(cache, class_index, NULL) : NULL;
    if (block) {
        void **top = hak_load_relaxed(&share->top) + 1;
        *top = block;
        hak_store_relaxed(&share->top, top);
        count(sampler, class_index, 1 + move(magazine, share, most - some - 1));
    }
    cache->used_at[class_index] = cache->clock[hak_tier_of_class(class_index)];
    return some || block;
}
