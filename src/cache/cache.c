/* cache.c: how stacks are filled, emptied, and sized.
 *
 * A magazine starts with a small stack and doubles it whenever it runs full after it ran
 * empty, or empty after full: then a deeper one would have saved both calls. When the
 * thread's budget is used up, a magazine that is slow more often takes room from one that is
 * slow less often. So a program with few busy classes gets deep stacks, one with many
 * shallow ones, and memory stays bounded.
 *
 * A batch is an eighth of the stack when the direction has just turned, and doubles
 * up to half of it as long as it stays: a program that swings by less than the
 * stack holds comes to rest without slow calls. A stack of few blocks is refilled whole.
 *
 * Blocks of a class that the program has no use for any more would stay, each perhaps the
 * only one on its page. So each slow call looks at another magazine of its tier, and empties it
 * when it rests: it was not slow for long, the longer the fewer pages its blocks may keep,
 * and has no fewer blocks than a round of looks ago. The clock is the tier's slow calls:
 * where mid blocks are always slow, tiny ones that never are do not rest for that.
 *
 * A thread that only frees, or only allocates, would hoard with a deep stack, and gains by
 * large batches: in such a stream a tiny magazine's stack grows slowly, to no more than some KiB,
 * and one of such a size moves as a whole. */
#include "cache/cache.h"

#include <string.h>

#include "cache/warm_cache.h"
#include "cache/check.h"
#include "cache/lifo.h"
#include "options/options.h"
#include "policy/policy.h"
#include "region/meta.h"
#include "region/record.h"
#include "shard/shard.h"

enum {
    SLOTS_MAX = 2048,              /* of one stack, sentinel included */
    STACK_BYTES_MAX = 1024 * 1024, /* of blocks in one stack */
    START_BYTES = 1024,            /* of blocks in a first stack */
    START_SLOTS_MAX = 32,
    STREAM_CALLS = 16,        /* that go one way make a stream; that many more let its stack grow */
    STREAM_BYTES = 16 * 1024, /* of blocks in a stack that grew so */
    VICTIMS_ASKED = 4,        /* magazines that are asked for room in one go */
    STEAL_INTERVAL = 16,      /* slow calls between two such rounds */
    REST_CALLS = 128,         /* slow calls of its tier after which a magazine may rest, */
    REST_PAGES = 512,         /* if its blocks may keep so many pages */
    PAGE_LEAST = 4096,
    BATCH_LEAST = 4,
    BRAKED_SLOTS = 5,  /* of a stack that is braked, sentinel included */
    BRAKED_BINS = 8,   /* that one call brakes */
    FEW_SLOTS = 8,     /* a stack of so many is refilled as a whole */
    UPGRADED_MAX = 16, /* first blocks of a class taken from the class above */
    UPGRADED_BYTES = 8 * 1024,
    REFILLED = 0, /* the way of a slow call, a flag in a magazine's batch */
    FLUSHED = 0x8000,
};

/* Read-only: a stray write would be handed out. */
static HAK_NEAR_CONSTANT void *const empty_slot = NULL;
#define EMPTY_TOP ((void **)(uintptr_t)&empty_slot)

const hak_cache_t hak_cache_none = {.magazines = {[0] = {.top = (void **)(uintptr_t)&empty_slot}}};
const hak_cache_t hak_cache_dead = {.magazines = {[0] = {.top = (void **)(uintptr_t)&empty_slot}}};

__thread hak_cache_t *hak_cache = (hak_cache_t *)(uintptr_t)&hak_cache_none;

static _Atomic size_t budgets[HAK_CACHED_TIERS] = {1 * MIB, 1 * MIB};

void hak_cache_set_budget(hak_tier_t tier, size_t bytes) {
    hak_store_relaxed(&budgets[tier], bytes);
}

void hak_cache_reset(hak_cache_t *cache) {
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        hak_magazine_t *magazine = &cache->magazines[i];
        hak_store_relaxed(&magazine->top, EMPTY_TOP);
        magazine->limit = 0;
        magazine->base = NULL;
        magazine->slots = magazine->batch = 0;
        magazine->start_test = 0;
    }
    hak_lock_reset(&cache->stack_lock);
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++) cache->capacity[tier] = 0;
    hak_lifo_reset(cache);
}

