/* shard.c: taking batches, over all shards, and what concerns all bins at once. */
#include "shard/shard.h"

#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/warm.h"

enum { SMALL_HEAP = 4 }; /* superslabs; no look for sparse slabs, which would touch all bins */

static _Atomic unsigned shard_count; /* 0 until the first look */

unsigned hak_shard_count(void) {
    unsigned count = hak_load_relaxed(&shard_count);
    if (HAK_UNLIKELY(count == 0)) {
        count = (unsigned)hak_option(HAK_OPTION_SHARDS);
        if (count == 0) count = hak_os_cpu_count();
        if (count > HAK_SHARDS_MAX) count = HAK_SHARDS_MAX;
        hak_store_relaxed(&shard_count, count);
    }
    return count;
}

bool hak_shard_has_slabs(unsigned home, unsigned class_index) {
    return hak_load_relaxed(&hak_bin_of(home, class_index)->adopted) != 0;
}

/* Whether a visit could bring anything; a look without the lock. */
static bool has_free(const hak_shard_bin_t *bin) {
    return hak_load_relaxed(&bin->listed_count) || hak_load_relaxed(&bin->pending);
}

/* The same, with what it would take back from threads. */
static bool may_give(unsigned shard, unsigned class_index) {
    return has_free(hak_bin_of(shard, class_index)) || hak_warm_any(shard, class_index);
}

/* The same for the shards that may be searched for used blocks. */
static bool others_have_free(unsigned home, unsigned class_index) {
    unsigned count = hak_shard_count();
    unsigned probes = (unsigned)hak_option(HAK_OPTION_TRYLOCK_PROBES);
    for (unsigned i = 1; i < count && i <= probes; i++)
        if (may_give((home + i) % count, class_index)) return true;
    return false;
}

/* What is wanted, and by whom. */
typedef struct {
    unsigned home, class_index, want;
    void **top;
    bool *zeroed;     /* or NULL */
    hak_warm_t *warm; /* of the thread, which has found nothing in it; or NULL */
} request_t;

/* What a visit takes: blocks that have been in use; those, else fresh ones too unless
 * another shard may have used ones; any. */
typedef enum { USED, USED_FIRST, ANY } what_t;

static unsigned take(const request_t *request, hak_shard_bin_t *bin, bool fresh) {
    return hak_bin_take(bin, request->class_index, request->want, request->top, fresh,
                        request->zeroed);
}

/* What is listed, else what remote frees brought, else what other threads have bound. */
static unsigned take_listed(const request_t *request, hak_shard_bin_t *bin, unsigned shard,
                            what_t what) {
    unsigned class_index = request->class_index;
    unsigned taken = take(request, bin, what == ANY);
    if (!taken && hak_warm_any(shard, class_index) &&
        hak_warm_reclaim(bin, shard, class_index, what == ANY))
        taken = take(request, bin, what == ANY);
    if (!taken && what == USED_FIRST && bin->head && !others_have_free(request->home, class_index))
        taken = take(request, bin, true);
    return taken;
}

/* One locked visit. */
static unsigned take_locked(const request_t *request, hak_shard_bin_t *bin, unsigned shard,
                            what_t what) {
    unsigned class_index = request->class_index;
    hak_warm_t *warm = shard == request->home ? request->warm : NULL;
    hak_slab_t *released = NULL;
    void *twice = NULL;
    hak_bin_count(shard, class_index, HAK_SHARD_LOCKS, 1);
    if (HAK_UNLIKELY(warm != NULL)) hak_warm_tidy(warm, bin);
    if (!bin->head || what != ANY)
        released = hak_bin_drain(bin, shard, class_index,
                                 (uint32_t)hak_option(HAK_OPTION_POOL_DRAIN_MAX), &twice);
    unsigned taken = take_listed(request, bin, shard, what);
    if (taken) {
        hak_bin_count(shard, class_index, HAK_SHARD_MISSES, 1);
        hak_bin_count(shard, class_index, HAK_SHARD_TAKEN, taken);
        if (shard != request->home) hak_bin_count(shard, class_index, HAK_SHARD_PROBED, taken);
        if (HAK_UNLIKELY(warm != NULL)) hak_warm_prefill(warm, bin);
    }
    hak_lock_release(&bin->lock);
    if (HAK_UNLIKELY(released != NULL)) hak_slab_release_list(released, class_index);
    if (HAK_UNLIKELY(twice != NULL)) hak_bin_report_twice(twice, class_index);
    return taken;
}

