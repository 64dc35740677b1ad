/* sparse.c: pages of free blocks in slabs that also hold blocks in use.
 *
 * A slab goes back to the pool when all its blocks are free. One block in use keeps 64 KiB, so a
 * program that frees most blocks of a class and goes on with another class would need the sum of
 * both. This file purges the pages that only free blocks cover; the blocks stay free blocks of
 * their slab, and are taken last.
 *
 * Each purged page costs a fault later. So a bin is purged only if most of its touched blocks are
 * free (`spare` of `touched`), and only in one of these cases:
 *   - the heap has grown;
 *   - nothing moved in the bin for the purge delay;
 *   - the bin is idle, because the program has moved on: it takes slabs or blocks of other classes, and
 *     no blocks of this bin. The clock is the number of slabs taken while the heap does not grow and, in
 *     a large heap without a helper thread, the number of slow calls: after every few of them one shard
 *     is visited, in turn. Slabs alone are too few: a heap whose sizes drift uses its own slabs again.
 *
 * The bin's lock is held while the pages of one slab are purged, so that no thread can take a block
 * on them: some microseconds, in a bin that is little used. */
#include "shard/sparse.h"

#include "base/bits.h"
#include "classes/dyn.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/shard.h"
#include "shard/table.h"
#include "shard/warm_slab.h"

enum {
    SMALL_HEAP = 64,   /* units; a visit touches all bins: not below this */
    LARGE_HEAP = 1024, /* units, 64 MiB; from here on slow calls, too, bring visits */
    POOL_PART = 8,     /* dirty units are many above one part in so many of the used ones */
    PART_LEAST = 32,   /* least part of a slab that is purged, in 256ths */
    LOOKS_HELD = 64,   /* slabs that are passed under one lock */
    LOOKED_MOST = 15,  /* `looked` has four bits */
    FEW_BITS = 4,      /* few blocks: below 16 */
    SWEEP_MS = 250,    /* between two passes */
    VISIT_UNITS = 4,   /* slabs taken from the pool between two visits of shards */
    LOOKS_FOR_ONE = 4, /* slabs that are looked at for each 64 KiB that is wanted */
    GROWN_SHARDS = 16, /* shards that are looked at when the heap has grown */
    REST_PART = 64,    /* a bin is idle when 1 of so many units in use were taken */
};

static _Atomic uint64_t purged_bytes;
static _Atomic uint32_t taken HAK_OWN_LINE;  /* atomic; units that became slabs, modulo 2^32 */
static _Atomic uint32_t visits HAK_OWN_LINE; /* atomic; of shards, modulo 2^32 */

uint64_t hak_shard_purged_sparse(void) { return hak_load_relaxed(&purged_bytes); }

/* True when the blocks first..last of a slab are free. Bin lock held. */
static bool all_free(const hak_unit_t *slab, unsigned first, unsigned last) {
    for (unsigned w = first / 64; w <= last / 64; w++)
        if (hak_bits_within(w, first, last + 1) & ~hak_slab_bits(slab)[w]) return false;
    return true;
}

/* Mask of the pages of a slab that only free blocks cover, up to the blocks that were never
 * allocated. Bin lock held. */
static uint64_t free_pages(const hak_unit_t *slab, const hak_class_t *info, size_t page_size) {
    uint64_t pages = 0;
    size_t start = hak_first_offset((uintptr_t)slab->base, info);
    for (unsigned page = 0; page < HAK_UNIT_SIZE / page_size; page++) {
        if ((page + 1) * page_size <= start) continue; /* no block touches it */
        unsigned first = (unsigned)((hak_max(page * page_size, start) - start) / info->size);
        unsigned last = (unsigned)(((page + 1) * page_size - 1 - start) / info->size);
        if (first >= slab->fresh) break;
        if (all_free(slab, first, (unsigned)hak_min(last, info->count - 1u)))
            pages |= (uint64_t)1 << page;
    }
    return pages;
}

/* Purges the pages of a mask, span by span; returns the bytes purged. */
static size_t purge_pages(const hak_unit_t *slab, uint64_t pages, size_t page_size) {
    hak_superslab_t *super = hak_region_superslab_of(slab);
    size_t bytes = 0;
    while (pages) {
        unsigned start = hak_lowest_bit(pages);
        unsigned count = hak_lowest_bit(~(pages >> start));
        size_t size = count * page_size;
        if (hak_region_purge(super, slab->base + start * page_size, size)) bytes += size;
        pages &= ~((((uint64_t)1 << count) - 1) << start);
    }
    return bytes;
}

/* The number of blocks of a slab that the program or caches hold, on a scale of 1 to LOOKED_MOST: two steps per
 * doubling while there are few, then one. */
