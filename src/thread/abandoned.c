/* abandoned.c: recognises and takes the caches of threads that ended without a word; the protocol is in abandoned.h. */
#include "thread/abandoned.h"

#include "os/os.h"
#include "thread/home_group.h"
#include "thread/thread.h"

enum {
    LOOKS = 2, /* a start; of n caches, about n / LOOKS may wait for a look */
    FIRST_PROCESS = 1,
};

static _Atomic(hak_cache_t *) next_look; /* atomic; NULL: begin at the newest */

/* One that died inside may hold its stack lock. */
static bool is_outside(const hak_cache_t *cache) {
    return hak_load_acquire(&cache->post.inside) == 0 && !hak_gate_is_lost(&cache->post);
}

HAK_BEHIND bool hak_abandoned_is(hak_cache_t *cache, unsigned process, unsigned shard) {
    if (!is_outside(cache)) return false;
    hak_lock_acquire(&cache->stack_lock);
    const unsigned thread = cache->tid;
    const bool is_judged = thread && cache->process == process && cache->shard == shard;
    hak_lock_release(&cache->stack_lock);
    return is_judged && hak_os_is_thread_gone(process, thread);
}

static HAK_BEHIND unsigned home_of(hak_cache_t *cache) {
    hak_lock_acquire(&cache->stack_lock);
    const unsigned shard = cache->shard;
    hak_lock_release(&cache->stack_lock);
    return shard;
}

static HAK_BEHIND bool take(hak_cache_t *cache, unsigned process) {
    if (!is_outside(cache)) return false;
    const unsigned shard = home_of(cache);
    return hak_abandoned_is(cache, process, shard) &&       /* A1 */
           hak_group_take_abandoned(cache, process, shard); /* A2, A3 */
}

HAK_BEHIND hak_cache_t *hak_abandoned_take(void) {
    const unsigned process = hak_os_process_id();
    hak_cache_t *cache = hak_load_acquire(&next_look), *taken = NULL; /* partner: below */
    for (unsigned left = process == FIRST_PROCESS ? 0 : LOOKS; left && !taken; left--) {
        if (!cache) cache = hak_thread_caches();
        if (!cache) return NULL;
        if (take(cache, process)) taken = cache;
        cache = cache->next;
    }
    hak_store_release(&next_look, cache);
    return taken;
}
