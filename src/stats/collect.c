/* collect.c: collects all figures from the layers below.
 *
 * A collection holds one lock at a time, that of a bin or the stack lock of a cache, for a few
 * loads each. So no call of another thread waits long for it, however many slabs, caches and
 * threads there are. It looks at no slab, because the bins keep sums. The price: blocks may move
 * from a bin that was read to a cache that is read next. While threads are at work a figure may
 * be off by the blocks that have moved meanwhile, and `live` is cut off at 0 for that reason. At
 * rest nothing moves.
 *
 * Rejected: holding all bin locks during the collection. With 5,000 threads no thread could
 * allocate for 28 ms. Also rejected: reading all caches first, and then all classes. Reading
 * class by class takes a short time for each, so fewer blocks move meanwhile. */
#include "stats/collect.h"

#include <string.h>

#include "cache/cpu_depot.h"
#include "cache/warm_cache.h"
#include "classes/dyn.h"
#include "commit/commit.h"
#include "hardened/empty.h"
#include "hardened/guard.h"
#include "hardened/quarantine.h"
#include "hardened/guard_sample.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/view.h"
#include "large/user_heap_table.h"
#include "meta/meta.h"
#include "os/cpu.h"
#include "os/numa_topology.h"
#include "os/os.h"
#include "policy/dyn_size.h"
#include "policy/band_cost.h"
#include "pool/pool.h"
#include "profile/samples.h"
#include "profile/site.h"
#include "debug_record/record.h"
#include "region/region.h"
#include "shard/stats.h"
#include "shard/shard.h"
#include "shard/sparse.h"
#include "stats/stats.h"
#include "thread/cache_budget.h"
#include "thread/fork.h"
#include "thread/home_group.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

static hak_stats_t snapshot HAK_APART; /* snapshot lock */

/* The thread that has closed the gate may ask for statistics in a fork handler. It must not wait for the snapshot lock,
 * whose holder may wait at the gate. It needs no lock, since no other thread is in the engine; so it takes none and has
 * a place of its own. hak_stats_end recognises the caller by the place, not by the gate: in the child of a fork that a
 * signal handler made meanwhile, the gate is open by then. */
static hak_stats_t in_fork HAK_APART; /* of the thread that closed the gate */

/* The sums of one class. */
typedef struct {
    uint64_t count;  /* slabs */
    uint64_t free;   /* free blocks in them, remote frees included */
    uint64_t remote; /* remote frees that are not drained yet */
    uint64_t in_use; /* live or cached */
    uint64_t cached;
} slabs_t;

/* The values that rows may use beside global variables. */
typedef struct {
    size_t superslabs, caches;
    uint64_t lifo_hits, depot_blocks;
    uint64_t slab_bytes, free_bytes;
    uint64_t records;
    uint64_t warm_misses, warm_prefilled, warm_revoked, warm_bound;
    hak_large_stats_t large;
    hak_user_heap_stats_t own;
    size_t huge_count, huge_bytes;
} from_t;

static void count_records(hak_superslab_t *super, void *records) {
    *(uint64_t *)records += hak_record_count(super);
}

#define LOAD(counter) hak_load_relaxed(&(counter))
#define CALLS(class_index, call) LOAD(hak_calls[class_index][HAK_CALL_##call])
#define WAY(way) LOAD(hak_ways[HAK_WAY_##way])
#define BINS(counter) bins->counts[HAK_SHARD_##counter]
#define WARM(counter) warm.counts[HAK_WARM_##counter]

/* Number of blocks of a class in all caches; adds their warm counters to *warm. Skips a class of
 * which no bin ever gave a block. */
static uint64_t count_caches(hak_cache_t *newest, unsigned class_index,
                             const hak_shard_stats_t *bins, hak_warm_cache_counts_t *warm) {
    if (BINS(TAKEN) == 0) return 0;
    uint64_t cached = class_index == HAK_CLASS_FIXED ? hak_guard_unit_count() : 0;
    for (hak_cache_t *cache = newest; cache; cache = cache->next) {
        cached += hak_cache_count(cache, class_index);
        cached += hak_quarantine_count(hak_load_acquire(&cache->quarantine), class_index);
        hak_warm_cache_add_counts(cache, class_index, warm);
    }
    return cached;
}

