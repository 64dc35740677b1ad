/* verify.c: the equations of superslab.h, heap.h, huge_stretches.h and huge_table.h, executed. */
#include "large/verify.h"

#include <string.h>

#include "large/fine_grain.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/large.h"
#include "large/huge_table.h"
#include "region/region.h"

static const char of_super[] = "superslab", of_heap[] = "large heap", of_huge[] = "huge blocks";

/* ---- superslabs ---- */

static uint32_t touched_units(const hak_superslab_t *super) {
    uint32_t units = 0;
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        if (super->touched[i / 4] >> i % 4 * HAK_UNIT_GRAINS & 0xffff) units |= (uint32_t)1 << i;
    return units;
}

/* The record of a superslab of a large heap. Heap lock held. */
static void check_grains(hak_check_t *check, const hak_superslab_t *super) {
    unsigned touched = 0;
    uint32_t dirty = touched_units(super);
    for (unsigned w = 0; w < hak_superslab_words(); w++)
        touched += super->touched[w] ? hak_bit_count(super->touched[w]) : 0;
    hak_check_that(check, of_super, super, "a superslab of a large heap has its flag",
                   super->large);
    hak_check_equal(check, of_super, super, "clean_grains = grains - touched ones",
                    super->clean_grains, hak_superslab_grains() - touched);
    hak_check_that(check, of_super, super, "a unit with a touched grain is dirty",
                   (dirty & ~super->dirty) == 0);
    hak_check_that(check, of_super, super, "used_grains <= grains",
                   super->used_grains <= hak_superslab_grains());
}

/* ---- heaps ---- */

static void add_superslab(hak_superslab_t *super, void *check) {
    if (!super->large) return;
    uint16_t owner = hak_load_relaxed(&super->units[0].owner);
    hak_heap_t *heap = hak_heap_at(hak_owner_shard(owner));
    hak_check_that(check, of_super, super, "its heap is made", heap != NULL);
    if (!heap) return;
    hak_heap_sum_t *sum = &heap->sum;
    check_grains(check, super);
    hak_check_equal(check, of_super, super, "a unit is dirty <=> a grain of it is touched",
                    super->dirty, touched_units(super));
    sum->grains += hak_superslab_grains();
    sum->used += super->used_grains;
    sum->listed += super->on_dirty;
    sum->lent += super->used_grains == 0;
    hak_check_equal(check, of_super, super, "its owner = that of its units",
                    hak_load_relaxed(&super->heap_owner), owner);
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        uint32_t word = hak_load_relaxed(&super->units[i].large);
        hak_check_equal(check, of_super, super, "all units have one owner",
                        hak_load_relaxed(&super->units[i].owner), owner);
        sum->live += hak_large_length(word);
        sum->blocks += word != 0;
    }
}

static void add_extent(const hak_unit_t *unit, void *context) {
    hak_heap_sum_t *sum = context;
    char *at;
    size_t left = hak_extent_in(unit, &at);
    hak_part_t part;
    sum->free += left;
    while (hak_part_next(&at, &left, &part))
        for (unsigned i = part.first; i < part.first + part.count; i++)
            sum->idle += part.super->touched[i / 64] >> i % 64 & 1;
}

/* The transfer array, whose lock is held. */
static void check_transfer(hak_check_t *check, const hak_heap_t *heap) {
    size_t grains = 0;
    hak_check_that(check, "transfer array", heap, "count <= capacity",
                   heap->transfer_count <= HAK_TRANSFER_MAX);
    if (heap->transfer_count > HAK_TRANSFER_MAX) return;
    for (unsigned i = 0; i < heap->transfer_count; i++) {
        uint32_t word = hak_load_relaxed(&heap->transfer[i]->large);
        hak_check_that(check, "transfer array", heap, "its blocks are freed",
                       (word & HAK_LARGE_FREED) != 0);
        grains += hak_large_length(word);
    }
    hak_check_equal(check, "transfer array", heap, "transfer_grains = sum of its blocks",
                    hak_load_relaxed(&heap->transfer_grains), grains);
}

