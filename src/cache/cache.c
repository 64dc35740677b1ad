/* cache.c: fills, empties and resizes the stacks of magazines.
 *
 * A slow call is a refill (the magazine was empty) or an overflow (it was full). A refill takes from the class's lifo,
 * else from a warm slab or the home shard; if depots are open, from the CPU's depot, else from the CPU's
 * shard. idle.h describes how blocks of magazines that the program does not use go back.
 *
 * SIZE. A magazine starts with a small stack. The stack doubles when an overflow follows a
 * refill, or a refill an overflow: a deeper stack would have avoided both calls. When the
 * thread's budget is used up, a magazine with more frequent slow calls takes room from one with
 * less frequent ones. So a program with few busy classes gets deep stacks, a program with many
 * gets shallow ones, and memory stays bounded.
 *
 * BATCH. A refill takes an eighth of the stack when the direction has just changed, and doubles that
 * up to half of the stack while the direction stays the same. A flush gives half of the stack, because the
 * remaining blocks must move down. To a depot, from which other threads take at once, a flush gives as many as
 * a refill takes. So a program whose number of live blocks varies by up to seven eighths of the stack stops
 * making slow calls. A stack of few blocks is refilled as a whole.
 *
 * STREAMS. A thread that only frees, or only allocates, would keep many blocks in a deep stack,
 * but needs large batches. So the stack of a tiny magazine also doubles after each second slow call
 * of one direction, up to some KiB of blocks; after many such calls it is moved as a whole. The stack of a
 * mid magazine does so only while the thread allocates: fresh blocks of a growing heap have no pages yet, but
 * freed blocks have. If depots are open, a stack doubles only after many calls: stacks of very many threads
 * that grow at once would wait for the lock of records. */
#include "cache/cache.h"

#include <string.h>

#include "base/probe.h"
#include "cache/verify.h"
#include "cache/cpu_depot.h"
#include "cache/idle.h"
#include "cache/lifo.h"
#include "cache/magazine.h"
#include "cache/sampler.h"
#include "cache/stacks.h"
#include "cache/warm_cache.h"
#include "meta/meta.h"
#include "options/environment.h"
#include "options/options.h"
#include "policy/policy.h"
#include "debug_record/record.h"
#include "shard/shard.h"

enum {
    SLOTS_MAX = 2048,              /* of one stack, sentinel included */
    STACK_BYTES_MAX = 1024 * 1024, /* of blocks in one stack */
    START_BYTES = 1024,            /* of blocks in a first stack */
    START_SLOTS_MAX = 32,
    STREAM_CALLS = 16,            /* slow calls in one direction that make a stream */
    GROW_CALLS = 2,               /* slow calls in one direction for each growth of a stack */
    STREAM_BYTES = 16 * 1024,     /* of blocks in a stack that a stream has grown, at most... */
    STREAM_MID_BYTES = 64 * 1024, /* ...and in one of a mid class */
    VICTIMS_ASKED = 4,            /* magazines that one call asks for room */
    STEAL_INTERVAL = 16,          /* slow calls between two calls that ask */
    PART = 8,                     /* the first batch of a direction is 1/PART of the stack... */
    FLUSH_PART = 2,               /* ...and a flush to a shard 1/FLUSH_PART */
    BATCH_LEAST = 4,
    FEW_SLOTS = 8,     /* a stack of so many slots or fewer is refilled as a whole */
    UPGRADED_MAX = 16, /* first blocks of a class taken from the class above */
    UPGRADED_BYTES = 8 * 1024,
    REFILLED = 0, /* the direction of a slow call, a flag in a magazine's batch */
    FLUSHED = 0x8000,
};

/* Read-only: malloc would hand out whatever a stray write stored here. */
static HAK_NEAR_CONSTANT void *const empty_slot = NULL;
#define EMPTY_TOP ((void **)(uintptr_t)&empty_slot)

const hak_cache_t hak_cache_none = {.magazines = {[0] = {.top = (void **)(uintptr_t)&empty_slot}}};
const hak_cache_t hak_cache_dead = {.magazines = {[0] = {.top = (void **)(uintptr_t)&empty_slot}}};

