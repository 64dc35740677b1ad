/* thread.c: caches over the lives of threads.
 *
 * A cache outlives its thread: it waits in a list, still full for the few threads
 * that may come next, emptied otherwise, and serves the next thread as it is. */
#include "thread/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "cache/carve.h"
#include "large/huge.h"
#include "large/large.h"
#include "options/options.h"
#include "os/lock.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/commit.h"
#include "shard/shard.h"
#include "thread/look.h"

enum {
    BUDGET_PER_CPU = 30 * 1024 * 1024, /* bytes of blocks in caches */
    TINY_SHARE = 15,                   /* one part of so many is for the tiny tier */
    BUDGET_LEAST = 64 * 1024,          /* of one cache and tier */
    TICK_INTERVAL = 64,                /* slow calls between two looks at the clock */
    TICK_BYTES = 64 * 1024,            /* as many bytes count as one more */
    SWEEP_INTERVAL_MS = 250,
    FREES_WITHOUT_CACHE = 16,    /* of a thread that never allocated */
    CALLS_OF_SHORT_PROGRAM = 64, /* slow ones; with fewer it is not worth a helper thread */
};

hak_lock_t hak_thread_list_lock;
static hak_cache_t *all_caches;       /* list lock */
static hak_cache_t *waiting;          /* list lock; without a thread, last in first out */
static unsigned waiting_full;         /* list lock; those of them that still hold blocks */
static _Atomic unsigned thread_count; /* written under the list lock; threads with a cache */
static unsigned shard_threads[HAK_SHARDS_MAX]; /* list lock; threads at home in each shard */
static pthread_key_t exit_key;                 /* list lock, then constant */
static bool has_key;                           /* list lock, then constant */
static bool ready;                             /* list lock */

unsigned hak_thread_count(void) { return atomic_load(&thread_count); }

/* The sum stays the same: more threads, less for each. */
static void share_budget(void) {
    size_t total = (size_t)hak_option(HAK_OPTION_CACHE_BUDGET);
    if (total == 0) total = (size_t)hak_os_cpu_count() * BUDGET_PER_CPU;
    size_t each = total / hak_max(hak_thread_count(), 1);
    hak_cache_set_budget(HAK_TINY, hak_max(each / TINY_SHARE, BUDGET_LEAST));
    hak_cache_set_budget(HAK_MID, hak_max(each - each / TINY_SHARE, BUDGET_LEAST));
}

/* The thread is gone. Later destructors of other libraries may still free: they
 * find the dead cache and go straight to the shard. */
static void on_thread_exit(void *argument) {
    hak_cache_t *cache = argument;
    hak_cache = (hak_cache_t *)(uintptr_t)&hak_cache_dead;
    hak_lock_acquire(&hak_thread_list_lock);
    bool keep = waiting_full < hak_os_cpu_count();
    if (keep) waiting_full++;
    hak_lock_release(&hak_thread_list_lock);
    if (keep)
        hak_carve_release(cache);
    else
        hak_cache_flush_all(cache);
    hak_lock_acquire(&hak_thread_list_lock);
    cache->holds = keep;
    cache->next_waiting = waiting;
    waiting = cache;
    cache->tid = 0;
    shard_threads[cache->shard]--;
    HAK_COUNT(&thread_count, -1u);
    share_budget();
    hak_lock_release(&hak_thread_list_lock);
    hak_purger_wake();
}

/* The home of a new thread: the shard with the fewest, or that of its CPU. A cache may
 * change its shard with its thread: blocks in its bins are given to their own slabs,
 * wherever those are at home. */
static unsigned home_shard(void) {
    unsigned best = 0, count = hak_shard_count();
    if (!hak_option(HAK_OPTION_SHARD_MIX)) return hak_os_this_cpu() % count;
    for (unsigned shard = 1; shard < count; shard++)
        if (shard_threads[shard] < shard_threads[best]) best = shard;
    return best;
}

