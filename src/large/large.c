/* large.c: where a large block comes from, and where it goes. */
#include "large/large.h"

#include <string.h>

#include "base/bits.h"
#include "debug/timing.h"
#include "large/fine_grain.h"
#include "large/heap_purge.h"
#include "large/waiting.h"
#include "options/options.h"
#include "os/numa_topology.h"
#include "pool/pool.h"
#include "region/region.h"

enum {
    PUBLISH_GRAINS = 1024, /* 4 MiB: how far the cheap sum may be off, for each heap */
    SEARCH_MOST = 15,      /* other heaps that are searched before fresh memory is touched */
    OWN_LOOKS = 64,        /* superslabs that a free looks at to purge as much as it frees */
    BLOCK_LEAST = HAK_UNIT_GRAINS + 1,           /* grains of a block */
    BLOCK_MOST = HAK_LARGE_MAX / HAK_GRAIN_SIZE, /* the same */
    UNITS_MAX = HAK_LARGE_MAX / HAK_UNIT_SIZE,   /* of a block that begins with a unit */
    TOUCHED_WORDS = HAK_LARGE_MAX / HAK_GRAIN_SIZE / 64 * 2, /* a block may be an eighth longer */
};

/* A heap's answer to a request. */
typedef enum { FOUND, NO_ROOM, REFUSED } outcome_t;

typedef struct {
    unsigned home; /* number of the caller's heap */
    size_t grains, align_grains;
    char *block;                     /* result */
    uint64_t touched[TOUCHED_WORDS]; /* result; grains of the block that need zeroing */
    bool zero;
    bool fresh; /* result; the block lies in a fresh run */
} request_t;

static size_t grains_of(size_t size) { return (size + HAK_GRAIN_SIZE - 1) >> HAK_GRAIN_SHIFT; }

static uint32_t word_of(const char *block, size_t grains) {
    unsigned first = (unsigned)((uintptr_t)block >> HAK_GRAIN_SHIFT) % HAK_UNIT_GRAINS;
    return (uint32_t)(grains << 5) | first;
}

static unsigned number_of(const hak_unit_t *unit) {
    return hak_owner_shard(hak_load_acquire(&unit->owner));
}

/* ---- idle memory, in sum ---- */

static _Atomic size_t idle_published HAK_OWN_LINE;

/* Publishes what has changed in a heap. Its idle memory goes into the sum over heaps when the change exceeds `least`
 * grains. Heap lock held. */
HAK_FAST_PATH void publish(hak_heap_t *heap, size_t least) {
    size_t idle = hak_heap_idle(heap), last = heap->idle_published;
    note_much(heap);
    if (HAK_LIKELY(idle - last + least <= 2 * least)) return;
    heap->idle_published = idle;
    hak_add_relaxed(&idle_published, idle - last);
}

HAK_COMMON size_t hak_large_idle_about(void) {
    size_t sum = hak_load_relaxed(&idle_published);
    return (ptrdiff_t)sum < 0 ? 0 : sum << HAK_GRAIN_SHIFT;
}

/* ---- blocks that wait ---- */

/* The newest block that is long enough and at most an eighth longer. Heap lock held. */
static char *take_transferred(hak_heap_t *heap, request_t *request) {
    if (request->align_grains > 1) return NULL;
    HAK_TIMED(l25_tls_ring_pop);
    HAK_HOLD(&heap->transfer_lock);
    for (unsigned i = heap->transfer_count; i-- > 0;) {
        hak_unit_t *unit = heap->transfer[i];
        uint32_t word = hak_load_relaxed(&unit->large);
        size_t grains = hak_large_length(word);
        if (grains < request->grains || grains > request->grains + request->grains / 8) continue;
        heap->transfer[i] = heap->transfer[--heap->transfer_count];
        HAK_ADD_OWNED(&heap->transfer_grains, -grains);
        request->grains = grains;
        return block_start(unit, word);
    }
    return NULL;
}

static bool reuse_recent(hak_heap_t *heap, request_t *request) {
    if (request->align_grains > 1) return false;
    hak_unit_t *unit = hak_recent_take(&heap->recent, request->grains);
    if (!unit) return false;
    request->block = block_start(unit, hak_load_relaxed(&unit->large));
    if (request->zero) memset(request->touched, 0xff, sizeof request->touched);
    HAK_ADD_OWNED(&heap->local, 1);
    return true;
}

/* ---- allocation ---- */

