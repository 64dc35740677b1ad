/* user_heap.c: the table of heaps: levels of slots, each twice as long as the one before. */
#include "large/user_heap.h"

#include <string.h>

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

static _Atomic(hak_user_heap_t *) levels[LEVELS]; /* table lock to write */
static _Atomic size_t slot_count = 1;             /* the same; that of the process included */
static uint32_t first_free;                       /* table lock; 0 for none */

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
    return hak_load_relaxed(&levels[level]) + (number - first);
}

/* Table lock held. */
static hak_user_heap_t *new_slot(void) {
    size_t number = hak_load_relaxed(&slot_count), first;
    unsigned level = level_of(number, &first);
    if (level >= LEVELS) return NULL;
    hak_user_heap_t *slots = hak_load_relaxed(&levels[level]);
    if (!slots) slots = hak_meta_alloc(((size_t)FIRST << level) * sizeof *slots);
    if (!slots) return NULL;
    hak_store_relaxed(&levels[level], slots);
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
    return heap;
}

#if HAKMEM_VERIFY
static bool is_heap_lock(const void *lock) {
    for (unsigned level = 0; level < LEVELS; level++) {
        const uintptr_t slots = (uintptr_t)hak_load_relaxed(&levels[level]);
        const uintptr_t offset = (uintptr_t)lock - slots;
        if (slots && offset < ((size_t)FIRST << level) * sizeof(hak_user_heap_t))
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
    hak_gate_enter();
    *flight = (hak_flight_t){heap->in_flight, &heap->in_flight, heap, block};
    if (flight->next) flight->next->at = &flight->next;
    heap->in_flight = flight;
}

void hak_user_heap_land(hak_flight_t *flight) {
    if (!flight->heap) return;
    hak_lock_acquire(&flight->heap->lock);
    *flight->at = flight->next;
    if (flight->next) flight->next->at = flight->at;
    hak_lock_release(&flight->heap->lock);
    hak_gate_leave();
}

bool hak_user_heap_is_in_flight(const hak_user_heap_t *heap, const void *start, size_t size) {
    for (const hak_flight_t *flight = heap->in_flight; flight; flight = flight->next)
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
    for (size_t i = 1; i < hak_user_heap_slots(); i++) {
        const hak_user_heap_stats_t stats = hak_user_heap_stats_of(hak_user_heap_at(i));
        sum.count += stats.count;
        sum.blocks += stats.blocks;
        sum.bytes += stats.bytes;
        sum.committed += stats.committed;
    }
    return sum;
}
