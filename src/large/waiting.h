/* waiting.h: freed blocks of a large heap that are not merged with its free memory yet: those that its own CPU freed
 * last (recent.h), and those that other CPUs put into the transfer array. A request takes such a block whole. They are
 * merged by a search that finds no room, by a full array and by a purge. A part of large.c; the protocol is in
 * heap.h. */
#pragma once

#include "debug/timing.h"
#include "large/heap.h"
#include "options/options.h"

enum { NOTED_GRAINS = 128 }; /* in a transfer array; fewer set no hint */

static char *block_start(const hak_unit_t *unit, uint32_t word) {
    return unit->base + ((size_t)(word % HAK_UNIT_GRAINS) << HAK_GRAIN_SHIFT);
}

/* ---- whether others may take from the heap ---- */

static size_t free_grains(const hak_heap_t *heap) {
    return hak_heap_idle(heap) + hak_load_relaxed(&heap->transfer_grains);
}

static bool has_much_now(const hak_heap_t *heap) {
    return free_grains(heap) > hak_load_relaxed(&heap->live) / 2;
}

static void note_much(hak_heap_t *heap) {
    const bool has_much = has_much_now(heap);
    if (hak_load_relaxed(&heap->has_much) != has_much) hak_store_relaxed(&heap->has_much, has_much);
}

/* ---- blocks of other CPUs ---- */

/* Merges a freed block with the free memory. Heap lock held. */
static void merge(hak_heap_t *heap, hak_unit_t *unit) {
    uint32_t word = hak_load_relaxed(&unit->large);
    hak_store_relaxed(&unit->large, 0);
    HAK_ADD_OWNED(&heap->live, -hak_large_length(word));
    HAK_ADD_OWNED(&heap->live_count, -(size_t)1);
    hak_heap_free(heap, block_start(unit, word), hak_large_length(word));
}

/* Empties the transfer array into the extents; returns the blocks it held. Heap lock held. */
static unsigned drain_transferred(hak_heap_t *heap) {
    hak_unit_t *units[HAK_TRANSFER_MAX];
    hak_lock_acquire(&heap->transfer_lock);
    unsigned count = heap->transfer_count;
    for (unsigned i = 0; i < count; i++) units[i] = heap->transfer[i];
    heap->transfer_count = 0;
    hak_store_relaxed(&heap->transfer_grains, 0);
    hak_lock_release(&heap->transfer_lock);
    for (unsigned i = 0; i < count; i++) merge(heap, units[i]);
    return count;
}

/* Sets the hint `has_much` for a heap that only gets blocks back: no thread may be using the heap that would set it.
 * The heap's counts are in cache lines of its CPU. So they are read only if the array holds much memory, and only until
 * the hint is set. Transfer lock held. */
static void note_transferred(hak_heap_t *heap) {
    if (hak_load_relaxed(&heap->transfer_grains) < NOTED_GRAINS) return;
    if (!hak_load_relaxed(&heap->has_much) && has_much_now(heap))
        hak_store_relaxed(&heap->has_much, true);
}

/* False when the array is full. */
static bool put_transferred(hak_heap_t *heap, hak_unit_t *unit, size_t grains) {
    HAK_TIMED(l25_remote_push);
    size_t most = (size_t)hak_option(HAK_OPTION_L25_TC_SPILL);
    HAK_HOLD(&heap->transfer_lock);
    if (heap->transfer_count >= most) return false;
    heap->transfer[heap->transfer_count++] = unit;
    HAK_ADD_OWNED(&heap->transfer_grains, grains);
    HAK_ADD_OWNED(&heap->transferred, 1);
    note_transferred(heap);
    return true;
}

/* ---- blocks of the own CPU: all under the heap's lock ---- */

/* Merges the oldest until at most `count` blocks of `grains` together are left; returns how many. */
static unsigned merge_recent(hak_heap_t *heap, unsigned count, size_t grains) {
    hak_unit_t *unit;
    unsigned merged = 0;
    for (; (unit = hak_recent_take_beyond(&heap->recent, count, grains)) != NULL; merged++)
        merge(heap, unit);
    return merged;
}

static void keep_recent(hak_heap_t *heap, hak_unit_t *unit, size_t grains) {
    const size_t most = HAK_RECENT_GRAINS - grains;
    if (hak_recent_is_beyond(&heap->recent, HAK_RECENT_MAX - 1, most))
        merge_recent(heap, HAK_RECENT_MAX - 1, most);
    hak_recent_put(&heap->recent, unit, grains);
}

/* Merges all freed blocks that wait; returns how many. Heap lock held. */
static unsigned drain(hak_heap_t *heap) {
    unsigned merged = merge_recent(heap, 0, 0);
    return drain_transferred(heap) + merged;
}

static bool waits(const hak_heap_t *heap) {
    return hak_load_relaxed(&heap->recent.grains) || hak_load_relaxed(&heap->transfer_grains);
}