__thread hak_cache_t *hak_cache = (hak_cache_t *)(uintptr_t)&hak_cache_none;

static _Atomic size_t budgets[HAK_CACHED_TIERS] = {1 * MIB, 1 * MIB};

void hak_cache_set_budget(hak_tier_t tier, size_t bytes) {
    hak_store_relaxed(&budgets[tier], bytes);
}
size_t hak_cache_budget(hak_tier_t tier) { return hak_load_relaxed(&budgets[tier]); }

void hak_cache_reset(hak_cache_t *cache) {
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        hak_magazine_t *magazine = &cache->magazines[i];
        hak_store_relaxed(&magazine->top, EMPTY_TOP);
        magazine->limit = 0;
        magazine->base = NULL;
        magazine->slots = magazine->batch = 0;
        magazine->start_test = 0;
    }
    cache->stacks = NULL;
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++) cache->capacity[tier] = 0;
    hak_lifo_reset(cache);
    hak_sampler_reset(cache);
    hak_store_relaxed(&cache->quarantine, NULL);
    cache->quick = NULL;
    cache->changing = 0;
}

hak_cache_t *hak_cache_make(void) {
    bool has_sampler = hak_options_loaded() && hak_sampler_is_wanted();
    hak_cache_t *cache = hak_meta_alloc(
        has_sampler || !hak_options_loaded() ? (size_t)HAK_SAMPLER_SIZE : (size_t)HAK_CACHE_SIZE);
    if (!cache) return NULL;
    memset(cache, 0, HAK_CACHE_SIZE);
    hak_cache_reset(cache);
    for (unsigned i = 0; i <= HAK_SMALL_MAX / 8; i++)
        cache->route[i] = (uint16_t)(hak_class_by_8[i] << HAK_MAGAZINE_SHIFT);
    if (HAK_UNLIKELY(has_sampler)) hak_sampler_begin(cache);
    return cache;
}

/* A magazine without a stack has neither lifo nor share. */
HAK_BEHIND size_t hak_cache_count(hak_cache_t *cache, unsigned class_index) {
    if (hak_load_relaxed(&cache->magazines[class_index].top) == EMPTY_TOP) return 0;
    if (HAK_UNLIKELY(hak_gate_is_lost(&cache->post))) return 0;
    hak_lock_acquire(&cache->stack_lock);
    size_t count = hak_magazine_held(cache, class_index);
    hak_lock_release(&cache->stack_lock);
    return count;
}

static unsigned way_of(const hak_magazine_t *magazine) { return magazine->batch & FLUSHED; }

static bool is_mid(unsigned class_index) { return hak_tier_of_class(class_index) == HAK_MID; }

/* Most slots that the stack of a class may have, sentinel included; 0: it has no stack. The
 * options call the stack of a mid class its ring. */
static unsigned slots_max(unsigned class_index) {
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_HARDENED))) return 0; /* see hardened/hardened.h */
    if (is_mid(class_index)) { /* none where debug records are kept: see debug_record/record.h */
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

/* Moves a magazine to a new stack of `slots`, which must have room for its blocks. */
static bool resize(hak_cache_t *cache, unsigned class_index, unsigned slots) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **base = hak_stacks_take(&cache->stacks, hak_cache_partner(cache), slots);
    if (!base) return false;
    size_t count = hak_magazine_count(magazine), old_slots = magazine->slots;
    void **old = magazine->base;
    base[0] = NULL;
    if (count) memcpy(base + 1, old + 1, count * sizeof(void *));
    hak_cache_begin_change(cache);
    cache->capacity[hak_tier_of_class(class_index)] +=
        (slots - old_slots) * hak_classes[class_index].size;
    hak_lock_acquire(&cache->stack_lock);
    hak_store_relaxed(&magazine->top, base + count);
    magazine->start_test = hak_classes[class_index].start_test;
    magazine->base = base;
    magazine->limit = hak_class_is_coloured(&hak_classes[class_index])
                          ? 0
                          : (uint32_t)(uintptr_t)(base + slots - 1);
    magazine->slots = (uint16_t)slots;
    hak_lock_release(&cache->stack_lock);
    hak_cache_end_change(cache);
    if (old_slots) hak_stacks_put(cache->stacks, old, (unsigned)old_slots);
    return true;
}

