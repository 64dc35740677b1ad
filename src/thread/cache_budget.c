/* cache_budget.c: divides the budget of the caches among the threads. */
#include "thread/cache_budget.h"

#include "cache/cache.h"
#include "cache/cpu_depot.h"
#include "cache/sampler.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/lock.h"
#include "debug_record/record.h"
#include "thread/thread.h"

enum {
    TINY_SHARE = 15,          /* one part of so many is for the tiny tier */
    TINY_ENOUGH = 128 * 1024, /* to which a share grows, up to twice its size; mid blocks use little
                                 of theirs where there are many threads */
    TINY_LEAST = 192 * 1024,  /* of the default, where the memory limit has room for it */
    BUDGET_LEAST = 64 * 1024, /* of one cache and tier */
    LIMIT_PART = 8, /* one part in so many of the memory that control groups allow is for caches */
    NOVICE_CALLS_EACH = 8,    /* calls of a novice, for each thread that has a cache... */
    NOVICE_CALLS_MOST = 2048, /* ...but not more than these */
    MORE_PART = 8, /* budgets stay as they are until one thread more in so many is there... */
    LESS_PART = 2, /* ...or one in so many is left */
};

static _Atomic unsigned threads HAK_OWN_LINE; /* sum over the groups of what each has told */
static struct {
    _Atomic bool is_due;                     /* the budgets did not fit the count */
    _Atomic bool is_busy;                    /* a thread sets the budgets */
} sharing HAK_OWN_LINE;                      /* read by each start and each end */
static _Atomic unsigned shared HAK_OWN_LINE; /* written under the list lock; the count that the
                                                budgets are for. Starts and ends read it */

unsigned hak_thread_count(void) { return atomic_load(&threads); }

size_t hak_thread_budget(void) {
    size_t total = (size_t)hak_option(HAK_OPTION_CACHE_BUDGET);
    if (total) return total;
    uint64_t limit = hak_os_memory_limit();
    total = (size_t)hak_os_cpu_count() * HAK_BUDGET_PER_CPU;
    return limit ? hak_min(total, limit / LIMIT_PART) : total;
}

/* Depots, and novices. Samples and the hardened path want a cache for each thread; depots keep nothing that has a
 * record, and no mid blocks where caches have none. */
static HAK_BEHIND void set_for_crowd(unsigned count, size_t tiny) {
    hak_depot_set_share(tiny, count > hak_os_cpu_count());
    const bool has_novices = hak_depot_is_open() && tiny < TINY_ENOUGH &&
                             !hak_sampler_is_wanted() && !hak_records_on() &&
                             !hak_option(HAK_OPTION_HARDENED) &&
                             hak_option(HAK_OPTION_POOL_TLS_RING);
    const unsigned threads_most = NOVICE_CALLS_MOST / NOVICE_CALLS_EACH;
    const uint32_t calls = has_novices ? hak_min(count, threads_most) * NOVICE_CALLS_EACH : 0;
    if (hak_load_relaxed(&hak_depot_novice_calls) != calls)
        hak_store_relaxed(&hak_depot_novice_calls, calls);
}

HAK_NEXT bool hak_thread_note_crowd(unsigned count) {
    if (count <= hak_os_cpu_count()) return false;
    const size_t tiny = hak_thread_budget() / count / TINY_SHARE;
    if (tiny < TINY_ENOUGH) set_for_crowd(count, tiny);
    return hak_depot_serves();
}

/* Beyond the budget, a cache may hold what lets it do without the shards: only caches of threads that call often
 * fill it. A budget that is set is kept, and so is the part of a limit that is for caches. */
static size_t tiny_least(unsigned count, size_t each) {
    if (hak_option(HAK_OPTION_CACHE_BUDGET)) return BUDGET_LEAST;
    const uint64_t limit = hak_os_memory_limit();
    const uint64_t most = limit ? limit / LIMIT_PART / count : UINT64_MAX;
    const uint64_t spare = most > each ? most - each : 0;
    return hak_max(hak_min(spare, TINY_LEAST), BUDGET_LEAST);
}

static void set_for(unsigned count) {
    size_t each = hak_thread_budget() / count, tiny = each / TINY_SHARE;
    atomic_store(&shared, count);
    if (HAK_UNLIKELY(count > hak_os_cpu_count() || hak_depot_is_open() || hak_depot_serves()))
        set_for_crowd(count,
                      tiny); /* the last of these: hak_thread_note_crowd may have been late */
    tiny = hak_max(tiny, hak_min(tiny * 2, TINY_ENOUGH));
    hak_cache_set_budget(HAK_TINY, hak_max(tiny, tiny_least(count, each)));
    hak_cache_set_budget(HAK_MID, hak_max(each - tiny, BUDGET_LEAST));
}

/* The count is -1 for a moment in the child of a fork in a handler that interrupted the thread's end. */
static unsigned wanted(void) {
    const unsigned count = hak_thread_count();
    return (int)count > 0 ? count : 1;
}

static bool fits(void) {
    const unsigned count = wanted(), now = atomic_load(&shared);
    return count <= now + now / MORE_PART && count > now / LESS_PART;
}

void hak_thread_share(void) {
    do {
        set_for(wanted());
    } while (!fits()); /* threads have compared with the former count meanwhile */
}

void hak_thread_add(unsigned more) {
    (void)atomic_fetch_add(&threads, more); /* S1 */
    if (!fits()) atomic_store(&sharing.is_due, true);
}

void hak_thread_fit(void) {
    while (HAK_UNLIKELY(atomic_load(&sharing.is_due)) && !atomic_load(&sharing.is_busy) &&
           !atomic_exchange(&sharing.is_busy, true)) { /* S2 */
        atomic_store(&sharing.is_due, false);          /* S3 */
        hak_lock_acquire(&hak_thread_list_lock);
        hak_thread_share();
        hak_lock_release(&hak_thread_list_lock);
        atomic_store(&sharing.is_busy, false);
    }
}

HAK_BEHIND void hak_thread_recount(unsigned count) {
    hak_store_relaxed(&threads, count);
    hak_store_relaxed(&hak_depot_novice_calls, 0);
    hak_store_relaxed(&sharing.is_busy, false); /* the thread that was may have stayed behind */
    if (!fits()) atomic_store(&sharing.is_due, true);
}
