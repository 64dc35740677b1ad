/* thread.c: caches over the lives of threads.
 *
 * A cache outlives its thread: it waits (home_group.h) for the next thread, which takes it as it is. As many waiting
 * caches as there are CPUs keep their blocks; the cache of any other ending thread is emptied. In the
 * child of a fork the caches of all other threads may be in any state. They are lost with their
 * blocks, until a new thread finds no waiting cache and resets a lost one. A thread may also end without a
 * word to us: silent_exit.h. */
#include "thread/thread.h"

#include <pthread.h>

#include "cache/cpu_depot.h"
#include "cache/warm_cache.h"
#include "options/environment.h"
#include "hardened/big.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/lock.h"
#include "os/numa_topology.h"
#include "os/os.h"
#include "shard/shard.h"
#include "thread/silent_exit.h"
#include "thread/fork.h"
#include "thread/home_group.h"
#include "thread/helper_thread.h"
#include "thread/verify.h"

enum {
    FREES_WITHOUT_CACHE = 16, /* in a row */
    FREES_UNWATCHED = 8,      /* then the end of the thread is watched */
    NOVICE_MS = 2000,         /* within which the calls of a novice count together */
    CPU_INTERVAL_MS = 5000,   /* between two looks at the number of CPUs */
    CPU_FIRST_MS = 1000,      /* a shorter program with one thread needs none */
};

hak_lock_t hak_thread_list_lock HAK_OWN_LINE;
HAK_LOCK_RANK(THREADS, hak_thread_list_lock, NULL);
static _Atomic(hak_cache_t *) all_caches; /* atomic */
static _Atomic(hak_cache_t *) maybe_lost
    HAK_READ_OFTEN; /* written under the list lock; the first of all_caches that may be lost */
static pthread_key_t exit_key HAK_READ_OFTEN; /* list lock, then constant */
static _Atomic bool has_key
    HAK_READ_OFTEN; /* written under the list lock; constant until the code goes */
static _Atomic bool ready HAK_READ_OFTEN; /* written under the list lock, once */

/* STEPS. When a thread takes a cache, gives one up or looks at the limits, it takes a step, perhaps one within another.
 * During a step a signal handler may fork, and in the child the handler may start threads before it returns.
 *
 *   in a step  The thread gets no cache. If a fork handler allocates in the meantime, it is served without a cache: two
 *              caches would both count, and the second one would never be given up.
 *   a fork     The child counts only this thread, if it has a cache; the cache on its way looks lost. The counts of the
 *              rest of the step are wrong there. So the thread is noted in `unsettled`: until it has settled, no other
 *              thread takes a cache, lost or not, no other thread counts, and no group reports.
 *   the end    Of the outermost step: if the thread is noted, it counts itself alone once more, which is correct, and
 *              clears the note. During that it is still in the step. Then it looks again: a fork between the first look
 *              and the end has noted the thread; a fork after the end has cleared the note, because it has counted
 *              correctly.
 *
 * If the handler never returns in the child, other threads get no cache there; shards serve them. Not solved: a lock
 * that the step held at the fork then also stays taken, like any other lock of the thread, and no count can help a
 * thread that needs that lock. */
static __thread struct {
    uint32_t first_ms; /* as a novice, since that time... */
    uint16_t calls;    /* ...so many calls without a cache */
    uint8_t frees;     /* in a row, since the thread became due for a cache */
    uint8_t steps;     /* that are under way */
} self;
static _Atomic uintptr_t unsettled
    HAK_READ_OFTEN; /* by forks and by the thread that it names; 0: all is counted */

static void count_steps(unsigned more) {
    atomic_signal_fence(memory_order_seq_cst);
    self.steps = (uint8_t)(self.steps + more);
    atomic_signal_fence(memory_order_seq_cst);
}

static bool settles(void) { return HAK_UNLIKELY(hak_load_relaxed(&unsettled) == hak_os_thread()); }

/* Partner: settle. */
static bool another_settles(void) {
    return HAK_UNLIKELY(hak_load_acquire(&unsettled) != 0) && !settles();
}

HAK_BEHIND void hak_thread_flush_quarantine(hak_cache_t *cache) {
    hak_quarantine_t *quarantine = hak_load_relaxed(&cache->quarantine);
    if (HAK_LIKELY(!quarantine)) return;
    hak_quarantine_flush(quarantine, cache->shard);
    hak_big_flush(quarantine);
}