static unsigned scale_of_used(const hak_unit_t *slab, const hak_class_t *info) {
    const unsigned used = slab->fresh - hak_bin_ready(slab, info);
    if (used < 2) return 1;
    const unsigned high = hak_highest_bit(used);
    if (high >= FEW_BITS) return (unsigned)hak_min(FEW_BITS + high, LOOKED_MOST);
    return 2 * high + (used >> (high - 1) & 1);
}

/* True when a look at the pages of a slab is worth its cost: enough of its blocks are free and, if there was a look
 * since the last take, distinctly fewer are in use now. Blocks come back one by one, so without this test nearly all
 * looks would find nothing. Bin lock held. */
static bool is_worth_a_look(const hak_unit_t *slab, const hak_class_t *info) {
    if (hak_bin_ready(slab, info) * 256u < ((unsigned)slab->purged + PART_LEAST) * info->count)
        return false;
    return !slab->looked || scale_of_used(slab, info) < slab->looked;
}

/* Purges one slab, unless it would give back too little; returns bytes. Bin lock held. */
static size_t purge_slab(hak_bin_t *bin, _Atomic size_t *seen, hak_unit_t *slab,
                         const hak_class_t *info) {
    size_t page_size = hak_os_page_size();
    uint64_t pages = free_pages(slab, info, page_size);
    uint32_t blocks = (uint32_t)(hak_bit_count(pages) * page_size / info->size);
    blocks = (uint32_t)hak_min(blocks, hak_bin_ready(slab, info)); /* only those with pages */
    unsigned part = (unsigned)hak_min(blocks * 256u / info->count, 255);
    slab->looked = (uint8_t)scale_of_used(slab, info);
    if (part < (unsigned)slab->purged + PART_LEAST) return 0;
    size_t bytes = purge_pages(slab, pages, page_size);
    if (bytes == 0) return 0;
    uint32_t before = hak_bin_purged_blocks(slab, info);
    slab->purged = (uint8_t)part;
    size_t more = hak_bin_purged_blocks(slab, info) - before;
    HAK_ADD_OWNED(&bin->touched, -more);
    HAK_ADD_OWNED(&bin->spare, -more);
    /* so that the purge does not count as a move */
    HAK_ADD_OWNED(seen, -more);
    hak_add_relaxed(&purged_bytes, bytes);
    return bytes;
}

/* Passes up to `most` slabs of a bin, from the head of its list to the first that is worth a look, and purges that one;
 * with `all`, each slab is worth a look. The passed slabs move to the end of the list. Returns how many; 0 when none is
 * listed. */
static uint32_t purge_next(unsigned shard, unsigned class_index, bool all, uint32_t most,
                           size_t *bytes) {
    hak_bin_t *bin = hak_bin_of(shard, class_index);
    const hak_class_t *info = &hak_classes[class_index];
    HAK_HOLD(&bin->lock);
    hak_unit_t *slab = bin->head;
    if (!slab) return 0;
    uint32_t passed = 1;
    bool is_worth = all || is_worth_a_look(slab, info);
    for (; !is_worth && passed < most && slab->next; passed++) {
        slab = slab->next;
        is_worth = is_worth_a_look(slab, info);
    }
    if (is_worth)
        *bytes = purge_slab(bin, &hak_bin_rare(shard, class_index)->spare_seen, slab, info);
    hak_bin_pass_over(bin, slab);
    return passed;
}

/* Purges up to `*looks` slabs of a bin, as far as the budget allows. Releases the lock after each slab whose pages
 * it looks at, and after LOOKS_HELD others. The rest of *looks is for the next piece. */
static size_t purge_bin(unsigned shard, unsigned class_index, bool all, uint32_t *looks,
                        hak_budget_t *budget) {
    size_t bytes = 0;
    while (*looks && !hak_budget_is_spent(budget)) {
        size_t some = 0;
        const uint32_t most = (uint32_t)hak_min(hak_min(*looks, budget->looks), LOOKS_HELD);
        const uint32_t passed = purge_next(shard, class_index, all, most, &some);
        hak_budget_look(budget, hak_max(passed, 1));
        hak_budget_give(budget, some);
        bytes += some;
        *looks = passed ? *looks - passed : 0;
    }
    return bytes;
}

/* Purges about `bytes` of a bin, not more. */
static size_t purge_some(unsigned shard, unsigned class_index, size_t bytes, hak_budget_t *budget) {
    const uint32_t listed = hak_load_relaxed(&hak_bin_of(shard, class_index)->listed_count);
    uint32_t looks = (uint32_t)hak_min(listed, bytes / HAK_UNIT_SIZE * LOOKS_FOR_ONE);
    hak_budget_t some = {budget->looks,
                         hak_min(bytes, SIZE_MAX / 2) + 2 * (size_t)HAK_UNIT_SIZE - 1};
    some.bytes = hak_min(some.bytes, budget->bytes);
    size_t given = purge_bin(shard, class_index, false, &looks, &some);
    hak_budget_look(budget, budget->looks - some.looks);
    hak_budget_give(budget, given);
    return given;
}

