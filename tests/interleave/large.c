/* large.c: explores how large blocks are freed and taken (src/large/heap.h has the protocol): the
 * step that marks a block freed, the transfer array, and sizes in place, on the real large.c.
 *
 *   large             every scenario must hold
 *   large --broken    the source was broken on purpose: some scenario must fail */
#include "large/large.h"

#include <string.h>

#include "explore.h"
#include "gates.h"
#include "large/fine_grain.h"
#include "large/heap_purge.h"
#include "memory.h"
#include "meta/meta.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "scenarios.h"
#include "../support/purge.h"
#include "os/numa_topology.h"

#include "large_model.h"

/* ---- Threads --------------------------------------------------------------------------------- */

static void allocate(unsigned home) {
    char *block = hak_large_alloc(home, SIZE, 1, false);
    if (!block) return;
    unsigned i = number_of(block);
    EXPLORE_CHECK(!model.held[i], "block %u is handed out twice", i);
    model.held[i] = true;
}

/* The first free of a block must find it, and no other one. */
static void release(unsigned home, unsigned i) {
    model.held[i] = false;
    model.freeing[i] = true;
    if (hak_large_free(home, model.blocks[i])) model.freed[i]++;
    model.freeing[i] = false;
}

/* All blocks in use, made for the heap's own CPU. */
static void prepare(int64_t array_size, int64_t array_first) {
    memset(heaps, 0, sizeof heaps);
    hak_store_relaxed(&heaps[HEAP].runs, 1); /* what it has was a run once */
    memset(&model, 0, sizeof model);
    gates_reset(false);
    memset(slabs, 0, sizeof slabs);
    memset(&extents, 0, sizeof extents);
    for (unsigned i = 0; i < UNITS; i++) {
        slabs[i].base = units[i];
        hak_store_relaxed(&slabs[i].owner, hak_owner(HEAP, HAK_CLASS_LARGE));
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        model.blocks[i] = units[2 * i];
        extents.is_free[i] = true;
    }
    *merged_place() = HEAP;
    model.array_size = array_size;
    model.array_first = array_first;
    for (unsigned i = 0; i < BLOCKS; i++) allocate(i == 0 ? UNMADE : HEAP); /* sets the lender */
}

static void prepare_array(void) { prepare(2, 1); }
static void prepare_small_array(void) { prepare(1, 1); }
static void prepare_array_later(void) { prepare(2, 0); }
static void prepare_waiting(void) {
    prepare(2, 1);
    release(OTHER, 2);
}

static void prepare_recent(void) {
    prepare(2, 0);
    release(HEAP, 1);
    release(HEAP, 2);
}

/* More than half of what is in use waits in the array. */
static void prepare_much(void) {
    prepare(2, 1);
    release(OTHER, 1);
    release(OTHER, 2);
}

static void prepare_to_fork(void) {
    prepare_array();
    gates_reset(true);
}
static void prepare_small_to_fork(void) {
    prepare_small_array();
    gates_reset(true);
}

static void free_0(void) { release(HEAP, 0); }
static void free_1(void) { release(HEAP, 1); }
static void free_2(void) { release(HEAP, 2); }
static void free_0_afar(void) { release(OTHER, 0); }
static void free_1_afar(void) { release(OTHER, 1); }
static void take(void) { allocate(HEAP); }
static void take_and_free(void) {
    char *block = hak_large_alloc(HEAP, SIZE, 1, false);
    if (block) EXPLORE_CHECK(hak_large_free(HEAP, block), "a block that serves again is free");
}
static void purge(void) { purge_large(0); }
static void lend(void) { borrow(true); }

static void resize(unsigned i, size_t grains) {
    bool done = hak_large_resize(model.blocks[i], grains * HAK_GRAIN_SIZE);
    EXPLORE_CHECK(done, "block %u cannot have %zu grains", i, grains);
}
static void resize_0(size_t grains) { resize(0, grains); }

