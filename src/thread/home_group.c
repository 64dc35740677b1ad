/* home_group.c: who is at home in the shards of a group, and which caches wait there. */
#include "thread/home_group.h"

#include <limits.h>
#include <string.h>

#include "options/options.h"
#include "os/cpu.h"
#include "os/gate.h"
#include "os/lock.h"
#include "os/numa_topology.h"
#include "os/os.h"
#include "shard/shard.h"
#include "thread/silent_exit.h"
#include "thread/cache_budget.h"

enum { SHARDS = 8, GROUPS = HAK_SHARDS_MAX / SHARDS, TELLING = INT_MAX };
/* Threads that a group takes beyond its share before others go to the next one. A program makes its threads one after
 * another, and each counts where it runs: with fewer, the first groups send some of them away while few threads have
 * begun, and a thread whose home is another CPU's shard stays there. */
enum { SLACK = 2 * SHARDS };

/* A stack of caches that wait with blocks. Starts and ends on one CPU mostly use that of the CPU. */
typedef struct {
    _Atomic(hak_cache_t *) newest HAK_ALIGNED(HAK_LINE);
} holding_t;

/* threads = sum over `homes`, while no thread starts; threads <= told, and threads > told / fall_part
 * unless both are 0. */
typedef struct {
    hak_lock_t lock;
    uint16_t full;   /* lock; caches that wait with blocks, and those of ending threads that will */
    uint16_t ending; /* lock; the latter */
    _Atomic(hak_cache_t *) empty; /* written under the lock, as the next two; a stack of caches that
                                     wait without blocks: there may be very many */
    _Atomic unsigned homes[SHARDS]; /* threads at home in each shard */
    holding_t holding[SHARDS];      /* by the CPU that the last thread ended on */
    /* In a line that waiting for the lock does not move. */
    _Atomic unsigned threads HAK_ALIGNED(HAK_LINE); /* atomic; from their choice of the group on */
    _Atomic unsigned told; /* atomic; the part of `threads` in the process's count, or TELLING */
} HAK_ALIGNED(HAK_LINE) group_t;

_Static_assert(sizeof(group_t) == (size_t)(2 + SHARDS) * HAK_LINE,
               "a start or an end uses three of these lines");

static group_t first HAK_OWN_LINE; /* small processes have no other */
static group_t others[GROUPS - 1] HAK_APART;

static group_t *group_at(unsigned number) { return number ? &others[number - 1] : &first; }

static group_t *group_of(unsigned shard) { return group_at(shard / SHARDS); }

static unsigned groups_of(unsigned shards) { return (shards + SHARDS - 1) / SHARDS; }

