/* verify.c: every check, with every other thread outside the engine.
 *
 * A fork needs the same, so this uses the same means: it closes the gate (os/gate.h). Then no lock is
 * held, no slab is claimed, no remote free is half done, and no unit is on its way between two owners.
 * Fast paths continue; they change only the `top` of the thread's own magazines.
 *
 * In a signal handler, the interrupted thread may itself be inside, or in the middle of a change of a magazine, a check
 * or a collection of statistics. Then figures may not add up, and it may hold a lock, even that of the check. So the
 * check gives no answer there, nor in the child of a fork in that handler until the interrupted call has ended. */
#include "thread/verify.h"

#include "cache/verify.h"
#include "cache/warm_cache.h"
#include "commit/commit.h"
#include "hardened/guard.h"
#include "hardened/guard_sample.h"
#include "hardened/verify.h"
#include "large/verify.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "meta/verify.h"
#include "os/gate.h"
#include "os/lock.h"
#include "pool/verify.h"
#include "region/verify.h"
#include "region/region.h"
#include "shard/verify.h"
#include "thread/helper_thread.h"
#include "thread/thread.h"

/* One at a time; apart from the gate, which a second one would wait for. */
static hak_lock_t verify_lock;
HAK_LOCK_RANK(VERIFY, verify_lock, NULL);

void hak_verify_forget(void) { hak_lock_reset(&verify_lock); }

static void add_dirty(hak_superslab_t *super, void *units) {
    *(size_t *)units += super->dirty ? hak_bit_count(super->dirty) : 0;
}

/* Compares the sum of commit.h with the sum over everything that is charged. */
static void check_committed(hak_check_t *check) {
    size_t units = 0, lost = 0;
    hak_region_each_superslab(add_dirty, &units);
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) lost += hak_kept_parts[i].lost_bytes;
    hak_check_equal(
        check, "committed bytes", NULL,
        "units with pages + huge blocks + what is kept or lost of them + records + sampled pages",
        hak_commit_bytes(),
        units * HAK_UNIT_SIZE - hak_guard_units_uncharged() +
            hak_load_relaxed(&hak_huge_stats.held_bytes) + lost + hak_areas_committed() +
            hak_guard_sample_committed());
}

/* Compares the blocks that threads have carved since the process began, then checks each cache. */
static void check_caches(hak_check_t *check, const uint64_t carved[HAK_CLASS_COUNT + 1]) {
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        hak_warm_cache_counts_t sum = {{0}};
        for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
            hak_warm_cache_add_counts(cache, i, &sum);
        hak_check_equal(check, "warm slabs", NULL, "blocks in use = used + what was carved",
                        sum.counts[HAK_WARM_TAKEN], 0 - carved[i]);
    }
    for (const hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next)
        if (!hak_gate_is_lost(&cache->post)) hak_cache_check(check, cache);
}

size_t hak_verify(void) {
    hak_check_t check = {0};
    uint64_t carved[HAK_CLASS_COUNT + 1];
    if (hak_cache->changing || !hak_gate_begin_question()) return SIZE_MAX;
    hak_helper_look_whose();
    /* In a fork handler: a thread that has the lock waits at the caller's gate. */
    const bool in_fork = hak_gate_is_mine();
    if (!in_fork) hak_lock_acquire_apart(&verify_lock);
    hak_gate_close(NULL, NULL);
    hak_region_check(&check);
    hak_meta_check(&check);
    hak_pool_check(&check);
    hak_shard_check(&check, carved);
    hak_heaps_check(&check);
    hak_huge_check(&check);
    hak_thread_check(&check);
    check_caches(&check, carved);
    check_committed(&check);
    hak_hardened_check(&check);
    hak_gate_open_mine();
    if (!in_fork) hak_lock_release_apart(&verify_lock);
    hak_gate_end_question();
    return check.violations;
}