/* The spare bytes of a bin that has a bit in its shard's word. Clears the bit if there are none any more, under the
 * lock under which the bit is set, so that no set bit is lost. */
static size_t noted_bytes(unsigned shard, unsigned class_index) {
    hak_bin_t *bin = hak_bin_of(shard, class_index);
    const size_t bytes = hak_bin_spare_bytes(bin, class_index);
    if (bytes || !hak_lock_try(&bin->lock)) return bytes;
    if (!hak_bin_spare_bytes(bin, class_index)) hak_bin_note_spare(shard, class_index, false);
    hak_lock_release(&bin->lock);
    return 0;
}

/* The next class, from `from` on, whose bin may have spare bytes; 0 for none. */
static unsigned next_noted(unsigned shard, unsigned from) {
    for (unsigned w = from / 64; w < HAK_SHARD_CLASS_WORDS; w++) {
        uint64_t has = hak_shard_spare(shard, w);
        if (w == from / 64) has &= ~(uint64_t)0 << from % 64;
        if (has) return w * 64 + hak_lowest_bit(has);
    }
    return 0;
}

#define EACH_NOTED(class_index, shard)                             \
    for (unsigned class_index = next_noted(shard, 1); class_index; \
         class_index = next_noted(shard, class_index + 1))

/* Number of shards that are made. */
static unsigned shards_made(void) {
    unsigned count = 0;
    HAK_EACH_SHARD (made) count++;
    return count;
}

/* The shard whose turn it is, of `count` existing shards; `visited` shards from it on are counted as visited. */
static unsigned take_turn(unsigned count, unsigned visited) {
    unsigned shard = hak_lazy_table_next(&hak_shard_table, 0);
    for (unsigned n = hak_add_relaxed(&visits, visited) % count; n; n--)
        shard = hak_shard_after(shard);
    return shard;
}

/* Purges one bin in each call: the one with the most spare bytes among the next few shards. */
size_t hak_shard_purge_grown(size_t bytes, hak_budget_t *budget) {
    const unsigned count = shards_made();
    if (count == 0) return 0;
    unsigned best_shard = 0, best_class = 0, left = (unsigned)hak_min(count, GROWN_SHARDS);
    unsigned shard = take_turn(count, left);
    size_t most = 0;
    for (; left; left--, shard = hak_shard_after(shard)) {
        EACH_NOTED(class_index, shard) {
            size_t spare = noted_bytes(shard, class_index);
            if (spare <= most) continue;
            most = spare;
            best_shard = shard;
            best_class = class_index;
        }
    }
    return most ? purge_some(best_shard, best_class, bytes, budget) : 0;
}

/* True when there is at most one block in use per touched page. Then many pages have no block in use, wherever the
 * blocks lie. */
HAK_FAST_PATH bool is_strewn(const hak_bin_t *bin, unsigned class_index) {
    size_t touched = hak_load_relaxed(&bin->touched);
    size_t used = touched - hak_min(hak_load_relaxed(&bin->spare), touched);
    return used * hak_os_page_size() <= touched * hak_dyn_size_of(class_index);
}

HAK_FAST_PATH size_t heap_units(void) { return hak_pool_superslabs() << hak_map.super_shift; }

/* Visits without a take before a bin counts as idle: a part of the heap, capped at 255. */
static unsigned visits_of_rest(unsigned shards) {
    size_t units = hak_load_relaxed(&hak_pool_about.used_units);
    size_t most = 2 + units / ((size_t)REST_PART * VISIT_UNITS * shards);
    if (heap_units() >= LARGE_HEAP) most /= 2; /* its visits are more frequent */
    return (unsigned)hak_min(most, UINT8_MAX);
}

/* The class of the idle bin with the most spare bytes in a shard, among its strewn bins; 0 for none. Adds `more` to
 * `rests` of the other bins. A concurrent take may be missed; then a bin counts as idle too early, once. */
static unsigned idle_bin(unsigned shard, unsigned rest, unsigned more) {
    unsigned best = 0;
    size_t most = 0;
    EACH_NOTED(class_index, shard) {
        hak_bin_t *bin = hak_bin_of(shard, class_index);
        size_t bytes = noted_bytes(shard, class_index);
        if (!bytes || !is_strewn(bin, class_index)) continue;
        unsigned rests = hak_load_relaxed(&bin->rests);
        if (rests < rest) {
            hak_store_relaxed(&bin->rests, (uint8_t)(rests + more));
        } else if (bytes > most) {
            most = bytes;
            best = class_index;
        }
    }
    return best;
}

HAK_COMMON bool hak_shard_heap_is_small(void) { return heap_units() < SMALL_HEAP; }