hak_cache_t *hak_cache_make(void) {
    hak_cache_t *cache = hak_meta_alloc(HAK_CACHE_SIZE);
    if (!cache) return NULL;
    memset(cache, 0, HAK_CACHE_SIZE);
    hak_cache_reset(cache);
    for (unsigned i = 0; i <= HAK_SMALL_MAX / 8; i++)
        cache->route[i] = (uint16_t)(hak_class_by_8[i] << HAK_MAGAZINE_SHIFT);
    return cache;
}

/* For the owner; no lock needed. */
static size_t count_of(const hak_magazine_t *magazine) {
    return magazine->slots ? (size_t)(hak_load_relaxed(&magazine->top) - magazine->base) : 0;
}

/* A magazine that has no stack has no lifo either. */
size_t hak_cache_count(hak_cache_t *cache, unsigned class_index) {
    if (hak_load_relaxed(&cache->magazines[class_index].top) == EMPTY_TOP) return 0;
    if (HAK_UNLIKELY(hak_gate_is_lost(&cache->post))) return 0;
    hak_lock_acquire(&cache->stack_lock);
    size_t count = count_of(&cache->magazines[class_index]) + hak_lifo_count(cache, class_index);
    hak_lock_release(&cache->stack_lock);
    return count;
}

static unsigned way_of(const hak_magazine_t *magazine) { return magazine->batch & FLUSHED; }

static bool is_mid(unsigned class_index) { return hak_tier_of_class(class_index) == HAK_MID; }

/* Slots of the deepest stack of a class, sentinel included; 0 = none at all. A mid
 * class's stack is called its ring by the options. */
static unsigned slots_max(unsigned class_index) {
    if (is_mid(class_index)) { /* none where debug records are kept: see region/record.h */
        if (!hak_option(HAK_OPTION_POOL_TLS_RING) || hak_records_on()) return 0;
        return (unsigned)hak_ceil_pow2((size_t)hak_option(HAK_OPTION_POOL_RING_CAP) + 2) / 2;
    }
    size_t slots = hak_ceil_pow2(STACK_BYTES_MAX / hak_classes[class_index].size + 1) / 2;
    return (unsigned)hak_min(hak_max(slots, 2), SLOTS_MAX);
}

static unsigned slots_start(unsigned class_index) {
    size_t slots = hak_ceil_pow2(START_BYTES / hak_classes[class_index].size + 2);
    return (unsigned)hak_min(hak_min(slots, START_SLOTS_MAX), slots_max(class_index));
}

static uint64_t start_test_of(unsigned class_index) {
    return hak_start_test(hak_classes[class_index].size, hak_classes[class_index].count);
}

/* Moves a magazine to a stack of `slots`, which must hold what it has. */
static bool resize(hak_cache_t *cache, unsigned class_index, unsigned slots) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **base = hak_meta_alloc(slots * sizeof(void *));
    if (!base) return false;
    size_t count = count_of(magazine), old_slots = magazine->slots;
    void **old = magazine->base;
    base[0] = NULL;
    if (count) memcpy(base + 1, old + 1, count * sizeof(void *));
    cache->capacity[hak_tier_of_class(class_index)] +=
        (slots - old_slots) * hak_classes[class_index].size;
    hak_lock_acquire(&cache->stack_lock);
    hak_store_relaxed(&magazine->top, base + count);
    magazine->start_test = start_test_of(class_index);
    magazine->base = base;
    magazine->limit = hak_class_is_coloured(&hak_classes[class_index])
                          ? 0
                          : (uint32_t)(uintptr_t)(base + slots - 1);
    magazine->slots = (uint16_t)slots;
    hak_lock_release(&cache->stack_lock);
    if (old_slots) hak_meta_free(old, old_slots * sizeof(void *));
    return true;
}

static hak_cache_counts_t *counts_of(hak_cache_t *cache, unsigned class_index) {
    return hak_cache_counts(cache, (hak_band_t)hak_bands[class_index]);
}

static void count_refill(hak_cache_t *cache, unsigned class_index, unsigned taken) {
    hak_cache_counts_t *counts = counts_of(cache, class_index);
    if (!taken) return;
    HAK_ADD_OWNED(&counts->uc_miss, 1);
    HAK_ADD_OWNED(&counts->refilled, taken);
}

/* Gives blocks to the cache's home shard. */
static void give(hak_cache_t *cache, unsigned class_index, void *const *blocks, size_t count) {
    HAK_ADD_OWNED(&counts_of(cache, class_index)->flushed, count);
    hak_shard_give(cache->shard, class_index, blocks, (unsigned)count);
}

