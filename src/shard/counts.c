/* counts.c: what all bins of a class have counted; one bin's lock at a time. */
#include "shard/bin.h"
#include "shard/shard.h"
#include "shard/warm.h"

/* A bin that never had a slab has counted nothing, and its page may not be there. */
static void add_bin(unsigned shard, unsigned class_index, hak_shard_counts_t *sum) {
    hak_bin_t *bin = hak_bin_of(shard, class_index);
    const hak_bin_counts_t *counts = hak_bin_counts(shard, class_index);
    if (!hak_load_relaxed(&bin->adopted)) return;
    hak_lock_acquire(&bin->lock);
    for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
        sum->counts[i] += hak_load_relaxed(&counts->counts[i]);
    sum->stage1 += hak_load_relaxed(&bin->stage1);
    sum->slabs +=
        hak_load_relaxed(&bin->adopted) - hak_load_relaxed(&hak_bin_rare(shard, class_index)->left);
    sum->used += hak_load_relaxed(&bin->touched) - hak_load_relaxed(&bin->spare);
    sum->used += hak_warm_used(shard, class_index);
    hak_lock_release(&bin->lock);
}

/* Carries are of the class, not of a bin: while one comes in between, the sums are behind. */
static bool has_carried(unsigned class_index, const uint64_t carried[HAK_SHARD_COUNTERS]) {
    for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
        if (hak_bin_carried(class_index, i) != carried[i]) return true;
    return false;
}

/* The remote ones after those that were drained: at rest there are no fewer. */
hak_shard_counts_t hak_shard_counts(unsigned class_index) {
    enum { TRIES = 4 };
    hak_shard_counts_t sum;
    uint64_t carried[HAK_SHARD_COUNTERS];
    unsigned tries = TRIES;
    do {
        sum = (hak_shard_counts_t){.slabs = 0};
        for (unsigned i = 0; i < HAK_SHARD_COUNTERS; i++)
            sum.counts[i] = carried[i] = hak_bin_carried(class_index, i);
        for (unsigned shard = 0; shard < hak_shard_count(); shard++)
            add_bin(shard, class_index, &sum);
    } while (--tries && has_carried(class_index, carried));
    for (unsigned shard = 0; shard < hak_shard_count(); shard++)
        sum.remote += hak_load_relaxed(&hak_bin_rare(shard, class_index)->remote);
    return sum;
}