/* Block 0 is free memory; block 1 is recent, and longer than what is asked for. */
static void prepare_without_pages(void) {
    prepare(2, 0);
    release(HEAP, 0);
    resize(1, GRAINS + 1);
    release(HEAP, 1);
}
static void grow_0(void) { resize_0(GRAINS + 1); }

/* Beside a free of the same block, which a program should not do. */
static void try_resize_0(size_t grains) {
    hak_large_resize(model.blocks[0], grains * HAK_GRAIN_SIZE);
}
static void try_to_grow_0(void) { try_resize_0(GRAINS + 2); }
static void try_to_shrink_0(void) { try_resize_0(GRAINS); }
static void try_to_free_0(unsigned home) {
    release(home, 0);
    if (!model.freed[0]) model.held[0] = true; /* the resize has won */
}
static void try_to_free_0_at_home(void) { try_to_free_0(HEAP); }
static void try_to_free_0_afar(void) { try_to_free_0(OTHER); }
static void prepare_grown(void) {
    prepare_array();
    resize_0(GRAINS + 1);
}

static void grow_and_shrink_0(void) {
    grow_0();
    resize_0(GRAINS);
}
static void grow_and_free_0_afar(void) {
    grow_0();
    free_0_afar();
}
static void grow_and_free_0(void) {
    grow_0();
    free_0();
}

/* A block whose free had not marked it stays in use in the child. */
static void fork_and_take(void) {
    gates_fork();
    for (unsigned i = 0; i < BLOCKS; i++)
        if (model.freeing[i] && !(slabs[2 * i].large & HAK_LARGE_FREED) && slabs[2 * i].large)
            model.held[i] = true;
    allocate(HEAP);
}

/* A second free comes late, or a resize of a block that was freed: the memory of block 0 goes to the other
 * CPU's heap by then, which makes a block there. */
static void prepare_move(uint16_t owner, uint32_t word) {
    prepare_array();
    hak_store_relaxed(&slabs[0].owner, owner);
    hak_store_relaxed(&slabs[0].large, word);
    model.held[0] = false;
}
static void prepare_freed(void) { prepare_move(hak_owner(HEAP, HAK_CLASS_LARGE), 0); }

/* It is a slab of a shard whose heap is not made: counts of a batch. */
static void prepare_slab(void) { prepare_move(hak_owner(UNMADE, 1), UINT32_MAX); }

static void set_owner_of_0(hak_heap_t *heap, uint16_t owner) {
    hak_lock_acquire(&heap->lock);
    hak_store_relaxed(&slabs[0].large, 0);
    hak_store_release(&slabs[0].owner, owner);
    hak_lock_release(&heap->lock);
}

static void move_and_take(void) {
    set_owner_of_0(&heaps[HEAP], 0); /* to the pool */
    set_owner_of_0(&heaps[OTHER], hak_owner(OTHER, HAK_CLASS_LARGE));
    memory_write(&extents, sizeof extents);
    extents.is_free[0] = true;
    allocate(OTHER);
}

static void finally_moved(void) {
    const hak_heap_t *heap = &heaps[HEAP], *other = &heaps[OTHER];
    EXPLORE_CHECK(heap->recent.count + heap->transfer_count == 0 &&
                      hak_load_relaxed(&heap->live_count) == BLOCKS &&
                      hak_load_relaxed(&heap->live) == BLOCKS * GRAINS,
                  "the heap has a block of the other one");
    EXPLORE_CHECK(other->recent.count + other->transfer_count == model.freed[0] &&
                      hak_load_relaxed(&other->live_count) == 1 &&
                      hak_load_relaxed(&other->live) == GRAINS + extents.more[0],
                  "the other heap does not have its block");
}

static bool is_waiting(const hak_heap_t *heap, unsigned i) {
    for (unsigned k = 0; k < heap->transfer_count; k++)
        if (heap->transfer[k] == &slabs[2 * i]) return true;
    return false;
}

static bool is_recent(const hak_heap_t *heap, unsigned i) {
    for (unsigned k = 0; k < heap->recent.count; k++)
        if (heap->recent.blocks[k] == &slabs[2 * i]) return true;
    return false;
}