HAK_FAST_PATH void count_refill(hak_cache_t *cache, unsigned class_index, unsigned taken) {
    hak_cache_counts_t *counts = hak_magazine_counts(cache, class_index);
    if (!taken) return;
    HAK_ADD_OWNED(&counts->uc_miss, 1);
    HAK_ADD_OWNED(&counts->refilled, taken);
}

/* Halves the stack of a magazine; not if that finds blocks that were already free, which are then in *twice. */
static void shrink(hak_cache_t *cache, unsigned class_index, hak_twice_t *twice) {
    unsigned slots = cache->magazines[class_index].slots / 2u;
    size_t count = hak_magazine_count(&cache->magazines[class_index]);
    if (count > slots - 1)
        hak_magazine_remove(cache, class_index, count - (slots - 1), false, twice);
    if (HAK_LIKELY(!twice->bits)) resize(cache, class_index, slots);
}

/* Makes room for `bytes` of a tier: shrinks magazines whose last slow call is older than
 * `before`, up to one that had blocks that were already free. Ages are compared, since the clock wraps. */
static HAK_BEHIND bool take_room(hak_cache_t *cache, hak_tier_t tier, uint32_t before, size_t bytes,
                                 hak_twice_t *twice) {
    const uint32_t now = cache->clock[tier];
    size_t limit = hak_load_relaxed(&budgets[tier]);
    int asked = 0;
    for (unsigned i = 0; i < HAK_CLASS_COUNT && asked < VICTIMS_ASKED; i++) {
        if (cache->capacity[tier] + bytes <= limit || HAK_UNLIKELY(twice->bits != 0)) break;
        unsigned index = cache->victim = (uint16_t)(cache->victim % HAK_CLASS_COUNT + 1);
        if (cache->magazines[index].slots <= 2 || hak_tier_of_class(index) != tier) continue;
        asked++;
        if (now - cache->used_at[index] > now - before) shrink(cache, index, twice);
    }
    return cache->capacity[tier] + bytes <= limit;
}

static size_t stack_bytes(const hak_magazine_t *magazine, unsigned class_index) {
    return (size_t)magazine->slots * hak_classes[class_index].size;
}

/* True when all recent slow calls of a class went the same way. */
static bool is_stream(const hak_cache_t *cache, unsigned class_index) {
    return cache->streak[class_index] >= STREAM_CALLS;
}

static size_t stream_bytes(unsigned class_index) {
    return is_mid(class_index) ? STREAM_MID_BYTES : STREAM_BYTES;
}

/* True when a stack may double because all slow calls went in the direction of the last one. A stack of a mid class
 * exceeds STREAM_BYTES only in a stream, so that threads with few blocks keep few. A ring of larger blocks grows up to
 * half of the least batch that is asked for: by default that is a first stack. */
static bool may_stream(const hak_cache_t *cache, unsigned class_index) {
    const hak_magazine_t *magazine = &cache->magazines[class_index];
    const size_t bytes = stack_bytes(magazine, class_index) * 2;
    if (bytes <= STREAM_BYTES) return !is_mid(class_index) || way_of(magazine) == REFILLED;
    return is_mid(class_index) && way_of(magazine) == REFILLED && is_stream(cache, class_index) &&
           (bytes <= STREAM_MID_BYTES ||
            (int64_t)magazine->slots * 2 < hak_option(HAK_OPTION_POOL_MIN_BUNDLE));
}

/* Notes a slow call that goes the same way as the last one. True when the stack should double
 * because of that. */
static bool note_same_way(hak_cache_t *cache, unsigned class_index) {
    uint8_t *streak = &cache->streak[class_index];
    *streak = *streak < UINT8_MAX ? *streak + 1u : UINT8_MAX + 1u - STREAM_CALLS;
    if (*streak % GROW_CALLS != 0 || !may_stream(cache, class_index)) return false;
    return *streak % STREAM_CALLS == 0 || !hak_depot_is_open();
}