/* Homes in a group, of `count` in all. */
static unsigned homes_in(unsigned number, unsigned count) {
    return hak_min(count - number * SHARDS, SHARDS);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

/* A group tells a fall to a half; on a large machine those behind the first one tell only a fall to a quarter. There a
 * thread for each CPU that starts another one and ends makes the group swing between one thread and two for each CPU,
 * and each tale moves a line that all groups read. */
HAK_FAST_PATH unsigned fall_part(const group_t *group) { return group == &first ? 2 : 4; }

/* `all`: tells each difference. */
static void tell(group_t *group, bool all) {
    for (;;) {
        unsigned told = atomic_load(&group->told), now = atomic_load(&group->threads);
        if (all ? now == told : now <= told && (now > told / fall_part(group) || !told)) return;
        if (told == TELLING || !atomic_compare_exchange_strong(&group->told, &told, TELLING))
            return; /* T2 */
        now = atomic_load(&group->threads);
        hak_thread_add(now - told);
        atomic_store(&group->told, now); /* T3 */
    }
}

/* Returns how many threads there were before. */
static unsigned add(group_t *group, unsigned more) {
    const unsigned before = atomic_fetch_add(&group->threads, more); /* T1 */
    tell(group, false);
    return before;
}

void hak_group_tell_all(void) {
    for (unsigned number = 0; number < groups_of(hak_shard_count()); number++)
        tell(group_at(number), true);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static void count_full(group_t *group) {
    group->full = group->ending;
    for (unsigned i = 0; i < SHARDS; i++)
        for (const hak_cache_t *cache = hak_load_relaxed(&group->holding[i].newest); cache;
             cache = cache->next_waiting)
            group->full++;
}

/* The end of steps under the lock that began in `process`. If a signal handler forked in the midst of them,
 * its child has counted already. Lock held. */
static void settle(group_t *group, uint32_t process) {
    if (HAK_UNLIKELY(process != hak_gate_process())) count_full(group);
}

/* The stack of caches that hold blocks and were last used on a CPU of the group, or else were at home in `shard`. */
static _Atomic(hak_cache_t *) *holding_of(group_t *group, unsigned cpu, unsigned shard) {
    return &group->holding[(group_of(cpu) == group ? cpu : shard) % SHARDS].newest;
}

/* Lock held. */
static void push(group_t *group, hak_cache_t *cache, bool holds) {
    _Atomic(hak_cache_t *) *stack =
        holds ? holding_of(group, hak_shard_here(), cache->shard) : &group->empty;
    cache->holds = holds;
    cache->next_waiting = hak_load_relaxed(stack);
    hak_store_relaxed(stack, cache);
}

/* Takes a cache from a stack; NULL when it is empty. Lock held. */
static hak_cache_t *pop(group_t *group, _Atomic(hak_cache_t *) *stack) {
    const uint32_t process = hak_gate_process();
    hak_cache_t *cache = hak_load_relaxed(stack);
    if (!cache) return NULL;
    hak_store_relaxed(stack, cache->next_waiting);
    group->full -= cache->holds;
    settle(group, process);
    return cache;
}

/* Takes a cache that holds blocks: the last one of CPU `cpu`, whose lines are in that CPU's caches, or of one of the
 * `cpus` - 1 next ones. Lock held. */
static HAK_OUT_OF_LINE hak_cache_t *pop_holding(group_t *group, unsigned cpu, unsigned cpus) {
    hak_cache_t *cache = NULL;
    for (unsigned i = 0; i < cpus && !cache; i++)
        cache = pop(group, &group->holding[(cpu + i) % SHARDS].newest);
    return cache;
}

static bool has_holding(const group_t *group) {
    for (unsigned i = 0; i < SHARDS; i++)
        if (hak_load_relaxed(&group->holding[i].newest)) return true;
    return false;
}

/* Takes a cache that holds blocks or, if `any`, an empty one, if there is one; from group `number` on,
 * of any group. Takes a lock only where a cache seems to wait. */
static HAK_NEXT hak_cache_t *pop_of_all(unsigned number, bool any) {
    const unsigned count = groups_of(hak_shard_count());
    hak_cache_t *cache = NULL;
    for (unsigned left = count; left && !cache; left--, number++) {
        group_t *group = group_at(number % count);
        bool empty = any && hak_load_relaxed(&group->empty);
        if (!empty && !has_holding(group)) continue;
        HAK_HOLD(&group->lock);
        if (empty) cache = pop(group, &group->empty);
        if (!cache) cache = pop_holding(group, 0, SHARDS);
        if (cache) hak_gate_take(&cache->post);
    }
    return cache;
}

/* ---- Starts ---------------------------------------------------------------------------------- */

/* False if a group has its share of the threads, and `more` besides; `self` is 1 if the caller does not
 * count yet. For a few threads nobody looks at the process's count. */
static bool has_room(unsigned number, unsigned count, unsigned self, unsigned in_group,
                     unsigned more) {
    return in_group < more ||
           in_group < (hak_thread_count() + self) * homes_in(number, count) / count + more;
}

/* Counts the caller in a group, if that has room. */
static bool enter(unsigned number, unsigned count, unsigned more) {
    group_t *group = group_at(number);
    if (!has_room(number, count, 1, hak_load_relaxed(&group->threads), more)) return false;
    if (has_room(number, count, 0, add(group, 1u), more)) return true;
    add(group, -1u); /* another thread was faster */
    return false;
}

static HAK_BEHIND hak_span_t span_of(unsigned shard, unsigned count) {
    const hak_span_t near = hak_node_span(shard, count);
    return (hak_span_t){near.first, hak_min(near.end, count)};
}

/* Homes of the node, of `count` in all. */
HAK_FAST_PATH hak_span_t near_of(unsigned shard, unsigned count) {
    return hak_has_nodes() ? span_of(shard, count) : (hak_span_t){0, count};
}

/* Enters the next group of the node with less than its share or, if there is none, with no more. Returns
 * a shard of it. */
static HAK_BEHIND unsigned enter_next(unsigned shard, unsigned count) {
    const hak_span_t near = near_of(shard, count);
    const unsigned begin = near.first / SHARDS, end = groups_of(near.end);
    unsigned number = shard / SHARDS;
    for (unsigned more = 0; more <= 1; more++)
        for (unsigned left = end - begin; left;
             left--, number = number + 1 < end ? number + 1 : begin)
            if (enter(number, count, more)) return hak_max((size_t)number * SHARDS, near.first);
    add(group_at(number), 1u);
    return hak_max((size_t)number * SHARDS, near.first);
}

/* Makes the shard of a seat; without memory for it the first one, which exists. */
static HAK_BEHIND hak_seat_t open_seat(hak_seat_t seat) {
    if (hak_shard_open(seat.shard) == seat.shard) return seat;
    hak_group_give_up(seat);
    seat.shard = 0;
    add(&first, 1u);
    return seat;
}

hak_seat_t hak_group_choose(void) {
    hak_nodes_begin();
    const unsigned count = hak_shard_homes(), cpu = hak_shard_here() % count;
    const bool mixes = count > SHARDS && hak_option(HAK_OPTION_SHARD_MIX);
    hak_seat_t seat = {.shard = cpu, .count = count};
    if (!enter(cpu / SHARDS, count, mixes ? SLACK : UINT_MAX)) seat.shard = enter_next(cpu, count);
    return HAK_LIKELY(seat.shard < SHARDS) ? seat : open_seat(seat);
}

void hak_group_give_up(hak_seat_t seat) { add(group_of(seat.shard), -1u); }

/* On a large machine where threads outnumber CPUs: the shard of the CPU, if it has few more threads than `best`, which
 * has the fewest. The records of a shard are in the cache of the CPU that uses it. Lock held. */
static HAK_BEHIND unsigned nearer(const _Atomic unsigned *homes, unsigned best, hak_seat_t seat) {
    const unsigned least = hak_load_relaxed(&homes[best % SHARDS]);
    const unsigned here = hak_load_relaxed(&homes[seat.shard % SHARDS]);
    return least > 1 && here <= least + 1 + least / 2 ? seat.shard : best;
}

/* The home of a thread: the shard of its cache's last thread, if that has no more than its share of the
 * group's threads, or the one that has the fewest; or that of its CPU. A cache may change its shard with
 * its thread, since each block in a magazine goes back to its own slab, whichever shard owns that. Lock
 * held. */
static unsigned home_of(const group_t *group, const hak_cache_t *cache, hak_seat_t seat) {
    const unsigned number = seat.shard / SHARDS, start = number * SHARDS, last = cache->shard;
    const hak_span_t near = near_of(seat.shard, seat.count);
    const unsigned from = hak_max(start, near.first);
    const unsigned to = hak_min(start + SHARDS, near.end);
    const _Atomic unsigned *homes = group->homes;
    unsigned best = seat.shard;
    const bool mixes = hak_option(HAK_OPTION_SHARD_MIX);
    if (mixes && last >= from && last < to &&
        hak_load_relaxed(&homes[last - start]) * homes_in(number, seat.count) <
            hak_load_relaxed(&group->threads))
        return last;
    for (unsigned shard = from; mixes && shard < to; shard++)
        if (hak_load_relaxed(&homes[shard - start]) < hak_load_relaxed(&homes[best - start]))
            best = shard;
    if (HAK_UNLIKELY(seat.count > SHARDS)) best = nearer(homes, best, seat);
    if (hak_shard_open(best) == best) return best;
    return start ? seat.shard : 0; /* there is no memory for it */
}

/* The thread counts in its home, and has its post. Lock held. */
static void count_home(group_t *group, hak_cache_t *cache, unsigned home) {
    hak_gate_take(&cache->post);
    HAK_ADD_OWNED(&group->homes[home % SHARDS], 1u);
}

/* Notes in the cache what it knows of its thread. */
static void move_in(hak_cache_t *cache, unsigned home) {
    const unsigned process = hak_os_process_id(), tid = hak_os_thread_id();
    memset(cache->streak, 0, sizeof cache->streak); /* a stream belongs to one thread */
    hak_lock_acquire(&cache->stack_lock);
    cache->tid = tid;
    cache->process = process;
    cache->shard = (uint8_t)home;
    hak_lock_release(&cache->stack_lock);
    hak_store_relaxed(&cache->place, hak_os_thread());
    cache->born = cache->slow_count;
}

/* A lost cache stays lost until it knows its thread. */
void hak_group_join(hak_cache_t *cache, hak_seat_t seat) {
    group_t *group = group_of(seat.shard);
    HAK_HOLD(&group->lock);
    const unsigned home = home_of(group, cache, seat);
    move_in(cache, home);
    count_home(group, cache, home);
}

/* The CPUs of the group whose caches with blocks a start may take: all, or only its own. Each line and each block of
 * another CPU's cache would move here. So on a large machine a start takes no such cache while few wait, fewer than one
 * for every two CPUs or threads: that of its own CPU is still on its way, since a thread begins before the last one has
 * ended. Lock held. */
static HAK_BEHIND unsigned cpus_asked(const group_t *group, hak_seat_t seat, bool any) {
    const unsigned homes = homes_in(seat.shard / SHARDS, seat.count);
    any = any || group->full >= hak_min(homes, hak_load_relaxed(&group->threads)) / 2;
    return any ? SHARDS : 1;
}

static HAK_BEHIND hak_cache_t *take_elsewhere(hak_seat_t seat, unsigned cpus) {
    hak_cache_t *cache = cpus == SHARDS ? pop_of_all(seat.shard / SHARDS, true) : NULL;
    if (cache) hak_group_join(cache, seat);
    return cache;
}

hak_cache_t *hak_group_take(hak_seat_t seat, bool any) {
    group_t *group = group_of(seat.shard);
    hak_cache_t *cache;
    unsigned cpus = SHARDS;
    hak_lock_acquire(&group->lock);
    if (HAK_UNLIKELY(seat.count > SHARDS)) cpus = cpus_asked(group, seat, any);
    cache = pop_holding(group, seat.shard, cpus);
    if (!cache) cache = pop(group, &group->empty);
    const unsigned home = cache ? home_of(group, cache, seat) : 0;
    if (cache) count_home(group, cache, home);
    hak_lock_release(&group->lock);
    if (cache) move_in(cache, home); /* it is the caller's; others wait for the lock */
    return cache || hak_shard_count() <= SHARDS ? cache : take_elsewhere(seat, cpus);
}

bool hak_group_has_waiting(void) {
    const group_t *group = group_of(hak_shard_here());
    return hak_load_relaxed(&group->empty) || has_holding(group);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* One for each CPU and, on a large machine, those that cpus_asked lets starts make. */
static HAK_BEHIND unsigned full_most(const hak_cache_t *cache) {
    const unsigned count = hak_shard_homes(), shard = hak_min(cache->shard, count - 1);
    const unsigned homes = homes_in(shard / SHARDS, count);
    const unsigned most = (hak_os_cpu_count() * homes + count - 1) / count;
    return count > SHARDS ? most + most / 2 : most;
}

HAK_BEHIND bool hak_group_many(void) { return hak_shard_homes() > SHARDS; }

bool hak_group_may_keep(const hak_cache_t *cache) {
    group_t *group = group_of(cache->shard);
    const unsigned most = full_most(cache);
    HAK_HOLD(&group->lock);
    const uint32_t process = hak_gate_process();
    const bool keeps = group->full < most;
    group->full += keeps;
    group->ending += keeps;
    settle(group, process);
    return keeps;
}

/* The thread of a cache no longer counts. Lock held. */
static void uncount(group_t *group, hak_cache_t *cache) {
    hak_lock_acquire(&cache->stack_lock);
    cache->tid = 0;
    hak_lock_release(&cache->stack_lock);
    hak_store_relaxed(&cache->place, 0);
    HAK_ADD_OWNED(&group->homes[cache->shard % SHARDS], -1u);
    add(group, -1u);
}

void hak_group_leave(hak_cache_t *cache, bool keeps) {
    group_t *group = group_of(cache->shard);
    hak_silent_exit_clear(cache);
    HAK_HOLD(&group->lock);
    const uint32_t process = hak_gate_process();
    uncount(group, cache);
    group->ending -= keeps;
    push(group, cache, keeps);
    settle(group, process);
    hak_gate_release(&cache->post);
}

HAK_BEHIND void hak_group_forget(hak_cache_t *cache) {
    group_t *group = group_of(cache->shard);
    HAK_HOLD(&group->lock);
    uncount(group, cache); /* A2 of silent_exit.h */
}

hak_cache_t *hak_group_take_full(void) { return pop_of_all(0, false); }

void hak_group_put_back(hak_cache_t *cache, bool holds) {
    group_t *group = group_of(cache->shard);
    HAK_HOLD(&group->lock);
    const uint32_t process = hak_gate_process();
    push(group, cache, holds);
    group->full += holds;
    settle(group, process);
    hak_gate_release(&cache->post);
}

HAK_BEHIND unsigned hak_group_full(void) {
    unsigned full = 0;
    for (unsigned number = 0; number < groups_of(hak_shard_count()); number++) {
        HAK_HOLD(&group_at(number)->lock);
        full += group_at(number)->full;
    }
    return full;
}

/* ---- Looks, and forks ------------------------------------------------------------------------ */

HAK_NEXT unsigned hak_group_estimate(void) {
    const unsigned number = hak_shard_here() / SHARDS;
    return hak_max(hak_thread_count(), hak_load_relaxed(&group_at(number)->threads));
}

HAK_BEHIND unsigned hak_group_most(void) {
    size_t most = 0;
    for (unsigned number = 0; number < groups_of(hak_shard_count()); number++)
        for (unsigned i = 0; i < SHARDS; i++)
            most = hak_max(most, hak_load_relaxed(&group_at(number)->homes[i]));
    return (unsigned)most;
}

/* `own` alone has a thread, if it is of this group. */
static HAK_BEHIND void count_alone(group_t *group, const hak_cache_t *own) {
    const bool counts = own && group_of(own->shard) == group;
    group->ending = 0;
    count_full(group);
    for (unsigned i = 0; i < SHARDS; i++)
        hak_store_relaxed(&group->homes[i], counts && own->shard % SHARDS == i);
    hak_store_relaxed(&group->threads, counts);
    hak_store_relaxed(&group->told, counts);
}

void hak_group_forget_others(const hak_cache_t *own) {
    for (unsigned number = 0; number < groups_of(hak_shard_count()); number++)
        count_alone(group_at(number), own);
    hak_thread_recount(own != NULL);
}

void hak_group_settle(const hak_cache_t *own) {
    for (unsigned number = 0; number < groups_of(hak_shard_count()); number++) {
        HAK_HOLD(&group_at(number)->lock);
        count_alone(group_at(number), own);
    }
    hak_thread_recount(own != NULL);
}

/* ---- check ---- */

static HAK_BEHIND size_t check_stack(hak_check_t *check, const group_t *group,
                                     const hak_cache_t *cache, bool holds, size_t most) {
    size_t count = 0;
    for (; cache && count <= most; cache = cache->next_waiting) {
        hak_check_that(check, "cache", cache,
                       "one that waits has no thread, and is on the right list",
                       cache->tid == 0 && cache->holds == holds && group_of(cache->shard) == group);
        count++;
    }
    return count;
}

/* Walks over the waiting caches with blocks: full_most of them at most. `ending` is -1 in the child of a
 * fork that interrupted a thread's end, until that is over. If the fork interrupted the walk, the child
 * has counted anew meanwhile. */
static void check_full(hak_check_t *check, const group_t *group) {
    const uint32_t process = hak_gate_process();
    size_t count = group->ending;
    for (unsigned i = 0; i < SHARDS; i++)
        count += check_stack(check, group, hak_load_relaxed(&group->holding[i].newest), true,
                             group->full);
    const uint16_t full = group->full;
    if (HAK_UNLIKELY(process != hak_gate_process())) return;
    hak_check_equal(check, "thread list", group,
                    "full = caches that wait with blocks, and that will", full, (uint16_t)count);
}

HAK_BEHIND void hak_group_check(hak_check_t *check, size_t caches) {
    size_t threads = 0, told = 0, homes = 0;
    for (unsigned number = 0; number < groups_of(hak_shard_count()); number++) {
        const group_t *group = group_at(number);
        check_stack(check, group, hak_load_relaxed(&group->empty), false, caches);
        check_full(check, group);
        threads += hak_load_relaxed(&group->threads);
        told += hak_load_relaxed(&group->told);
        for (unsigned i = 0; i < SHARDS; i++) homes += hak_load_relaxed(&group->homes[i]);
    }
    hak_check_equal(check, "thread list", &first, "count = what the groups told",
                    hak_thread_count(), told);
    hak_check_equal(check, "thread list", &first, "threads = sum over shards", threads, homes);
}

#if HAKMEM_VERIFY
static void check_at_release(const void *lock) {
    hak_check_t check = {0};
    check_full(&check, lock);
    hak_check_stop(&check);
}
#endif
HAK_LOCK_RANKS(first_rank, THREADS, &first, sizeof first, sizeof first, check_at_release);
HAK_LOCK_RANKS(others_rank, THREADS, others, sizeof others, sizeof *others, check_at_release);
