/* dyn_size.c: counts samples by size, and evaluates them.
 *
 * All threads add to the same counts without a lock; if two threads add at once a sample may
 * be lost, which does not matter. Counting starts when the heap has HEAP_UNITS, so that a small
 * program does not touch the pages of the counts. */
#include "policy/dyn_size.h"

#include "classes/dyn.h"
#include "options/options.h"
#include "os/gate.h"
#include "os/os.h"
#include "pool/pool.h"
#include "shard/shard.h"

enum {
    HEAP_UNITS = 32,          /* 2 MiB; a smaller heap has little to save */
    LOOK_INTERVAL = 32,       /* samples of a class between two looks at it */
    MEMORY = 512,             /* samples of a class after which all its counts are halved */
    SAVED_LEAST = 256 * 1024, /* least bytes that a new class must save */
    SAVED_PART = 32,          /* it must also save this part of what the blocks take */
    WASTED_MOST = 8,          /* no class wastes more than this part of a block */
    SAME_LOOKS = 2,           /* looks in a row that must find the same size best */
    FEW_SHARDS = 4,  /* with more, CPUs take the counts' cache lines from each other too often: */
    NOTED_PART = 32, /* then each of several threads counts one of NOTED_PART samples */
};

static struct {
    _Atomic uint16_t by_size[HAK_CLASS_MAX / HAK_ROUTE_STEP + 1]; /* like the routing table */
    _Atomic uint16_t by_class[HAK_CLASS_COUNT + 1];
    _Atomic uint64_t samples;
    _Atomic uint64_t waste;
    _Atomic uint32_t candidate; /* the entry that was best at the last look */
    _Atomic uint32_t looks;     /* looks in a row that found it best */
} state;

uint64_t hak_dyn_size_samples(void) { return hak_load_relaxed(&state.samples); }
uint64_t hak_dyn_size_waste(void) { return hak_load_relaxed(&state.waste); }

size_t hak_dyn_size_cost(size_t pitch, size_t size) {
    size_t count = HAK_UNIT_SIZE / pitch;
    return hak_align_up((count - 1) * pitch + size, hak_os_page_size()) / count;
}

/* The entry among the sizes of a class that would save most, and in *saved the bytes that it
 * would save with the blocks now in use; it would serve all smaller sizes of the class, too. */
static size_t best_entry(unsigned class_index, size_t *saved) {
    size_t pitch = hak_classes[class_index].size, below = hak_classes[class_index - 1].size;
    size_t blocks = hak_shard_in_use(class_index);
    *saved = 0;
    if (blocks * pitch / WASTED_MOST < SAVED_LEAST) return 0;
    size_t all = hak_max(hak_load_relaxed(&state.by_class[class_index]), 1), served = 0, best = 0;
    for (size_t entry = below / HAK_ROUTE_STEP + 1; entry <= pitch / HAK_ROUTE_STEP; entry++) {
        size_t size = entry * HAK_ROUTE_STEP, count = hak_load_relaxed(&state.by_size[entry]);
        if (!count) continue;
        served = hak_min(served + count, all);
        size_t before = hak_dyn_size_cost(pitch, size), after = hak_dyn_size_cost(size, size);
        if (after >= before || (before - after) * served * SAVED_PART < before * all) continue;
        size_t bytes = blocks * (before - after) / all * served;
        if (bytes <= *saved) continue;
        *saved = bytes;
        best = entry;
    }
    return best;
}

/* Halves the counts of a class, so that recent samples outweigh old ones. */
static void forget_half(unsigned class_index) {
    size_t pitch = hak_classes[class_index].size, below = hak_classes[class_index - 1].size;
    for (size_t entry = below / HAK_ROUTE_STEP + 1; entry <= pitch / HAK_ROUTE_STEP; entry++)
        hak_store_relaxed(&state.by_size[entry], hak_load_relaxed(&state.by_size[entry]) / 2);
    hak_store_relaxed(&state.by_class[class_index], MEMORY / 2);
}

static HAK_NEXT void look(unsigned class_index) {
    size_t saved, entry = best_entry(class_index, &saved);
    if (saved < SAVED_LEAST) return;
    bool same = hak_load_relaxed(&state.candidate) == entry;
    uint32_t looks = same ? hak_load_relaxed(&state.looks) + 1 : 1;
    hak_store_relaxed(&state.candidate, (uint32_t)entry);
    hak_store_relaxed(&state.looks, looks);
    hak_store_relaxed(&state.waste, saved);
    if (looks < SAME_LOOKS) return;
    hak_gate_enter(); /* so that the child of a fork has no route to a row half written */
    hak_dyn_choose(entry * HAK_ROUTE_STEP);
    hak_gate_leave();
}

static void note(unsigned class_index, size_t size) {
    uint16_t count = (uint16_t)(hak_load_relaxed(&state.by_class[class_index]) + 1);
    hak_store_relaxed(&state.by_class[class_index], count);
    HAK_ADD_OWNED(&state.samples, 1);
    HAK_ADD_OWNED(&state.by_size[(size + HAK_ROUTE_STEP - 1) / HAK_ROUTE_STEP], 1);
    if (HAK_LIKELY(count % LOOK_INTERVAL != 0)) return;
    look(class_index);
    if (count >= MEMORY) forget_half(class_index);
}

/* The first sample of a thread counts, so that short threads count, too. Threads without a cache allocate little. */
static HAK_BEHIND bool is_skipped(uint8_t *own) {
    return !hak_os_is_single_threaded() && (!own || (*own)++ % NOTED_PART != 0);
}

void hak_dyn_size_note(unsigned class_index, size_t size, uint8_t *own) {
    if (hak_option(HAK_OPTION_MID_DYN1) != HAK_DYN1_AUTO || hak_dyn_size()) return;
    if (hak_load_relaxed(&hak_pool_about.used_units) < HEAP_UNITS) return;
    if (HAK_UNLIKELY(hak_shard_homes() > FEW_SHARDS) && is_skipped(own)) return;
    note(class_index, size);
}