/* Gives the oldest `count` blocks of a magazine to the shard; what a lifo keeps stays. */
static void flush(hak_cache_t *cache, unsigned class_index, size_t count) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    size_t kept = hak_lifo_put(cache, class_index, magazine->base + 1, count);
    if (count > kept) give(cache, class_index, magazine->base + 1 + kept, count - kept);
    size_t left = count_of(magazine) - count;
    memmove(magazine->base + 1, magazine->base + 1 + count, left * sizeof(void *));
    hak_store_relaxed(&magazine->top, magazine->base + left);
}

/* Halves the stack of a magazine. */
static void shrink(hak_cache_t *cache, unsigned class_index) {
    unsigned slots = cache->magazines[class_index].slots / 2u;
    size_t count = count_of(&cache->magazines[class_index]);
    if (count > slots - 1) flush(cache, class_index, count - (slots - 1));
    resize(cache, class_index, slots);
}

/* Makes room for `bytes` of a tier at the cost of magazines that were slow less recently. */
static bool take_room(hak_cache_t *cache, hak_tier_t tier, uint32_t before, size_t bytes) {
    size_t limit = hak_load_relaxed(&budgets[tier]);
    int asked = 0;
    for (unsigned i = 0; i < HAK_CLASS_COUNT && asked < VICTIMS_ASKED; i++) {
        if (cache->capacity[tier] + bytes <= limit) break;
        unsigned index = cache->victim = (uint16_t)(cache->victim % HAK_CLASS_COUNT + 1);
        if (cache->magazines[index].slots <= 2 || hak_tier_of_class(index) != tier) continue;
        asked++;
        if (cache->used_at[index] < before) shrink(cache, index);
    }
    return cache->capacity[tier] + bytes <= limit;
}

static size_t stack_bytes(const hak_magazine_t *magazine, unsigned class_index) {
    return (size_t)magazine->slots * hak_classes[class_index].size;
}

/* A thread that only frees blocks of a class, or only allocates them, as far as is seen. */
static bool is_stream(const hak_cache_t *cache, unsigned class_index) {
    return cache->streak[class_index] >= STREAM_CALLS;
}

/* One more slow call that goes the same way as the last one. True when that is a reason to
 * double the stack. */
static bool note_same_way(hak_cache_t *cache, unsigned class_index) {
    uint8_t *streak = &cache->streak[class_index];
    *streak = *streak < UINT8_MAX ? *streak + 1u : UINT8_MAX + 1u - STREAM_CALLS;
    return *streak % STREAM_CALLS == 0 && !is_mid(class_index) &&
           stack_bytes(&cache->magazines[class_index], class_index) * 2 <= STREAM_BYTES;
}

/* A look at a magazine: true when it has blocks, and they are to go. */
static bool rests(hak_cache_t *cache, unsigned class_index, uint32_t clock) {
    const uint16_t top =
        (uint16_t)((uintptr_t)hak_load_relaxed(&cache->magazines[class_index].top) >> 3);
    const bool fewer = (int16_t)(top - cache->seen[class_index]) < 0;
    const size_t calls = clock - cache->used_at[class_index];
    cache->seen[class_index] = top;
    if (fewer || calls < REST_CALLS) return false;
    const size_t count =
        count_of(&cache->magazines[class_index]) + hak_lifo_count(cache, class_index);
    if (count == 0) return false; /* the class's row may not be known yet: see dyn.h */
    const size_t of_one = hak_classes[class_index].size / PAGE_LEAST + 1;
    return count * of_one * calls >= (size_t)REST_PAGES * REST_CALLS;
}

/* Gives all blocks of a magazine to the shard; what a ring gives up may first fill the lifo. */
static HAK_OUT_OF_LINE void empty(hak_cache_t *cache, unsigned class_index) {
    void *blocks[1 + 64];
    size_t count = count_of(&cache->magazines[class_index]);
    if (count) flush(cache, class_index, count);
    while ((count = hak_lifo_take(cache, class_index, blocks, 64)) > 0)
        give(cache, class_index, blocks + 1, count);
}

static bool is_braked(const hak_magazine_t *magazine) {
    return magazine->limit &&
           magazine->limit != (uint32_t)(uintptr_t)(magazine->base + magazine->slots - 1);
}

static void set_limit(hak_magazine_t *magazine, unsigned slots) {
    if (magazine->limit) /* else it has colours, or no stack */
        magazine->limit = (uint32_t)(uintptr_t)(magazine->base + slots - 1);
}

