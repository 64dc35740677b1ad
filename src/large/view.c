/* view.c: adds up the large heaps, and looks at the blocks of a unit. */
#include "large/view.h"

#include "large/fine_grain.h"
#include "large/heap.h"
#include "large/large.h"

size_t hak_large_idle(void) {
    size_t sum = 0;
    HAK_EACH_HEAP (i) sum += hak_heap_idle(hak_heap_at(i));
    return sum << HAK_GRAIN_SHIFT;
}

HAK_BEHIND hak_large_stats_t hak_large_stats(void) {
    hak_large_stats_t sum = {0};
    HAK_EACH_HEAP (i) {
        hak_heap_t *heap = hak_heap_at(i);
        hak_lock_acquire(&heap->lock);
        hak_lock_acquire(&heap->transfer_lock);
        size_t waiting = hak_load_relaxed(&heap->transfer_grains);
        size_t freed = waiting + hak_load_relaxed(&heap->recent.grains);
        sum.count +=
            hak_load_relaxed(&heap->live_count) - heap->transfer_count - heap->recent.count;
        sum.bytes += (hak_load_relaxed(&heap->live) - freed) << HAK_GRAIN_SHIFT;
        sum.idle_bytes += hak_heap_idle(heap) << HAK_GRAIN_SHIFT;
        sum.transfer_bytes += waiting << HAK_GRAIN_SHIFT;
        hak_lock_release(&heap->transfer_lock);
        hak_lock_release(&heap->lock);
#define ADD(counter) sum.counter += hak_load_relaxed(&heap->counter)
        ADD(local), ADD(remote), ADD(stolen), ADD(runs), ADD(run_units);
        ADD(transferred), ADD(spilled), ADD(resized), ADD(purge_calls);
#undef ADD
    }
    hak_fine_add_stats(&sum.count, &sum.bytes);
    return sum;
}

HAK_BEHIND bool hak_large_used_bytes(const hak_unit_t *unit, uint16_t used[HAK_UNIT_GRAINS]) {
    if (hak_owner_class(hak_load_acquire(&unit->owner)) != HAK_CLASS_LARGE) return false;
    if (hak_fine_is(unit)) return hak_fine_used_bytes(unit, used);
    for (unsigned i = 0; i < HAK_UNIT_GRAINS; i++) {
        void *start;
        size_t size;
        bool found = hak_large_find(unit->base + (size_t)i * HAK_GRAIN_SIZE, &start, &size);
        used[i] = found ? HAK_GRAIN_SIZE : 0;
    }
    return true;
}
