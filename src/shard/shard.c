/* shard.c: takes batches of blocks, over all shards; functions for all bins of a shard. */
#include "shard/shard.h"

#include "debug/timing.h"
#include "debug/call_paths.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/numa_topology.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/flush.h"
#include "shard/remote.h"
#include "shard/sparse.h"
#include "shard/stock.h"
#include "shard/table.h"
#include "shard/warm_slab.h"

enum {
    SLABS_MOST = 4,        /* slabs that one take brings from the pool */
    DRAIN_MOST = 64,       /* blocks, so also slabs, that a sweep drains under one lock */
    DRAINS_MOST = 1 << 16, /* of one bin in one sweep */
    CHANGED_PART =
        32, /* a heap has changed when it has grown or shrunk by more than 1/CHANGED_PART */
    UNITS_LEAST = 16, /* in a smaller one the code that empties magazines costs as many pages */
    SEARCH_MOST = 16, /* other shards that a search examines while there is other memory */
};

/* In a cache line of their own: slow calls of all threads read them, and threads would write to
 * variables beside them. */
static struct {
    _Atomic unsigned shards; /* 0 until the first look; then it only grows */
    _Atomic unsigned homes;  /* the same, but it may fall; at most `shards` */
} HAK_ALIGNED(HAK_LINE) counts;

static unsigned wanted_count(void) {
    unsigned count = (unsigned)hak_option(HAK_OPTION_SHARDS);
    if (count == 0) count = hak_os_cpu_count();
    return hak_min(count, HAK_SHARDS_MAX);
}

unsigned hak_shard_count(void) {
    unsigned count = hak_load_relaxed(&counts.shards);
    if (HAK_UNLIKELY(count == 0)) {
        unsigned wanted = wanted_count();
        if (hak_cas_acquire(&counts.shards, &count, wanted)) count = wanted;
    }
    return count;
}

unsigned hak_shard_homes(void) {
    unsigned homes = hak_load_acquire(&counts.homes); /* partner: hak_shard_recount */
    return homes ? homes : hak_shard_count();
}

static HAK_NEXT unsigned home_by_cpu(void) {
    const unsigned homes = hak_shard_homes(), place = hak_os_this_cpu();
    if (hak_has_nodes()) return hak_node_home(place, homes);
    return place < homes ? place : place % homes;
}

unsigned hak_shard_here(void) { return hak_os_is_single_threaded() ? 0 : home_by_cpu(); }

HAK_NEXT void hak_shard_recount(void) {
    unsigned wanted = wanted_count();
    if (wanted > hak_shard_count()) hak_store_relaxed(&counts.shards, wanted);
    hak_store_release(&counts.homes, wanted); /* partner: hak_shard_homes */
}

void hak_shard_touch(unsigned home, unsigned class_index) {
    uint32_t none = 0;
    hak_cas_acquire(&hak_bin_of(home, class_index)->adopted, &none, 0);
}

bool hak_shard_has_slabs(unsigned home, unsigned class_index) {
    return hak_load_relaxed(&hak_bin_of(home, class_index)->adopted) != 0;
}

size_t hak_shard_in_use(unsigned class_index) {
    size_t blocks = 0;
    HAK_EACH_SHARD (shard) {
        const hak_bin_t *bin = hak_bin_of(shard, class_index);
        size_t touched = hak_load_relaxed(&bin->touched), spare = hak_load_relaxed(&bin->spare);
        blocks += touched - hak_min(spare, touched);
    }
    return blocks;
}

/* TINY_PROFILE=larson_guard: shards take empty slabs from each other, never used blocks,
 * unless there is no other memory. */
static bool only_empty_move(void) { return hak_option(HAK_OPTION_TINY_PROFILE) != 0; }

/* Other shards that are searched for used blocks. */
static unsigned probe_count(void) {
    return only_empty_move() ? 0 : (unsigned)hak_option(HAK_OPTION_TRYLOCK_PROBES);
}

/* True when a visit of the bin could bring blocks. Read without the lock. */
HAK_FAST_PATH bool has_free(const hak_bin_t *bin) {
    return hak_load_relaxed(&bin->listed_count) || hak_load_relaxed(&bin->pending);
}

/* The same, slabs that are bound to threads included. */
HAK_FAST_PATH bool may_give(unsigned shard, unsigned class_index) {
    return has_free(hak_bin_of(shard, class_index)) || hak_warm_any(shard, class_index);
}