/* Every block of a slab is free, freed remotely but not drained, cached, or live. */
static slabs_t count_slabs(unsigned class_index, const hak_shard_stats_t *bins, uint64_t carved,
                           uint64_t cached) {
    uint64_t drained = BINS(DRAINED), all = bins->slabs * hak_classes[class_index].count;
    slabs_t slabs = {.count = bins->slabs, .cached = cached};
    uint64_t used = hak_min(bins->used + carved, all);
    slabs.remote = hak_min(bins->remote - hak_min(drained, bins->remote), used);
    slabs.in_use = used - slabs.remote;
    slabs.free = all - slabs.in_use;
    return slabs;
}

static void fill_class(hak_stats_t *stats, unsigned class_index, hak_cache_t *newest,
                       from_t *from) {
    const hak_shard_stats_t all = hak_shard_stats(class_index), *bins = &all;
    hak_warm_cache_counts_t warm = {0};
    const uint64_t depots = hak_depot_count(class_index);
    const uint64_t cached = count_caches(newest, class_index, bins, &warm) + depots;
    const slabs_t sums = count_slabs(class_index, bins, WARM(TAKEN), cached), *slabs = &sums;
    from->depot_blocks += depots;
    from->warm_misses += WARM(MISSES);
    from->warm_prefilled += WARM(PREFILLED);
    from->warm_revoked += hak_warm_unbound(class_index);
    from->warm_bound += hak_warm_slabs(class_index);
    uint64_t *rows = stats->classes[class_index], *band = stats->bands[hak_bands[class_index]];
    uint64_t live = slabs->in_use - hak_min(slabs->cached, slabs->in_use);
    size_t size = hak_dyn_size_of(class_index);
    from->slab_bytes += slabs->count * HAK_UNIT_SIZE;
    from->free_bytes += slabs->free * size;
#define STAT_CLASS(name, kind, unit, where, help) rows[HAK_CLASS_STAT_##name] = (where);
#include "stats/each_figure.def"
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++) band[i] += rows[i];
}

static void fill_policy(hak_stats_t *stats) {
    for (unsigned band = 0; band < HAK_POLICY_BANDS; band++) {
        uint64_t *rows = stats->policy[band];
#define STAT_BAND(name, kind, unit, where, help) rows[HAK_BAND_STAT_##name] = (where);
#include "stats/each_figure.def"
    }
}

static uint64_t sum_bands(const hak_stats_t *stats, unsigned row, hak_tier_t tier) {
    uint64_t sum = 0;
    unsigned first = tier == HAK_MID ? HAK_BAND_MID : HAK_BAND_C0;
    unsigned end = tier == HAK_TINY ? HAK_BAND_MID : HAK_BAND_COUNT;
    for (unsigned band = first; band < end; band++) sum += stats->bands[band][row];
    return sum;
}

