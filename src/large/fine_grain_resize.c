/* fine_grain_resize.c: resizes blocks of the program's heaps in place. */
#include "base/bits.h"
#include "large/chunk.h"
#include "large/user_heap_huge.h"
#include "os/gate.h"
#include "pool/pool.h"
#include "region/region.h"

/* Lengthens a block by the grains behind it, if these are free. */
static bool lengthen(hak_user_heap_t *heap, hak_fine_t *fine, size_t end, size_t more) {
    if (more > fine->grains - end) return false;
    if (hak_bits_next(fine->in_use, end, end + more, true) < end + more) return false;
    hak_bits_turn(fine->in_use, end, more);
    fine->used += (uint32_t)more;
    if (fine->hint == end) fine->hint = (uint32_t)(end + more);
    HAK_ADD_OWNED(&heap->bytes, more << fine->shift);
    return true;
}

/* Sets the number of units of a chunk that is one block. The caller has taken the units that are added, and gives back
 * those that the chunk loses. */
static void set_units(hak_user_heap_t *heap, hak_fine_t *fine, unsigned count) {
    const unsigned before = fine->unit_count, most = hak_max(count, before);
    const size_t change = (size_t)count - before;
    hak_bits_turn(fine->in_use, hak_min(count, before), most - hak_min(count, before));
    fine->unit_count = (uint8_t)count;
    fine->grains = fine->used = count;
    HAK_ADD_OWNED(&heap->bytes, change << HAK_UNIT_SHIFT);
    if (count < before) HAK_ADD_OWNED(&heap->committed, change << HAK_UNIT_SHIFT);
    if (fine->is_first) hak_add_relaxed(&hak_pool_stats.first_units, change);
    for (unsigned i = before; i < count; i++) hak_chunk_enter_unit(heap, fine, &fine->units[i]);
    if (count > before)
        hak_chunk_set_owner(&fine->units[before], count - before, HAK_FINE_OWNER);
    else
        hak_chunk_set_owner(&fine->units[count], before - count, 0);
}

/* Units that a chunk does not need any more. */
typedef struct {
    hak_unit_t *units;
    unsigned count;
} rest_t;

/* Resizes a chunk that is one block; *rest becomes the units that it no longer needs. */
static bool resize_whole(hak_user_heap_t *heap, hak_fine_t *fine, size_t units, bool is_short,
                         rest_t *rest) {
    if (units > fine->unit_count || is_short) return false;
    if (units == fine->unit_count || hak_pool_gives_whole()) return true;
    *rest = (rest_t){fine->units + units, fine->unit_count - (unsigned)units};
    set_units(heap, fine, (unsigned)units);
    return true;
}

static bool resize_locked(hak_user_heap_t *heap, hak_fine_t *fine, size_t at, size_t size,
                          rest_t *rest) {
    const size_t have = hak_chunk_length(fine, at), want = hak_chunk_grains(size, fine->shift);
    if (fine->shift == HAK_CHUNK_WHOLE)
        return resize_whole(heap, fine, want, size <= HAK_UNIT_SIZE / 2, rest);
    if (want > have) return lengthen(heap, fine, at + have, want - have);
    if (want < have) hak_chunk_set_free(heap, fine, at + want, have - want);
    return true;
}

bool hak_fine_resize(void *block, size_t size) {
    size_t at;
    hak_user_heap_t *heap;
    rest_t rest = {NULL, 0};
    hak_gate_enter();
    hak_fine_t *fine = hak_chunk_lock(block, &heap, &at);
    const bool is_done = fine && resize_locked(heap, fine, at, size, &rest);
    hak_lock_release(&heap->lock);
    if (rest.count) hak_pool_give(rest.units, rest.count);
    hak_gate_leave();
    return is_done;
}

/* Gives `more` units to the chunk before them, if that is one block of `before` units. */
static bool append_units(void *block, unsigned before, unsigned more) {
    size_t at;
    hak_user_heap_t *heap;
    hak_fine_t *fine = hak_chunk_lock(block, &heap, &at);
    const bool is_same = fine && fine->shift == HAK_CHUNK_WHOLE && fine->unit_count == before;
    if (is_same) set_units(heap, fine, before + more);
    hak_lock_release(&heap->lock);
    return is_same;
}

bool hak_fine_extend(hak_user_heap_t *heap, void *block, size_t old, size_t size) {
    const size_t before = old >> HAK_UNIT_SHIFT,
                 more = hak_chunk_grains(size, HAK_CHUNK_WHOLE) - before;
    if (old % HAK_UNIT_SIZE || !before || before + more > hak_superslab_units()) return false;
    hak_unit_t *unit = hak_unit_of(block);
    hak_gate_enter();
    const bool is_charged = hak_user_heap_charge(heap, more << HAK_UNIT_SHIFT);
    const bool is_taken =
        is_charged && hak_pool_take_behind(unit, (unsigned)before, (unsigned)more);
    const bool is_done = is_taken && append_units(block, (unsigned)before, (unsigned)more);
    if (is_taken && !is_done) hak_pool_give(unit + before, (unsigned)more);
    if (is_charged && !is_done) hak_user_heap_discharge(heap, more << HAK_UNIT_SHIFT);
    hak_gate_leave();
    return is_done;
}

bool hak_fine_hold(hak_user_heap_t *heap, const void *block, hak_flight_t *flight) {
    size_t at;
    hak_user_heap_t *found;
    if (!hak_region_unit_of(block)) return hak_user_heap_huge_hold(heap, block, flight);
    const bool is_held = hak_chunk_lock(block, &found, &at) && found == heap;
    if (is_held) hak_user_heap_take_off(heap, flight, block);
    hak_lock_release(&found->lock);
    return is_held;
}