uint32_t hak_shard_heap_units(void) { return hak_load_relaxed(&hak_pool_about.used_units); }

bool hak_shard_must_grow(unsigned home, unsigned class_index, uint32_t before) {
    if (may_give(home, class_index)) return false; /* first: no other CPU writes these lines */
    const uint32_t now = hak_shard_heap_units();
    return (now > before ? now - before : before - now) > before / CHANGED_PART &&
           now >= UNITS_LEAST && !hak_load_relaxed(&hak_pool_about.has_dirty) &&
           !hak_stock_has_former(home);
}

/* The number of shards of the node. Their used blocks are taken before fresh ones. */
static HAK_BEHIND hak_span_t span_of(unsigned home) {
    return hak_node_span(home, hak_shard_homes());
}
HAK_FAST_PATH hak_span_t near_of(unsigned home) {
    return hak_has_nodes() ? span_of(home) : HAK_ALL_NODES;
}

/* True when another shard's bin may bring used blocks. A bin that lists only slabs with fresh blocks is left out: a
 * visit would move its lock to this CPU for nothing. Without the lock. */
static bool may_give_used(unsigned shard, unsigned class_index) {
    const hak_bin_t *bin = hak_bin_of(shard, class_index);
    return hak_load_relaxed(&bin->spare) || hak_load_relaxed(&bin->pending) ||
           hak_warm_any(shard, class_index);
}

/* True when a search may take used blocks of another shard's bin: on few CPUs whenever there may be some, on more only
 * if there are many. The lines of such a block are in the other CPU's cache, it goes back by a remote free, and each
 * free of it reads a line of the map that the other shard writes. */
static HAK_NEXT bool may_spare(unsigned shard, unsigned class_index) {
    return hak_shard_is_plain(shard) ? may_give_used(shard, class_index)
                                     : hak_bin_lends(shard, class_index);
}

/* The same for the shards that may be searched for used blocks. */
static bool others_have_used(unsigned home, unsigned class_index) {
    unsigned probes = probe_count();
    if (probes == 0) return false;
    const hak_span_t near = near_of(home);
    for (unsigned at = hak_shard_near(home, near); at != home && probes--;
         at = hak_shard_near(at, near))
        if (may_spare(at, class_index)) return true;
    return false;
}

/* A request for blocks. */
typedef struct {
    unsigned home, class_index, want;
    void **top;
    hak_warm_t *warm; /* of the thread, which has found no block in it; or NULL */
    bool insists;     /* make a slab even if hak_shard_leaves is true */
    hak_told_t told;  /* result */
} request_t;

/* The blocks that a visit takes. SPARE: used ones, if the bin can spare them (may_spare). USED: used ones of any bin.
 * USED_FIRST: used ones, and fresh ones if no other shard may have used ones. ANY: both. */
typedef enum { SPARE, USED, USED_FIRST, ANY } what_t;

static unsigned take(request_t *request, hak_bin_t *bin, bool fresh) {
    return hak_bin_take(bin, request->class_index, request->want, request->top, fresh,
                        &request->told);
}

/* Takes from listed slabs, else from a slab that is bound to another thread. */
static unsigned take_listed(request_t *request, hak_bin_t *bin, unsigned shard, what_t what) {
    unsigned class_index = request->class_index;
    bool only_fresh = what == USED_FIRST && hak_load_relaxed(&bin->spare) == 0;
    unsigned taken = only_fresh ? 0 : take(request, bin, what == ANY);
    if (!taken && hak_warm_any(shard, class_index) &&
        hak_warm_release_one(bin, shard, class_index, what == ANY))
        taken = take(request, bin, what == ANY);
    if (!taken && what == USED_FIRST && bin->head && !others_have_used(request->home, class_index))
        taken = take(request, bin, true);
    return taken;
}

/* Visits a bin whose lock is held, and releases the lock. Also ends the caller's section of the gate:
 * until then a released slab belongs to nobody, and a fork must not see that. */