static unsigned take_from(const request_t *request, unsigned shard, what_t what) {
    hak_shard_bin_t *bin = hak_bin_of(shard, request->class_index);
    if (!may_give(shard, request->class_index)) return 0;
    hak_lock_acquire(&bin->lock);
    return take_locked(request, bin, shard, what);
}

/* Searches the next `probes` shards. It waits for their locks: a wait is shorter
 * than the page fault that a shard passed over would cost. */
static unsigned take_from_others(const request_t *request, what_t what, unsigned probes) {
    unsigned count = hak_shard_count();
    for (unsigned i = 1; i < count && i <= probes; i++) {
        unsigned taken = take_from(request, (request->home + i) % count, what);
        if (taken) return taken;
    }
    return 0;
}

static unsigned take_from_pool(const request_t *request) {
    bool fresh;
    unsigned home = request->home, class_index = request->class_index;
    uint64_t superslabs = hak_load_relaxed(&hak_pool_stats.stage3);
    hak_slab_t *slab = hak_pool_take(1, &fresh);
    bool grown = hak_load_relaxed(&hak_pool_stats.stage3) != superslabs;
    if (HAK_UNLIKELY(grown) && superslabs >= SMALL_HEAP)
        hak_shard_purge_grown((size_t)HAK_SUPERSLAB_UNITS * HAK_UNIT_SIZE);
    if (slab && !hak_slab_make(slab, class_index, fresh)) {
        hak_pool_give(slab, 1);
        slab = NULL;
    }
    if (!slab) return 0;
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_TINY_PAGEBOX_LOG)))
        hak_bin_log_hand_over("acquire", slab, class_index);
    hak_shard_bin_t *bin = hak_bin_of(home, class_index);
    hak_lock_acquire(&bin->lock);
    hak_bin_adopt(bin, home, class_index, slab);
    return take_locked(request, bin, home, ANY);
}

/* Blocks that have been in use come first, wherever they are: their pages are there. */
static unsigned take_anywhere(const request_t *request) {
    unsigned probes = (unsigned)hak_option(HAK_OPTION_TRYLOCK_PROBES);
    unsigned taken = take_from(request, request->home, USED_FIRST);
    if (!taken) taken = take_from_others(request, USED, probes);
    if (!taken) taken = take_from(request, request->home, ANY);
    if (!taken) taken = take_from_pool(request);
    if (!taken) taken = take_from_others(request, ANY, HAK_SHARDS_MAX);
    return taken;
}

unsigned hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                        bool *zeroed) {
    request_t request = {home, class_index, want, top, zeroed, NULL};
    return take_anywhere(&request);
}

unsigned hak_shard_take_warm(unsigned home, unsigned class_index, unsigned want, void **top,
                             hak_warm_t *warm) {
    request_t request = {home, class_index, want, top, NULL, warm};
    return take_anywhere(&request);
}

