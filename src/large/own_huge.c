/* own_huge.c: the records of huge blocks that heaps of the program have. */
#include "large/own_huge.h"

#include "large/huge.h"
#include "meta/meta.h"
#include "os/os.h"

enum { NOTE_OF_OTHERS = 3 }; /* bits of a note */

typedef struct hak_own_huge {
    struct hak_own_huge *next, *prev; /* lock of the heap */
    hak_own_t *heap;                  /* constant, as the next two */
    void *block;
    size_t size;
} record_t;

static _Atomic size_t total HAK_READ_OFTEN; /* such blocks in the process: most have none */

static record_t *record_of(uint64_t note) {
    return note & NOTE_OF_OTHERS ? NULL : (record_t *)(uintptr_t)note;
}

static void enter(record_t *record) {
    hak_own_t *heap = record->heap;
    HAK_HOLD(&heap->lock);
    record->prev = NULL;
    record->next = heap->huge;
    if (record->next) record->next->prev = record;
    heap->huge = record;
    HAK_ADD_OWNED(&heap->huge_bytes, record->size);
    HAK_ADD_OWNED(&heap->huge_blocks, 1);
}

/* Takes the record out of its heap. */
static void leave_heap(record_t *record) {
    hak_own_t *heap = record->heap;
    hak_lock_acquire(&heap->lock);
    *(record->prev ? &record->prev->next : &heap->huge) = record->next;
    if (record->next) record->next->prev = record->prev;
    HAK_ADD_OWNED(&heap->committed, -record->size);
    HAK_ADD_OWNED(&heap->huge_bytes, -record->size);
    HAK_ADD_OWNED(&heap->huge_blocks, -(size_t)1);
    hak_lock_release(&heap->lock);
    hak_meta_free(record, sizeof *record);
    hak_add_relaxed(&total, -(size_t)1);
}

/* Fills the record in; false without memory. */
static bool make(record_t *record, size_t align, bool zero) {
    uint64_t none = 0;
    record->block = hak_huge_alloc(record->size, align, zero);
    if (!record->block) return false;
    hak_add_relaxed(&total, 1);
    enter(record);
    hak_huge_swap_note(record->block, &none, (uint64_t)(uintptr_t)record);
    return true;
}

void *hak_own_huge_alloc(hak_own_t *heap, size_t size, size_t align, bool zero) {
    size = hak_align_up(hak_max(size, 1), hak_os_page_size());
    record_t *record = hak_meta_alloc(sizeof *record);
    if (!record) return NULL;
    *record = (record_t){.heap = heap, .size = size};
    hak_gate_enter();
    const bool is_charged = hak_own_charge(heap, size);
    const bool is_made = is_charged && make(record, align, zero);
    void *block = is_made ? record->block : NULL;
    if (is_charged && !is_made) hak_own_discharge(heap, size);
    if (!is_made) hak_meta_free(record, sizeof *record);
    hak_gate_leave();
    return block;
}

/* Takes the block out of its heap; false when it is in none. Inside the gate. */
static bool take_out(void *block) {
    uint64_t note = hak_huge_note(block);
    record_t *record = record_of(note);
    if (!record || !hak_huge_swap_note(block, &note, 0)) return false;
    leave_heap(record);
    return true;
}

size_t hak_own_huge_free(void *block) {
    if (HAK_LIKELY(!hak_load_relaxed(&total))) return hak_huge_free(block);
    hak_gate_enter();
    take_out(block);
    size_t size = hak_huge_free(block);
    hak_gate_leave();
    return size;
}

static void *first_of(hak_own_t *heap) {
    HAK_HOLD(&heap->lock);
    return heap->huge ? heap->huge->block : NULL;
}

/* A block that another thread frees meanwhile is in the list for a moment more. */
void hak_own_huge_free_all(hak_own_t *heap, void (*leave)(const void *block)) {
    for (void *block; (block = first_of(heap)) != NULL;) {
        if (leave) leave(block);
        hak_gate_enter();
        if (take_out(block)) hak_huge_free(block);
        hak_gate_leave();
    }
}

hak_own_t *hak_own_huge_heap(const void *block) {
    if (HAK_LIKELY(!hak_load_relaxed(&total))) return NULL;
    const record_t *record = record_of(hak_huge_note(block));
    return record ? record->heap : NULL;
}

HAK_SLOW_PATH size_t hak_own_huge_check(hak_check_t *check, const hak_own_t *heap) {
    size_t blocks = 0, bytes = 0;
    for (const record_t *record = heap->huge; record; record = record->next, blocks++) {
        bytes += record->size;
        hak_check_equal(check, "huge block of a heap", record, "its note leads to its record",
                        hak_huge_note(record->block), (uintptr_t)record);
        hak_check_equal(check, "huge block of a heap", record, "its size",
                        hak_huge_size(record->block), record->size);
    }
    hak_check_equal(check, "heap", heap, "huge_blocks, counted",
                    hak_load_relaxed(&heap->huge_blocks), blocks);
    hak_check_equal(check, "heap", heap, "huge_bytes, counted", hak_load_relaxed(&heap->huge_bytes),
                    bytes);
    return bytes;
}