static unsigned take_locked(request_t *request, hak_bin_t *bin, unsigned shard, what_t what) {
    unsigned class_index = request->class_index;
    hak_warm_t *warm = shard == request->home ? request->warm : NULL;
    hak_unit_t *released = NULL;
    uint32_t most = (uint32_t)hak_option(HAK_OPTION_POOL_DRAIN_MAX);
    hak_bin_counts_t *figures = hak_bin_counts(shard, class_index);
    hak_bin_count_in(figures, class_index, HAK_SHARD_LOCKS, 1);
    if (HAK_UNLIKELY(warm != NULL)) hak_warm_release_used_up(warm, bin);
    if (!bin->head || what != ANY)
        released = hak_remote_drain(bin, shard, class_index, &most, &request->told.twice);
    unsigned taken = take_listed(request, bin, shard, what);
    if (taken) {
        hak_store_relaxed(&bin->rests, 0);
        hak_bin_count_in(figures, class_index, HAK_SHARD_MISSES, 1);
        hak_bin_count_in(figures, class_index, HAK_SHARD_TAKEN, taken);
        if (shard != request->home) hak_bin_count_in(figures, class_index, HAK_SHARD_PROBED, taken);
        if (HAK_UNLIKELY(warm != NULL)) hak_warm_prefill(warm, bin);
    }
    hak_lock_release_inside(&bin->lock);
    if (HAK_UNLIKELY(released != NULL)) hak_slab_release_list(released, shard, class_index, true);
    hak_gate_leave();
    return taken;
}

static unsigned take_from(request_t *request, unsigned shard, what_t what) {
    const unsigned class_index = request->class_index;
    hak_bin_t *bin = hak_bin_of(shard, class_index);
    const bool may = what == SPARE  ? may_spare(shard, class_index)
                     : what == USED ? may_give_used(shard, class_index)
                                    : may_give(shard, class_index);
    if (!may) return 0;
    hak_gate_enter();
    HAK_TIME_MID(pool_lock, class_index, hak_lock_acquire_inside(&bin->lock));
    return take_locked(request, bin, shard, what);
}

/* Searches the next `probes` shards: shards of all nodes for ANY blocks, otherwise only those of the caller's node. It
 * waits for their locks, because a wait is shorter than the page fault that skipping the shard would cost. */
static HAK_NEXT unsigned search_others(request_t *request, what_t what, unsigned probes) {
    unsigned home = request->home, taken = 0;
    const hak_span_t near = what == ANY ? HAK_ALL_NODES : near_of(home);
    for (unsigned at = hak_shard_near(home, near); at != home && probes-- && !taken;
         at = hak_shard_near(at, near))
        taken = take_from(request, at, what);
    return taken;
}

static unsigned take_from_others(request_t *request, what_t what, unsigned probes) {
    if (probes == 0 || hak_shard_after(request->home) == request->home) return 0;
    return search_others(request, what, probes);
}

/* Enters slabs that belong to nobody in the home bin, and takes blocks from there. The caller has been inside the gate
 * since it took the slabs; this function leaves the gate. */
static unsigned take_from_new(request_t *request, hak_unit_t *const *slabs, unsigned count) {
    unsigned home = request->home, class_index = request->class_index;
    hak_bin_t *bin = hak_bin_of(home, class_index);
    bool logs = hak_option(HAK_OPTION_TINY_PAGEBOX_LOG) != 0;
    for (unsigned i = 0; HAK_UNLIKELY(logs) && i < count; i++)
        hak_bin_log_hand_over("acquire", slabs[i], class_index);
    HAK_TIME_MID(pool_lock, class_index, hak_lock_acquire_inside(&bin->lock));
    for (unsigned i = 0; i < count; i++) hak_bin_adopt(bin, home, class_index, slabs[i]);
    return take_locked(request, bin, home, ANY);
}

_Atomic uint32_t hak_shard_grown HAK_OWN_LINE;
_Atomic uint32_t hak_shard_visits_due HAK_OWN_LINE;

/* Notes that sparse pages should be purged, after `units` came from the pool: always when the heap has grown
 * for them, otherwise now and then. The work is done at the end of the call (thread/purge_trigger.c). */
static void note_taken(unsigned units, bool has_grown) {
    if (units == 0 || hak_shard_heap_is_small()) return;
    if (HAK_UNLIKELY(has_grown)) {
        hak_add_relaxed(&hak_shard_grown, (unsigned)hak_max(units, hak_superslab_units()));
        hak_budget_note(HAK_NOTE_GROWN);
    } else if (hak_shard_may_visit(false) && hak_shard_count_taken(units)) {
        hak_add_relaxed(&hak_shard_visits_due, 1);
        hak_budget_note(HAK_NOTE_VISIT);
    }
}

