/* user_heap_huge.c: the records of huge blocks that heaps of the program have. */
#include "large/user_heap_huge.h"

#include "large/huge.h"
#include "meta/meta.h"
#include "os/os.h"

/* The bits that are 0 in the note of a block with a record; and the note of a block whose record a thread has in hand,
 * which the hardened path reads as that of a free block. */
enum { NOTE_OF_OTHERS = 3, NOTE_IN_HAND = 1 };

typedef struct {
    hak_ring_t age; /* lock of the heap, as the next two */
    uint32_t epoch;
    bool is_listed;
    hak_user_heap_t *heap; /* constant */
    void *block; /* heap's lock to write; the thread that resizes it reads it, as the next */
    size_t size;
} record_t;

static _Atomic size_t total HAK_READ_OFTEN; /* such blocks; most processes have none */

static record_t *record_of(uint64_t note) {
    return note & NOTE_OF_OTHERS ? NULL : (record_t *)(uintptr_t)note;
}

static void free_record(record_t *record) {
    hak_meta_free(record, sizeof *record);
    hak_add_relaxed(&total, -(size_t)1);
}

/* Lock of the heap held. */
static void append(record_t *record) {
    record->epoch = record->heap->epoch;
    hak_ring_append(&record->heap->mapped, &record->age);
}

/* Lock of the heap held. */
static void count_in(record_t *record) {
    record->is_listed = true;
    append(record);
    HAK_ADD_OWNED(&record->heap->huge_bytes, record->size);
    HAK_ADD_OWNED(&record->heap->huge_blocks, 1);
}

/* Gives a block in hand its record as its note. Lock of the heap held. */
static void set_note(record_t *record) {
    uint64_t in_hand = NOTE_IN_HAND;
    hak_huge_swap_note(record->block, &in_hand, (uintptr_t)record);
}

static void enter(record_t *record, hak_flight_t *flight) {
    hak_user_heap_t *heap = record->heap;
    HAK_HOLD(&heap->lock);
    set_note(record);
    count_in(record);
    if (flight) hak_user_heap_take_off(heap, flight, record->block);
    hak_add_relaxed(&total, 1);
}

/* Lock of the heap held. */
static void unlist(record_t *record) {
    hak_user_heap_t *heap = record->heap;
    record->is_listed = false;
    hak_ring_remove(&heap->mapped, &record->age);
    HAK_ADD_OWNED(&heap->committed, -record->size);
    HAK_ADD_OWNED(&heap->huge_bytes, -record->size);
    HAK_ADD_OWNED(&heap->huge_blocks, -(size_t)1);
}

/* Takes the record out of its heap. */
static HAK_BEHIND void leave_heap(record_t *record) {
    hak_user_heap_t *heap = record->heap;
    hak_lock_acquire(&heap->lock);
    if (record->is_listed) unlist(record);
    hak_lock_release(&heap->lock);
    free_record(record);
}

/* Makes the block of a record; false without memory. */
static bool make(record_t *record, size_t align, hak_flight_t *flight, size_t *dirty) {
    record->block = hak_huge_take(record->size, align, NOTE_IN_HAND, dirty);
    if (record->block) enter(record, flight);
    return record->block;
}

HAK_BEHIND void *hak_user_heap_huge_alloc(hak_user_heap_t *heap, size_t size, size_t align,
                                          hak_flight_t *flight, size_t *dirty) {
    size = hak_align_up(hak_max(size, 1), hak_os_page_size());
    record_t *record = hak_meta_alloc(sizeof *record);
    if (!record) return NULL;
    *record = (record_t){.heap = heap, .size = size};
    hak_gate_enter();
    const bool is_charged = hak_user_heap_charge(heap, size);
    const bool is_made = is_charged && make(record, align, flight, dirty);
    void *block = is_made ? record->block : NULL;
    if (is_charged && !is_made) hak_user_heap_discharge(heap, size);
    if (!is_made) hak_meta_free(record, sizeof *record);
    hak_gate_leave();
    return block;
}

size_t hak_user_heap_huge_free(void *block) {
    uint64_t note;
    hak_gate_enter();
    size_t size = hak_huge_take_out(block, NOTE_OF_OTHERS, &note);
    if (size && HAK_UNLIKELY(note != 0)) leave_heap(record_of(note));
    if (size) hak_huge_drop(block, size);
    hak_gate_leave();
    return size;
}

