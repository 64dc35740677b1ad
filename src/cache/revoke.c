/* revoke.c: takes the blocks of caches whose threads rest; the protocol is in revoke.h. */
#include "cache/revoke.h"

#include <string.h>

#include "meta/meta.h"
#include "os/os.h"
#include "shard/give.h"

enum {
    VICTIMS = 4,  /* caches that are revoked at once: they share the barriers */
    VISITS = 128, /* caches that are looked at for that */
};

static _Atomic size_t budgets[HAK_CACHED_TIERS] = {SIZE_MAX, SIZE_MAX};
static _Atomic size_t charged[HAK_CACHED_TIERS]; /* by all caches */

static _Atomic(hak_cache_t *) hand; /* the next cache to look at, or NULL; two revokers may look at
                                       the same */

/* What is taken from one cache; a record, since it is large for a thread's stack. */
typedef struct loot {
    struct loot *next;
    hak_cache_t *cache;
    size_t size; /* of this record */
    unsigned shard;
    uint16_t marks[HAK_CLASS_LIMIT]; /* index of the mark in its stack; 0 for none */
    bool taken[HAK_CLASS_LIMIT];     /* R4: top is above the mark. R5: they are the revoker's */
    void *blocks[];                  /* of each class as many as its mark, the held one last */
} loot_t;

void hak_revoke_set_budget(hak_tier_t tier, size_t bytes) {
    hak_store_relaxed(&budgets[tier], bytes);
}

void hak_revoke_charge(hak_tier_t tier, size_t bytes) { hak_add_relaxed(&charged[tier], bytes); }

void hak_revoke_uncharge(hak_cache_t *cache) {
    if (!hak_load_relaxed(&cache->charged)) return;
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++)
        hak_revoke_charge((hak_tier_t)tier, 0 - cache->capacity[tier]);
    hak_store_relaxed(&cache->charged, false);
}

void hak_revoke_forget_others(const hak_cache_t *own) {
    bool has_charged = own && hak_load_relaxed(&own->charged);
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++)
        hak_store_relaxed(&charged[tier], has_charged ? own->capacity[tier] : 0);
}

static _Atomic(void *) *slot_of(const hak_magazine_t *magazine, size_t index) {
    return hak_slot(magazine->base + index);
}

static size_t top_of(const hak_magazine_t *magazine) {
    return magazine->slots ? (size_t)(hak_load_relaxed(&magazine->top) - magazine->base) : 0;
}

static bool is_revoked(const hak_cache_t *cache, unsigned class_index) {
    return hak_load_relaxed(&cache->revoked[class_index / 64]) >> class_index % 64 & 1;
}

void **hak_revoke_floor(const hak_cache_t *cache, unsigned class_index, void **top) {
    const hak_magazine_t *magazine = &cache->magazines[class_index];
    if (HAK_LIKELY(!is_revoked(cache, class_index))) return magazine->base;
    while (top > magazine->base && hak_load_relaxed(hak_slot(top))) top--;
    return top;
}

/* ---- The owner ------------------------------------------------------------------------------- */

/* Moves the blocks above a mark down to the sentinel. */
static void close_gap(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **top = hak_load_relaxed(&magazine->top);
    void **floor = hak_revoke_floor(cache, class_index, top);
    memmove(magazine->base + 1, floor + 1, (size_t)(top - floor) * sizeof(void *));
    hak_store_relaxed(&magazine->top, magazine->base + (top - floor));
}

static void close_gaps(hak_cache_t *cache) {
    hak_lock_acquire(&cache->stack_lock);
    for (unsigned i = 0; i < HAK_REVOKED_WORDS; i++) {
        uint64_t word = hak_load_relaxed(&cache->revoked[i]);
        for (uint64_t rest = word; rest; rest &= rest - 1)
            close_gap(cache, i * 64 + hak_lowest_bit(rest));
        hak_store_relaxed(&cache->revoked[i], 0);
    }
    hak_lock_release(&cache->stack_lock);
}

/* ---- The revoker ----------------------------------------------------------------------------- */

/* A cache that made no slow call since the hand came by the last time. */
static bool rests(hak_cache_t *cache) {
    uint32_t calls = hak_load_relaxed(&cache->slow_count);
    uint32_t before = hak_load_relaxed(&cache->calls_seen);
    hak_store_relaxed(&cache->calls_seen, calls);
    return calls == before && hak_load_relaxed(&cache->charged) &&
           hak_load_relaxed(&cache->busy) != HAK_BUSY_ALL && !hak_gate_is_lost(&cache->post);
}

/* R1, before the barrier. */
static unsigned choose(hak_cache_t **caches, const hak_cache_t *self) {
    unsigned count = 0;
    hak_cache_t *cache = hak_load_acquire(&hand); /* partner: the end of this function */
    for (unsigned i = 0; i < VISITS && count < VICTIMS; i++, cache = cache->next) {
        if (!cache) cache = hak_load_acquire(&hak_cache_newest); /* partner: hak_cache_list */
        if (cache != self && rests(cache) && hak_lock_try(&cache->revoke_lock))
            caches[count++] = cache;
    }
    hak_store_release(&hand, cache);
    return count;
}