/* Slabs that one take brings from the pool. For a class with one block in a slab: several, for half
 * of the batch, in one critical section of the pool and one of the bin. For classes with two or more
 * blocks in a slab the same cost 2 to 3 % of RSS, because slabs that were taken but not used had to be
 * purged again. */
static unsigned slabs_wanted(request_t *request) {
    if (hak_classes[request->class_index].count > 1 || request->want < 4) return 1;
    return (unsigned)hak_min(request->want / 2, SLABS_MOST);
}

/* A second look at the home bin, with units in hand: while the caller waited for the pool or for its CPU, another
 * thread may have brought a slab. With very many threads, each would otherwise bring a slab and use few of its blocks.
 * True when the home bin served the request; then the units have gone back. Inside the gate. */
static HAK_BEHIND bool is_served_by_others(request_t *request, hak_unit_t *const *units,
                                           const bool *fresh, unsigned count, unsigned *taken) {
    *taken = take_from(request, request->home, ANY);
    for (unsigned i = 0; *taken && i < count; i++) hak_pool_give_unused(units[i], fresh[i]);
    return *taken != 0;
}

static unsigned take_from_pool(request_t *request) {
    unsigned class_index = request->class_index;
    if (hak_shard_leaves(class_index) && !request->insists) return 0;
    hak_unit_t *slabs[SLABS_MOST];
    bool fresh[SLABS_MOST], grown;
    unsigned taken, drawn, made = 0, most = slabs_wanted(request);
    hak_gate_enter();
    HAK_TIME_MID(pool_alloc_tls_page, class_index,
                 taken = hak_stock_take(request->home, most, slabs, fresh, &drawn, &grown));
    note_taken(drawn, grown);
    unsigned found;
    if (HAK_UNLIKELY(has_free(hak_bin_of(request->home, class_index))) &&
        is_served_by_others(request, slabs, fresh, taken, &found)) {
        hak_gate_leave();
        return found;
    }
    for (unsigned i = 0; i < taken; i++) {
        if (hak_slab_make(slabs[i], request->home, class_index, fresh[i]))
            slabs[made++] = slabs[i];
        else
            hak_pool_give_unused(slabs[i], fresh[i]);
    }
    if (made) return take_from_new(request, slabs, made);
    hak_gate_leave();
    return 0;
}

/* The work of a sweep in a bin. */
typedef struct {
    unsigned age; /* sweeps that the kept empty slab has seen when it is released */
    uint32_t
        most; /* blocks that are drained, or a little more; answer: 0 when there may be others */
    bool any_warm;     /* some bin has warm slabs */
    bool keeps;        /* the shard keeps some slabs for its other classes */
    unsigned patience; /* milliseconds that it may still wait for locks that other threads hold */
    hak_twice_t twice; /* answer; blocks that were found free already */
} visit_t;

/* Waits for a bin's lock, outside the gate: the holder's fork, in a signal handler, would wait for this thread. */
static HAK_BEHIND bool wait_for(hak_bin_t *bin, unsigned *patience) {
    for (; *patience; --*patience) {
        hak_gate_leave();
        hak_os_sleep_ms(1);
        hak_gate_enter();
        if (hak_lock_try_apart(&bin->lock)) return true;
    }
    return false;
}

/* Drains a bin, takes back unused slabs that are bound to threads, and releases the kept empty slab. Does nothing if
 * another thread holds the bin's lock for too long. Returns the number of looks: one for the bin, one for each drained
 * block and each released slab; 0 if there was nothing to do. */
static HAK_NEXT uint32_t drain_and_release(unsigned shard, unsigned class_index, visit_t *visit) {
    hak_bin_t *bin = hak_bin_of(shard, class_index);
    bool warm =
        visit->any_warm && hak_load_relaxed(&hak_warm_ring_of(shard, class_index)->count) != 0;
    if (!hak_load_relaxed(&bin->pending) && !hak_load_relaxed(&bin->empty) && !warm) return 0;
    hak_gate_enter();
    if (!hak_lock_try_apart(&bin->lock) && !(visit->patience && wait_for(bin, &visit->patience))) {
        hak_gate_leave();
        return 1;
    }
    const uint32_t most = visit->most;
    hak_unit_t *slab = NULL,
               *released = hak_remote_drain(bin, shard, class_index, &visit->most, &visit->twice);
    if (HAK_LIKELY(visit->most != 0)) {
        if (HAK_UNLIKELY(warm)) released = hak_warm_release_idle(bin, shard, class_index, released);
        slab = bin->empty_age++ >= visit->age ? hak_bin_release_empty(bin) : NULL;
    }
    if (slab) {
        slab->next = released;
        released = slab;
    }
    hak_lock_release_inside(&bin->lock);
    const uint32_t count = hak_slab_release_list(released, shard, class_index, visit->keeps);
    hak_gate_leave();
    return 1 + most - visit->most + count;
}

