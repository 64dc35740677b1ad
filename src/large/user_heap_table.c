/* user_heap_table.c: the table of heaps: levels of slots, each twice as long as the one before, and bitmaps of the
 * slots that are in use, so that a walk over the heaps passes over former ones. */
#include "large/user_heap_table.h"

#include <string.h>

#include "base/bits.h"
#include "meta/meta.h"

enum {
    FIRST_SHIFT = 4, /* log2 of the slots of the first level: one page of 4 KiB */
    FIRST = 1 << FIRST_SHIFT,
    LEVELS = 20,
    GENERATION_SHIFT = 32,
};

hak_user_heap_t hak_user_heap_process HAK_APART;

static hak_lock_t table_lock;
HAK_LOCK_RANK(FINE, table_lock, NULL);

typedef struct hak_user_level {
    _Atomic(hak_user_heap_t *) slots; /* table lock to write */
    _Atomic uint64_t *
        used; /* constant once there is a slot; its words: table lock to write. A bit for each word of
                               the others that is not 0, then a bit for each slot that is used */
} level_t;

static level_t levels[LEVELS];
static _Atomic size_t slot_count = 1; /* table lock to write; that of the process included */
static uint32_t first_free;           /* table lock; number of the first free slot, 0 for none */

/* The level of a number from 1 on, and its first number. */
static unsigned level_of(size_t number, size_t *first) {
    unsigned level = hak_highest_bit(number - 1 + FIRST) - FIRST_SHIFT;
    *first = ((size_t)FIRST << level) - FIRST + 1;
    return level;
}

size_t hak_user_heap_slots(void) { return hak_load_acquire(&slot_count); } /* partner: new_slot */

hak_user_heap_t *hak_user_heap_at(size_t number) {
    size_t first;
    if (number == 0) return &hak_user_heap_process;
    if (number >= hak_user_heap_slots()) return NULL;
    unsigned level = level_of(number, &first);
    return hak_load_relaxed(&levels[level].slots) + (number - first);
}

static size_t slots_of(unsigned level) { return (size_t)FIRST << level; }

/* In a level with so many slots: number of words whose bits stand for words; number of all words. */
static size_t upper_words(size_t slots) { return hak_bits_words(hak_bits_words(slots)); }
static size_t all_words(size_t slots) { return upper_words(slots) + hak_bits_words(slots); }

/* Table lock held. */
static void set_used(const hak_user_heap_t *heap, bool is_used) {
    size_t first;
    const unsigned level = level_of(heap->number, &first);
    const size_t at = heap->number - first, upper = upper_words(slots_of(level));
    _Atomic uint64_t *words = levels[level].used, *lower = &words[upper + at / 64];
    const uint64_t bit = (uint64_t)1 << at % 64, word = hak_load_relaxed(lower) & ~bit;
    hak_store_release(lower, is_used ? word | bit : word); /* partner: hak_user_heap_behind */
    const uint64_t above = (uint64_t)1 << at / 64 % 64;
    const uint64_t others = hak_load_relaxed(&words[at / 64 / 64]) & ~above;
    hak_store_relaxed(&words[at / 64 / 64], is_used || word ? others | above : others);
}

/* The first bit from `at` on that is set, or `end`. */
static size_t next_bit(const _Atomic uint64_t *words, size_t at, size_t end) {
    for (; at < end; at = (at | 63) + 1) {
        const uint64_t word = hak_load_acquire(&words[at / 64]) >> at % 64; /* partner: set_used */
        if (word) return hak_min(at + hak_lowest_bit(word), end);
    }
    return end;
}

/* The first slot of a level from `at` on that is used, or `end`. */
static size_t next_used(const _Atomic uint64_t *words, size_t at, size_t end) {
    const _Atomic uint64_t *lower = words + upper_words(end);
    while (at < end) {
        const size_t stop = hak_min((at | 63) + 1, end), found = next_bit(lower, at, stop);
        if (found < stop) return found;
        at = next_bit(words, at / 64 + 1, hak_bits_words(end)) * 64;
    }
    return end;
}

hak_user_heap_t *hak_user_heap_behind(size_t number) {
    const size_t slots = hak_user_heap_slots();
    for (size_t first, at = number + 1; at < slots;) {
        const unsigned level = level_of(at, &first);
        const size_t end = slots_of(level), found = next_used(levels[level].used, at - first, end);
        if (found < end) return hak_load_relaxed(&levels[level].slots) + found;
        at = first + end;
    }
    return NULL;
}

/* Table lock held. */
static hak_user_heap_t *slots_in(level_t *level, size_t count) {
    hak_user_heap_t *slots = hak_load_relaxed(&level->slots);
    if (slots) return slots;
    if (!level->used) level->used = hak_meta_alloc_zeroed(all_words(count) * sizeof *level->used);
    if (level->used) slots = hak_meta_alloc(count * sizeof *slots);
    hak_store_relaxed(&level->slots, slots);
    return slots;
}

/* Table lock held. */
static hak_user_heap_t *new_slot(void) {
    size_t number = hak_load_relaxed(&slot_count), first;
    unsigned level = level_of(number, &first);
    if (level >= LEVELS) return NULL;
    hak_user_heap_t *slots = slots_in(&levels[level], slots_of(level));
    if (!slots) return NULL;
    hak_user_heap_t *heap = &slots[number - first];
    memset(heap, 0, sizeof *heap);
    heap->number = (uint32_t)number;
    hak_store_release(&slot_count, number + 1); /* partner: hak_user_heap_slots */
    return heap;
}

