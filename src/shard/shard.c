/* shard.c: taking batches, over all shards, and what concerns all bins at once. */
#include "shard/shard.h"

#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"

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

/* The same for the shards that may be searched for used blocks. */
static bool others_have_free(unsigned home, unsigned class_index) {
    unsigned count = hak_shard_count();
    unsigned probes = (unsigned)hak_option(HAK_OPTION_TRYLOCK_PROBES);
    for (unsigned i = 1; i < count && i <= probes; i++)
        if (has_free(hak_bin_of((home + i) % count, class_index))) return true;
    return false;
}

/* What a visit takes: blocks that have been in use; those, else fresh ones too unless
 * another shard may have used ones; any. */
typedef enum { USED, USED_FIRST, ANY } what_t;

/* One locked visit: what is listed, else what remote frees brought. */
static unsigned take_locked(hak_shard_bin_t *bin, unsigned shard, unsigned home,
                            unsigned class_index, unsigned want, void **top, what_t what,
                            bool *zeroed) {
    hak_slab_t *released = NULL;
    void *twice = NULL;
    hak_bin_count(shard, class_index, HAK_SHARD_LOCKS, 1);
    if (!bin->head || what != ANY)
        released = hak_bin_drain(bin, shard, class_index,
                                 (uint32_t)hak_option(HAK_OPTION_POOL_DRAIN_MAX), &twice);
    unsigned taken = hak_bin_take(bin, class_index, want, top, what == ANY, zeroed);
    if (!taken && what == USED_FIRST && bin->head && !others_have_free(home, class_index))
        taken = hak_bin_take(bin, class_index, want, top, true, zeroed);
    if (taken) {
        hak_bin_count(shard, class_index, HAK_SHARD_MISSES, 1);
        hak_bin_count(shard, class_index, HAK_SHARD_TAKEN, taken);
        if (shard != home) hak_bin_count(shard, class_index, HAK_SHARD_PROBED, taken);
    }
    hak_lock_release(&bin->lock);
    if (HAK_UNLIKELY(released != NULL)) hak_slab_release_list(released, class_index);
    if (HAK_UNLIKELY(twice != NULL)) hak_bin_report_twice(twice, class_index);
    return taken;
}

static unsigned take_from(unsigned shard, unsigned home, unsigned class_index, unsigned want,
                          void **top, what_t what, bool *zeroed) {
    hak_shard_bin_t *bin = hak_bin_of(shard, class_index);
    if (!has_free(bin)) return 0;
    hak_lock_acquire(&bin->lock);
    return take_locked(bin, shard, home, class_index, want, top, what, zeroed);
}

/* Searches the next `probes` shards. It waits for their locks: a wait is shorter
 * than the page fault that a shard passed over would cost. */
static unsigned take_from_others(unsigned home, unsigned class_index, unsigned want, void **top,
                                 what_t what, bool *zeroed, unsigned probes) {
    unsigned count = hak_shard_count();
    for (unsigned i = 1; i < count && i <= probes; i++) {
        unsigned shard = (home + i) % count;
        unsigned taken = take_from(shard, home, class_index, want, top, what, zeroed);
        if (taken) return taken;
    }
    return 0;
}

static unsigned take_from_pool(unsigned home, unsigned class_index, unsigned want, void **top,
                               bool *zeroed) {
    bool fresh;
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
    hak_shard_bin_t *bin = hak_bin_of(home, class_index);
    hak_lock_acquire(&bin->lock);
    hak_bin_adopt(bin, home, class_index, slab);
    return take_locked(bin, home, home, class_index, want, top, ANY, zeroed);
}

/* Blocks that have been in use come first, wherever they are: their pages are there. */
unsigned hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                        bool *zeroed) {
    unsigned probes = (unsigned)hak_option(HAK_OPTION_TRYLOCK_PROBES);
    unsigned taken = take_from(home, home, class_index, want, top, USED_FIRST, zeroed);
    if (!taken) taken = take_from_others(home, class_index, want, top, USED, zeroed, probes);
    if (!taken) taken = take_from(home, home, class_index, want, top, ANY, zeroed);
    if (!taken) taken = take_from_pool(home, class_index, want, top, zeroed);
    if (!taken) taken = take_from_others(home, class_index, want, top, ANY, zeroed, HAK_SHARDS_MAX);
    return taken;
}

/* Bins are visited one by one; one that is busy is not idle. */
void hak_shard_sweep(void) {
    unsigned count = hak_shard_count();
    for (unsigned shard = 0; shard < count; shard++) {
        for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
            hak_shard_bin_t *bin = hak_bin_of(shard, class_index);
            if (!hak_load_relaxed(&bin->listed_count) && !hak_load_relaxed(&bin->pending)) continue;
            if (!hak_lock_try(&bin->lock)) continue;
            void *twice = NULL;
            hak_slab_t *released = hak_bin_drain(bin, shard, class_index, UINT32_MAX, &twice);
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

void hak_shard_lock_all(void) { each_bin(lock_bin); }
void hak_shard_unlock_all(void) { each_bin(unlock_bin); }

void hak_shard_rebuild(void) {
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
    }
}