HAK_FAST_PATH void report(const hak_twice_t *twice, unsigned class_index) {
    if (HAK_UNLIKELY(twice->bits != 0)) hak_shard_report_twice(twice, class_index);
}

HAK_NEXT void hak_shard_release_kept(unsigned home, unsigned class_index) {
    if (!hak_bin_has_pages(hak_bin_of(home, class_index), class_index)) return;
    visit_t visit = {.most = DRAIN_MOST, .keeps = true};
    drain_and_release(home, class_index, &visit);
    report(&visit.twice, class_index);
}

static _Atomic uint64_t budget_hits, adopted_empty;

uint64_t hak_shard_budget_hits(void) { return hak_load_relaxed(&budget_hits); }
uint64_t hak_shard_adopted_empty(void) { return hak_load_relaxed(&adopted_empty); }

/* True when a shard has as many slabs as SS_BUDGET allows, and must reclaim memory before it takes another slab. */
static bool at_budget(unsigned shard) {
    uint64_t budget = (uint64_t)hak_option(HAK_OPTION_SS_BUDGET);
    return HAK_UNLIKELY(budget != 0) && hak_bin_slab_count(shard) >= budget * hak_superslab_units();
}

/* Serves a request of a shard that is at its budget. Releases the empty slabs of all its bins, so that the
 * pool has units with pages, and merges remote frees. If that is not enough, asks all other shards. The
 * budget alone never makes a request fail. */
static HAK_BEHIND unsigned release_own(request_t *request) {
    hak_add_relaxed(&budget_hits, 1);
    visit_t visit = {
        .any_warm = hak_load_relaxed(&hak_warm_seen), .keeps = true, .twice = request->told.twice};
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        visit.most = UINT32_MAX;
        drain_and_release(request->home, i, &visit);
    }
    request->told.twice = visit.twice;
    unsigned taken = take_from(request, request->home, ANY);
    if (taken || !at_budget(request->home) || only_empty_move()) return taken;
    return take_from_others(request, USED, SEARCH_MOST);
}

/* Takes over the empty slab that another shard keeps for the class. */
static HAK_BEHIND unsigned adopt_empty(request_t *request) {
    unsigned home = request->home, left = SEARCH_MOST;
    hak_unit_t *slab = NULL;
    hak_gate_enter();
    for (unsigned at = hak_shard_after(home); at != home && left-- && !slab;
         at = hak_shard_after(at)) {
        hak_bin_t *other = hak_bin_of(at, request->class_index);
        if (!hak_load_relaxed(&other->listed_count) || !hak_lock_try(&other->lock)) continue;
        slab = hak_bin_release_empty(other);
        hak_lock_release(&other->lock);
    }
    if (!slab) {
        hak_gate_leave();
        return 0;
    }
    if (HAK_UNLIKELY(!hak_slab_moves(slab, request->class_index))) {
        slab->next = NULL;
        hak_slab_release_list(slab, home, request->class_index, false);
        hak_gate_leave();
        return 0;
    }
    hak_add_relaxed(&adopted_empty, 1);
    return take_from_new(request, &slab, 1);
}

/* Used blocks come first, in whichever shard they are, because their pages exist. */
static unsigned take_anywhere(request_t *request) {
    unsigned home = request->home;
    HAK_TIMED_MID(pool_refill, request->class_index);
    unsigned taken = HAK_WAY_FOUND(HAK_WAY_REFILL_OWN, take_from(request, home, USED_FIRST));
    if (!taken)
        taken =
            HAK_WAY_FOUND(HAK_WAY_REFILL_OTHERS, take_from_others(request, SPARE, probe_count()));
    if (!taken) taken = HAK_WAY_FOUND(HAK_WAY_REFILL_OWN_FRESH, take_from(request, home, ANY));
    if (!taken && HAK_UNLIKELY(at_budget(home)))
        taken = HAK_WAY_FOUND(HAK_WAY_REFILL_BUDGET, release_own(request));
    if (!taken && HAK_UNLIKELY(only_empty_move()))
        taken = HAK_WAY_FOUND(HAK_WAY_REFILL_EMPTY, adopt_empty(request));
    if (!taken) taken = HAK_WAY_FOUND(HAK_WAY_REFILL_POOL, take_from_pool(request));
    if (!taken)
        taken = HAK_WAY_FOUND(HAK_WAY_REFILL_OTHERS_ANY,
                              take_from_others(request, ANY, HAK_SHARDS_MAX));
    if (!taken) HAK_COUNT_WAY(HAK_WAY_REFILL_NONE);
    return taken;
}

