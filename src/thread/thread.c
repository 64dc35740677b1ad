/* thread.c: caches over the lives of threads.
 *
 * A cache outlives its thread: it waits for the next thread, which takes it as it is. As many waiting
 * caches as there are CPUs keep their blocks; the cache of any other ending thread is emptied. In the
 * child of a fork the caches of all other threads may be in any state. They are lost with their
 * blocks, until a new thread finds no waiting cache and resets a lost one. */
#include "thread/thread.h"

#include <pthread.h>
#include <string.h>

#include "cache/depot.h"
#include "cache/warm_cache.h"
#include "options/load.h"
#include "hardened/big.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/lock.h"
#include "os/os.h"
#include "shard/shard.h"
#include "thread/fork.h"
#include "thread/helper.h"
#include "thread/verify.h"

enum {
    TINY_SHARE = 15,          /* one part of so many is for the tiny tier */
    TINY_ENOUGH = 128 * 1024, /* to which a share grows, up to twice its size; mid blocks use little
                                 of theirs where there are many threads */
    BUDGET_LEAST = 64 * 1024, /* of one cache and tier */
    LIMIT_PART = 8, /* one part in so many of the memory that control groups allow is for caches */
    FREES_WITHOUT_CACHE = 16, /* of a thread that never allocated */
    CPU_INTERVAL_MS = 5000,   /* between two looks at the number of CPUs */
    CPU_FIRST_MS = 1000,      /* a shorter program with one thread needs none */
};

hak_lock_t hak_thread_list_lock HAK_OWN_LINE;
HAK_LOCK_RANK(THREADS, hak_thread_list_lock, hak_thread_check_at_release);
static hak_cache_t *all_caches;   /* list lock */
static hak_cache_t *waiting;      /* list lock; stack of caches without thread and blocks */
static hak_cache_t *waiting_with; /* list lock; the same with blocks. They have a stack of their
                                     own, since there may be very many empty ones */
static unsigned waiting_full;     /* list lock; caches on waiting_with, and those of ending
                                     threads that will come there */
static unsigned ending_full;      /* list lock; the latter */
static hak_cache_t *maybe_lost;   /* list lock; the first of all_caches that may be lost */
static _Atomic unsigned thread_count
    HAK_OWN_LINE; /* written under the list lock; threads with a cache */
static unsigned shard_threads[HAK_SHARDS_MAX]; /* list lock; threads at home in each shard */
static pthread_key_t exit_key;                 /* list lock, then constant */
static bool has_key;                           /* list lock, then constant */
static _Atomic bool ready HAK_READ_OFTEN;      /* written under the list lock, once */

unsigned hak_thread_count(void) { return atomic_load(&thread_count); }

size_t hak_thread_budget(void) {
    size_t total = (size_t)hak_option(HAK_OPTION_CACHE_BUDGET);
    if (total) return total;
    uint64_t limit = hak_os_memory_limit();
    total = (size_t)hak_os_cpu_count() * HAK_BUDGET_PER_CPU;
    return limit ? hak_min(total, limit / LIMIT_PART) : total;
}

/* Divides the budget: the more threads there are, the less each of them gets. */
static void share_budget(void) {
    size_t each = hak_thread_budget() / hak_max(hak_thread_count(), 1);
    size_t tiny = each / TINY_SHARE;
    hak_depot_set_share(tiny, hak_thread_count() > hak_os_cpu_count());
    tiny = hak_max(tiny, hak_min(tiny * 2, TINY_ENOUGH));
    hak_cache_set_budget(HAK_TINY, hak_max(tiny, BUDGET_LEAST));
    hak_cache_set_budget(HAK_MID, hak_max(each - tiny, BUDGET_LEAST));
}

/* List lock held. */
static void push_waiting(hak_cache_t *cache, bool holds) {
    hak_cache_t **stack = holds ? &waiting_with : &waiting;
    cache->holds = holds;
    cache->next_waiting = *stack;
    *stack = cache;
}

/* Takes a cache from a stack; NULL when it is empty. List lock held. */
static hak_cache_t *pop_waiting(hak_cache_t **stack) {
    hak_cache_t *cache = *stack;
    if (cache) *stack = cache->next_waiting;
    return cache;
}

void hak_thread_flush_holder(hak_cache_t *cache) {
    hak_holder_t *holder = hak_load_relaxed(&cache->holder);
    if (HAK_LIKELY(!holder)) return;
    hak_holder_flush(holder, cache->shard);
    hak_big_flush(holder);
}

/* The destructor of the thread's key. Destructors of other libraries that run later may still free:
 * they find the dead cache, and the blocks go to the shard directly. */