/* Every block is held, or free, or whole in one of the two arrays; and a free that counted was the only
 * one. */
static void finally(void) {
    hak_heap_t *heap = &heaps[HEAP];
    unsigned held = 0;
    size_t held_grains = 0, waiting_grains = 0, recent_grains = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        EXPLORE_CHECK(model.freed[i] <= 1, "%u frees of block %u are right", model.freed[i], i);
        bool waits = is_waiting(heap, i), recent = is_recent(heap, i);
        EXPLORE_CHECK(model.held[i] + extents.is_free[i] + waits + recent == 1,
                      "block %u is lost, or in two places", i);
        held += model.held[i];
        *(waits    ? &waiting_grains
          : recent ? &recent_grains
                   : &held_grains) += extents.is_free[i] ? 0 : GRAINS + extents.more[i];
    }
    EXPLORE_CHECK(heap->transfer_count <= (unsigned)model.array_size, "%u blocks in the array",
                  heap->transfer_count);
    EXPLORE_CHECK(heap->recent.count <= HAK_RECENT_MAX && recent_grains <= HAK_RECENT_GRAINS,
                  "%u recent blocks of %zu grains", heap->recent.count, recent_grains);
    EXPLORE_CHECK(
        hak_load_relaxed(&heap->live_count) == held + heap->transfer_count + heap->recent.count &&
            hak_load_relaxed(&heap->live) == held_grains + waiting_grains + recent_grains &&
            hak_load_relaxed(&heap->transfer_grains) == waiting_grains &&
            hak_load_relaxed(&heap->recent.grains) == recent_grains,
        "the counts do not agree");
}

/* What other CPUs read in place of the counts: is it what these say? */
static void check_hint(bool has_much) {
    const hak_heap_t *heap = &heaps[HEAP];
    const size_t free = hak_heap_idle(heap) + hak_load_relaxed(&heap->transfer_grains);
    EXPLORE_CHECK(has_much == (free > hak_load_relaxed(&heap->live) / 2), "%zu grains are free",
                  free);
    EXPLORE_CHECK(hak_load_relaxed(&heap->has_much) == has_much, "the hint says %d",
                  hak_load_relaxed(&heap->has_much));
}

static void it_has_much(void) {
    finally();
    check_hint(true);
}
static void it_has_little(void) {
    finally();
    check_hint(false);
}

/* A hint that two writers at once have lost: the next block that comes back sets it. */
static void it_has_much_after_one_more(void) {
    release(OTHER, 0);
    it_has_much();
}

static const char *describe(const volatile void *variable) {
    for (unsigned i = 0; i < BLOCKS; i++)
        if (variable == &slabs[2 * i].large) return "a block's word";
    if (variable == &heaps[HEAP].has_much) return "the hint that the heap has much";
    return variable == &heaps[HEAP].lock            ? "the heap's lock"
           : variable == &heaps[HEAP].transfer_lock ? "the array's lock"
           : variable == &extents                   ? "the free memory"
                                                    : NULL;
}

