/* grow.c: the pool grows by superslabs of the region, fresh ones and those that were unmapped. */
#include "pool/grow.h"

#include "commit/commit.h"
#include "options/options.h"
#include "os/numa_topology.h"
#include "os/os.h"
#include "pool/lists.h"
#include "pool/pool.h"
#include "region/thp.h"

enum {
    MIXED_PART = 8,    /* a heap is mixed if large heaps have more than this part of the units */
    MIXED_LEAST = 256, /* other units that such a heap needs before they get huge pages */
    BIN_UNITS = 24,    /* in use for each bin of a shard other than the first */
};

bool hak_pool_is_mixed(void) {
    return hak_pool_stats.large_units > hak_pool_superslabs() * hak_superslab_units() / MIXED_PART;
}

/* True when, in superslabs that do not belong to large heaps, slabs whose blocks fill them use at least 7 of 8 units:
 * then new superslabs will be filled, too. Ragged slabs and the first chunks of heaps do not count,
 * nor what stocks of shards have on average: a shard uses its line of the map little by little. In a mixed heap
 * these superslabs must have 16 MiB or more, as region.c requires of every heap. Half of a bin's newest slab was never
 * used, so where a crowd of threads uses many bins, one for each class and shard, huge pages make much of a small heap
 * resident for nothing; what other programs pay for that is in decision 0021. False under a LIMIT, or near a LIMIT_SOFT, which
 * a huge page could exceed. Under THP=2 it does not matter how many units are used. Under the lock. */
static bool is_dense(void) {
    size_t large = hak_pool_stats.large_units;
    size_t own = hak_pool_superslabs() * hak_superslab_units() - large;
    size_t used = hak_load_relaxed(&hak_pool_stats.used_units);
    size_t others = large + hak_load_relaxed(&hak_pool_stats.ragged_units) +
                    hak_load_relaxed(&hak_pool_stats.first_units) +
                    hak_load_relaxed(&hak_pool_stats.stocks) * (HAK_MAP_LINE_UNITS / 2);
    if (own < MIXED_LEAST && hak_pool_is_mixed()) return false;
    const bool crowded = hak_load_relaxed(&hak_pool_crowded);
    const size_t bins = crowded ? hak_load_relaxed(&hak_pool_stats.other_bins) : 0;
    const size_t least = hak_max(own - own / 8, bins * BIN_UNITS);
    return (used >= others + least || hak_thp_is_early()) && hak_option(HAK_OPTION_THP) &&
           !hak_option(HAK_OPTION_LIMIT) && !hak_commit_soft_near();
}

/* SS_PREFAULT=2. */
static HAK_BEHIND void prefault(hak_superslab_t *super) {
    if (!hak_commit_charge(hak_superslab_size())) return;
    hak_pool_prefault(super->units[0].base, hak_superslab_size(), 2);
    super->dirty = hak_all_units();
    super->freed_ms = hak_os_now_ms();
    hak_pool_add(0, hak_superslab_units());
    hak_lists_append_dirty(super);
}

void hak_pool_enter(hak_superslab_t *super) {
    HAK_ADD_OWNED(&hak_pool_stats.stage3, 1);
    super->node = (uint8_t)hak_node_here();
    super->had_huge = hak_region_wishes_huge(super) || hak_region_refuses_huge(super);
    if (hak_region_asks_huge(super)) HAK_ADD_OWNED(&hak_pool_stats.huge, 1);
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_SS_PREFAULT) == 2)) prefault(super);
    hak_lists_insert(super);
}

/* Takes a superslab at the end of the region. */
static hak_superslab_t *last_superslab(bool dense) {
    hak_superslab_t *super = hak_region_take_superslab(dense);
    if (super) hak_pool_enter(super);
    return super;
}

HAK_BEHIND bool hak_pool_joins_row(hak_superslab_t *super) {
    if (hak_region_is_mapped(super)) return super->longest == hak_superslab_units();
    if (!hak_region_map_again(super)) return false;
    hak_pool_enter(super);
    return true;
}

/* Maps the other superslabs of a huge page, before the first access decides how it is made. */
static void complete_huge_page(hak_superslab_t *super) {
    size_t count = HAK_SUPERSLAB_SIZE_MAX / hak_superslab_size();
    size_t before = (uintptr_t)super->units[0].base % HAK_SUPERSLAB_SIZE_MAX / hak_superslab_size();
    for (size_t i = count; i-- > 0;)
        if (i != before) hak_pool_joins_row(super - before + i);
}

hak_superslab_t *hak_pool_fresh_superslab(void) {
    hak_superslab_t *super = hak_region_take_unmapped(is_dense());
    if (!super) return last_superslab(is_dense());
    hak_pool_enter(super);
    if (hak_region_asks_huge(super)) complete_huge_page(super);
    return super;
}

HAK_BEHIND void hak_pool_complete_line(hak_superslab_t *super) {
    hak_superslab_t *other = super - hak_superslab_in_line(super);
    for (unsigned left = hak_superslabs_of_line(); left--; other++)
        if (hak_region_superslab_is_last(other - 1))
            last_superslab(is_dense());
        else if (other != super)
            hak_pool_joins_row(other);
}

HAK_NEXT bool hak_pool_is_for_slabs(const hak_superslab_t *super) {
    return !super->dirty && hak_pool_is_mixed() && hak_region_asks_huge(super);
}

HAK_NEXT hak_superslab_t *hak_pool_last_for_large(bool is_first) {
    hak_superslab_t *super;
    do super = last_superslab(is_dense() && !hak_pool_is_mixed());
    while (is_first && super && (uintptr_t)super->units[0].base % HAK_SUPERSLAB_SIZE_MAX &&
           hak_pool_is_for_slabs(super));
    return super;
}