HAK_NEXT static void on_thread_exit(void *argument) {
    hak_cache_t *cache = argument;
    hak_cache = (hak_cache_t *)(uintptr_t)&hak_cache_dead;
    hak_gate_use(NULL);
    hak_thread_flush_holder(cache);
    hak_lock_acquire(&hak_thread_list_lock);
    bool keep = waiting_full < hak_os_cpu_count();
    waiting_full += keep;
    ending_full += keep;
    hak_lock_release(&hak_thread_list_lock);
    if (keep)
        hak_warm_cache_release(cache);
    else
        hak_cache_flush_all(cache);
    hak_lock_acquire(&hak_thread_list_lock);
    ending_full -= keep;
    push_waiting(cache, keep);
    cache->tid = 0;
    hak_gate_release(&cache->post);
    shard_threads[cache->shard]--;
    HAK_ADD_OWNED(&thread_count, -1u);
    share_budget();
    hak_lock_release(&hak_thread_list_lock);
    hak_helper_wake();
}

/* Chooses the home of a new thread: the shard of its cache's last thread, if that has no more than its
 * share of the threads, or the next one that has not; or that of its CPU. There is one with no more
 * than the average, and a search begins where the last one ended: it looks at few of many shards. A
 * cache may change its shard with its thread, since each block in a magazine goes back to its own
 * slab, whichever shard owns that. List lock held. */
static unsigned home_shard(const hak_cache_t *cache) {
    static unsigned last; /* list lock */
    unsigned home = cache->shard, count = hak_shard_homes(), share = hak_thread_count() / count;
    if (!hak_option(HAK_OPTION_SHARD_MIX)) return hak_shard_open(hak_os_this_cpu() % count);
    while (home >= count || shard_threads[home] > share) home = last = (last + 1) % count;
    return hak_shard_open(home);
}

unsigned hak_thread_shard_most(void) {
    size_t most = 0;
    HAK_HOLD(&hak_thread_list_lock);
    for (unsigned shard = 0; shard < HAK_SHARDS_MAX; shard++)
        most = hak_max(most, shard_threads[shard]);
    return (unsigned)most;
}

/* Adapts shards and budgets. */
void hak_thread_look_at_limits(void) {
    if (!hak_os_cpu_look()) return;
    HAK_HOLD(&hak_thread_list_lock);
    hak_shard_recount();
    share_budget();
}

void hak_thread_follow_cpus(uint64_t now_ms, bool at_once) {
    static _Atomic uint64_t next_ms;
    uint64_t due = hak_load_relaxed(&next_ms);
    bool is_first = due == 0;
    uint64_t next = now_ms + (is_first && !at_once ? CPU_FIRST_MS : CPU_INTERVAL_MS);
    if (now_ms < due || !hak_cas_acquire(&next_ms, &due, next)) return;
    if (at_once || !is_first) hak_thread_look_at_limits();
}

/* Takes a cache of a thread that a fork left behind, and resets it. Looks at each cache once. List
 * lock held. */
static hak_cache_t *take_lost(void) {
    hak_cache_t *cache = maybe_lost;
    while (cache && !hak_gate_is_lost(&cache->post)) cache = cache->next;
    maybe_lost = cache ? cache->next : NULL;
    if (!cache) return NULL;
    hak_warm_cache_release(cache); /* its warm slabs belong to its former shard */
    hak_cache_reset(cache);
    cache->holds = cache->flushing = false;
    memset(cache->streak, 0, sizeof cache->streak);
    return cache;
}

static hak_cache_t *make_cache(void) {
    hak_cache_t *cache = hak_cache_make();
    if (!cache) return NULL;
    cache->next = all_caches;
    all_caches = cache;
    hak_gate_list(&cache->post);
    return cache;
}

/* Takes a waiting cache, one with blocks if there is one, or one that was lost, or makes one. */
static hak_cache_t *acquire_cache(void) {
    HAK_HOLD(&hak_thread_list_lock);
    hak_cache_t *cache = pop_waiting(waiting_with ? &waiting_with : &waiting);
    if (cache) {
        if (cache->holds) waiting_full--;
        memset(cache->streak, 0, sizeof cache->streak); /* a stream belongs to one thread */
    } else if ((cache = take_lost()) == NULL) {
        cache = make_cache();
    }
    if (!cache) return NULL;
    hak_gate_take(&cache->post);
    cache->tid = hak_os_thread_id();
    cache->born = cache->slow_count;
    cache->shard = (uint8_t)home_shard(cache);
    shard_threads[cache->shard]++;
    HAK_ADD_OWNED(&thread_count, 1u);
    share_budget();
    return cache;
}