/* Counts a slow call of a magazine. Returns the tier's count at its previous slow call. */
static uint32_t note_slow(hak_cache_t *cache, unsigned class_index) {
    const uint32_t before = cache->used_at[class_index];
    cache->slow_count++;
    cache->used_at[class_index] = ++cache->clock[hak_tier_of_class(class_index)];
    return before;
}

/* A slow call that grow has counted also looks at the next magazine of its tier. It holds no block meanwhile: what it
 * finds already free is reported, and the program's handler of SIGABRT may jump away. */
static void look_at_next(hak_cache_t *cache, unsigned class_index) {
    const hak_tier_t tier = hak_tier_of_class(class_index);
    const uint32_t now = cache->clock[tier];
    hak_idle_look(cache,
                  tier == HAK_TINY ? 1 + now % HAK_CLASS_TINY
                                   : HAK_CLASS_TINY + 1 + now % (HAK_CLASS_COUNT - HAK_CLASS_TINY),
                  now);
}

/* Makes a magazine's first stack, or doubles its stack: when this slow call goes the other way
 * than the last one, or when many have gone the same way; and the budget has room. *twice, empty so far, gets blocks
 * of another magazine that were already free: the caller reports them when it holds no block. */
static bool grow(hak_cache_t *cache, unsigned class_index, unsigned way, hak_twice_t *twice) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    hak_tier_t tier = hak_tier_of_class(class_index);
    uint32_t before = note_slow(cache, class_index);
    bool turned = !magazine->slots || way_of(magazine) != way;
    if (turned) {
        magazine->batch = (uint16_t)way; /* no blocks moved yet */
        cache->streak[class_index] = 0;
    }
    if (!magazine->slots)
        return slots_max(class_index) && resize(cache, class_index, slots_start(class_index));
    if (!turned && !note_same_way(cache, class_index)) return false;
    size_t more = stack_bytes(magazine, class_index);
    bool has_room = cache->capacity[tier] + more <= hak_load_relaxed(&budgets[tier]);
    /* Early growth takes no room from other magazines. */
    if (!has_room &&
        (cache->slow_count % STEAL_INTERVAL != 0 || cache->streak[class_index] % STREAM_CALLS != 0))
        return false;
    if (magazine->slots >= slots_max(class_index)) return false;
    if (!has_room && !take_room(cache, tier, before, more, twice)) return false;
    return resize(cache, class_index, magazine->slots * 2u);
}

/* True when a batch may be a whole stack: in a stream, and when half of the stack would be only a
 * block or two, so that short-lived threads would make many slow calls. */
static bool moves_whole(const hak_cache_t *cache, unsigned class_index) {
    const hak_magazine_t *magazine = &cache->magazines[class_index];
    bool is_few = magazine->slots <= FEW_SLOTS && way_of(magazine) == REFILLED;
    return stack_bytes(magazine, class_index) <= stream_bytes(class_index) &&
           (is_few || is_stream(cache, class_index));
}

/* Number of blocks that this slow call moves. */
static unsigned next_batch(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    size_t last = magazine->batch & (FLUSHED - 1u), least = BATCH_LEAST,
           most = magazine->slots / 2u;
    const bool flushes = way_of(magazine) == FLUSHED, mid = is_mid(class_index);
    if (mid && flushes)
        most = (magazine->slots - 1u) / (size_t)hak_option(HAK_OPTION_RING_RETURN_DIV);
    else if (moves_whole(cache, class_index))
        most = magazine->slots - 1u;
    if (mid && !flushes) least = (size_t)hak_option(HAK_OPTION_POOL_MIN_BUNDLE);
    const unsigned part = flushes && !hak_depot_is_open() ? FLUSH_PART : PART;
    size_t batch = last ? last * 2 : hak_max(magazine->slots / part, least);
    batch = hak_max(hak_min(batch, most), 1);
    magazine->batch = (uint16_t)(batch | way_of(magazine));
    return (unsigned)batch;
}

