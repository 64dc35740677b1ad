/* silent_exit.c: takes the caches of threads that ended without a word; the protocol is in silent_exit.h. */
#include "thread/silent_exit.h"

#include "thread/home_group.h"

hak_place_t hak_places[HAK_PLACES] HAK_APART;

/* A thread that died inside may hold the stack lock of its cache. */
static bool is_outside(const hak_cache_t *cache) {
    return hak_load_acquire(&cache->post.inside) == 0 && !hak_gate_is_lost(&cache->post);
}

/* The process is asked when all else is true. */
static HAK_BEHIND bool is_left(const hak_cache_t *cache, uintptr_t place) {
    return is_outside(cache) && hak_load_relaxed(&cache->place) == place && /* A1 */
           cache->process == hak_os_process_id();
}

HAK_NEXT void hak_silent_exit_clear(hak_cache_t *cache) {
    hak_place_t *entry = hak_place_of(hak_load_relaxed(&cache->place));
    hak_cache_t *own = cache;
    if (hak_load_relaxed(entry) == cache) (void)hak_cas_release(entry, &own, NULL); /* A3 */
}

HAK_NEXT hak_cache_t *hak_silent_exit_take(void) {
    const uintptr_t place = hak_os_thread();
    hak_cache_t *cache = hak_load_acquire(hak_place_of(place)); /* partner: hak_silent_exit_note */
    if (HAK_LIKELY(!cache || hak_load_relaxed(&cache->place) != place)) return NULL;
    if (!is_left(cache, place)) return NULL;
    hak_group_forget(cache);
    return cache;
}