/* Prepares the process, once. libc may allocate in these calls: the calling thread already has its
 * cache. */
static void prepare_process(void) {
    if (hak_load_acquire(&ready)) return; /* partner: below */
    hak_lock_acquire(&hak_thread_list_lock);
    bool first = !hak_load_relaxed(&ready);
    if (first) {
        has_key = pthread_key_create(&exit_key, on_thread_exit) == 0;
        hak_store_release(&ready, true);
    }
    hak_lock_release(&hak_thread_list_lock);
    if (!first) return;
    hak_gate_prepare();
    hak_fork_install();
}

static HAK_SLOW_PATH hak_cache_t *make_thread_cache(void) {
    HAK_KEEP_ERRNO();
    hak_options_load();
    hak_shard_open(0); /* for a thread without a cache */
    if (hak_thread_count() > 0) hak_thread_follow_cpus(hak_os_now_ms(), true);
    hak_cache_t *cache = acquire_cache();
    if (!cache) return NULL;
    hak_cache = cache;
    hak_gate_use(&cache->post);
    prepare_process();
    if (has_key) pthread_setspecific(exit_key, cache);
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
    hak_helper_note();
}

/* Takes a waiting cache with blocks out of its stack. */
static hak_cache_t *take_full(void) {
    HAK_HOLD(&hak_thread_list_lock);
    hak_cache_t *cache = pop_waiting(&waiting_with);
    if (!cache) return NULL;
    waiting_full--;
    cache->holds = false;
    cache->flushing = true;
    hak_gate_take(&cache->post); /* a fork while it is emptied loses it */
    return cache;
}

static void put_back(hak_cache_t *cache, bool holds) {
    HAK_HOLD(&hak_thread_list_lock);
    push_waiting(cache, holds);
    cache->flushing = false;
    if (holds) waiting_full++;
    hak_gate_release(&cache->post);
}

/* Without the lock, since this may find a double free, and the program's handler of SIGABRT may start
 * a thread. */
HAK_NEXT bool hak_thread_flush_waiting(unsigned *caches) {
    if (*caches == 0) return true;
    hak_cache_t *cache = take_full();
    if (!cache) return true;
    if (hak_cache_flush_magazine(cache)) {
        put_back(cache, true);
        return false;
    }
    put_back(cache, false);
    return --*caches == 0;
}

hak_cache_t *hak_thread_caches(void) {
    HAK_HOLD(&hak_thread_list_lock);
    return all_caches;
}

void hak_thread_renumber(void) {
    if (hak_cache != &hak_cache_none && hak_cache != &hak_cache_dead)
        hak_cache->tid = hak_os_thread_id();
}

void hak_thread_forget_others(void) {
    bool has_cache = hak_cache != &hak_cache_none && hak_cache != &hak_cache_dead;
    memset(shard_threads, 0, sizeof shard_threads);
    if (has_cache) shard_threads[hak_cache->shard] = 1;
    hak_store_relaxed(&thread_count, has_cache);
    waiting_full -= ending_full;
    ending_full = 0;
    maybe_lost = all_caches;
}

/* ---- check ---- */

static size_t check_waiting(hak_check_t *check, const hak_cache_t *first, bool holds, size_t most) {
    size_t count = 0;
    for (const hak_cache_t *cache = first; cache && count <= most; cache = cache->next_waiting) {
        hak_check_that(check, "cache", cache,
                       "one that waits has no thread, and is on the right list",
                       cache->tid == 0 && cache->holds == holds);
        count++;
    }
    return count;
}

/* Walks over the waiting caches with blocks: at most one for each CPU. */
static void check_full(hak_check_t *check) {
    size_t count = check_waiting(check, waiting_with, true, waiting_full);
    hak_check_equal(check, "thread list", &waiting_full,
                    "waiting_full = caches that wait with blocks, and that will", waiting_full,
                    count + ending_full);
}

HAK_BEHIND void hak_thread_check(hak_check_t *check) {
    size_t caches = 0, threads = 0;
    for (const hak_cache_t *cache = all_caches; cache; cache = cache->next) caches++;
    for (unsigned shard = 0; shard < HAK_SHARDS_MAX; shard++) threads += shard_threads[shard];
    check_waiting(check, waiting, false, caches);
    check_full(check);
    hak_check_equal(check, "thread list", shard_threads, "threads = sum over shards",
                    hak_thread_count(), threads);
}

#if HAKMEM_VERIFY
void hak_thread_check_at_release(const void *lock) {
    hak_check_t check = {0};
    (void)lock;
    check_full(&check);
    hak_check_stop(&check);
}
#endif