/* Takes a block from the class above while the home shard has no slab of the class. The first
 * few blocks of a class come that way, so that a small program touches half as many slabs. */
static void *upgrade(hak_cache_t *cache, unsigned class_index) {
    size_t size = hak_classes[class_index].size;
    unsigned upper = class_index + 1;
    if (class_index % 2 != 0 || size >= HAK_SMALL_MAX) return NULL;
    if (cache->upgraded[class_index] >= hak_min(UPGRADED_MAX, UPGRADED_BYTES / size)) return NULL;
    if (hak_shard_has_slabs(hak_cache_partner(cache), class_index)) return NULL;
    cache->upgraded[class_index]++;
    void *block = hak_cache_pop(cache, upper);
    return block ? block : hak_cache_refill(cache, upper, NULL);
}

static HAK_BEHIND void *refill_without_cache(unsigned class_index, bool *zeroed) {
    void *one[2];
    if (!zeroed && hak_depot_serves()) return hak_depot_get(class_index);
    HAK_COUNT_WAY(zeroed ? HAK_WAY_REFILL_ONE_ZEROED : HAK_WAY_REFILL_ONE_NO_CACHE);
    const unsigned home = hak_depot_serves() ? hak_depot_shard() : 0;
    return hak_shard_take(home, class_index, 1, one, zeroed) ? one[1] : NULL;
}

/* From a warm slab of the thread, or from its home. */
HAK_FAST_PATH unsigned refill_at_home(hak_cache_t *cache, unsigned class_index, unsigned want) {
    void **const top = cache->magazines[class_index].base;
    const unsigned taken = hak_policy_promoted(class_index)
                               ? hak_warm_cache_refill(cache, class_index, want, top)
                               : hak_shard_take(cache->shard, class_index, want, top, NULL);
    count_refill(cache, class_index, taken);
    return taken;
}

/* Threads outnumber the CPUs: those of one home run on several CPUs, so what the CPU has serves. They bind no slabs: each
 * would have some of each class, and records of them, and hardly ever run. */
static HAK_BEHIND unsigned refill_on_cpu(hak_cache_t *cache, unsigned class_index, unsigned want) {
    const unsigned cpu = hak_cache_find_partner(cache);
    void **const top = cache->magazines[class_index].base;
    unsigned taken = (unsigned)hak_depot_take(cpu, class_index, top, want);
    if (HAK_WAY_FOUND(HAK_WAY_REFILL_DEPOT, taken)) return taken;
    taken = hak_shard_take(cpu, class_index, want, top, NULL);
    count_refill(cache, class_index, taken);
    return taken;
}

HAK_FAST_PATH void report(const hak_twice_t *twice, unsigned class_index) {
    if (HAK_UNLIKELY(twice->bits != 0)) hak_shard_report_twice(twice, class_index);
}

HAK_FAST_PATH void grow_to_refill(hak_cache_t *cache, unsigned class_index) {
    hak_twice_t twice;
    twice.bits = 0;
    grow(cache, class_index, REFILLED, &twice);
    report(&twice, class_index);
    look_at_next(cache, class_index);
}