static void note_post(hak_cache_t *cache) {
    if (hak_gate_is_lost(&cache->post)) hak_gate_take(&cache->post);
    hak_lock_acquire(&cache->stack_lock);
    cache->tid = hak_os_thread_id();
    cache->process = hak_os_process_id();
    hak_lock_release(&cache->stack_lock);
}

static HAK_BEHIND void settle(void) {
    hak_cache_t *own = hak_cache_own();
    if (own) note_post(own);
    hak_gate_enter();
    hak_group_settle(own);
    hak_thread_fit();
    hak_lock_acquire(&hak_thread_list_lock);
    hak_store_relaxed(&maybe_lost, hak_load_relaxed(&all_caches));
    hak_lock_release(&hak_thread_list_lock);
    hak_gate_leave();
    hak_store_release(&unsettled, 0); /* partner: another_settles */
}

HAK_BEHIND void hak_thread_forget_steps(void) { self.steps = 0; }

static void begin_step(void) { count_steps(1u); }

static void end_step(void) {
    for (;; count_steps(1u)) {
        if (self.steps == 1 && HAK_UNLIKELY(settles())) settle();
        count_steps(-1u);
        if (self.steps || HAK_LIKELY(!settles())) return;
    }
}

static void give_up(hak_cache_t *cache) {
    hak_thread_flush_quarantine(cache);
    /* Before the group counts the cache: a report of what it gives may jump out of here. */
    if (HAK_UNLIKELY(hak_group_many())) hak_cache_rest(cache);
    const bool keeps = hak_group_may_keep(cache);
    if (keeps)
        hak_warm_cache_release(cache);
    else
        hak_cache_pass_on(cache);
    hak_gate_use(NULL); /* another thread may get the post next */
    hak_gate_enter();
    hak_group_leave(cache, keeps);
    hak_thread_fit();
    hak_gate_leave();
}

/* The destructor of the thread's key. Destructors of other libraries that run later may still free:
 * they find the dead cache, and the blocks go to the shard directly. */
HAK_NEXT static void on_thread_exit(void *argument) {
    hak_cache_t *cache = argument;
    if (cache == &hak_cache_dead) { /* watch_exit */
        hak_cache = cache;
        return;
    }
    /* Where a thread ended without a word, libc leaves its value to the next one that gets its stack. */
    if (cache != hak_cache) return;
    begin_step();
    hak_cache = (hak_cache_t *)(uintptr_t)&hak_cache_dead;
    give_up(cache);
    end_step();
    hak_helper_outlive();
}

/* Adapts shards and budgets. */
HAK_NEXT void hak_thread_look_at_limits(void) {
    hak_nodes_look();
    const bool changed = hak_os_look_at_limits();
    begin_step();
    hak_lock_acquire(&hak_thread_list_lock);
    if (changed) hak_shard_recount();
    if (!another_settles()) hak_group_tell_all();
    hak_thread_share();
    hak_lock_release(&hak_thread_list_lock);
    end_step();
    hak_helper_wake(); /* this may have told that the last thread is gone */
}

HAK_NEXT void hak_thread_follow_cpus(uint64_t now_ms, bool at_once) {
    static _Atomic uint64_t next_ms HAK_READ_OFTEN;
    uint64_t due = hak_load_relaxed(&next_ms);
    bool is_first = due == 0;
    uint64_t next = now_ms + (is_first && !at_once ? CPU_FIRST_MS : CPU_INTERVAL_MS);
    if (now_ms < due || !hak_cas_acquire(&next_ms, &due, next)) return;
    if (at_once || !is_first) hak_thread_look_at_limits();
}

/* Takes a cache of a thread that a fork left behind, and resets it. Looks at each cache once. The cache
 * stays lost until its thread joins: so far nobody reads its magazines. */