/* Notes which grains of the block are touched now, before the request touches all of them. */
static void note_touched(request_t *request, char *block) {
    size_t left = request->grains, done = 0;
    hak_part_t part;
    memset(request->touched, 0, sizeof request->touched);
    for (char *at = block; hak_part_next(&at, &left, &part); done += part.count)
        hak_bits_copy(request->touched, done, part.super->touched, part.first, part.count);
}

static void zero_touched(const request_t *request) {
    for (size_t from, i = 0, end = request->grains;
         (from = hak_bits_next(request->touched, i, end, true)) < end;) {
        i = hak_bits_next(request->touched, from, end, false);
        memset(request->block + (from << HAK_GRAIN_SHIFT), 0, (i - from) << HAK_GRAIN_SHIFT);
    }
}

/* Takes a block out of the extents. Heap lock held. */
static outcome_t take_extent(hak_heap_t *heap, request_t *request) {
    char *block;
    HAK_TIME(l25_tls_lifo_pop,
             block = hak_extents_take(&heap->extents, request->grains, request->align_grains));
    if (block && heap->recent.count && !hak_heap_has_pages(block, request->grains)) {
        hak_extents_give(&heap->extents, block, request->grains);
        merge_recent(heap, 0, 0); /* has pages, and may fit now */
        block = hak_extents_take(&heap->extents, request->grains, request->align_grains);
    }
    if (!block) return NO_ROOM;
    if (request->zero) note_touched(request, block);
    if (!hak_heap_use(heap, block, request->grains)) return REFUSED;
    HAK_ADD_OWNED(&heap->live, request->grains);
    HAK_ADD_OWNED(&heap->live_count, 1);
    request->block = block;
    return FOUND;
}

static bool reuse_transferred(hak_heap_t *heap, request_t *request) {
    request->block = take_transferred(heap, request);
    if (!request->block) return false;
    memset(request->touched, 0xff, sizeof request->touched);
    HAK_ADD_OWNED(&heap->remote, 1);
    return true;
}

/* Takes from the heap's free memory and from its transfer array; L25_PREF says which comes first.
 * Heap lock held. */
static outcome_t take(hak_heap_t *heap, request_t *request) {
    HAK_TIMED(l25_refill);
    if (reuse_recent(heap, request)) return FOUND;
    bool remote_first = hak_option(HAK_OPTION_L25_PREF) != 0;
    if (remote_first && reuse_transferred(heap, request)) return FOUND;
    outcome_t outcome = take_extent(heap, request);
    if (outcome == NO_ROOM) {
        if (!remote_first && reuse_transferred(heap, request)) return FOUND;
        if (drain(heap)) outcome = take_extent(heap, request);
    }
    if (outcome == FOUND) HAK_ADD_OWNED(&heap->local, 1);
    return outcome;
}

/* Heap lock held. */
static void note_home(hak_heap_t *heap, unsigned home) {
    if (hak_load_relaxed(&heap->last_home) != home) hak_store_relaxed(&heap->last_home, home);
}

/* Takes a fresh run of superslabs, and the block out of it. For a block of at most one superslab a run of the block's
 * own length is enough, since superslabs begin at multiples of their size. But the run joins free memory beside it, and
 * the short search for an aligned block may then miss the place. In that case a second run is taken, so long that it
 * contains an aligned block wherever it begins. Heap lock held. */
static outcome_t take_grown(hak_heap_t *heap, request_t *request) {
    size_t run = request->grains * (size_t)hak_option(HAK_OPTION_L25_RUN_FACTOR);
    size_t sure = request->grains + request->align_grains - 1;
    bool is_short = hak_max(request->grains, request->align_grains) <= hak_superslab_grains();
    size_t least = is_short ? request->grains : sure;
    outcome_t outcome = NO_ROOM;
    for (; outcome == NO_ROOM; least = sure) {
        if (!hak_heap_grow(request->home, least, hak_max(run, least))) break;
        outcome = take_extent(heap, request);
        if (least == sure) break;
    }
    return outcome;
}

/* Asks one heap, under its lock. With `grow` the heap may take a fresh run. */
static outcome_t ask(hak_heap_t *heap, request_t *request, bool grow) {
    HAK_TIME(l25_lock, hak_lock_acquire(&heap->lock));
    outcome_t outcome = take(heap, request);
    if (outcome == NO_ROOM && grow) {
        outcome = take_grown(heap, request);
        request->fresh = outcome == FOUND;
    }
    if (outcome == FOUND) {
        note_home(heap, request->home);
        hak_unit_t *unit = hak_unit_of(request->block);
        hak_store_release(&unit->large, word_of(request->block, request->grains));
        publish(heap, PUBLISH_GRAINS);
    }
    hak_lock_release(&heap->lock);
    return outcome;
}