/* Bins are visited one by one; one that is busy is not idle. */
void hak_shard_sweep(void) {
    unsigned count = hak_shard_count();
    bool any = hak_load_relaxed(&hak_warm_total) != 0;
    for (unsigned shard = 0; shard < count; shard++) {
        for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
            hak_shard_bin_t *bin = hak_bin_of(shard, class_index);
            bool warm = any && hak_load_relaxed(&hak_warm_ring_of(shard, class_index)->count) != 0;
            if (!has_free(bin) && !warm) continue;
            if (!hak_lock_try(&bin->lock)) continue;
            void *twice = NULL;
            hak_slab_t *released = hak_bin_drain(bin, shard, class_index, UINT32_MAX, &twice);
            if (HAK_UNLIKELY(warm)) released = hak_warm_sweep(bin, shard, class_index, released);
            hak_slab_t *slab = bin->empty_age++ > 0 ? hak_bin_drop_empty(bin) : NULL;
            if (slab) {
                slab->next = released;
                released = slab;
            }
            hak_lock_release(&bin->lock);
            hak_slab_release_list(released, class_index);
            if (HAK_UNLIKELY(twice != NULL)) hak_bin_report_twice(twice, class_index);
        }
    }
}

/* Calls `visit` for every bin, in lock order. */
static void each_bin(void (*visit)(hak_shard_bin_t *bin)) {
    unsigned count = hak_shard_count();
    for (unsigned shard = 0; shard < count; shard++)
        for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++)
            visit(hak_bin_of(shard, class_index));
}

static void lock_bin(hak_shard_bin_t *bin) { hak_lock_acquire(&bin->lock); }
static void unlock_bin(hak_shard_bin_t *bin) { hak_lock_release(&bin->lock); }

static void forget_pending(hak_shard_bin_t *bin) {
    hak_lock_reset(&bin->lock);
    hak_store_relaxed(&bin->pending, NULL);
}

static void repend_superslab(hak_superslab_t *super, void *context) {
    (void)context;
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS; i++) hak_bin_repend(&super->slabs[i]);
}

void hak_shard_lock_all(void) {
    each_bin(lock_bin);
    hak_warm_claim_all();
}

void hak_shard_unlock_all(void) {
    hak_warm_unclaim_all();
    each_bin(unlock_bin);
}

void hak_shard_rebuild(void) {
    hak_warm_unbind_all();
    each_bin(forget_pending);
    hak_region_each_superslab(repend_superslab, NULL);
}

unsigned hak_shard_remote_count(const hak_slab_t *slab) {
    unsigned words = hak_classes[hak_owner_class(hak_load_relaxed(&slab->owner))].words;
    _Atomic uint64_t *remote = hak_slab_remote(slab, words);
    unsigned count = 0;
    for (unsigned w = 0; w < words; w++) count += hak_bit_count(hak_load_relaxed(&remote[w]));
    return count;
}

hak_shard_counts_t hak_shard_counts(unsigned class_index) {
    hak_shard_counts_t sum = {0};
    for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
        sum.counts[i] = hak_bin_carried(class_index, i);
    for (unsigned shard = 0; shard < hak_shard_count(); shard++) {
        hak_bin_counts_t *bin = hak_bin_counts(shard, class_index);
        for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
            sum.counts[i] += hak_load_relaxed(&bin->counts[i]);
        sum.stage1 += hak_load_relaxed(&hak_bin_of(shard, class_index)->stage1);
    }
    return sum;
}

/* One counter of a class over all shards, without a lock; bin.h says what may be amiss. */
static uint64_t count_now(unsigned class_index, unsigned counter) {
    uint64_t sum = hak_bin_carried(class_index, counter); /* first */
    for (unsigned shard = 0; shard < hak_shard_count(); shard++)
        sum += hak_load_relaxed(&hak_bin_counts(shard, class_index)->counts[counter]);
    return sum;
}

void hak_shard_add_costs(hak_policy_costs_t costs[HAK_POLICY_BANDS]) {
    for (unsigned i = 1; hak_bands[i] < HAK_POLICY_BANDS; i++) {
        costs[hak_bands[i]].locks += count_now(i, HAK_SHARD_LOCKS);
        costs[hak_bands[i]].misses += count_now(i, HAK_SHARD_MISSES);
        costs[hak_bands[i]].warm += hak_warm_carved(i);
    }
}