/* Takes a waiting cache, full ones first since they lie on top, or makes one. */
static hak_cache_t *acquire_cache(void) {
    hak_lock_acquire(&hak_thread_list_lock);
    hak_cache_t *cache = waiting;
    if (cache) {
        waiting = cache->next_waiting;
        if (cache->holds) waiting_full--;
        memset(cache->streak, 0, sizeof cache->streak); /* a stream is one thread's */
    } else if ((cache = hak_cache_make()) != NULL) {
        cache->next = all_caches;
        all_caches = cache;
    }
    if (cache) {
        cache->tid = hak_os_thread_id();
        cache->born = cache->slow_count;
        cache->shard = (uint8_t)home_shard();
        shard_threads[cache->shard]++;
        HAK_COUNT(&thread_count, 1u);
        share_budget();
    }
    hak_lock_release(&hak_thread_list_lock);
    return cache;
}

/* What the whole process needs once. libc may allocate in these calls; by then
 * the calling thread has its cache. */
static void prepare_process(void) {
    hak_lock_acquire(&hak_thread_list_lock);
    bool first = !ready;
    if (first) {
        has_key = pthread_key_create(&exit_key, on_thread_exit) == 0;
        ready = true;
    }
    hak_lock_release(&hak_thread_list_lock);
    if (first) hak_fork_install();
}

static HAK_SLOW_PATH hak_cache_t *make_thread_cache(void) {
    int saved = errno;
    hak_options_load();
    hak_cache_t *cache = acquire_cache();
    if (!cache) return NULL;
    hak_cache = cache;
    prepare_process();
    if (has_key) pthread_setspecific(exit_key, cache);
    errno = saved;
    return cache;
}

hak_cache_t *hak_thread_cache(void) {
    hak_cache_t *cache = hak_cache;
    if (HAK_LIKELY(cache != &hak_cache_none && cache != &hak_cache_dead)) return cache;
    return cache == &hak_cache_dead ? NULL : make_thread_cache();
}

hak_cache_t *hak_thread_cache_of_free(void) {
    static __thread unsigned frees;
    if (hak_cache == &hak_cache_none && ++frees < FREES_WITHOUT_CACHE) return NULL;
    return hak_thread_cache();
}

void hak_thread_apply_options(void) {
    hak_lock_acquire(&hak_thread_list_lock);
    share_budget();
    hak_lock_release(&hak_thread_list_lock);
    atomic_thread_fence(memory_order_seq_cst); /* partner: the helper, which takes the note first */
    hak_purger_note();
}

/* A cache that waits with blocks, out of the list. */
static hak_cache_t *take_full(void) {
    hak_lock_acquire(&hak_thread_list_lock);
    hak_cache_t **at = &waiting;
    while (*at && !(*at)->holds) at = &(*at)->next_waiting;
    hak_cache_t *cache = *at;
    if (cache) {
        *at = cache->next_waiting;
        waiting_full--;
        cache->holds = false;
        cache->flushing = true;
    }
    hak_lock_release(&hak_thread_list_lock);
    return cache;
}

/* Back into the list, behind those that are full. */
static void put_empty(hak_cache_t *cache) {
    hak_lock_acquire(&hak_thread_list_lock);
    hak_cache_t **at = &waiting;
    while (*at && (*at)->holds) at = &(*at)->next_waiting;
    cache->next_waiting = *at;
    *at = cache;
    cache->flushing = false;
    hak_lock_release(&hak_thread_list_lock);
}

/* Empties the caches that wait for a thread, without the lock: a double free may come to
 * light, and the program's handler of SIGABRT may start a thread. */
static void flush_waiting(void) {
    hak_cache_t *cache;
    for (unsigned left = hak_os_cpu_count(); left > 0 && (cache = take_full()) != NULL; left--) {
        hak_cache_flush_all(cache);
        put_empty(cache);
    }
}

static _Atomic(hak_watcher_t) the_watcher; /* constant after start */

void hak_thread_set_watcher(hak_watcher_t watcher) { hak_store_release(&the_watcher, watcher); }
hak_watcher_t hak_thread_watcher(void) { return hak_load_acquire(&the_watcher); }

/* `all`: also what would wait for a later look. */
static size_t purge(uint32_t delay_ms, bool all) {
    flush_waiting();
    hak_shard_sweep();
    size_t bytes = hak_large_purge(delay_ms) + hak_huge_purge(delay_ms);
    bytes += hak_shard_purge_idle(delay_ms);
    return bytes + hak_pool_purge(delay_ms, all) * HAK_UNIT_SIZE;
}