/* True when a heap may serve a thread on another CPU: that CPU used the heap last, or the heap's free memory exceeds
 * half of what is in use, so that nearly all requests of its own CPU still fit. A block that another CPU takes costs
 * both CPUs cache lines: when it is taken, when it is freed, and when the heap's own CPU needs another block
 * instead. */
static bool can_spare(const hak_heap_t *heap, const request_t *request) {
    return hak_load_relaxed(&heap->has_much) || hak_load_relaxed(&heap->last_home) == request->home;
}

/* The numbers of the heaps on a heap's node. */
static hak_span_t near_of(unsigned heap) {
    return hak_has_nodes() ? hak_node_span(heap, hak_shard_homes()) : HAK_ALL_NODES;
}

static unsigned after(unsigned heap, hak_span_t near) {
    return hak_lazy_table_after_within(&hak_heap_table, heap, near.first, near.end);
}

/* Asks other heaps for a block. Before fresh memory is touched, it asks the next few heaps of the node, if they can
 * spare memory. With `all` it asks every heap. */
static outcome_t steal(request_t *request, bool all) {
    unsigned own = request->home, left = all ? HAK_HEAPS_MAX : SEARCH_MOST;
    const hak_span_t near = all ? HAK_ALL_NODES : near_of(own);
    outcome_t said = NO_ROOM;
    for (unsigned at = own; left-- && (at = after(at, near)) != own;) {
        hak_heap_t *heap = hak_heap_at(at);
        if (!all && !can_spare(heap, request)) continue;
        if (free_grains(heap) < request->grains) continue;
        outcome_t outcome;
        HAK_TIME(l25_shard_steal, outcome = ask(heap, request, false));
        if (outcome == FOUND) {
            hak_add_relaxed(&hak_heap_at(own)->stolen, 1);
            return FOUND;
        }
        if (outcome == REFUSED) said = REFUSED; /* another heap may need no more commitment */
    }
    return said;
}

static unsigned drain_all(hak_heap_t *heap) {
    HAK_HOLD(&heap->lock);
    return drain(heap);
}

static _Atomic unsigned merged_last HAK_OWN_LINE; /* the heap that `lend` made merge last */

static bool lend_from(hak_heap_t *heap, bool merges) {
    HAK_HOLD(&heap->lock);
    if (merges) merge_recent(heap, 0, 0);
    bool lent = hak_heap_lend(heap);
    publish(heap, PUBLISH_GRAINS);
    return lent;
}

/* Gives a wholly free superslab of some heap to the pool (hak_pool_set_lender). If no heap has one, a heap with recent
 * blocks merges them; the heaps take turns. Transfer arrays are left to purges, since a superslab is seldom kept in use
 * by one block of an array alone. `is_near`: only heaps of the caller's node. */
static bool lend(bool is_near) {
    const hak_span_t near = is_near ? near_of(hak_shard_here()) : HAK_ALL_NODES;
    unsigned last = hak_load_relaxed(&merged_last), chosen = HAK_HEAPS_MAX;
    HAK_EACH_HEAP (i) {
        hak_heap_t *heap = hak_heap_at(i);
        if (i - near.first >= near.end - near.first) continue;
        if (hak_load_relaxed(&heap->lent) && lend_from(heap, false)) return true;
        if (!hak_load_relaxed(&heap->recent.grains)) continue;
        if (chosen == HAK_HEAPS_MAX || (chosen <= last && i > last)) chosen = i;
    }
    if (chosen == HAK_HEAPS_MAX) return false;
    hak_store_relaxed(&merged_last, chosen);
    return lend_from(hak_heap_at(chosen), true);
}

/* Makes the caller's heap. The first region determines the size of superslabs. */
static HAK_SLOW_PATH unsigned open_home(unsigned home) {
    hak_region_prepare();
    hak_pool_set_lender(lend);
    return hak_heap_open(home);
}

/* A process of one thread has one heap, wherever it runs (hak_shard_here): several heaps would not fill each other's
 * gaps. */
unsigned hak_large_home(void) { return hak_shard_here(); }