void hak_cache_brake(hak_cache_t *cache) {
    cache->braked = true;
    for (unsigned i = 0, magazines = 0; i < HAK_CLASS_COUNT && magazines < BRAKED_BINS; i++) {
        unsigned index = cache->victim = (uint16_t)(cache->victim % HAK_CLASS_COUNT + 1);
        hak_magazine_t *magazine = &cache->magazines[index];
        if (count_of(magazine) + hak_lifo_count(cache, index) < BRAKED_SLOTS) continue;
        empty(cache, index);
        if (magazine->slots > BRAKED_SLOTS) set_limit(magazine, BRAKED_SLOTS);
        magazines++;
    }
}

void hak_cache_unbrake(hak_cache_t *cache) { cache->braked = false; }

/* Counts a slow call of a magazine, and looks at the next magazine of its tier. Returns the tier's
 * count at the magazine's last one. */
static uint32_t note_slow(hak_cache_t *cache, unsigned class_index) {
    const hak_tier_t tier = hak_tier_of_class(class_index);
    const uint32_t before = cache->used_at[class_index], now = ++cache->clock[tier];
    cache->slow_count++;
    cache->used_at[class_index] = now;
    const unsigned other = tier == HAK_TINY
                               ? 1 + now % HAK_CLASS_TINY
                               : HAK_CLASS_TINY + 1 + now % (HAK_CLASS_COUNT - HAK_CLASS_TINY);
    if (HAK_UNLIKELY(rests(cache, other, now))) empty(cache, other);
    return before;
}

/* Makes a magazine's first stack, or doubles it when the call goes the other way than
 * the last one, or many went the same, and the budget has room. */
static bool grow(hak_cache_t *cache, unsigned class_index, unsigned way) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    hak_tier_t tier = hak_tier_of_class(class_index);
    uint32_t before = note_slow(cache, class_index);
    bool turned = !magazine->slots || way_of(magazine) != way;
    if (turned) {
        magazine->batch = (uint16_t)way; /* 0 blocks moved yet */
        cache->streak[class_index] = 0;
    }
    unsigned most = slots_max(class_index);
    if (!magazine->slots) return most && resize(cache, class_index, slots_start(class_index));
    if (!turned && !note_same_way(cache, class_index)) return false;
    if (magazine->slots >= most) return false;
    size_t more = (size_t)magazine->slots * hak_classes[class_index].size;
    if (cache->capacity[tier] + more > hak_load_relaxed(&budgets[tier]) &&
        (cache->slow_count % STEAL_INTERVAL != 0 || !take_room(cache, tier, before, more)))
        return false;
    return resize(cache, class_index, magazine->slots * 2u);
}

/* True where a batch may be a whole stack: in a stream, and where a half of it would be a
 * block or two, for which short threads would come again and again. */
static bool moves_whole(const hak_cache_t *cache, unsigned class_index) {
    const hak_magazine_t *magazine = &cache->magazines[class_index];
    bool is_few = magazine->slots <= FEW_SLOTS && way_of(magazine) == REFILLED;
    return stack_bytes(magazine, class_index) <= STREAM_BYTES &&
           (is_few || is_stream(cache, class_index));
}

/* Blocks to move now. */
static unsigned next_batch(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    size_t last = magazine->batch & (FLUSHED - 1u), least = BATCH_LEAST,
           most = magazine->slots / 2u;
    if (is_mid(class_index)) {
        if (way_of(magazine) == FLUSHED)
            most = (magazine->slots - 1u) / (size_t)hak_option(HAK_OPTION_RING_RETURN_DIV);
        else
            least = (size_t)hak_option(HAK_OPTION_POOL_MIN_BUNDLE);
    } else if (moves_whole(cache, class_index)) {
        most = magazine->slots - 1u;
    }
    size_t batch = last ? last * 2 : hak_max(magazine->slots / 8u, least);
    batch = hak_max(hak_min(batch, most), 1);
    magazine->batch = (uint16_t)(batch | way_of(magazine));
    return (unsigned)batch;
}

/* While nobody in the process has used a class yet, its first few blocks come from
 * the class above: a small program then touches half as many slabs. */
static void *upgrade(hak_cache_t *cache, unsigned class_index) {
    size_t size = hak_classes[class_index].size;
    unsigned upper = class_index + 1;
    if (class_index % 2 != 0 || size >= HAK_SMALL_MAX) return NULL;
    if (cache->upgraded[class_index] >= hak_min(UPGRADED_MAX, UPGRADED_BYTES / size)) return NULL;
    if (hak_shard_has_slabs(cache->shard, class_index)) return NULL;
    cache->upgraded[class_index]++;
    void *block = hak_cache_pop(cache, upper);
    return block ? block : hak_cache_refill(cache, upper, NULL);
}

