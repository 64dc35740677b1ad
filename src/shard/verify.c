/* verify.c: the equations of unit.h, shard.h, bin.h and warm_slab.h, executed. */
#include "shard/verify.h"

#include <string.h>

#include "base/bits.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "shard/warm_slab.h"

static const char of_slab[] = "slab", of_bin[] = "bin", of_ring[] = "warm slabs of a bin";

/* Whether all blocks from `first` on are free. */
static bool all_free_from(const hak_unit_t *slab, const hak_class_t *info, unsigned first) {
    unsigned free = 0;
    for (unsigned w = first / 64; w < info->words; w++) {
        uint64_t bits = hak_slab_bits(slab)[w] & hak_bits_within(w, first, info->count);
        free += bits ? hak_bit_count(bits) : 0;
    }
    return free == info->count - first;
}

void hak_slab_check(hak_check_t *check, const hak_unit_t *slab) {
    const hak_class_t *info = &hak_classes[hak_owner_class(hak_load_relaxed(&slab->owner))];
    unsigned set = 0;
    uint64_t words_free = 0;
    for (unsigned w = 0; w < info->words; w++) {
        if (!hak_slab_bits(slab)[w]) continue;
        set += hak_bit_count(hak_slab_bits(slab)[w]);
        words_free |= (uint64_t)1 << w;
    }
    hak_check_equal(check, of_slab, slab, "free_count = set bits", slab->free_count, set);
    hak_check_equal(check, of_slab, slab, "words_free = words with a set bit", slab->words_free,
                    words_free);
    hak_check_that(check, of_slab, slab, "no bit is set behind the last block",
                   info->count % 64u == 0 ||
                       hak_slab_bits(slab)[info->words - 1] >> info->count % 64u == 0);
    hak_check_that(check, of_slab, slab, "fresh <= blocks of the slab", slab->fresh <= info->count);
    if (slab->fresh < info->count)
        hak_check_that(check, of_slab, slab, "blocks never handed out are free",
                       all_free_from(slab, info, slab->fresh));
    hak_check_that(check, of_slab, slab, "purged blocks <= free blocks that were in use",
                   hak_bin_purged_blocks(slab, info) <= hak_bin_ready(slab, info));
}

/* ---- all slabs, by bin ---- */

static void check_remote(hak_check_t *check, const hak_unit_t *slab, const hak_class_t *info) {
    uint64_t words = 0;
    const _Atomic uint64_t *remote = hak_slab_remote(slab, info->words);
    for (unsigned w = 0; w < info->words; w++)
        if (hak_load_relaxed(&remote[w])) words |= (uint64_t)1 << w;
    hak_check_equal(check, of_slab, slab, "remote_words = remote words that are not 0",
                    hak_load_relaxed(&slab->remote_words), words);
}

static void check_slab(hak_check_t *check, const hak_unit_t *slab) {
    uint16_t owner = hak_load_relaxed(&slab->owner);
    const hak_class_t *info = &hak_classes[hak_owner_class(owner)];
    hak_check_that(check, of_slab, slab, "its shard is made",
                   hak_shard_is_made(hak_owner_shard(owner)));
    if (!hak_shard_is_made(hak_owner_shard(owner))) return;
    hak_bin_sum_t *sum = hak_bin_sum_of(hak_owner_shard(owner), hak_owner_class(owner));
    hak_slab_check(check, slab);
    check_remote(check, slab, info);
    unsigned ready = hak_bin_ready(slab, info), purged = hak_bin_purged_blocks(slab, info);
    sum->slabs++;
    sum->pending += hak_load_relaxed(&slab->remote_words) != 0;
    hak_check_that(check, of_slab, slab, "no slab is lifted outside a give", !slab->lifted);
    if (owner & HAK_OWNER_WARM) {
        sum->warm++;
        sum->warm_used += slab->fresh - ready;
        hak_check_that(check, of_slab, slab, "a warm slab is in no list and has its pages",
                       !slab->listed && !slab->purged);
    } else {
        sum->listed += slab->free_count > 0;
        sum->touched += slab->fresh - purged;
        sum->spare += ready - purged;
    }
}

static void check_units(hak_superslab_t *super, void *check) {
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        if (hak_owner_is_bin(hak_load_relaxed(&super->units[i].owner)))
            check_slab(check, &super->units[i]);
}