static void tick(size_t size) {
    static _Atomic uint64_t next_sweep_ms;
    static _Atomic uint32_t shared_ticks; /* of threads without a cache */
    hak_cache_t *cache = hak_cache;
    bool own = cache != &hak_cache_none && cache != &hak_cache_dead;
    uint32_t more = (uint32_t)hak_min(size / TICK_BYTES + 1, TICK_INTERVAL);
    uint32_t ticks = own ? cache->ticks : hak_add_relaxed(&shared_ticks, more);
    if (own) cache->ticks += more;
    if (HAK_UNLIKELY(hak_commit_pressure())) purge(0, true);
    if (ticks / TICK_INTERVAL == (ticks + more) / TICK_INTERVAL) return;
    uint64_t now = hak_os_now_ms();
    hak_look_tick(now);
    int64_t delay_ms = hak_option(HAK_OPTION_PURGE_DELAY_MS);
    if (delay_ms < 0 && !hak_thread_watcher()) return;
    uint64_t due = hak_load_relaxed(&next_sweep_ms);
    if (now < due || !hak_cas_acquire(&next_sweep_ms, &due, now + SWEEP_INTERVAL_MS)) return;
    if (due == 0) return; /* the first look starts the clock; a short program is not swept */
    if (delay_ms >= 0) hak_thread_purge((uint32_t)delay_ms);
    hak_purger_note();
}

/* A slow call of a program that is watched. It gets its helper when it has made so many
 * that it is no short one; until then the looks become rarer. */
static HAK_SLOW_PATH void watch(bool may_start) {
    static _Atomic uint32_t calls_so_far;
    if (hak_purger_runs()) return;
    uint32_t calls = hak_add_relaxed(&calls_so_far, 1) + 1;
    if (calls >= CALLS_OF_SHORT_PROGRAM && may_start) hak_purger_start_early();
    hak_thread_watcher()(calls < CALLS_OF_SHORT_PROGRAM && hak_is_pow2(calls));
}

void hak_thread_tick_malloc(size_t size) {
    hak_purger_start();
    tick(size);
    if (HAK_UNLIKELY(hak_load_relaxed(&the_watcher) != NULL)) watch(true);
}

void hak_thread_tick_free(size_t size) {
    hak_purger_wake();
    tick(size);
    if (HAK_UNLIKELY(hak_load_relaxed(&the_watcher) != NULL)) watch(false);
}

size_t hak_thread_purge(uint32_t delay_ms) { return purge(delay_ms, false); }

size_t hak_thread_trim(void) {
    hak_cache_t *cache = hak_thread_cache();
    if (cache) hak_cache_flush_all(cache);
    hak_shard_sweep(); /* this one only ages the slabs that were kept empty */
    size_t purged = purge(0, true);
    return purged + hak_shard_purge_all();
}

hak_cache_t *hak_thread_caches(void) {
    hak_lock_acquire(&hak_thread_list_lock);
    hak_cache_t *newest = all_caches;
    hak_lock_release(&hak_thread_list_lock);
    return newest;
}

bool hak_thread_each_stack_lock(hak_lock_visit_t visit, void *context) {
    for (hak_cache_t *cache = all_caches; cache; cache = cache->next)
        if (!visit(&cache->stack_lock, context)) return false;
    return true;
}

void hak_thread_renumber(void) {
    if (hak_cache != &hak_cache_none && hak_cache != &hak_cache_dead)
        hak_cache->tid = hak_os_thread_id();
}

/* The other threads' caches may be in any state: their stacks are forgotten, and
 * the caches wait for new threads. What they held stays allocated in the child. */
bool hak_thread_list_rebuild(void) {
    bool others = all_caches && all_caches->next;
    for (hak_cache_t *cache = all_caches; cache; cache = cache->next) {
        bool gone = cache->tid && cache != hak_cache;
        if (!gone && !cache->flushing) continue;
        hak_cache_reset(cache);
        if (gone) {
            shard_threads[cache->shard]--;
            HAK_COUNT(&thread_count, -1u);
        }
        cache->tid = 0;
        cache->holds = cache->flushing = false;
        cache->next_waiting = waiting;
        waiting = cache;
    }
    waiting_full = 0;
    for (hak_cache_t *cache = waiting; cache; cache = cache->next_waiting)
        if (cache->holds) waiting_full++;
    return others;
}