void *hak_cache_refill(hak_cache_t *cache, unsigned class_index, bool *zeroed) {
    void *one[2];
    HAK_COUNT_WAY(HAK_WAY_REFILL_CALLS);
    if (HAK_UNLIKELY(!cache)) return refill_without_cache(class_index, zeroed);
    hak_magazine_t *magazine = &cache->magazines[class_index];
    if (!magazine->slots && !zeroed) {
        if (cache->upgraded[class_index] == 0)
            hak_shard_touch(hak_cache_partner(cache), class_index);
        one[0] = upgrade(cache, class_index);
        if (HAK_WAY_FOUND(HAK_WAY_REFILL_ABOVE, one[0] != NULL)) return one[0];
    }
    if (HAK_UNLIKELY(hak_idle_is_braked(magazine))) hak_idle_set_limit(magazine, magazine->slots);
    if (!zeroed)
        grow_to_refill(cache, class_index);
    else
        cache->used_at[class_index] = cache->clock[hak_tier_of_class(class_index)];
    if (zeroed || !magazine->slots) {
        HAK_COUNT_WAY(zeroed ? HAK_WAY_REFILL_ONE_ZEROED : HAK_WAY_REFILL_ONE_NO_STACK);
        unsigned taken = hak_shard_take(hak_cache_find_partner(cache), class_index, 1, one, zeroed);
        count_refill(cache, class_index, taken);
        return taken ? one[1] : NULL;
    }
    unsigned want = next_batch(cache, class_index);
    unsigned taken = (unsigned)hak_lifo_take(cache, class_index, magazine->base, want);
    if (HAK_WAY_FOUND(HAK_WAY_REFILL_LIFO, taken)) {
        HAK_ADD_OWNED(&hak_magazine_counts(cache, class_index)->lifo_hits, 1);
    } else if (HAK_UNLIKELY(hak_depot_is_open())) {
        taken = refill_on_cpu(cache, class_index, want);
    } else {
        if (HAK_UNLIKELY(hak_shard_must_grow(cache->shard, class_index, cache->heap_units)))
            hak_idle_give_left(cache);
        taken = refill_at_home(cache, class_index, want);
    }
    if (taken == 0) return NULL;
    HAK_PROBE(refill, hak_classes[class_index].size, taken);
    hak_store_relaxed(&magazine->top, magazine->base + taken - 1);
    void *const block = magazine->base[taken];
    HAK_CACHE_CHECK_AFTER(cache, class_index);
    return block;
}

/* Gives a block of a thread without a cache back. False for a double free. */
static HAK_BEHIND bool give_without_cache(unsigned class_index, void *block) {
    if (!hak_depot_serves())
        hak_shard_flush(0, class_index, &block, 1);
    else if (!hak_depot_give(class_index, block))
        return false;
    HAK_COUNT_WAY(HAK_WAY_FREE_NO_CACHE);
    return true;
}

static void push(hak_cache_t *cache, unsigned class_index, void *block) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    HAK_COUNT_CALL(class_index, HAK_CALL_TLS_SLL);
    void **top = hak_load_relaxed(&magazine->top) + 1;
    *top = block;
    hak_store_relaxed(&magazine->top, top);
    HAK_CACHE_CHECK_AFTER(cache, class_index);
}

/* The stack has no room for the block. */
static void overflow_full(hak_cache_t *cache, unsigned class_index, void *block) {
    hak_twice_t twice;
    twice.bits = 0;
    if (grow(cache, class_index, FLUSHED, &twice)) {
        HAK_COUNT_WAY(HAK_WAY_FREE_ROOM);
        push(cache, class_index, block);
    } else if (!cache->magazines[class_index].slots) {
        HAK_COUNT_WAY(HAK_WAY_FREE_NO_STACK);
        hak_magazine_give(cache, class_index, block);
    } else {
        HAK_COUNT_WAY(HAK_WAY_FREE_FULL);
        hak_magazine_flush(cache, class_index, next_batch(cache, class_index), hak_depot_is_open(),
                           block);
        push(cache, class_index, block);
    }
    report(&twice, class_index);
    look_at_next(cache, class_index);
}

/* A braked magazine has room in its stack: the block goes back with the others. */
bool hak_cache_overflow(hak_cache_t *cache, unsigned class_index, void *block) {
    if (HAK_UNLIKELY(!cache)) return give_without_cache(class_index, block);
    const hak_magazine_t *magazine = &cache->magazines[class_index];
    if (hak_magazine_count(magazine) + 1 >= magazine->slots) {
        overflow_full(cache, class_index, block);
        return true;
    }
    push(cache, class_index, block);
    if (HAK_UNLIKELY(hak_idle_is_braked(magazine))) {
        HAK_COUNT_WAY(HAK_WAY_FREE_FULL);
        hak_idle_empty_braked(cache, class_index);
    } else {
        HAK_COUNT_WAY(HAK_WAY_FREE_ROOM);
    }
    return true;
}
