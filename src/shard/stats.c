/* stats.c: what all bins of a class have counted, one bin's lock at a time; and how much of each page of
 * a slab is in use: the bitmap is copied under the bin's lock, and counted without it. */
#include "shard/stats.h"

#include <string.h>

#include "base/bits.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "shard/warm_slab.h"

/* A bin that never had a slab has counted nothing, and its page may not be there. */
static void add_bin(unsigned shard, unsigned class_index, hak_shard_stats_t *sum) {
    hak_bin_t *bin = hak_bin_of(shard, class_index);
    const hak_bin_counts_t *counts = hak_bin_counts(shard, class_index);
    if (!hak_load_relaxed(&bin->adopted)) return;
    HAK_HOLD(&bin->lock);
    for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
        sum->counts[i] += hak_load_relaxed(&counts->counts[i]);
    sum->stage1 += hak_load_relaxed(&hak_bin_rare(shard, class_index)->stage1);
    sum->slabs +=
        hak_load_relaxed(&bin->adopted) - hak_load_relaxed(&hak_bin_rare(shard, class_index)->left);
    sum->used += hak_load_relaxed(&bin->touched) - hak_load_relaxed(&bin->spare);
    sum->used += hak_warm_used(shard, class_index);
}

/* Carries belong to the class, not to a bin. If one comes while the bins are read, the sums are too
 * small. */
static bool has_carried(unsigned class_index, const uint64_t carried[HAK_SHARD_COUNTERS]) {
    for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
        if (hak_bin_carried(class_index, i) != carried[i]) return true;
    return false;
}

/* Reads the remote frees after the drained ones: at rest there are never fewer of them. */
HAK_BEHIND hak_shard_stats_t hak_shard_stats(unsigned class_index) {
    enum { TRIES = 4 };
    hak_shard_stats_t sum;
    uint64_t carried[HAK_SHARD_COUNTERS];
    unsigned tries = TRIES;
    do {
        sum = (hak_shard_stats_t){.slabs = 0};
        for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
            sum.counts[i] = carried[i] = hak_bin_carried(class_index, i);
        HAK_EACH_SHARD (shard) add_bin(shard, class_index, &sum);
    } while (--tries && has_carried(class_index, carried));
    HAK_EACH_SHARD (shard)
        sum.remote += hak_load_relaxed(&hak_bin_rare(shard, class_index)->remote);
    return sum;
}

/* ---- pages of a slab ---- */

typedef struct {
    uint64_t words[HAK_WORDS_MAX]; /* 1 = in use, or in some cache */
} bitmap_t;

static unsigned copy_bitmap(const hak_unit_t *slab, bitmap_t *in_use) {
    uint16_t owner = hak_load_acquire(&slab->owner);
    if (!hak_owner_is_bin(owner)) return HAK_CLASS_NONE;
    unsigned class_index = hak_owner_class(owner), words = hak_classes[class_index].words;
    hak_bin_t *bin = hak_bin_of(hak_owner_shard(owner), class_index);
    HAK_HOLD(&bin->lock);
    if (hak_load_relaxed(&slab->owner) != owner) return HAK_CLASS_NONE;
    memset(in_use, 0, sizeof *in_use);
    for (unsigned w = 0; w < words; w++)
        in_use->words[w] =
            ~(hak_slab_bits(slab)[w] | hak_load_relaxed(&hak_slab_remote(slab, words)[w]));
    return class_index;
}

/* Blocks in use of first .. end-1. */
static unsigned count(const bitmap_t *in_use, unsigned first, unsigned end) {
    unsigned sum = 0;
    for (unsigned w = first / 64; w * 64 < end; w++)
        sum += hak_bit_count(in_use->words[w] & hak_bits_within(w, first, end));
    return sum;
}

/* Of the bytes from .. end-1, counted from the first block: whole blocks, and what reaches
 * in at both ends. */
static unsigned bytes_in(const bitmap_t *in_use, const hak_class_t *info, unsigned from,
                         unsigned end) {
    unsigned size = info->size, first = (from + size - 1) / size, last = end / size;
    unsigned sum = 0, first_start = first * size;
    if (first > 0 && first <= info->count && first_start > from)
        sum += count(in_use, first - 1, first) * ((unsigned)hak_min(first_start, end) - from);
    if (last < first) return sum;
    sum += count(in_use, first, (unsigned)hak_min(last, info->count)) * size;
    if (last < info->count) sum += count(in_use, last, last + 1) * (end - last * size);
    return sum;
}

HAK_BEHIND unsigned hak_shard_used_bytes(const hak_unit_t *slab, uint16_t used[HAK_UNIT_GRAINS]) {
    bitmap_t in_use;
    unsigned class_index = copy_bitmap(slab, &in_use);
    const hak_class_t *info = &hak_classes[class_index];
    unsigned from = 0, first = hak_first_offset((uintptr_t)slab->base, info);
    for (unsigned i = 0; class_index && i < HAK_UNIT_GRAINS; i++) {
        unsigned end = (unsigned)hak_max((size_t)(i + 1) * HAK_GRAIN_SIZE, first) - first;
        used[i] = (uint16_t)bytes_in(&in_use, info, from, end);
        from = end;
    }
    return class_index;
}

/* ---- costs of bands ---- */

static void add_carried(hak_shard_costs_t costs[HAK_BAND_MID]) {
    for (unsigned i = 1; hak_bands[i] < HAK_BAND_MID; i++) {
        costs[hak_bands[i]].locks += hak_bin_carried(i, HAK_SHARD_LOCKS);
        costs[hak_bands[i]].misses += hak_bin_carried(i, HAK_SHARD_MISSES);
    }
}

static void add_costs_of(unsigned shard, bool has_warm, hak_shard_costs_t costs[HAK_BAND_MID]) {
    const hak_bin_counts_t *counts = hak_bin_counts(shard, 0);
    for (unsigned i = 1; hak_bands[i] < HAK_BAND_MID; i++) {
        hak_shard_costs_t *sum = &costs[hak_bands[i]];
        sum->locks += hak_load_relaxed(&counts[i].counts[HAK_SHARD_LOCKS]);
        sum->misses += hak_load_relaxed(&counts[i].counts[HAK_SHARD_MISSES]);
        if (has_warm) sum->warm += hak_load_relaxed(&hak_warm_ring_of(shard, i)->carved);
    }
}

/* Takes no lock, and so reads the carries first: bin.h says what may be amiss. The counters of a shard are some sixty
 * lines, which other CPUs write: a slow call that reads those of 192 shards would wait for a millisecond. */
bool hak_shard_add_costs(hak_shard_costs_t costs[HAK_BAND_MID], unsigned *at) {
    enum { SHARDS_AT_ONCE = 8 };
    const bool has_warm = hak_load_relaxed(&hak_warm_seen);
    if (*at == 0) add_carried(costs);
    for (unsigned left = SHARDS_AT_ONCE;; left--, ++*at) {
        *at = hak_lazy_table_next(&hak_shard_table, *at);
        if (*at == HAK_LAZY_TABLE_MOST) break;
        if (left == 0) return false;
        add_costs_of(*at, has_warm, costs);
    }
    *at = 0;
    return true;
}