HAK_BEHIND unsigned hak_shard_take_inside(unsigned home, unsigned class_index, unsigned want,
                                          void **top, hak_twice_t *twice) {
    request_t request = {.home = home, .class_index = class_index, .want = want, .top = top};
    unsigned taken = take_anywhere(&request);
    *twice = request.told.twice;
    return taken;
}

/* The program's handler of SIGABRT may jump away: what was taken goes back first. */
HAK_BEHIND void hak_shard_untake(unsigned home, unsigned class_index, void **top, unsigned taken,
                                 const hak_twice_t *twice) {
    const unsigned bad = taken ? hak_shard_flush_all_inside(home, class_index, top + 1, taken) : 0;
    hak_shard_report_twice(twice, class_index);
    hak_shard_report_all(top + 1, bad, class_index);
}

/* Also reports blocks that were freed twice, and then takes again. */
HAK_FAST_PATH unsigned take_and_tell(request_t *request, unsigned (*take_once)(request_t *)) {
    for (;;) {
        request->told.twice.bits = 0;
        const unsigned taken = take_once(request);
        if (HAK_LIKELY(!request->told.twice.bits)) return taken;
        hak_shard_untake(request->home, request->class_index, request->top, taken,
                         &request->told.twice);
    }
}

unsigned hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                        bool *zeroed) {
    request_t request = {home, class_index, want, top, NULL, false, {zeroed, {0}}};
    return take_and_tell(&request, take_anywhere);
}

HAK_NEXT unsigned hak_shard_take_warm(unsigned home, unsigned class_index, unsigned want,
                                      void **top, hak_warm_t *warm) {
    request_t request = {home, class_index, want, top, warm, false, {0}};
    return take_and_tell(&request, take_anywhere);
}

HAK_BEHIND void *hak_shard_take_last(unsigned home, unsigned class_index, bool *zeroed) {
    void *one[2];
    request_t request = {home, class_index, 1, one, NULL, true, {zeroed, {0}}};
    return take_and_tell(&request, take_from_pool) ? one[1] : NULL;
}

/* Visits the bins one by one. Skips a bin whose lock is held: it is not idle; unless all is to go back, since its holder
 * may have lost its CPU. Leaves a bin after DRAINS_MOST drains, in case remote frees come faster than it drains them. A
 * shard costs a look, too: on a machine with many CPUs the bins alone are many lines. */
HAK_NEXT bool hak_shard_release_piece(hak_walk_t *walk, unsigned *patience, hak_budget_t *budget) {
    visit_t visit = {.age = !patience,
                     .any_warm = hak_load_relaxed(&hak_warm_seen),
                     .patience = patience ? *patience : 0};
    for (; walk->shard < hak_shard_count(); walk->shard++, walk->class_index = 0) {
        if (!hak_shard_is_made(walk->shard)) continue;
        if (walk->class_index == 0) hak_stock_release(walk->shard);
        while (walk->class_index < HAK_CLASS_COUNT) {
            if (hak_budget_is_spent(budget)) return false;
            visit.most = hak_min(budget->looks, DRAIN_MOST);
            visit.twice.bits = 0;
            hak_budget_look(budget, drain_and_release(walk->shard, walk->class_index + 1, &visit));
            if (patience) *patience = visit.patience;
            report(&visit.twice, walk->class_index + 1);
            if (visit.most == 0 && ++walk->left < DRAINS_MOST) continue;
            walk->class_index++;
            walk->left = 0;
        }
        hak_budget_look(budget, 1);
    }
    return true;
}

HAK_BEHIND void hak_shard_release_idle(void) {
    hak_walk_t walk = {0};
    hak_budget_t budget = HAK_BUDGET_ALL;
    hak_shard_release_piece(&walk, NULL, &budget);
}
