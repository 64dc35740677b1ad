/* revoke.h: the memory that caches may hold goes to the threads that run.
 *
 * All caches of a tier share one budget. A cache charges to it what its stacks may hold. Where
 * threads outnumber CPUs and the budget is used up, a thread that needs room revokes the blocks of
 * caches whose threads make no slow calls: most of each magazine goes to the shards, and what the
 * cache had charged is free for others. The stacks stay, and the thread charges them again when it
 * makes its next slow call.
 *
 * PROTOCOL between an owner O, whose fast paths take no lock and look at no flag, and a revoker R
 *
 * Fast paths of O: pop reads top, then *top, and only then moves top down. A block of NULL sends
 * it to the slow path. push moves top up, then writes the slot.
 *
 *   S1  O begins a slow call: busy = ALL; looks at revoke_lock. If it is held, O waits for it
 *   S2  O moves blocks between one magazine and a shard, which may take long: busy = its class.
 *       Afterwards O does S1 again
 *   S3  O ends the slow call: busy = 0
 *   R1  R takes revoke_lock of the cache (a try), and then a barrier in all threads
 *   R2  busy is ALL -> R lets the cache go; busy is a class -> R passes that magazine over
 *   R3  for each other magazine, mark = top - 1; held = exchange(*mark, NULL). Then a barrier
 *   R4  now = top, and then a barrier
 *   R5  now > mark and *mark is still NULL -> held, and all blocks below mark, are R's
 *       otherwise CAS(*mark, NULL -> held): the magazine keeps them
 *   R6  R notes in `revoked` which magazines it took from, and lets the cache go
 *
 * O finds a mark as it finds the sentinel: the magazine is empty. Its next slow call moves the blocks
 * above the mark down to the sentinel (hak_revoke_enter).
 *
 * Rejected races:
 *  - O is in a slow call, and its stores are delayed: the barrier of R1 makes busy visible, or O
 *    sees the lock.
 *  - O has read the block at mark before R3, and has not moved top yet: then top = mark still at R4,
 *    since the barrier of R3 came in between; or top was mark, and the program has the block.
 *  - O has taken the block at mark, pushed another one and gone on upwards: that block stands in the
 *    slot. The barrier of R4 makes it visible, also where a CPU reorders the stores of push.
 *  - O finds NULL at mark, and R gives up at R5: O waits in S1, and then pops the block.
 *  - R5 writes `held` to a slot above top: no one reads that slot before O has written it.
 * So a thread that runs loses nothing but the time of some slow calls. One block stays in a magazine
 * that has any, since of the newest one nobody but O knows whether it is taken.
 * Rejected: restartable sequences, since the fast path would have to announce them. */
#ifndef HAK_REVOKE_H
#define HAK_REVOKE_H

#include "cache/cache.h"

/* Sets how many bytes of blocks of a tier all caches may hold together. SIZE_MAX: no revocation. */
void hak_revoke_set_budget(hak_tier_t tier, size_t bytes);

/* Charges the growth of a stack, or what a cache gives up (a negative number). */
void hak_revoke_charge(hak_tier_t tier, size_t bytes);

/* True when all caches together hold more than the budget of a tier. */
bool hak_revoke_is_over(hak_tier_t tier);

/* True when a cache may charge `bytes` more, perhaps after others were revoked. */
bool hak_revoke_find_room(const hak_cache_t *cache, hak_tier_t tier, size_t bytes);

/* A cache charges nothing until its next slow call. By its owner, in a slow call. */
void hak_revoke_uncharge(hak_cache_t *cache);

/* In the child of a fork: nobody but `own`, or nobody, has charged anything. */
void hak_revoke_forget_others(const hak_cache_t *own);

/* The slot below the oldest block of a magazine: the sentinel, or a mark. */
void **hak_revoke_floor(const hak_cache_t *cache, unsigned class_index, void **top);

/* S1. True when something was revoked, or could have been: an empty magazine may have blocks now. */
enum { HAK_BUSY_ALL = 255 };
bool hak_revoke_settle(hak_cache_t *cache);
HAK_FAST_PATH bool hak_revoke_enter(hak_cache_t *cache) {
    hak_store_relaxed(&cache->busy, HAK_BUSY_ALL); /* partner: R2 */
    atomic_signal_fence(memory_order_seq_cst);
    bool held = hak_load_acquire(&cache->revoke_lock.state) != 0; /* partner: R6 */
    if (HAK_LIKELY(!held && hak_load_relaxed(&cache->charged))) return false;
    return hak_revoke_settle(cache);
}

/* S2, and S3 with class 0. */
HAK_FAST_PATH void hak_revoke_leave_for(hak_cache_t *cache, unsigned class_index) {
    hak_store_release(&cache->busy, class_index); /* partner: R2 */
}
HAK_FAST_PATH void hak_revoke_leave(hak_cache_t *cache) { hak_revoke_leave_for(cache, 0); }

#endif
