/* heap.c: which grains of superslabs are used and touched; superslabs that come from the pool and go back. */
#include "large/heap.h"

#include "commit/commit.h"
#include "debug/timing.h"
#include "large/verify.h"
#include "os/os.h"
#include "pool/pool.h"
#include "pool/purge_budget.h"
#include "region/region.h"

enum {
    HEAPS_OWN = 2,   /* heaps whose records are static memory */
    SPARSE_FALL = 2, /* a look for sparse memory needs a fall by half */
};

static hak_heap_t own[HEAPS_OWN] HAK_APART;
hak_lazy_table_t hak_heap_table HAK_APART;

unsigned hak_heap_open(unsigned number) {
    void *memory = number < HEAPS_OWN ? &own[number] : NULL;
    if (hak_lazy_table_open(&hak_heap_table, number, memory, sizeof(hak_heap_t))) return number;
    return hak_heap_open(0);
}

#if HAKMEM_VERIFY
static bool is_heap_lock(const void *lock) {
    return hak_lazy_table_has(&hak_heap_table, lock, offsetof(hak_heap_t, lock), 1, 1);
}
static bool is_transfer_lock(const void *lock) {
    return hak_lazy_table_has(&hak_heap_table, lock, offsetof(hak_heap_t, transfer_lock), 1, 1);
}
#endif
HAK_LOCK_RANKS_MADE(heap_ranks, HEAP, is_heap_lock, hak_heap_check_at_release);
HAK_LOCK_RANKS_MADE(transfer_ranks, TRANSFER, is_transfer_lock, hak_transfer_check_at_release);

static void clear_used(hak_heap_t *heap, const hak_part_t *part) {
    part->super->used_grains = (uint16_t)(part->super->used_grains - part->count);
    if (part->super->used_grains == 0) HAK_ADD_OWNED(&heap->lent, 1);
}

static uint32_t units_of(const hak_part_t *part) {
    unsigned first = part->first / HAK_UNIT_GRAINS;
    unsigned last = (part->first + part->count - 1) / HAK_UNIT_GRAINS;
    HAK_ASSERT(first <= last && last < HAK_SUPERSLAB_UNITS_MAX);
    return ((uint32_t)2 << last) - ((uint32_t)1 << first);
}

/* Units of which no grain is touched. */
static HAK_OUT_OF_LINE unsigned fresh_units(const hak_part_t *part) {
    const uint32_t fresh = units_of(part) & ~part->super->dirty;
    return fresh ? hak_bit_count(fresh) : 0;
}

/* Marks grains that are about to be handed out; returns how many were touched. */
static unsigned touch(const hak_part_t *part) {
    const unsigned before = hak_part_touched(part);
    if (HAK_LIKELY(before == part->count)) return before;
    for (unsigned w = part->first / 64; w <= hak_part_last_word(part); w++)
        part->super->touched[w] |= hak_part_bits(part, w);
    part->super->clean_grains = (uint16_t)(part->super->clean_grains - (part->count - before));
    part->super->dirty |= units_of(part);
    return before;
}

void hak_heap_append_dirty(hak_heap_t *heap, hak_superslab_t *super, uint64_t now) {
    if (super->on_dirty && super->freed_ms == now) return;
    hak_dirty_remove(&heap->dirty, super);
    super->freed_ms = now;
    hak_dirty_append(&heap->dirty, super);
}

/* ---- use and free ---- */

bool hak_heap_use(hak_heap_t *heap, char *start, size_t grains) {
    const hak_part_t first = hak_part_first(start, grains);
    hak_part_t part = first;
    size_t left = grains, fresh = 0, idle = 0;
    do {
        if (part.super->clean_grains) fresh += fresh_units(&part);
    } while (hak_part_step(&part, &left));
    if (fresh && !hak_commit_charge(fresh << HAK_UNIT_SHIFT)) {
        hak_extents_give(&heap->extents, start, grains);
        return false;
    }
    part = first;
    left = grains;
    do {
        idle += touch(&part);
        hak_heap_set_used(heap, &part);
    } while (hak_part_step(&part, &left));
    HAK_ADD_OWNED(&heap->idle, -idle);
    return true;
}

bool hak_heap_has_pages(char *start, size_t grains) {
    hak_part_t part = hak_part_first(start, grains);
    do
        if (hak_part_touched(&part) < part.count) return false;
    while (hak_part_step(&part, &grains));
    return true;
}

/* Grains were freed: requests a look for sparse memory if the heap has fallen far enough. Only then: free memory
 * between blocks that come and go is soon in use again, and each page that a look purged would cost a fault. */