static hak_cache_t *take_lost(void) {
    if (HAK_LIKELY(!hak_load_relaxed(&maybe_lost))) return NULL;
    HAK_HOLD(&hak_thread_list_lock);
    hak_cache_t *cache = hak_load_relaxed(&maybe_lost);
    while (cache && !hak_gate_is_lost(&cache->post)) cache = cache->next;
    hak_store_relaxed(&maybe_lost, cache ? cache->next : NULL);
    if (!cache) return NULL;
    hak_warm_cache_release(cache); /* its warm slabs belong to its former shard */
    hak_cache_reset(cache);
    cache->holds = false;
    return cache;
}

static hak_cache_t *make_cache(void) {
    hak_cache_t *cache = hak_cache_make();
    if (!cache) return NULL;
    cache->next = hak_load_relaxed(&all_caches);
    while (!hak_cas_release(&all_caches, &cache->next, cache)) {
    } /* partner: hak_thread_caches */
    hak_gate_list(&cache->post);
    return cache;
}

/* Takes the cache of a thread that ended without a word. It keeps its blocks. The process's first thread finds none. */
static hak_cache_t *take_abandoned(void) {
    hak_cache_t *cache = hak_load_relaxed(&all_caches) ? hak_silent_exit_take() : NULL;
    if (cache) hak_warm_cache_release(cache);
    return cache;
}

/* A cache that is on no list of waiting caches: a lost one, or a new one. */
static hak_cache_t *find_cache(void) {
    hak_cache_t *cache = take_lost();
    return cache ? cache : make_cache();
}

/* Takes the cache that was abandoned at the caller's place, else a waiting cache, else another one unless only a
 * waiting one is allowed. The abandoned cache comes first, because only the entry of the place leads to it, and that is
 * overwritten below. A fork finds the cache with its thread. */
static hak_cache_t *acquire_cache(bool waiting) {
    const hak_seat_t seat = hak_group_choose();
    hak_cache_t *new = take_abandoned(), *cache = new ? new : hak_group_take(seat, waiting);
    if (!cache && !waiting) cache = new = find_cache();
    if (new) hak_group_join(new, seat); /* a waiting one has joined */
    if (!cache) hak_group_give_up(seat);
    hak_thread_fit();
    if (cache && hak_load_acquire(&all_caches)->next) hak_silent_exit_note(cache);
    return cache;
}

/* Prepares the process, once. libc may allocate in these calls: the calling thread already has its
 * cache. */
static void prepare_process(void) {
    if (hak_load_acquire(&ready)) return; /* partner: below */
    hak_lock_acquire(&hak_thread_list_lock);
    bool first = !hak_load_relaxed(&ready);
    if (first) {
        hak_store_relaxed(&has_key, pthread_key_create(&exit_key, on_thread_exit) == 0);
        hak_store_release(&ready, true);
    }
    hak_lock_release(&hak_thread_list_lock);
    if (!first) return;
    hak_gate_prepare();
    hak_fork_install();
}

HAK_NEXT bool hak_thread_sees_ends(void) {
    return hak_load_acquire(&ready) && hak_load_relaxed(&has_key); /* partner: prepare_process */
}

/* Without the lock: the thread that calls exit() may have interrupted its holder. */
HAK_BEHIND void hak_thread_forsake(void) {
    if (atomic_exchange(&has_key, false)) pthread_key_delete(exit_key);
}

/* True when a thread must begin as a novice, and no thread has noted that before. Not for the process's first one. */
static HAK_NEXT bool begins_as_novice(void) {
    hak_thread_follow_cpus(hak_os_now_ms(), true);
    return !hak_depot_serves() && hak_thread_note_crowd(hak_group_estimate());
}

static hak_cache_t *start(bool waiting) {
    begin_step();
    hak_cache_t *cache = hak_cache_own(); /* a signal handler may have been faster */
    if (!cache) {
        hak_gate_enter();
        if (!another_settles()) cache = acquire_cache(waiting);
        hak_gate_leave();
        if (cache) {
            hak_cache = cache;
            cache->partner = (uint8_t)hak_depot_home(cache->shard);
            hak_gate_use(&cache->post);
            hak_thread_seed(cache);
        }
    }
    end_step();
    return cache;
}

static HAK_SLOW_PATH hak_cache_t *get_cache(bool waiting) {
    HAK_KEEP_ERRNO();
    hak_options_load();
    hak_shard_open(0); /* for a thread without a cache */
    if (self.steps || (hak_load_relaxed(&ready) && begins_as_novice())) return NULL;
    hak_cache_t *cache = start(waiting);
    if (!cache) { /* another thread may have ended meanwhile, as the last one */
        hak_helper_wake();
        return NULL;
    }
    prepare_process();
    if (hak_load_relaxed(&has_key)) pthread_setspecific(exit_key, cache);
    return cache;
}

