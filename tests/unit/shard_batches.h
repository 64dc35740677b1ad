/* shard_batches.h - batches of one shard's blocks, taken, given and checked against the equations of
 * slabs and bins; for the tests of shard.c, twice.c and sparse.c. */
#pragma once

#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/flush.h"

enum { HOME = 2, AWAY = 3, BATCH_MAX = 5000, SECONDS = 20 };

static void *top[BATCH_MAX + 1];

static inline unsigned blocks_of(unsigned class_index) { return hak_classes[class_index].count; }

static inline unsigned used_units(void) { return (unsigned)hak_pool_stats.used_units; }

static inline unsigned slab_count(unsigned shard) { return hak_bin_slab_count(shard); }

static inline hak_unit_t *slab_of(const void *block) { return hak_region_unit_of(block); }

/* The equations at the top of unit.h. */
static inline void check_slab(const hak_unit_t *slab) {
    const hak_class_t *info = &hak_classes[hak_owner_class(slab->owner)];
    unsigned count = 0;
    for (unsigned w = 0; w < info->words; w++) {
        count += (unsigned)__builtin_popcountll(hak_slab_bits(slab)[w]);
        REQUIRE((slab->words_free >> w & 1) == (hak_slab_bits(slab)[w] != 0),
                "words_free is wrong for word %u", w);
    }
    REQUIRE(count == slab->free_count, "free_count is %u, the bits say %u", slab->free_count,
            count);
}

/* Blocks of a slab that were freed elsewhere and not merged yet. */
static inline unsigned remote_count(const hak_unit_t *slab) {
    unsigned words = hak_classes[hak_owner_class(slab->owner)].words, count = 0;
    for (unsigned w = 0; w < words; w++)
        count += (unsigned)__builtin_popcountll(hak_slab_remote(slab, words)[w]);
    return count;
}

/* The equations of touched and spare at the top of shard.h, over the listed slabs and the kept one;
 * `full` are blocks in slabs that are not listed. */
static inline void check_bin(unsigned shard, unsigned class_index, unsigned full) {
    const hak_bin_t *bin = hak_bin_of(shard, class_index);
    const hak_class_t *info = &hak_classes[class_index];
    unsigned touched = full, spare = 0;
    for (const hak_unit_t *slab = bin->head; slab; slab = slab->next) {
        unsigned purged = hak_bin_purged_blocks(slab, info);
        touched += slab->fresh - purged;
        spare += slab->free_count - (info->count - slab->fresh) - purged;
    }
    if (bin->empty) {
        unsigned some = bin->empty->fresh - hak_bin_purged_blocks(bin->empty, info);
        touched += some;
        spare += some;
    }
    REQUIRE(bin->touched == touched, "touched is %zu, the slabs have %u", bin->touched, touched);
    REQUIRE(bin->spare == spare, "spare is %zu, the slabs have %u", bin->spare, spare);
}

static inline bool is_free(const void *block) {
    const hak_unit_t *slab = slab_of(block);
    const hak_class_t *info = &hak_classes[hak_owner_class(slab->owner)];
    unsigned index = hak_block_index(hak_block_offset((uintptr_t)block, info), info->reciprocal);
    return hak_slab_bits(slab)[index / 64] >> index % 64 & 1;
}

/* The whole batch, as one or more calls; the last call's blocks come first in `blocks`. */
static inline void take(unsigned home, unsigned class_index, unsigned want, void **blocks) {
    const hak_class_t *info = &hak_classes[class_index];
    while (want) {
        unsigned taken = hak_shard_take(home, class_index, want, top, NULL);
        REQUIRE(taken >= 1 && taken <= want, "%u blocks for %u", taken, want);
        want -= taken;
        memcpy(blocks + want, top + 1, taken * sizeof *top);
        for (unsigned i = 1; i <= taken; i++) {
            const hak_unit_t *slab = slab_of(top[i]);
            assert_non_null(slab);
            assert_int_equal(hak_owner_class(slab->owner), class_index);
            assert_int_equal((size_t)((char *)top[i] - hak_slab_first(slab, info)) % info->size, 0);
            REQUIRE(!is_free(top[i]), "%p is handed out and free", top[i]);
            if (i > 1 && slab == slab_of(top[i - 1]))
                REQUIRE(top[i] < top[i - 1], "the lowest address of a slab is not the last");
        }
    }
}

static inline void give(unsigned home, unsigned class_index, void **blocks, unsigned count) {
    hak_shard_flush(home, class_index, blocks, count);
}

/* All slabs of a class go back to the pool: the sweep after the next one drops the kept one. */
static inline void release_all(void) {
    for (int i = 0; i < 3; i++) hak_shard_release_idle();
}

/* For the first lines of main: no page goes back by itself. */
static inline void begin_with_four_shards(char **argv) {
    unit_need_environment(argv, (const char *const[]){"HAKMEM_SHARDS=4", "HAKMEM_ON_ERROR=report",
                                                      "HAKMEM_PURGE_DELAY_MS=-1", NULL});
    unit_open_shards(4);
}