static void note_freed(hak_heap_t *heap, size_t grains) {
    const size_t live = hak_load_relaxed(&heap->live), due = hak_heap_sparse_due(heap);
    heap->live_peak = hak_max(heap->live_peak, live + grains);
    const size_t fall = heap->live_peak - live;
    if (HAK_LIKELY(fall < hak_max(due, heap->live_peak / SPARSE_FALL))) return;
    if (hak_load_relaxed(&heap->idle) < hak_min(due, HAK_SPARSE_FIRST)) return;
    heap->live_peak = live;
    heap->wants_sparse = true;
    hak_budget_note(HAK_NOTE_SPARSE);
}

void hak_heap_give(hak_heap_t *heap, char *start, size_t grains) {
    hak_part_t part = hak_part_first(start, grains);
    size_t left = grains, idle = 0;
    uint64_t now = hak_os_now_ms();
    do {
        clear_used(heap, &part);
        unsigned touched = hak_part_touched(&part);
        idle += touched;
        if (touched) hak_heap_append_dirty(heap, part.super, now);
    } while (hak_part_step(&part, &left));
    HAK_ADD_OWNED(&heap->idle, idle);
    hak_extents_give(&heap->extents, start, grains);
}

void hak_heap_free(hak_heap_t *heap, char *start, size_t grains) {
    hak_heap_give(heap, start, grains);
    note_freed(heap, grains);
}

/* ---- superslabs from the pool and back ---- */

static void receive(hak_heap_t *heap, hak_superslab_t *super) {
    hak_part_t all = {super, 0, hak_superslab_grains()};
    super->used_grains = 0;
    hak_store_relaxed(&super->heap_owner, heap->extents.owner);
    for (unsigned w = 0; w < hak_superslab_words(); w++) super->touched[w] = 0;
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        hak_unit_t *unit = &super->units[i];
        unit->extent_first = unit->extent_last = 0;
        hak_store_relaxed(&unit->large, 0);
        hak_store_release(&unit->owner, heap->extents.owner);
        if (super->dirty & 1u << i)
            super->touched[i / 4] |= (uint64_t)0xffff << i % 4 * HAK_UNIT_GRAINS;
    }
    hak_region_set_class(super->units, hak_superslab_units(), HAK_CLASS_LARGE);
    super->clean_grains =
        (uint16_t)(hak_superslab_grains() - hak_bit_count(super->dirty) * HAK_UNIT_GRAINS);
    HAK_ADD_OWNED(&heap->idle, hak_part_touched(&all));
    if (super->dirty) hak_heap_append_dirty(heap, super, hak_os_now_ms());
}

bool hak_heap_grow(unsigned number, size_t least, size_t grains) {
    hak_heap_t *heap = hak_heap_at(number);
    HAK_TIMED(l25_alloc_tls_page);
    size_t fewest = (least + hak_superslab_grains() - 1) / hak_superslab_grains();
    size_t most = (grains + hak_superslab_grains() - 1) / hak_superslab_grains();
    unsigned taken;
    hak_superslab_t *first = hak_pool_take_superslabs((unsigned)fewest, (unsigned)most, &taken);
    if (!first) return false;
    heap->extents.owner = hak_owner(number, HAK_CLASS_LARGE);
    for (unsigned i = 0; i < taken; i++) receive(heap, &first[i]);
    HAK_ADD_OWNED(&heap->lent, taken);
    HAK_ADD_OWNED(&heap->runs, 1);
    HAK_ADD_OWNED(&heap->run_units, (uint64_t)taken * hak_superslab_units());
    hak_extents_give(&heap->extents, first->units[0].base, (size_t)taken * hak_superslab_grains());
    return true;
}

void hak_heap_send_back(hak_heap_t *heap, hak_superslab_t *super) {
    hak_part_t all = {super, 0, hak_superslab_grains()};
    HAK_ADD_OWNED(&heap->idle, -(size_t)hak_part_touched(&all));
    hak_dirty_remove(&heap->dirty, super);
    hak_region_set_class(super->units, hak_superslab_units(), HAK_CLASS_NONE);
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        hak_store_relaxed(&super->units[i].owner, 0);
    hak_store_relaxed(&super->heap_owner, 0);
    HAK_ADD_OWNED(&heap->lent, -(size_t)1);
    hak_pool_give_superslab(super);
}

bool hak_heap_lend(hak_heap_t *heap) {
    if (!hak_load_relaxed(&heap->lent)) return false;
    char *start = hak_extents_take(&heap->extents, hak_superslab_grains(), hak_superslab_grains());
    if (start) hak_heap_send_back(heap, hak_region_superslab_of(hak_unit_of(start)));
    return start != NULL;
}