void *hak_large_alloc(unsigned home, size_t size, size_t align, bool zero) {
    if (HAK_UNLIKELY(!hak_heap_at(home))) home = open_home(home);
    request_t request; /* `touched` stays unset: it is set before it is read */
    request.home = home;
    request.grains = grains_of(size);
    request.align_grains = hak_max(grains_of(align), 1);
    request.zero = zero;
    request.fresh = false;
    hak_heap_t *heap = hak_heap_at(home);
    outcome_t outcome = ask(heap, &request, false);
    if (HAK_UNLIKELY(outcome == NO_ROOM)) {
        outcome = steal(&request, false);
        if (outcome == NO_ROOM) outcome = ask(heap, &request, true);
    }
    if (HAK_UNLIKELY(outcome != FOUND)) outcome = steal(&request, true);
    if (HAK_UNLIKELY(outcome != FOUND)) return NULL;
    if (zero) zero_touched(&request);
    if (request.fresh) hak_pool_prefault(request.block, HAK_UNIT_SIZE, 1);
    return request.block;
}

/* ---- free ---- */

/* The word of the block in use that begins at `block`; 0 if there is none. */
HAK_FAST_PATH uint32_t word_in_use(const hak_unit_t *unit, const void *block) {
    const uint32_t word = hak_load_acquire(&unit->large);
    if (hak_large_length(word) - BLOCK_LEAST > BLOCK_MOST - BLOCK_LEAST) return 0;
    if (word & HAK_LARGE_FREED || block_start(unit, word) != block) return 0;
    return word;
}

/* Marks the block in use that begins at `block` freed, and returns its grains; 0 if there is none. */
static size_t mark_freed(hak_unit_t *unit, const void *block) {
    uint32_t word = word_in_use(unit, block);
    if (!word || !hak_cas_acquire(&unit->large, &word, word | HAK_LARGE_FREED)) return 0;
    return hak_large_length(word);
}

static void free_at_home(hak_heap_t *heap, hak_unit_t *unit, unsigned home, size_t grains,
                         bool keeps) {
    HAK_TIME(l25_lock, hak_lock_acquire(&heap->lock));
    note_home(heap, home);
    if (keeps && grains <= hak_min(HAK_RECENT_LONGEST, HAK_RECENT_GRAINS))
        keep_recent(heap, unit, grains);
    else
        merge(heap, unit);
    publish(heap, PUBLISH_GRAINS);
    hak_lock_release(&heap->lock);
}

/* Merges the blocks of a full transfer array, and this one. */
static void spill(hak_heap_t *heap, hak_unit_t *unit) {
    HAK_TIME(l25_lock, hak_lock_acquire(&heap->lock));
    if (drain_transferred(heap)) HAK_ADD_OWNED(&heap->spilled, 1);
    merge(heap, unit);
    publish(heap, PUBLISH_GRAINS);
    hak_lock_release(&heap->lock);
}

/* The thread is inside the gate from the mark until the block is merged, or among the waiting ones. */
size_t hak_large_free(unsigned home, void *block) {
    hak_unit_t *unit = hak_unit_of(block);
    if (HAK_UNLIKELY(hak_fine_is(unit))) return hak_fine_free(block);
    bool batch = !hak_option(HAK_OPTION_DISABLE_BATCH);
    hak_gate_enter();
    size_t grains = mark_freed(unit, block);
    const unsigned number = number_of(unit); /* the mark keeps the unit in its heap */
    hak_heap_t *heap = hak_heap_at(number);
    bool remote = batch && number != home;
    if (grains && !remote)
        free_at_home(heap, unit, home, grains, batch);
    else if (grains && !put_transferred(heap, unit, grains))
        spill(heap, unit);
    hak_gate_leave();
    size_t size = grains << HAK_GRAIN_SHIFT;
    if (grains && !batch) {
        hak_budget_t own = {OWN_LOOKS, size + 2 * (size_t)HAK_UNIT_SIZE};
        hak_heap_purge(heap, 0, &own);
    }
    return size;
}

/* ---- the rest ---- */