hak_user_heap_t *hak_user_heap_make(size_t limit) {
    HAK_HOLD(&table_lock);
    hak_user_heap_t *heap = first_free ? hak_user_heap_at(first_free) : new_slot();
    if (!heap) return NULL;
    first_free = heap->next_free;
    heap->next_free = 0;
    hak_store_relaxed(&heap->limit, limit);
    hak_store_relaxed(&heap->is_used, true);
    set_used(heap, true);
    return heap;
}

#if HAKMEM_VERIFY
static bool is_heap_lock(const void *lock) {
    for (unsigned level = 0; level < LEVELS; level++) {
        const uintptr_t slots = (uintptr_t)hak_load_relaxed(&levels[level].slots);
        const uintptr_t offset = (uintptr_t)lock - slots;
        if (slots && offset < slots_of(level) * sizeof(hak_user_heap_t))
            return offset % sizeof(hak_user_heap_t) == offsetof(hak_user_heap_t, lock);
    }
    return false;
}
#endif
HAK_LOCK_RANKS_MADE(heap_ranks, FINE, is_heap_lock, NULL);

void *hak_user_heap_handle(const hak_user_heap_t *heap) {
    return (void *)((uintptr_t)hak_load_relaxed(&heap->generation) << GENERATION_SHIFT |
                    heap->number);
}

hak_user_heap_t *hak_user_heap_of_handle(const void *handle) {
    hak_user_heap_t *heap = handle ? hak_user_heap_at((uint32_t)(uintptr_t)handle) : NULL;
    return heap && hak_load_relaxed(&heap->is_used) && hak_user_heap_handle(heap) == handle ? heap
                                                                                            : NULL;
}

hak_user_heap_t *hak_user_heap_close(const void *handle) {
    HAK_HOLD(&table_lock);
    hak_user_heap_t *heap = hak_user_heap_of_handle(handle);
    if (!heap) return NULL;
    hak_store_relaxed(&heap->is_used, false);
    HAK_ADD_OWNED(&heap->generation, 1);
    return heap;
}

void hak_user_heap_recycle(hak_user_heap_t *heap) {
    HAK_HOLD(&table_lock);
    set_used(heap, false);
    heap->next_free = first_free;
    first_free = heap->number;
}

bool hak_user_heap_charge(hak_user_heap_t *heap, size_t bytes) {
    HAK_HOLD(&heap->lock);
    size_t limit = hak_load_relaxed(&heap->limit), committed = hak_load_relaxed(&heap->committed);
    if (limit && (bytes > limit || committed > limit - bytes)) return false;
    hak_store_relaxed(&heap->committed, committed + bytes);
    return true;
}

void hak_user_heap_discharge(hak_user_heap_t *heap, size_t bytes) {
    HAK_HOLD(&heap->lock);
    HAK_ADD_OWNED(&heap->committed, -bytes);
}

void hak_user_heap_take_off(hak_user_heap_t *heap, hak_flight_t *flight, const void *block) {
    const uint32_t process = hak_gate_process();
    if (HAK_UNLIKELY(heap->process != process)) heap->in_flight = NULL;
    heap->process = process;
    *flight = (hak_flight_t){heap->in_flight, &heap->in_flight, heap, block, process};
    if (flight->next) flight->next->at = &flight->next;
    heap->in_flight = flight;
}

void hak_user_heap_land(hak_flight_t *flight) {
    if (!flight->heap) return;
    hak_lock_acquire(&flight->heap->lock);
    if (HAK_LIKELY(flight->process == hak_gate_process())) {
        *flight->at = flight->next;
        if (flight->next) flight->next->at = flight->at;
    }
    hak_lock_release(&flight->heap->lock);
}

bool hak_user_heap_is_in_flight(const hak_user_heap_t *heap, const void *start, size_t size) {
    for (const hak_flight_t *flight = hak_user_heap_flights(heap); flight; flight = flight->next)
        if ((uintptr_t)flight->block - (uintptr_t)start < size) return true;
    return false;
}

uint32_t hak_user_heap_next_epoch(hak_user_heap_t *heap) {
    HAK_HOLD(&heap->lock);
    return ++heap->epoch;
}

hak_user_heap_stats_t hak_user_heap_stats_of(const hak_user_heap_t *heap) {
    return (hak_user_heap_stats_t){
        .count = hak_load_relaxed(&heap->is_used),
        .blocks = hak_load_relaxed(&heap->blocks) + hak_load_relaxed(&heap->huge_blocks),
        .bytes = hak_load_relaxed(&heap->bytes) + hak_load_relaxed(&heap->huge_bytes),
        .committed = hak_load_relaxed(&heap->committed),
    };
}

hak_user_heap_stats_t hak_user_heap_stats(void) {
    hak_user_heap_stats_t sum = {0};
    for (const hak_user_heap_t *heap = NULL;
         (heap = hak_user_heap_behind(heap ? heap->number : 0)) != NULL;) {
        const hak_user_heap_stats_t stats = hak_user_heap_stats_of(heap);
        sum.count += stats.count;
        sum.blocks += stats.blocks;
        sum.bytes += stats.bytes;
        sum.committed += stats.committed;
    }
    return sum;
}