bool hak_shard_may_visit(bool is_for_calls) {
    return heap_units() >= (is_for_calls ? LARGE_HEAP : SMALL_HEAP) &&
           hak_load_relaxed(&hak_pool_stats.dirty_units) <
               hak_load_relaxed(&hak_pool_stats.used_units) / POOL_PART;
}

bool hak_shard_count_taken(unsigned units) {
    const uint32_t before = hak_add_relaxed(&taken, units);
    return (before + units) / VISIT_UNITS != before / VISIT_UNITS;
}

/* After a purge that gave back little, the bin is not purged again for a while. In a small heap one bin
 * pays for a visit: there the program often comes back to the sizes that it left. */
size_t hak_shard_visit(hak_budget_t *budget) {
    const unsigned count = shards_made();
    size_t all = 0;
    if (count == 0) return 0;
    const unsigned shard = take_turn(count, 1), rest = visits_of_rest(count);
    const size_t wanted = hak_superslab_size();
    unsigned class_index = idle_bin(shard, rest, 1);
    while (class_index && !hak_budget_is_spent(budget)) {
        hak_budget_look(budget, 1);
        size_t bytes = purge_some(shard, class_index, wanted, budget);
        if (bytes < wanted / 4) hak_store_relaxed(&hak_bin_of(shard, class_index)->rests, 0);
        all += bytes;
        if (heap_units() < LARGE_HEAP) return all;
        class_index = idle_bin(shard, rest, 0);
    }
    if (!class_index) return all;
    hak_add_relaxed(&hak_shard_visits_due, 1); /* there is more to give back: soon again */
    hak_budget_note(HAK_NOTE_VISIT);
    return all;
}

/* Notes whether anything moved in a bin since the last pass. True, once, when nothing has moved for
 * `delay_ms`, as far as passes can see. One thread at a time makes a pass, and only passes age the
 * bins. */
static bool becomes_idle(hak_bin_t *bin, _Atomic size_t *seen, uint32_t delay_ms) {
    uint32_t limit = delay_ms / SWEEP_MS + 1;
    HAK_HOLD(&bin->lock);
    size_t spare = hak_load_relaxed(&bin->spare), age = hak_load_relaxed(&bin->spare_age);
    bool same = spare == hak_load_relaxed(seen);
    hak_store_relaxed(seen, spare);
    hak_store_relaxed(&bin->spare_age, same ? (uint16_t)hak_min(age + 1, limit + 1) : 0);
    return same && age == limit - 1;
}

/* The number of slabs that a pass looks at in a bin. */
static uint32_t slabs_worth(unsigned shard, unsigned class_index, hak_sparse_t which,
                            uint32_t delay_ms, hak_budget_t *budget) {
    hak_bin_t *bin = hak_bin_of(shard, class_index);
    if (which != HAK_SPARSE_ALL && !hak_bin_spare_bytes(bin, class_index)) return 0;
    _Atomic size_t *seen = &hak_bin_rare(shard, class_index)->spare_seen;
    if (which == HAK_SPARSE_IDLE) {
        hak_budget_look(budget, 1); /* a lock */
        if (!becomes_idle(bin, seen, delay_ms)) return 0;
    }
    return hak_load_relaxed(&bin->listed_count);
}

/* Continues where the previous piece ended; true at the end of the last bin. */
bool hak_shard_purge_piece(hak_walk_t *walk, hak_sparse_t which, uint32_t delay_ms,
                           hak_budget_t *budget, size_t *bytes) {
    for (; walk->shard < hak_shard_count(); walk->shard++, walk->class_index = 0) {
        if (!hak_shard_is_made(walk->shard)) continue;
        for (;;) {
            if (walk->left)
                *bytes += purge_bin(walk->shard, walk->class_index, true, &walk->left, budget);
            if (walk->left || hak_budget_is_spent(budget)) return false;
            if (++walk->class_index > HAK_CLASS_COUNT) break;
            walk->left = slabs_worth(walk->shard, walk->class_index, which, delay_ms, budget);
        }
        hak_budget_look(budget, 1); /* a shard: as in hak_shard_release_piece */
    }
    return true;
}

bool hak_shard_purge_waits(uint32_t delay_ms) {
    HAK_EACH_SHARD (shard) {
        const hak_bin_t *bins = hak_bin_of(shard, 0);
        for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
            const hak_bin_t *bin = &bins[class_index];
            if (hak_warm_any(shard, class_index)) return true; /* a sweep may find idle slots */
            if (!hak_bin_spare_bytes(bin, class_index)) continue;
            size_t seen = hak_load_relaxed(&hak_bin_rare(shard, class_index)->spare_seen);
            if (hak_load_relaxed(&bin->spare) != seen) return true;
            if (hak_load_relaxed(&bin->spare_age) <= delay_ms / SWEEP_MS) return true;
        }
    }
    return false;
}