/* ---- bins ---- */

static uint32_t check_list(hak_check_t *check, const hak_bin_t *bin, uint16_t mine) {
    uint32_t count = 0, most = hak_load_relaxed(&bin->listed_count);
    const hak_unit_t *before = NULL;
    for (const hak_unit_t *slab = bin->head; slab && count <= most; slab = slab->next, count++) {
        hak_check_equal(check, of_slab, slab, "a listed slab belongs to the bin and is not warm",
                        hak_load_relaxed(&slab->owner), mine);
        hak_check_that(check, of_slab, slab, "a listed slab has its flag and a free block",
                       slab->listed && slab->free_count > 0);
        hak_check_that(check, of_slab, slab, "next and prev agree in the list",
                       slab->prev == before);
        before = slab;
    }
    hak_check_that(check, of_bin, bin, "the list ends at its tail", bin->tail == before);
    return count;
}

static void check_empty(hak_check_t *check, const hak_bin_t *bin, uint16_t mine) {
    const hak_unit_t *slab = hak_load_relaxed(&bin->empty);
    if (!slab) return;
    hak_check_equal(check, of_slab, slab, "the kept empty slab belongs to the bin",
                    hak_load_relaxed(&slab->owner), mine);
    hak_check_equal(check, of_slab, slab, "all blocks of the kept empty slab are free",
                    slab->free_count, hak_classes[hak_owner_class(mine)].count);
    hak_check_that(check, of_slab, slab, "the kept empty slab is in no list", !slab->listed);
}

static void check_binding(hak_check_t *check, const hak_warm_slot_t *slot, uint16_t mine) {
    const hak_unit_t *slab = (const hak_unit_t *)hak_load_relaxed(&slot->state);
    hak_check_that(check, "warm slot", slot, "a slot in a ring has a slab that nobody has claimed",
                   slab && !((uintptr_t)slab & 1));
    hak_check_that(check, "warm slot", slot, "next and prev agree in the ring",
                   slot->next->prev == slot);
    if (!slab || (uintptr_t)slab & 1) return;
    hak_check_equal(check, of_slab, slab, "a warm slab has the owner word of its bin, and the flag",
                    hak_load_relaxed(&slab->owner), mine | HAK_OWNER_WARM);
    hak_check_that(check, of_slab, slab, "a warm slab points to its slot", slab->slot == slot);
    hak_check_equal(check, "warm slot", slot, "ready = free blocks that were in use",
                    hak_load_relaxed(&slot->ready),
                    hak_bin_ready(slab, &hak_classes[hak_owner_class(mine)]));
}

static void check_ring(hak_check_t *check, unsigned shard, unsigned class_index, uint16_t mine) {
    const hak_warm_ring_t *ring = hak_warm_ring_of(shard, class_index);
    const hak_warm_slot_t *slot = ring->oldest;
    uint32_t count = hak_load_relaxed(&ring->count);
    hak_check_that(check, of_ring, ring, "count is 0 <=> there is no oldest slot",
                   (count == 0) == (slot == NULL));
    hak_check_equal(check, of_ring, ring, "count = slabs with the flag", count,
                    hak_bin_sum_of(shard, class_index)->warm);
    for (uint32_t i = 0; slot && i < count; i++, slot = slot->next)
        check_binding(check, slot, mine);
    hak_check_that(check, of_ring, ring, "the ring is closed", slot == ring->oldest);
}

static uint32_t pending_length(const hak_bin_t *bin, uint32_t most) {
    uint32_t length = 0;
    const hak_unit_t *slab = hak_load_relaxed(&bin->pending);
    for (; slab && length <= most; slab = slab->pending_next) length++;
    return length;
}

