/* warm_slab.c: warm slabs; the protocol is in warm_slab.h. */
#include "shard/warm_slab.h"

#include <string.h>

#include "debug/call_paths.h"
#include "error/log.h"
#include "meta/meta.h"
#include "options/options.h"
#include "shard/bin.h"
#include "shard/remote.h"
#include "shard/table.h"

#define BUSY ((uintptr_t)1)

enum {
    REPORT_INTERVAL = 16, /* carves that a thread reports together */
    PART_LEAST = 2,       /* a carve brings at least 1/PART_LEAST of what is wanted */
};

_Atomic bool hak_warm_seen HAK_READ_OFTEN;

static hak_warm_ring_t *ring_of(const hak_unit_t *slab) {
    uint16_t owner = hak_load_relaxed(&slab->owner);
    return hak_warm_ring_of(hak_owner_shard(owner), hak_owner_class(owner));
}

static const hak_class_t *class_of(const hak_unit_t *slab) {
    return &hak_classes[hak_owner_class(hak_load_relaxed(&slab->owner))];
}

static void note(const char *event, const hak_unit_t *slab) {
    if (!hak_option(HAK_OPTION_TINY_WARM_LOG)) return;
    uint16_t owner = hak_load_relaxed(&slab->owner);
    hak_log("warm: %s slab %p of %u-byte blocks, shard %u, %u of %u blocks free", event,
            (void *)slab->base, class_of(slab)->size, hak_owner_shard(owner), slab->free_count,
            class_of(slab)->count);
}

/* The slab of a slot that is claimed, or whose bin is locked. */
static hak_unit_t *slab_of(const hak_warm_slot_t *slot) {
    return (hak_unit_t *)(hak_load_relaxed(&slot->state) & ~BUSY);
}

/* C1. */
static bool claim(hak_warm_slot_t *slot) {
    uintptr_t state = hak_load_relaxed(&slot->state);
    return state != 0 && !(state & BUSY) &&
           hak_cas_acquire(&slot->state, &state, state | BUSY); /* partner: C2 */
}

/* C2. */
static void unclaim(hak_warm_slot_t *slot, const hak_unit_t *slab) {
    hak_store_relaxed(&slot->ready, (uint16_t)hak_bin_ready(slab, class_of(slab)));
    hak_store_release(&slot->state, (uintptr_t)slab); /* partner: C1 */
}

bool hak_warm_claim(hak_unit_t *slab) { return claim(slab->slot); }

/* Blocks of a warm slab that are in use, if `ready` of those that were in use before are free. */
static uint64_t used_of(const hak_unit_t *slab, unsigned ready) { return slab->fresh - ready; }

uint64_t hak_warm_used(unsigned shard, unsigned class_index) {
    return hak_warm_ring_of(shard, class_index)->used;
}

/* B. Bin lock held; the slab is listed. */
static void bind(hak_warm_slot_t *slot, hak_bin_t *bin, hak_unit_t *slab) {
    hak_warm_ring_t *ring = ring_of(slab);
    hak_bin_leave(bin, slab);
    slab->slot = slot;
    hak_store_relaxed(&slab->owner, hak_load_relaxed(&slab->owner) | HAK_OWNER_WARM);
    hak_warm_slot_t *oldest = ring->oldest ? ring->oldest : (ring->oldest = slot);
    slot->next = oldest;
    slot->prev = oldest == slot ? slot : oldest->prev;
    slot->prev->next = oldest->prev = slot;
    HAK_ADD_OWNED(&ring->count, 1);
    ring->used += used_of(slab, hak_bin_ready(slab, class_of(slab)));
    if (HAK_UNLIKELY(!hak_load_relaxed(&hak_warm_seen))) hak_store_relaxed(&hak_warm_seen, true);
    HAK_ADD_OWNED(&slot->carves, 1); /* the next sweep takes it for used */
    note("bind", slab);
    unclaim(slot, slab);
}

/* U, up to the slab's place. Bin lock held, slab claimed. */
static hak_unit_t *unbind(hak_warm_slot_t *slot, hak_bin_t *bin, const char *event) {
    hak_unit_t *slab = slab_of(slot);
    hak_warm_ring_t *ring = ring_of(slab);
    note(event, slab);
    slot->prev->next = slot->next;
    slot->next->prev = slot->prev;
    if (ring->oldest == slot) ring->oldest = slot->next == slot ? NULL : slot->next;
    HAK_ADD_OWNED(&ring->count, -1u);
    ring->used -= used_of(slab, hak_bin_ready(slab, class_of(slab)));
    hak_store_relaxed(&slab->owner, hak_load_relaxed(&slab->owner) & ~HAK_OWNER_WARM);
    hak_bin_return(bin, slab);
    hak_store_relaxed(&slot->ready, 0);
    hak_store_release(&slot->state, 0); /* partner: C1, which then fails */
    return slab;
}

/* The same, taken away from its thread. */
static hak_unit_t *unbind_by_other(hak_warm_slot_t *slot, hak_bin_t *bin) {
    HAK_ADD_OWNED(&ring_of(slab_of(slot))->unbound, 1);
    return unbind(slot, bin, "revoke");
}

