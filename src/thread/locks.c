/* locks.c: every lock, in the order of os/rank.h. */
#include "thread/locks.h"

#include "large/huge.h"
#include "large/large.h"
#include "meta/meta.h"
#include "os/lock.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/shard.h"
#include "shard/warm.h"
#include "thread/thread.h"

/* All within that of the thread list, which is the last to be let go: the list of caches
 * must not grow before. */
static bool each(hak_lock_visit_t visit, void *context) {
    if (!hak_shard_each_lock(visit, context) || !hak_large_each_lock(visit, context)) return false;
    if (!visit(&hak_pool_lock, context) || !visit(&hak_region_lock, context)) return false;
    if (!visit(&hak_huge_lock, context)) return false;
    if (!hak_thread_each_stack_lock(visit, context)) return false;
    return visit(&hak_meta_lock, context);
}

static bool keep(hak_lock_t *lock, void *unused) {
    (void)unused;
    hak_lock_keep(lock);
    return true;
}

static bool unkeep(hak_lock_t *lock, void *unused) {
    (void)unused;
    hak_lock_unkeep(lock);
    return true;
}

typedef struct {
    unsigned tries, taken;
} bounded_t;

static bool acquire_within(hak_lock_t *lock, void *context) {
    bounded_t *bounded = context;
    bool done = hak_lock_acquire_within(lock, &bounded->tries);
    bounded->taken += done;
    return done;
}

static bool release_taken(hak_lock_t *lock, void *context) {
    bounded_t *bounded = context;
    if (bounded->taken == 0) return false;
    bounded->taken--;
    hak_lock_release(lock);
    return true;
}

bool hak_locks_keep_within(unsigned tries) {
    bounded_t bounded = {.tries = tries};
    if (!hak_lock_acquire_within(&hak_thread_list_lock, &bounded.tries)) return false;
    bool all = each(acquire_within, &bounded) && hak_warm_claim_all_within(&bounded.tries);
    if (all) {
        hak_lock_keep(&hak_thread_list_lock);
        each(keep, NULL);
        hak_lock_set_keeper(true);
    } else {
        each(release_taken, &bounded);
        hak_lock_release(&hak_thread_list_lock);
    }
    return all;
}

void hak_locks_let_go(void) {
    hak_lock_set_keeper(false);
    hak_warm_unclaim_all();
    each(unkeep, NULL);
    hak_lock_unkeep(&hak_thread_list_lock);
}