static void check_recent(hak_check_t *check, const hak_heap_t *heap) {
    const hak_recent_t *recent = &heap->recent;
    size_t grains = 0;
    hak_check_that(check, of_heap, heap, "recent blocks <= places for them",
                   recent->count <= HAK_RECENT_MAX);
    if (recent->count > HAK_RECENT_MAX) return;
    for (unsigned i = 0; i < recent->count; i++) {
        uint32_t word = hak_load_relaxed(&recent->blocks[i]->large);
        hak_check_that(check, of_heap, heap, "recent blocks are freed",
                       (word & HAK_LARGE_FREED) != 0);
        hak_check_equal(check, of_heap, heap, "the length of a recent block", recent->lengths[i],
                        hak_large_length(word));
        grains += recent->lengths[i];
    }
    hak_check_equal(check, of_heap, heap, "grains of recent blocks = sum of their lengths",
                    hak_load_relaxed(&recent->grains), grains);
    hak_check_that(check, of_heap, heap, "recent blocks <= their most grains",
                   grains <= HAK_RECENT_GRAINS);
}

static void check_dirty_list(hak_check_t *check, const hak_heap_t *heap, size_t length) {
    size_t count = 0;
    const hak_superslab_t *before = NULL, *super = heap->dirty.oldest;
    for (; super && count <= length; before = super, super = super->dirty_next, count++)
        hak_check_that(check, of_super, super, "next and prev agree in the list of idle superslabs",
                       super->dirty_prev == before && super->on_dirty);
    hak_check_equal(check, of_heap, heap, "superslabs in the list of idle ones", count, length);
    hak_check_that(check, of_heap, heap, "the list of idle superslabs ends at its newest",
                   heap->dirty.newest == before);
}

/* At rest no purge has claimed anything: what is used is in blocks. */
void hak_heap_check(hak_check_t *check, hak_heap_t *heap) {
    hak_heap_sum_t *sum = &heap->sum;
    hak_extents_check(check, &heap->extents, add_extent, sum);
    check_transfer(check, heap);
    check_recent(check, heap);
    check_dirty_list(check, heap, sum->listed);
    hak_check_equal(check, of_heap, heap, "used grains = grains of blocks", sum->used, sum->live);
    hak_check_equal(check, of_heap, heap, "free grains = grains of extents",
                    sum->grains - sum->used, sum->free);
    hak_check_equal(check, of_heap, heap, "idle = touched and not used",
                    hak_load_relaxed(&heap->idle), sum->idle);
    hak_check_equal(check, of_heap, heap, "live = grains of blocks", hak_load_relaxed(&heap->live),
                    sum->live);
    hak_check_equal(check, of_heap, heap, "lent = superslabs without a used grain",
                    hak_load_relaxed(&heap->lent), sum->lent);
    hak_check_equal(check, of_heap, heap, "live_count = blocks",
                    hak_load_relaxed(&heap->live_count), sum->blocks);
}

void hak_heaps_check(hak_check_t *check) {
    size_t published = 0;
    HAK_EACH_HEAP (i) hak_heap_at(i)->sum = (hak_heap_sum_t){0};
    hak_region_each_superslab(add_superslab, check);
    hak_fine_check(check);
    HAK_EACH_HEAP (i) {
        hak_heap_t *heap = hak_heap_at(i);
        published += heap->idle_published;
        if (hak_load_relaxed(&heap->runs) || heap->sum.grains) hak_heap_check(check, heap);
    }
    hak_check_equal(check, of_heap, &hak_heap_table, "the sum of what heaps have published as idle",
                    hak_large_idle_about() >> HAK_GRAIN_SHIFT, published);
}

/* ---- huge blocks ---- */

typedef struct {
    hak_check_t *check;
    hak_huge_table_t *table;
    size_t blocks, block_bytes, kept, kept_bytes;
    uintptr_t end; /* of the stretch before, in the same part */
} huge_sum_t;