/* The place of a slab that was just unbound; true when it is to be released. */
static bool put_back(hak_bin_t *bin, hak_unit_t *slab) {
    if (slab->free_count == 0) return false;
    if (hak_bin_ready(slab, class_of(slab)) > 0) return hak_bin_after_free(bin, slab);
    hak_bin_list_last(bin, slab);
    return false;
}

static hak_unit_t *link_released(hak_unit_t *slab, hak_unit_t *released) {
    slab->next = released;
    return slab;
}

hak_warm_t *hak_warm_make(unsigned home, unsigned count) {
    size_t size = sizeof(hak_warm_t) + count * sizeof(hak_warm_slot_t);
    hak_warm_t *warm = hak_shard_record(home, size);
    if (!warm) return NULL;
    memset(warm, 0, size);
    warm->count = count;
    return warm;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static bool has_bound(const hak_warm_t *warm) {
    for (unsigned i = 0; i < warm->count; i++)
        if (hak_load_relaxed(&warm->slots[i].state) != 0) return true;
    return false;
}

typedef struct {
    hak_warm_t *warm;
    unsigned class_index;
    void **top, **end; /* blocks are written to *end and downwards, as far as *top */
    bool locked;
    hak_twice_t twice; /* answer; free blocks that were freed again: the carve ends there */
} carve_t;

/* One warm slab. */
static void carve(carve_t *batch, hak_warm_slot_t *slot) {
    if (!claim(slot)) return;
    hak_unit_t *slab = slab_of(slot);
    const unsigned want = (unsigned)(batch->end - batch->top);
    unsigned taken = 0, lost = 0;
    if (hak_remote_finds_twice(slab, class_of(slab), want))
        lost = hak_remote_take_out(slab, class_of(slab), want, &batch->twice);
    else
        taken = hak_bin_carve(slab, batch->class_index, want, batch->end);
    if (taken) HAK_ADD_OWNED(&slot->carves, 1);
    if (batch->locked)
        ring_of(slab)->used += taken + lost;
    else
        HAK_ADD_OWNED(&batch->warm->counts[HAK_WARM_TAKEN], taken + lost);
    unclaim(slot, slab);
    batch->end -= taken;
}

static void carve_all(carve_t *batch) {
    hak_warm_t *warm = batch->warm;
    size_t ready = 0;
    for (unsigned i = 0; i < warm->count; i++) ready += hak_load_relaxed(&warm->slots[i].ready);
    if (ready * PART_LEAST < (size_t)(batch->end - batch->top)) return;
    for (unsigned i = 0; i < warm->count && batch->end > batch->top && !batch->twice.bits; i++)
        if (hak_load_relaxed(&warm->slots[i].ready) > 0) carve(batch, &warm->slots[i]);
}

static void carve_locked(carve_t *batch, unsigned home) {
    const unsigned class_index = batch->class_index;
    hak_bin_t *bin = hak_bin_of(home, class_index);
    void **const all = batch->end;
    HAK_HOLD(&bin->lock);
    carve_all(batch);
    hak_bin_count(home, class_index, HAK_SHARD_LOCKS, 1);
    hak_bin_count(home, class_index, HAK_SHARD_MISSES, batch->end < all);
    hak_bin_count(home, class_index, HAK_SHARD_TAKEN, (unsigned)(all - batch->end));
}

unsigned hak_warm_take(hak_warm_t *warm, unsigned home, unsigned class_index, unsigned want,
                       void **top, bool locked) {
    carve_t batch = {warm, class_index, top, top + want, locked, {0}};
    if (has_bound(warm)) {
        hak_gate_enter(); /* no fork finds a claim */
        if (!locked) HAK_ADD_OWNED(&warm->counts[HAK_WARM_ATTEMPTS], 1);
        if (locked)
            carve_locked(&batch, home);
        else
            carve_all(&batch);
        hak_gate_leave();
    }
    void **const end = batch.end;
    unsigned taken = want - (unsigned)(end - top);
    HAK_ADD_OWNED(&warm->counts[taken ? HAK_WARM_HITS : HAK_WARM_MISSES], 1);
    if (taken && !locked) {
        HAK_ADD_OWNED(&warm->counts[HAK_WARM_CARVED], 1);
        if (hak_load_relaxed(&warm->counts[HAK_WARM_CARVED]) % REPORT_INTERVAL == 0)
            (void)hak_add_relaxed(&hak_warm_ring_of(home, class_index)->carved, REPORT_INTERVAL);
    }
    if (end > top && taken) memmove(top + 1, end + 1, taken * sizeof *top);
    if (HAK_LIKELY(!batch.twice.bits)) return taken;
    hak_shard_untake(home, class_index, top, taken, &batch.twice);
    return 0;
}

void hak_warm_release(hak_warm_t *warm, unsigned home, unsigned class_index) {
    if (!has_bound(warm)) return;
    hak_bin_t *bin = hak_bin_of(home, class_index);
    hak_unit_t *released = NULL;
    hak_gate_enter();
    hak_lock_acquire(&bin->lock);
    for (unsigned i = 0; i < warm->count; i++) {
        if (!claim(&warm->slots[i])) continue; /* none; others claim with the lock only */
        hak_unit_t *slab = unbind(&warm->slots[i], bin, "unbind");
        if (put_back(bin, slab)) released = link_released(slab, released);
    }
    hak_bin_look_at_spare(bin, home, class_index);
    hak_lock_release(&bin->lock);
    if (released) hak_slab_release_list(released, home, class_index, true);
    hak_gate_leave();
}

/* ---- With the bin lock ----------------------------------------------------------------------- */

void hak_warm_release_used_up(hak_warm_t *warm, hak_bin_t *bin) {
    for (unsigned i = 0; i < warm->count; i++) {
        hak_warm_slot_t *slot = &warm->slots[i];
        if (hak_load_relaxed(&slot->ready) > 0 || !claim(slot)) continue;
        put_back(bin, unbind(slot, bin, "unbind")); /* in use: not to be released */
    }
}

void hak_warm_prefill(hak_warm_t *warm, hak_bin_t *bin) {
    unsigned most = (hak_load_relaxed(&bin->listed_count) + 1) / 2, bound = 0;
    for (unsigned i = 0; i < warm->count && bound < most && bin->head; i++) {
        hak_unit_t *slab = bin->head;
        if (hak_load_relaxed(&warm->slots[i].state) != 0) continue;
        if (hak_bin_ready(slab, class_of(slab)) == 0 || slab->purged) break;
        bind(&warm->slots[i], bin, slab);
        bound++;
    }
    HAK_ADD_OWNED(&warm->counts[HAK_WARM_PREFILLED], bound);
}

bool hak_warm_release_one(hak_bin_t *bin, unsigned shard, unsigned class_index, bool fresh) {
    const hak_warm_ring_t *ring = hak_warm_ring_of(shard, class_index);
    hak_warm_slot_t *slot = ring->oldest;
    for (uint32_t i = hak_load_relaxed(&ring->count); i; i--, slot = slot->next) {
        if ((!fresh && hak_load_relaxed(&slot->ready) == 0) || !claim(slot)) continue;
        hak_unit_t *slab = slab_of(slot);
        unsigned blocks = fresh ? slab->free_count : hak_bin_ready(slab, class_of(slab));
        if (blocks == 0) {
            unclaim(slot, slab);
            continue;
        }
        hak_bin_list_first(bin, unbind_by_other(slot, bin));
        return true;
    }
    return false;
}

hak_unit_t *hak_warm_release_idle(hak_bin_t *bin, unsigned shard, unsigned class_index,
                                  hak_unit_t *released) {
    const hak_warm_ring_t *ring = hak_warm_ring_of(shard, class_index);
    hak_warm_slot_t *slot = ring->oldest, *next;
    for (uint32_t i = hak_load_relaxed(&ring->count); i; i--, slot = next) {
        uint16_t carves = hak_load_relaxed(&slot->carves);
        next = slot->next;
        bool is_idle = carves == slot->carves_seen;
        slot->carves_seen = carves;
        if (!is_idle || !claim(slot)) continue;
        hak_unit_t *slab = unbind_by_other(slot, bin);
        if (put_back(bin, slab)) released = link_released(slab, released);
    }
    hak_bin_look_at_spare(bin, shard, class_index);
    return released;
}

bool hak_warm_after_free(hak_bin_t *bin, hak_unit_t *slab) {
    unsigned before = hak_load_relaxed(&slab->slot->ready);
    ring_of(slab)->used -= hak_bin_ready(slab, class_of(slab)) - before;
    if (slab->free_count < class_of(slab)->count) {
        unclaim(slab->slot, slab);
        return false;
    }
    return put_back(bin, unbind_by_other(slab->slot, bin));
}

bool hak_warm_lift(hak_unit_t *slab) {
    if (!hak_warm_claim(slab)) return false;
    hak_store_relaxed(&slab->owner, hak_load_relaxed(&slab->owner) & ~HAK_OWNER_WARM);
    slab->lifted = true;
    return true;
}

bool hak_warm_put_down(hak_bin_t *bin, hak_unit_t *slab) {
    size_t before = hak_load_relaxed(&slab->slot->ready);
    HAK_ADD_OWNED(&bin->spare,
                  before - hak_bin_ready(slab, class_of(slab))); /* less what was given */
    slab->lifted = false;
    hak_store_relaxed(&slab->owner, hak_load_relaxed(&slab->owner) | HAK_OWNER_WARM);
    return hak_warm_after_free(bin, slab);
}

/* Adds up a field of the rings of a class. */
#define SUM_OF(field, class_index)                                                                \
    uint64_t sum = 0;                                                                             \
    if (!hak_load_relaxed(&hak_warm_seen)) return 0;                                              \
    HAK_EACH_SHARD (shard) sum += hak_load_relaxed(&hak_warm_ring_of(shard, class_index)->field); \
    return sum

uint64_t hak_warm_slabs(unsigned class_index) { SUM_OF(count, class_index); }
uint64_t hak_warm_unbound(unsigned class_index) { SUM_OF(unbound, class_index); }