/* R2. NULL when the cache has to be let go. */
static loot_t *prepare(hak_cache_t *cache, loot_t *next) {
    size_t most = 0;
    const unsigned busy = hak_load_acquire(&cache->busy); /* partner: S1, S2 */
    if (busy == HAK_BUSY_ALL) return NULL;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) most += top_of(&cache->magazines[i]);
    const size_t size = sizeof(loot_t) + most * sizeof(void *);
    loot_t *loot = hak_meta_alloc(size);
    if (!loot) return NULL;
    memset(loot, 0, sizeof *loot);
    loot->next = next;
    loot->cache = cache;
    loot->size = size;
    loot->shard = cache->shard;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        const size_t top = top_of(&cache->magazines[i]);
        if (i == busy || top < 2 || is_revoked(cache, i) || most < top) continue;
        loot->marks[i] = (uint16_t)(top - 1);
        most -= top;
    }
    return loot;
}

/* R3. The owner works meanwhile, but the room for the blocks is reserved. */
static void mark(loot_t *loot) {
    void **to = loot->blocks;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; to += loot->marks[i], i++) {
        if (!loot->marks[i]) continue;
        _Atomic(void *) *slot = slot_of(&loot->cache->magazines[i], loot->marks[i]);
        to[loot->marks[i] - 1] = hak_exchange_acq_rel(slot, NULL);
    }
}

/* R4 */
static void look(loot_t *loot) {
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
        loot->taken[i] = loot->marks[i] && top_of(&loot->cache->magazines[i]) > loot->marks[i];
}

/* R5 for one magazine. */
static bool take(const loot_t *loot, unsigned class_index, void **to) {
    const size_t count = loot->marks[class_index];
    const hak_magazine_t *magazine = &loot->cache->magazines[class_index];
    _Atomic(void *) *slot = slot_of(magazine, count);
    if (!loot->taken[class_index] || hak_load_relaxed(slot) != NULL) {
        void *nothing = NULL;
        hak_cas_release(slot, &nothing, to[count - 1]);
        return false;
    }
    for (size_t i = 1; i < count; i++) to[i - 1] = hak_load_relaxed(slot_of(magazine, i));
    return true;
}

/* R5 and R6 */
static void collect(loot_t *loot) {
    hak_cache_t *cache = loot->cache;
    void **to = loot->blocks;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; to += loot->marks[i], i++) {
        if (!loot->marks[i]) continue;
        loot->taken[i] = take(loot, i, to);
        if (!loot->taken[i]) continue;
        HAK_ADD_OWNED(&hak_cache_counts(cache, (hak_band_t)hak_bands[i])->flushed, loot->marks[i]);
        HAK_ADD_OWNED(&cache->revoked[i / 64], (uint64_t)1 << i % 64);
    }
    hak_revoke_uncharge(cache);
    hak_lock_release(&cache->revoke_lock); /* partner: hak_revoke_enter */
}

/* Gives the blocks to the shards. No lock is held: one of them may turn out to be free already. */
static void give(loot_t *loot) {
    void **from = loot->blocks;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; from += loot->marks[i], i++)
        if (loot->taken[i]) hak_shard_give(loot->shard, i, from, loot->marks[i]);
    hak_meta_free(loot, loot->size);
}

/* R2 to R6. */
static loot_t *revoke(hak_cache_t *const *caches, unsigned count) {
    loot_t *list = NULL;
    const bool fenced = hak_os_barrier();
    for (unsigned i = 0; i < count; i++) {
        loot_t *loot = fenced ? prepare(caches[i], list) : NULL;
        if (loot)
            list = loot;
        else
            hak_lock_release(&caches[i]->revoke_lock);
    }
    for (loot_t *loot = list; loot; loot = loot->next) mark(loot);
    bool done = list && hak_os_barrier();
    for (loot_t *loot = list; done && loot; loot = loot->next) look(loot);
    if (done && !hak_os_barrier())
        for (loot_t *loot = list; loot; loot = loot->next) memset(loot->taken, 0, HAK_CLASS_LIMIT);
    for (loot_t *loot = list; loot; loot = loot->next) collect(loot);
    return list;
}

static void revoke_some(const hak_cache_t *self) {
    hak_cache_t *caches[VICTIMS];
    loot_t *list = NULL;
    if (hak_gate_is_fenced()) return;
    unsigned count = choose(caches, self);
    if (count) list = revoke(caches, count);
    while (list) {
        loot_t *loot = list;
        list = loot->next;
        give(loot);
    }
}

static bool has_room(hak_tier_t tier, size_t bytes) {
    return hak_load_relaxed(&charged[tier]) + bytes <= hak_load_relaxed(&budgets[tier]);
}

bool hak_revoke_is_over(hak_tier_t tier) { return !has_room(tier, 0); }

bool hak_revoke_find_room(const hak_cache_t *cache, hak_tier_t tier, size_t bytes) {
    if (HAK_LIKELY(has_room(tier, bytes))) return true;
    revoke_some(cache);
    return has_room(tier, bytes);
}

HAK_OUT_OF_LINE bool hak_revoke_settle(hak_cache_t *cache) {
    hak_lock_acquire(&cache->revoke_lock);
    hak_lock_release(&cache->revoke_lock);
    close_gaps(cache);
    if (hak_load_relaxed(&cache->charged)) return true;
    hak_store_relaxed(&cache->charged, true);
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++)
        hak_revoke_charge((hak_tier_t)tier, cache->capacity[tier]);
    if (hak_revoke_is_over(HAK_TINY) || hak_revoke_is_over(HAK_MID)) revoke_some(cache);
    return true;
}