bool hak_large_find(const void *pointer, void **start, size_t *size) {
    hak_unit_t *unit = hak_region_unit_of(pointer);
    if (unit && HAK_UNLIKELY(hak_fine_is(unit))) return hak_fine_find(pointer, start, size);
    for (unsigned i = 0; unit && i <= UNITS_MAX; i++) {
        if (hak_owner_class(hak_load_acquire(&unit->owner)) != HAK_CLASS_LARGE || hak_fine_is(unit))
            return false;
        uint32_t word = hak_load_acquire(&unit->large);
        if (word && block_start(unit, word) <= (const char *)pointer) {
            *start = block_start(unit, word);
            *size = hak_large_length(word) << HAK_GRAIN_SHIFT;
            return !(word & HAK_LARGE_FREED) &&
                   (size_t)((const char *)pointer - (char *)*start) < *size;
        }
        unit = hak_region_unit_of(unit->base - 1);
    }
    return false;
}

/* Takes the grains behind a block, if they are free. Heap lock held. */
static bool take_behind(hak_heap_t *heap, char *end, size_t grains) {
    bool taken = hak_extents_take_front(&heap->extents, end, grains) ||
                 (merge_recent(heap, 0, 0) && hak_extents_take_front(&heap->extents, end, grains));
    return taken && hak_heap_use(heap, end, grains);
}

/* Also false if another thread frees the block meanwhile (heap.h). Heap lock held. */
static bool resize(hak_heap_t *heap, hak_unit_t *unit, char *block, size_t want) {
    uint32_t word = word_in_use(unit, block);
    const size_t have = hak_large_length(word), most = hak_max(want, have);
    char *end = block + (hak_min(want, have) << HAK_GRAIN_SHIFT);
    if (!word || (want > have && !take_behind(heap, end, want - have))) return false;
    const bool done = hak_cas_release(&unit->large, &word, word_of(block, want));
    const size_t kept = done ? want : have;
    HAK_ADD_OWNED(&heap->live, kept - have);
    if (kept < most) hak_heap_free(heap, end, most - kept);
    HAK_ADD_OWNED(&heap->resized, done);
    publish(heap, PUBLISH_GRAINS);
    return done;
}

bool hak_large_resize(void *block, size_t size) {
    hak_unit_t *unit = hak_unit_of(block);
    const unsigned number = number_of(unit);
    hak_heap_t *heap = hak_heap_at(number);
    size_t want = grains_of(size);
    if (HAK_UNLIKELY(hak_fine_is(unit) || !heap)) return false;
    if (want <= HAK_UNIT_GRAINS || size > HAK_LARGE_MAX) return false;
    HAK_TIME(l25_lock, hak_lock_acquire(&heap->lock));
    bool done = hak_load_relaxed(&unit->owner) == hak_owner(number, HAK_CLASS_LARGE) &&
                resize(heap, unit, block, want);
    hak_lock_release(&heap->lock);
    return done;
}

/* A heap with idle memory counts as a look, and so does each merged block. These looks are subtracted after the purge,
 * so they do not shorten it. True when all is done. */
static bool purge_heap(hak_heap_t *heap, uint32_t delay_ms, hak_budget_t *budget, size_t *bytes) {
    const unsigned merged = waits(heap) ? drain_all(heap) : 0;
    const bool is_idle = hak_load_relaxed(&heap->idle) != 0;
    *bytes += hak_heap_purge(heap, delay_ms, budget);
    const bool is_done = !hak_budget_is_spent(budget);
    hak_budget_look(budget, is_idle + merged);
    HAK_HOLD(&heap->lock);
    publish(heap, 0);
    return is_done;
}

/* `runs` is read without the lock, so the first run of another thread may be missed until the next round. */
size_t hak_large_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget) {
    size_t purged = 0;
    while ((*at = hak_lazy_table_next(&hak_heap_table, *at)) < HAK_HEAPS_MAX) {
        hak_heap_t *heap = hak_heap_at(*at);
        if (hak_load_relaxed(&heap->runs) && !purge_heap(heap, delay_ms, budget, &purged)) break;
        ++*at;
        if (hak_budget_is_spent(budget)) break;
    }
    return purged;
}

size_t hak_large_purge_sparse_piece(unsigned *at, hak_budget_t *budget) {
    size_t purged = 0;
    while ((*at = hak_lazy_table_next(&hak_heap_table, *at)) < HAK_HEAPS_MAX) {
        hak_heap_t *heap = hak_heap_at(*at);
        size_t bytes = hak_heap_purge_sparse(heap, budget);
        purged += bytes;
        if (bytes) {
            HAK_HOLD(&heap->lock);
            publish(heap, 0);
        }
        if (hak_budget_is_spent(budget)) break;
        ++*at;
    }
    return purged;
}