void *hak_cache_refill(hak_cache_t *cache, unsigned class_index, bool *zeroed) {
    void *one[2];
    HAK_COUNT_WAY(HAK_WAY_REFILL_CALLS);
    hak_magazine_t *magazine = cache ? &cache->magazines[class_index] : NULL;
    if (magazine && !magazine->slots && !zeroed) {
        one[0] = upgrade(cache, class_index);
        if (HAK_WAY_FOUND(HAK_WAY_REFILL_LENT, one[0] != NULL)) return one[0];
    }
    if (magazine && HAK_UNLIKELY(is_braked(magazine))) set_limit(magazine, magazine->slots);
    if (magazine && !zeroed) grow(cache, class_index, REFILLED);
    if (magazine && zeroed)
        cache->used_at[class_index] = cache->clock[hak_tier_of_class(class_index)];
    if (zeroed || !magazine || !magazine->slots) {
        HAK_COUNT_WAY(zeroed      ? HAK_WAY_REFILL_ONE_ZEROED
                      : !magazine ? HAK_WAY_REFILL_ONE_NO_CACHE
                                  : HAK_WAY_REFILL_ONE_NO_STACK);
        unsigned home = cache ? cache->shard : 0;
        unsigned taken = hak_shard_take(home, class_index, 1, one, zeroed);
        if (cache) count_refill(cache, class_index, taken);
        return taken ? one[1] : NULL;
    }
    unsigned want = next_batch(cache, class_index);
    unsigned taken = (unsigned)hak_lifo_take(cache, class_index, magazine->base, want);
    if (!HAK_WAY_FOUND(HAK_WAY_REFILL_LIFO, taken)) {
        if (hak_policy_promoted(class_index))
            taken = hak_warm_cache_refill(cache, class_index, want, magazine->base);
        else
            taken = hak_shard_take(cache->shard, class_index, want, magazine->base, NULL);
        count_refill(cache, class_index, taken);
    }
    if (taken == 0) return NULL;
    hak_store_relaxed(&magazine->top, magazine->base + taken - 1);
    HAK_CACHE_CHECK_AFTER(cache, class_index);
    return magazine->base[taken];
}

void hak_cache_overflow(hak_cache_t *cache, unsigned class_index, void *block) {
    if (!cache) {
        HAK_COUNT_WAY(HAK_WAY_FREE_NO_CACHE);
        hak_shard_give(0, class_index, &block, 1);
        return;
    }
    hak_magazine_t *magazine = &cache->magazines[class_index];
    if (HAK_UNLIKELY(is_braked(magazine))) {
        HAK_COUNT_WAY(HAK_WAY_FREE_FULL);
        empty(cache, class_index);
        if (!cache->braked) set_limit(magazine, magazine->slots);
    } else if (count_of(magazine) + 1 >= magazine->slots && !grow(cache, class_index, FLUSHED)) {
        if (!magazine->slots) {
            HAK_COUNT_WAY(HAK_WAY_FREE_NO_STACK);
            give(cache, class_index, &block, 1);
            return;
        }
        HAK_COUNT_WAY(HAK_WAY_FREE_FULL);
        flush(cache, class_index, next_batch(cache, class_index));
    } else {
        HAK_COUNT_WAY(HAK_WAY_FREE_ROOM);
    }
    HAK_COUNT_CALL(class_index, HAK_CALL_TLS_SLL);
    void **top = hak_load_relaxed(&magazine->top) + 1;
    *top = block;
    hak_store_relaxed(&magazine->top, top);
    HAK_CACHE_CHECK_AFTER(cache, class_index);
}

bool hak_cache_flush_magazine(hak_cache_t *cache) {
    for (unsigned i = 0; i < HAK_CLASS_COUNT; i++) {
        unsigned index = cache->victim = (uint16_t)(cache->victim % HAK_CLASS_COUNT + 1);
        if (count_of(&cache->magazines[index]) + hak_lifo_count(cache, index) == 0) continue;
        empty(cache, index);
        return true;
    }
    return false;
}

void hak_cache_flush_all(hak_cache_t *cache) {
    hak_warm_cache_release(cache);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) empty(cache, i);
}