/* Lists a record in hand again, whose block now has `size` bytes at `block`. The heap counts its former size and
 * `charged` bytes more as committed. */
static HAK_BEHIND void come_back(record_t *record, void *block, size_t size, size_t charged,
                                 hak_flight_t *flight) {
    hak_user_heap_t *heap = record->heap;
    HAK_HOLD(&heap->lock);
    if (record->is_listed) unlist(record);
    if (flight) flight->block = block;
    record->block = block;
    record->size = size;
    HAK_ADD_OWNED(&heap->committed, size - charged);
    set_note(record);
    count_in(record);
}

/* Resizes the block of a record in hand. Returns its address; NULL when it stays as it was. */
static HAK_BEHIND char *resize_in_hand(record_t *record, size_t size, hak_flight_t *flight) {
    hak_user_heap_t *heap = record->heap;
    const size_t more = size > record->size ? size - record->size : 0;
    const bool is_charged = more && hak_user_heap_charge(heap, more);
    char *moved =
        is_charged || !more ? hak_huge_resize_noted(record->block, size, NOTE_IN_HAND) : NULL;
    come_back(record, moved ? moved : record->block, moved ? size : record->size,
              is_charged ? more : 0, flight);
    return moved;
}

HAK_BEHIND void *hak_user_heap_huge_resize(void *block, size_t size, hak_flight_t *flight) {
    size = hak_align_up(size, hak_os_page_size());
    if (HAK_LIKELY(!hak_load_relaxed(&total))) return NULL;
    hak_gate_enter();
    uint64_t note = hak_huge_note(block);
    record_t *record = record_of(note);
    const bool is_in_hand = record && hak_huge_swap_note(block, &note, NOTE_IN_HAND);
    char *moved = is_in_hand ? resize_in_hand(record, size, flight) : NULL;
    hak_gate_leave();
    return moved;
}

/* Takes the oldest block out of the heap, unless it is in flight; false when there is none from before an
 * epoch. Stores it in *block, unless another thread is about to free it or has it in hand. Inside the gate. */
static bool take_oldest(hak_user_heap_t *heap, uint32_t epoch, void **block) {
    HAK_HOLD(&heap->lock);
    record_t *record = (record_t *)heap->mapped;
    if (!record || !hak_user_heap_is_before(record->epoch, epoch)) return false;
    if (hak_user_heap_is_in_flight(heap, record->block, 1)) {
        hak_ring_remove(&heap->mapped, &record->age);
        append(record);
        return true;
    }
    uint64_t note = (uintptr_t)record;
    *block = hak_huge_swap_note(record->block, &note, NOTE_IN_HAND) ? record->block : NULL;
    unlist(record);
    if (*block) free_record(record);
    return true;
}

HAK_BEHIND size_t hak_user_heap_huge_free_all(hak_user_heap_t *heap, uint32_t epoch,
                                              void (*leave)(const void *block)) {
    size_t blocks = 0;
    for (bool is_left = true; is_left;) {
        void *block = NULL;
        hak_gate_enter();
        is_left = take_oldest(heap, epoch, &block);
        if (block && leave) leave(block);
        if (block) hak_huge_free(block);
        hak_gate_leave();
        blocks += block != NULL;
    }
    return blocks;
}

/* The record exists: before a thread frees it, the thread swaps the note or takes the block out. */
static void keep_heap(uint64_t note, void *heap) {
    const record_t *record = record_of(note);
    *(hak_user_heap_t **)heap = record ? record->heap : NULL;
}

hak_user_heap_t *hak_user_heap_huge_heap(const void *block) {
    hak_user_heap_t *heap = NULL;
    if (HAK_UNLIKELY(hak_load_relaxed(&total))) hak_huge_look(block, keep_heap, &heap);
    return heap;
}

HAK_BEHIND bool hak_user_heap_huge_hold(hak_user_heap_t *heap, const void *block,
                                        hak_flight_t *flight) {
    HAK_HOLD(&heap->lock);
    const bool is_held = hak_user_heap_huge_heap(block) == heap;
    if (is_held) hak_user_heap_take_off(heap, flight, block);
    return is_held;
}

HAK_BEHIND size_t hak_user_heap_huge_check(hak_check_t *check, const hak_user_heap_t *heap) {
    size_t blocks = 0, bytes = 0;
    for (const hak_ring_t *at = heap->mapped; at; at = at->next == heap->mapped ? NULL : at->next) {
        const record_t *record = (const record_t *)at;
        blocks++;
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
