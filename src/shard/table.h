/* table.h: the table of the existing shards; internal to shard/. */
#pragma once

#include "meta/lazy_table.h"
#include "os/numa_topology.h"
#include "shard/bitmaps.h"
#include "shard/shard.h"
#include "shard/stock.h"

extern hak_lazy_table_t hak_shard_table;

/* Only an existing shard can have a slab. */
HAK_FAST_PATH bool hak_shard_is_made(unsigned shard) {
    return hak_lazy_table_at(&hak_shard_table, shard) != NULL;
}

/* The next existing shard after an existing one, cyclically: the shard itself when there is no other. */
HAK_FAST_PATH unsigned hak_shard_after(unsigned shard) {
    return hak_lazy_table_after(&hak_shard_table, shard);
}

/* The same among those of a node (os/numa_topology.h), in which `shard` is. */
HAK_FAST_PATH unsigned hak_shard_near(unsigned shard, hak_span_t near) {
    return hak_lazy_table_after_within(&hak_shard_table, shard, near.first, near.end);
}

/* A loop over the existing shards. */
#define HAK_EACH_SHARD(shard)                                                               \
    for (unsigned shard = hak_lazy_table_next(&hak_shard_table, 0); shard < HAK_SHARDS_MAX; \
         shard = hak_lazy_table_next(&hak_shard_table, shard + 1))

/* The first shards are plain while there are no others: few threads wait for the locks of a small machine, and small
 * processes have no memory for what the others have. From then on they have it, too; a thread may see that late. */
enum { HAK_SHARDS_PLAIN = 4 };
HAK_FAST_PATH bool hak_shard_is_plain(unsigned shard) {
    return shard < HAK_SHARDS_PLAIN && hak_load_relaxed(&hak_shard_table.end) <= HAK_SHARDS_PLAIN;
}

/* The shard's stock of units (stock.h); NULL when it is plain. */
hak_stock_t *hak_shard_stock(unsigned shard);

/* Memory of the shard's own room (meta/room.h); NULL when it is plain. */
void *hak_shard_cut(unsigned shard, size_t size);

/* Places for free bitmaps (bitmaps.h); NULL for a plain shard. */
hak_bitmap_place_t *hak_shard_bitmap_places(unsigned shard);

/* Sums for the check of a bin (verify.c), in memory of its shard. */
typedef struct {
    uint32_t slabs, listed; /* listed, touched, spare: of those that are not warm */
    size_t touched, spare;
    uint32_t pending; /* slabs with remote words */
    uint32_t warm;
    uint64_t warm_used; /* blocks in use in warm slabs */
} hak_bin_sum_t;

hak_bin_sum_t *hak_bin_sum_of(unsigned shard, unsigned class_index);
