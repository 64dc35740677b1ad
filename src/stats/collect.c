/* collect.c: all figures at one moment, by asking the layers below.
 *
 * Threads' caches are read while all bins are locked, so that no blocks pass between
 * a cache and a shard of its own meanwhile; those that are on their way at that moment
 * are in neither or in both, and live is cut off at 0 for their sake. */
#include <string.h>

#include "cache/ace.h"
#include "cache/carve.h"
#include "classes/dyn.h"
#include "large/huge.h"
#include "large/large.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/commit.h"
#include "region/meta.h"
#include "region/record.h"
#include "region/region.h"
#include "shard/shard.h"
#include "stats/stats.h"
#include "thread/locks.h"
#include "thread/look.h"
#include "thread/purge.h"
#include "thread/thread.h"

static hak_stats_t snapshot HAK_APART; /* snapshot lock */

/* Of one class. */
typedef struct {
    uint64_t count;  /* slabs */
    uint64_t free;   /* blocks in them, remote ones included */
    uint64_t remote; /* freed remotely and not merged yet */
    uint64_t in_use; /* live or cached */
    uint64_t cached;
} slabs_t;

/* The same while it is gathered: it lies where the rows of the class come to lie, since
 * threads with small stacks ask, too. */
enum { COUNT, FREE, REMOTE, IN_USE, CACHED, GATHERED };
_Static_assert(GATHERED <= (int)HAK_CLASS_STATS, "the rows of a class have room");

/* What rows may ask beside global figures. */
typedef struct {
    uint64_t (*classes)[HAK_CLASS_STATS];
    size_t superslabs, caches;
    uint64_t slab_bytes, free_bytes;
    uint64_t records;
    uint64_t warm_misses, warm_prefilled, warm_revoked, warm_bound;
    hak_large_stats_t large;
    size_t huge_count, huge_bytes;
} from_t;

static void count_slab(const hak_slab_t *slab, from_t *from) {
    uint16_t owner = hak_load_acquire(&slab->owner);
    if (!hak_owner_is_bin(owner)) return;
    unsigned class_index = hak_owner_class(owner);
    const hak_class_t *info = &hak_classes[class_index];
    uint64_t *gathered = from->classes[class_index];
    unsigned remote = hak_shard_remote_count(slab), unused = slab->free_count + remote;
    gathered[COUNT]++;
    gathered[REMOTE] += remote;
    gathered[FREE] += unused;
    gathered[IN_USE] += info->count - unused;
    from->slab_bytes += HAK_UNIT_SIZE;
    from->free_bytes += (uint64_t)unused * info->size;
}

static void count_superslab(hak_superslab_t *super, void *context) {
    from_t *from = context;
    from->superslabs++;
    if (hak_records_settle()) from->records += hak_record_count(super);
    for (unsigned i = 0; i < hak_superslab_units(); i++) count_slab(&super->slabs[i], from);
}

static void count_caches(hak_cache_t *newest, from_t *from) {
    for (hak_cache_t *cache = newest; cache; cache = cache->next) {
        from->caches++;
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
            from->classes[i][CACHED] += hak_cache_count(cache, i);
    }
}

#define LOAD(counter) hak_load_relaxed(&(counter))
#define CALLS(class_index, call) LOAD(hak_calls[class_index][HAK_CALL_##call])
#define WAY(way) LOAD(hak_ways[HAK_WAY_##way])
#define BINS(counter) bins->counts[HAK_SHARD_##counter]
#define WARM(counter) warm.counts[HAK_WARM_##counter]

/* The class rows. Bin locks held. */
static void fill_class(hak_stats_t *stats, unsigned class_index, hak_cache_t *newest,
                       from_t *from) {
    const hak_carve_counts_t warm = hak_carve_counts(newest, class_index);
    from->warm_misses += WARM(MISSES);
    from->warm_prefilled += WARM(PREFILLED);
    from->warm_revoked += hak_warm_revoked(class_index);
    from->warm_bound += hak_warm_bound(class_index);
    uint64_t *rows = stats->classes[class_index], *band = stats->bands[hak_bands[class_index]];
    const slabs_t sums = {rows[COUNT], rows[FREE], rows[REMOTE], rows[IN_USE], rows[CACHED]};
    const hak_shard_counts_t all = hak_shard_counts(class_index), *bins = &all;
    const slabs_t *slabs = &sums;
    uint64_t live = slabs->in_use - hak_min(slabs->cached, slabs->in_use);
    size_t size = hak_dyn_size_of(class_index);
#define STAT_CLASS(name, kind, unit, where, help) rows[HAK_CLASS_STAT_##name] = (where);
#include "stats/each.def"
    for (unsigned i = 0; i < HAK_CLASS_STATS; i++) band[i] += rows[i];
}

static void fill_policy(hak_stats_t *stats) {
    for (unsigned band = 0; band < HAK_POLICY_BANDS; band++) {
        uint64_t *rows = stats->policy[band];
#define STAT_BAND(name, kind, unit, where, help) rows[HAK_BAND_STAT_##name] = (where);
#include "stats/each.def"
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
#include "stats/each.def"
}

static uint64_t sum_tiers(const hak_stats_t *stats, unsigned row) {
    uint64_t sum = 0;
    for (unsigned tier = 0; tier < HAK_STATS_TIERS; tier++) sum += stats->tiers[tier][row];
    return sum;
}

#define CLASSES(name) sum_bands(stats, HAK_CLASS_STAT_##name, HAK_CACHED_TIERS)
#define TIERS(name) sum_tiers(stats, HAK_TIER_STAT_##name)

static void fill_values(hak_stats_t *stats, const from_t *from) {
#define STAT_VALUE(group, name, kind, unit, where, help) \
    stats->values[HAK_VALUE_STAT_##group##_##name] = (where);
#include "stats/each.def"
}

static void collect(hak_stats_t *stats) {
    from_t from = {.classes = stats->classes};
    memset(stats, 0, sizeof *stats);
    hak_cache_t *newest = hak_thread_caches();
    hak_shard_lock_all();
    count_caches(newest, &from);
    hak_region_each_superslab(count_superslab, &from);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) fill_class(stats, i, newest, &from);
    hak_shard_unlock_all();
    from.large = hak_large_stats();
    from.huge_count = LOAD(hak_huge_stats.block_count);
    from.huge_bytes = LOAD(hak_huge_stats.bytes);
    fill_policy(stats);
    fill_tiers(stats, &from);
    fill_values(stats, &from);
}

const hak_stats_t *hak_stats_begin(void) {
    hak_lock_acquire(&hak_snapshot_lock);
    collect(&snapshot);
    return &snapshot;
}

const hak_stats_t *hak_stats_try_begin(void) {
    enum { MOST_MS = 1000 };
    unsigned tries = MOST_MS;
    if (!hak_lock_acquire_within(&hak_snapshot_lock, &tries)) return NULL;
    bool all = hak_locks_keep_within(tries);
    if (all) {
        collect(&snapshot);
        hak_locks_let_go();
    } else {
        hak_stats_end();
    }
    return all ? &snapshot : NULL;
}

void hak_stats_end(void) { hak_lock_release(&hak_snapshot_lock); }