#define RULES .finally = finally, .describe = describe
#define MOVED_RULES .finally = finally_moved, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"a block is freed twice at once", prepare_array, {free_0, free_0}, RULES},
    {"the same from another CPU", prepare_array, {free_0, free_0_afar}, RULES},
    {"twice from another CPU", prepare_array, {free_0_afar, free_0_afar}, RULES},
    {"two frees from another CPU", prepare_array, {free_0_afar, free_1_afar}, RULES},
    {"the array has room for one", prepare_small_array, {free_0_afar, free_1_afar}, RULES},
    {"the array has room for one, and a request",
     prepare_small_array,
     {free_0_afar, free_1_afar, take},
     RULES},
    {"free, and a request that looks into the array first",
     prepare_array,
     {free_0_afar, take_and_free},
     RULES},
    {"the same, last", prepare_array_later, {free_0_afar, take_and_free}, RULES},
    {"two requests for the one that waits", prepare_waiting, {take, take}, RULES},
    {"a request for the one that waits, and frees",
     prepare_waiting,
     {take, free_0, free_1_afar},
     RULES},
    {"a purge and a free", prepare_waiting, {purge, free_1_afar}, RULES},
    {"a purge and a request", prepare_waiting, {purge, take}, RULES},
    {"a block grows, and a free from afar", prepare_array, {grow_0, free_1_afar}, RULES},
    {"a block grows, and a request that drains the array",
     prepare_waiting,
     {grow_0, take_and_free},
     RULES},
    {"a block grows and shrinks, and a purge", prepare_waiting, {grow_and_shrink_0, purge}, RULES},
    {"a block that grew is freed from afar, and a request takes it",
     prepare_array,
     {grow_and_free_0_afar, take},
     RULES},
    {"a block that grew is freed at home, and the array spills",
     prepare_small_array,
     {grow_and_free_0, free_1_afar, take},
     RULES},
    {"a block is freed while it shrinks",
     prepare_grown,
     {try_to_free_0_at_home, try_to_shrink_0},
     RULES},
    {"a block is freed while it grows",
     prepare_grown,
     {try_to_free_0_at_home, try_to_grow_0},
     RULES},
    {"a block is freed from afar while it shrinks, and a request",
     prepare_grown,
     {try_to_free_0_afar, try_to_shrink_0, take},
     RULES},
    {"a block is freed from afar while it grows, and a request",
     prepare_grown,
     {try_to_free_0_afar, try_to_grow_0, take},
     RULES},
    {"a block is resized twice at once, and freed",
     prepare_grown,
     {try_to_grow_0, try_to_shrink_0, try_to_free_0_at_home},
     RULES},
    {"a purge and a free at home", prepare_waiting, {purge, free_0}, RULES},
    {"frees at home, and a request", prepare_array, {free_0, free_1, take_and_free}, RULES},
    {"a free at home, and two requests", prepare_recent, {take, take}, RULES},
    {"a request beside a free at home, for memory without pages",
     prepare_without_pages,
     {take, take, free_2},
     RULES},
    {"a block grows over one that was just freed", prepare_array, {free_1, grow_0}, RULES},
    {"the pool borrows twice, and a free at home", prepare_recent, {lend, lend, free_0}, RULES},
    {"the pool borrows, and a request", prepare_recent, {lend, take_and_free}, RULES},
    {"a purge and two frees at home", prepare_array, {free_0, free_1, purge}, RULES},
    {"a fork among frees at home", prepare_to_fork, {free_0, free_1, fork_and_take}, RULES},
    {"a fork among frees", prepare_to_fork, {free_0, free_1_afar, fork_and_take}, RULES},
    {"a fork while the array is full",
     prepare_small_to_fork,
     {free_0_afar, free_1_afar, fork_and_take},
     RULES},
    {"blocks come back, and nobody works with the heap",
     prepare_array,
     {free_0_afar, free_1_afar},
     .finally = it_has_much,
     .describe = describe},
    {"a heap that has much is used",
     prepare_much,
     {take, take},
     .finally = it_has_little,
     .describe = describe},
    {"a block comes back while another one is freed at home",
     prepare_array,
     {free_1_afar, free_2},
     .finally = it_has_much_after_one_more,
     .describe = describe},
    {"a late free while the memory goes to another heap",
     prepare_freed,
     {free_0, move_and_take},
     MOVED_RULES},
    {"the same from the other CPU", prepare_freed, {free_0_afar, move_and_take}, MOVED_RULES},
    {"a late free while a slab goes to a heap", prepare_slab, {free_0, move_and_take}, MOVED_RULES},
    {"a late resize while the memory goes to another heap",
     prepare_freed,
     {try_to_grow_0, move_and_take},
     MOVED_RULES},
    {"a late resize while a slab goes to a heap",
     prepare_slab,
     {try_to_grow_0, move_and_take},
     MOVED_RULES},
};

int main(int argc, char **argv) {
    memory_track(merged_place(), sizeof *merged_place());
    memory_track(heaps, sizeof heaps);
    memory_track(slabs, sizeof slabs);
    memory_track(&extents, sizeof extents);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