void hak_bin_check(hak_check_t *check, unsigned shard, unsigned class_index) {
    const hak_bin_t *bin = hak_bin_of(shard, class_index);
    const hak_bin_sum_t *sum = hak_bin_sum_of(shard, class_index);
    const uint16_t mine = hak_owner(shard, class_index);
    uint32_t left = hak_load_relaxed(&hak_bin_rare(shard, class_index)->left);
    uint32_t listed = check_list(check, bin, mine) + (hak_load_relaxed(&bin->empty) != NULL);
    check_empty(check, bin, mine);
    check_ring(check, shard, class_index, mine);
    hak_check_equal(check, of_bin, bin, "listed_count = slabs in the list and the kept empty slab",
                    hak_load_relaxed(&bin->listed_count), listed);
    hak_check_equal(check, of_bin, bin, "slabs with a free block = listed_count", sum->listed,
                    listed);
    hak_check_equal(check, of_bin, bin, "adopted - left = slabs",
                    (uint32_t)(hak_load_relaxed(&bin->adopted) - left), sum->slabs);
    hak_check_equal(check, of_bin, bin, "touched = sum of fresh - purged blocks",
                    hak_load_relaxed(&bin->touched), sum->touched);
    hak_check_equal(check, of_bin, bin, "spare = free blocks neither fresh nor purged",
                    hak_load_relaxed(&bin->spare), sum->spare);
    hak_check_equal(check, of_bin, bin, "slabs on the pending stack = slabs with remote words",
                    pending_length(bin, sum->pending), sum->pending);
}

/* ---- all ---- */

static size_t check_class(hak_check_t *check, unsigned class_index, uint64_t *carved) {
    size_t slabs = 0;
    *carved = 0;
    HAK_EACH_SHARD (shard) {
        const hak_bin_sum_t *sum = hak_bin_sum_of(shard, class_index);
        if (hak_load_relaxed(&hak_bin_of(shard, class_index)->adopted) || sum->slabs)
            hak_bin_check(check, shard, class_index);
        *carved += hak_warm_used(shard, class_index) - sum->warm_used;
        slabs += sum->slabs;
    }
    return slabs;
}

void hak_shard_check(hak_check_t *check, uint64_t carved[HAK_CLASS_COUNT + 1]) {
    size_t ragged = 0, bins = 0;
    HAK_EACH_SHARD (shard)
        memset(hak_bin_sum_of(shard, 0), 0, (HAK_CLASS_COUNT + 1) * sizeof(hak_bin_sum_t));
    hak_region_each_superslab(check_units, check);
    for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
        size_t slabs = check_class(check, class_index, &carved[class_index]);
        if (slabs && hak_class_is_ragged(class_index)) ragged += slabs;
    }
    HAK_EACH_SHARD (shard) {
        uint32_t slabs = 0;
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) slabs += hak_bin_sum_of(shard, i)->slabs;
        hak_check_equal(check, "shard", hak_bin_of(shard, 0), "slabs of its bins",
                        hak_bin_slab_count(shard), slabs);
        bins += hak_shard_bins_told(shard);
    }
    hak_check_equal(check, "pool", &hak_pool_stats, "other_bins = bins that shards have told of",
                    hak_load_relaxed(&hak_pool_stats.other_bins), bins);
    hak_check_equal(check, "pool", &hak_pool_stats, "ragged_units = slabs of ragged classes",
                    hak_load_relaxed(&hak_pool_stats.ragged_units), ragged);
}

#if HAKMEM_VERIFY
/* The two ends of the list, and the kept empty slab. */
void hak_bin_check_at_release(const void *lock) {
    const hak_bin_t *bin = lock;
    const hak_unit_t *some[] = {bin->head, bin->tail, hak_load_relaxed(&bin->empty)};
    hak_check_t check = {0};
    for (unsigned i = 0; i < sizeof some / sizeof some[0]; i++) {
        if (!some[i] || (i > 0 && some[i] == some[i - 1])) continue;
        uint16_t owner = hak_load_relaxed(&some[i]->owner);
        hak_check_that(&check, of_slab, some[i], "a listed slab belongs to the bin and is not warm",
                       hak_owner_is_bin(owner) && !(owner & HAK_OWNER_WARM) &&
                           hak_bin_of(hak_owner_shard(owner), hak_owner_class(owner)) == bin);
        hak_check_equal(&check, of_slab, some[i], "it is marked as listed, or kept empty",
                        some[i]->listed, some[i] != some[2]);
        if (!check.violations) hak_slab_check(&check, some[i]);
    }
    hak_check_that(&check, of_bin, bin, "both ends of the list, or none", !bin->head == !bin->tail);
    hak_check_that(&check, of_bin, bin, "spare <= touched",
                   hak_load_relaxed(&bin->spare) <= hak_load_relaxed(&bin->touched));
    hak_check_stop(&check);
}
#endif