/* Counts a call of a thread without a cache; true while it goes on without one. */
static HAK_BEHIND bool stays_novice(uint32_t calls_most) {
    if (HAK_LIKELY(self.calls && self.calls + 1u < calls_most)) {
        self.calls++;
        return true;
    }
    const uint32_t now = (uint32_t)hak_os_now_ms();
    if (self.calls && now - self.first_ms <= NOVICE_MS) return false;
    self.first_ms = now;
    self.calls = 1;
    return true;
}

HAK_COMMON hak_cache_t *hak_thread_cache(void) {
    hak_cache_t *cache = hak_cache;
    if (HAK_LIKELY(cache != &hak_cache_none && cache != &hak_cache_dead)) return cache;
    if (cache == &hak_cache_dead) return NULL;
    const uint32_t novice_calls = hak_load_relaxed(&hak_depot_novice_calls);
    if (HAK_LIKELY(!novice_calls) || !stays_novice(novice_calls)) return get_cache(false);
    return self.calls == 1 && hak_group_has_waiting() ? get_cache(true) : NULL;
}

/* From the thread's end on it gets no cache. libc may allocate in this call, and so must not get one. */
static HAK_SLOW_PATH void watch_exit(void) {
    if (!hak_thread_sees_ends()) return;
    HAK_KEEP_ERRNO();
    hak_cache = (hak_cache_t *)(uintptr_t)&hak_cache_dead;
    pthread_setspecific(exit_key, hak_cache);
    hak_cache = (hak_cache_t *)(uintptr_t)&hak_cache_none;
}

hak_cache_t *hak_thread_cache_of_free(void) {
    if (hak_cache != &hak_cache_none) return hak_thread_cache();
    const uint32_t novice_calls = hak_load_relaxed(&hak_depot_novice_calls);
    if (HAK_UNLIKELY(novice_calls) && stays_novice(novice_calls)) self.frees = 0;
    if (self.frees < FREES_WITHOUT_CACHE && ++self.frees == FREES_UNWATCHED) watch_exit();
    return self.frees < FREES_WITHOUT_CACHE ? NULL : get_cache(false);
}

HAK_BEHIND void hak_thread_apply_options(void) {
    hak_lock_acquire(&hak_thread_list_lock);
    hak_thread_share();
    hak_lock_release(&hak_thread_list_lock);
    atomic_thread_fence(memory_order_seq_cst); /* partner: the helper, which takes the note first */
    hak_helper_note();
}

/* Ends the step, then reports double frees. True when blocks are left. */
static HAK_BEHIND bool flush_and_put_back(hak_cache_t *cache) {
    hak_bad_t bad;
    const bool is_left = hak_cache_flush_magazine(cache, &bad);
    hak_group_put_back(cache, is_left);
    end_step();
    hak_magazine_report(&bad);
    return is_left;
}

HAK_NEXT bool hak_thread_flush_waiting(unsigned *caches) {
    if (*caches == 0) return true;
    begin_step();
    hak_cache_t *cache = hak_group_take_full();
    if (cache) return !flush_and_put_back(cache) && --*caches == 0;
    end_step();
    return true;
}

hak_cache_t *hak_thread_caches(void) {
    return hak_load_acquire(&all_caches);
} /* partner: make_cache */

HAK_BEHIND void hak_thread_renumber(void) {
    if (!hak_cache_own()) return;
    hak_cache->tid = hak_os_thread_id();
    hak_cache->process = hak_os_process_id();
}

HAK_BEHIND void hak_thread_forget_others(void) {
    hak_group_forget_others(hak_cache_own());
    hak_store_relaxed(&maybe_lost, hak_load_relaxed(&all_caches));
    hak_store_relaxed(&unsettled, self.steps ? hak_os_thread() : 0);
}

HAK_BEHIND void hak_thread_check(hak_check_t *check) {
    size_t caches = 0;
    for (const hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) caches++;
    hak_group_check(check, caches);
}