static bool add_block(const hak_mapping_t *mapping, void *context) {
    huge_sum_t *sum = context;
    hak_check_that(sum->check, "huge block", (const void *)mapping->start,
                   "the table finds it by its start",
                   hak_huge_table_find(sum->table, mapping->start) == mapping);
    sum->blocks++;
    sum->block_bytes += mapping->size;
    return true;
}

static void add_stretch(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    huge_sum_t *sum = context;
    (void)kind;
    hak_check_that(sum->check, "kept stretch", start,
                   "a gap lies between it and the stretch before", (uintptr_t)start > sum->end);
    hak_check_that(sum->check, "kept stretch", start, "it has a length", size > 0);
    sum->kept++;
    sum->kept_bytes += size;
    sum->end = (uintptr_t)start + size;
}

static void check_part(hak_check_t *check, const hak_stretches_t *part, huge_sum_t *sum) {
    size_t before = sum->kept_bytes, stretches = sum->kept;
    sum->end = 0;
    hak_stretches_each_range(part, add_stretch, sum);
    hak_check_equal(check, of_huge, part, "bytes kept = sum of the stretches", part->bytes,
                    sum->kept_bytes - before);
    hak_check_that(check, of_huge, part, "there is a place for each stretch",
                   sum->kept - stretches == part->count && part->count <= part->most);
}

void hak_huge_check(hak_check_t *check) {
    huge_sum_t sum = {.check = check};
    for (unsigned i = 0; i < hak_huge_table_count(); i++) {
        sum.table = &hak_huge_table[i];
        for (size_t at = 0; hak_huge_table_walk(sum.table, &at, add_block, &sum);) continue;
    }
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) check_part(check, &hak_kept_parts[i], &sum);
    hak_check_equal(check, of_huge, hak_huge_table, "counts of all tables = their entries",
                    hak_huge_count(), sum.blocks);
    hak_check_equal(check, of_huge, &hak_huge_stats, "held_bytes = blocks and what is kept",
                    hak_load_relaxed(&hak_huge_stats.held_bytes), sum.block_bytes + sum.kept_bytes);
    hak_check_equal(check, of_huge, &hak_huge_stats, "kept_bytes = bytes kept",
                    hak_load_relaxed(&hak_huge_stats.kept_bytes), sum.kept_bytes);
}

#if HAKMEM_VERIFY
/* Checks the next bin of extents each time, and the superslab in which its first extent begins. */
void hak_heap_check_at_release(const void *lock) {
    static _Thread_local unsigned bin;
    const hak_heap_t *heap = lock;
    hak_check_t check = {0};
    bin = (bin + 1) % HAK_EXTENT_BINS;
    if (!heap->extents.owner) return;
    hak_extents_check_bin(&check, &heap->extents, bin);
    const hak_unit_t *unit = heap->extents.bins[bin];
    if (unit) check_grains(&check, hak_region_superslab_of(unit));
    if (heap->dirty.newest) check_grains(&check, heap->dirty.newest);
    hak_check_that(&check, of_heap, heap, "both ends of the list, or none",
                   !heap->dirty.oldest == !heap->dirty.newest);
    check_recent(&check, heap);
    hak_check_stop(&check);
}

void hak_transfer_check_at_release(const void *lock) {
    const char *heap = (const char *)lock - offsetof(hak_heap_t, transfer_lock);
    hak_check_t check = {0};
    check_transfer(&check, (const hak_heap_t *)(const void *)heap);
    hak_check_stop(&check);
}

void hak_kept_check_at_release(const void *lock) {
    const hak_stretches_t *part = lock;
    hak_check_t check = {0};
    hak_check_equal(&check, of_huge, part, "bytes in the sum of all parts = bytes kept",
                    part->noted, part->bytes);
    hak_check_that(&check, of_huge, part, "no stretches <=> no bytes",
                   !part->count == !part->bytes);
    hak_check_stop(&check);
}

void hak_huge_table_check_at_release(const void *lock) {
    const hak_huge_table_t *table = lock;
    hak_check_t check = {0};
    hak_check_that(&check, of_huge, table, "a search in the table ends",
                   table->current.used < hak_max(table->current.size, 1));
    hak_check_stop(&check);
}
#endif