static void fill_tiers(hak_stats_t *stats, const from_t *from) {
#define STAT_TIER(name, kind, unit, figure, of_large, of_huge, help)     \
    for (unsigned tier = 0; tier < HAK_CACHED_TIERS; tier++)             \
        stats->tiers[tier][HAK_TIER_STAT_##name] =                       \
            sum_bands(stats, HAK_CLASS_STAT_##figure, (hak_tier_t)tier); \
    stats->tiers[HAK_STATS_LARGE][HAK_TIER_STAT_##name] = (of_large);    \
    stats->tiers[HAK_STATS_HUGE][HAK_TIER_STAT_##name] = (of_huge);
#include "stats/each_figure.def"
}

static uint64_t sum_tiers(const hak_stats_t *stats, unsigned row) {
    uint64_t sum = 0;
    for (unsigned tier = 0; tier < HAK_STATS_TIERS; tier++) sum += stats->tiers[tier][row];
    return sum;
}

#define CLASSES(name) sum_bands(stats, HAK_CLASS_STAT_##name, HAK_CACHED_TIERS)
#define MID(name) stats->bands[HAK_BAND_MID][HAK_CLASS_STAT_##name]
#define TIERS(name) sum_tiers(stats, HAK_TIER_STAT_##name)
/* A bound above the largest value that an option can have means that there is none. */
#define BOUND(bytes) ((bytes) > (uint64_t)1 << 50 ? 0 : (bytes))

static void fill_values(hak_stats_t *stats, const from_t *from) {
#define STAT_VALUE(group, name, kind, unit, where, help) \
    stats->values[HAK_VALUE_STAT_##group##_##name] = (where);
#include "stats/each_figure.def"
}

/* Leaves out large and huge blocks that the hardened path keeps in quarantines: the program has freed them. */
static void leave_out_kept(from_t *from, hak_cache_t *newest) {
    size_t count[2] = {0}, bytes[2] = {0};
    for (hak_cache_t *cache = newest; cache; cache = cache->next) {
        const hak_quarantine_t *quarantine = hak_load_acquire(&cache->quarantine);
        for (unsigned i = 0; quarantine && i < 2; i++) {
            count[i] += LOAD(quarantine->kept[i].count);
            bytes[i] += LOAD(quarantine->kept[i].bytes);
        }
    }
    from->large.count -= hak_min(count[0], from->large.count);
    from->large.bytes -= hak_min(bytes[0], from->large.bytes);
    from->huge_count -= hak_min(count[1], from->huge_count);
    from->huge_bytes -= hak_min(bytes[1], from->huge_bytes);
}

static void collect(hak_stats_t *stats) {
    from_t from = {.superslabs = hak_pool_superslabs()};
    memset(stats, 0, sizeof *stats);
    hak_cache_t *newest = hak_thread_caches();
    for (hak_cache_t *cache = newest; cache; cache = cache->next) {
        from.caches++;
        from.lifo_hits += LOAD(hak_cache_counts(cache, HAK_BAND_MID)->lifo_hits);
    }
    if (hak_records_settle()) hak_region_each_superslab(count_records, &from.records);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) fill_class(stats, i, newest, &from);
    from.large = hak_large_stats();
    from.own = hak_user_heap_stats();
    from.huge_count = hak_huge_count();
    from.huge_bytes = hak_huge_bytes();
    leave_out_kept(&from, newest);
    fill_policy(stats);
    fill_tiers(stats, &from);
    fill_values(stats, &from);
}

static HAK_BEHIND const hak_stats_t *collect_in_fork(void) {
    collect(&in_fork);
    return &in_fork;
}

static void take_snapshot(void) {
    hak_lock_acquire_apart(&hak_snapshot_lock);
    collect(&snapshot);
}

const hak_stats_t *hak_stats_begin(void) {
    if (!hak_gate_begin_question()) return NULL;
    if (hak_gate_is_mine()) return collect_in_fork();
    take_snapshot();
    return &snapshot;
}

/* Begins by taking the lock of the snapshot; false when that is not free within *tries milliseconds. */
static bool begin_within(unsigned *tries) {
    if (!hak_gate_begin_question()) return false;
    const bool is_mine = hak_lock_acquire_apart_within(&hak_snapshot_lock, tries);
    if (!is_mine) hak_gate_end_question();
    return is_mine;
}

const hak_stats_t *hak_stats_begin_within(unsigned tries) {
    if (!begin_within(&tries)) return NULL;
    collect(&snapshot);
    return &snapshot;
}

const hak_stats_t *hak_stats_copy(void) {
    static hak_stats_t copy HAK_APART; /* under the report lock */
    if (!hak_gate_begin_question()) return NULL;
    if (hak_gate_is_mine()) return collect_in_fork();
    hak_lock_acquire_apart(&hak_report_lock);
    take_snapshot();
    memcpy(&copy, &snapshot, sizeof copy);
    hak_lock_release_apart(&hak_snapshot_lock);
    return &copy;
}

void hak_stats_copy_end(const hak_stats_t *stats) {
    if (stats != &in_fork) hak_lock_release_apart(&hak_report_lock);
    hak_gate_end_question();
}

const hak_stats_t *hak_stats_try_begin(void) {
    enum { MOST_MS = 1000 };
    unsigned tries = MOST_MS;
    if (!begin_within(&tries)) return NULL;
    bool all = hak_gate_close_within(tries);
    if (all) {
        collect(&snapshot);
        hak_gate_open_mine();
    } else {
        hak_stats_end(&snapshot);
    }
    return all ? &snapshot : NULL;
}

void hak_stats_end(const hak_stats_t *stats) {
    if (stats != &in_fork) hak_lock_release_apart(&hak_snapshot_lock);
    hak_gate_end_question();
}
