/* idle.h: gives back the blocks of magazines that the program does not use at present; internal to cache/.
 *
 * IDLE MAGAZINES. Blocks of a class that the program no longer uses would stay in the magazine,
 * each perhaps the only block that keeps its page. So each slow call also looks at one other
 * magazine of its tier and empties it if it is idle. A magazine is idle when it had no slow
 * call for N slow calls of its tier, and has at least as many blocks as at the last look; N
 * grows as its blocks pin fewer pages. Each tier counts its own slow calls: frequent slow calls of
 * mid magazines must not make tiny magazines, whose slow calls are rare, look idle.
 *
 * CLASSES THAT WERE LEFT. If a program goes on to other classes, blocks in a magazine, perhaps one in each slab, keep
 * whole slabs from being used by them. So before a refill may make the heap grow, it empties the magazines that hold
 * nearly all blocks of their class that are in no slab. If depots are open, there are too many threads for that: each
 * would look at all classes. */
#pragma once

#include "cache/cache.h"

/* A slow call of the tier looks at a magazine, and empties it if it is idle. `now`: the tier's count of slow calls. */
void hak_idle_look(hak_cache_t *cache, unsigned class_index, uint32_t now);

/* Gives back the blocks that the thread and its shard keep of classes that the program has left, so that whole slabs
 * are used instead of pages that do not exist yet. Classes that a program uses in turn would take the same slabs from
 * each other; so one time in LEFT_TIMES the next comparison is with the heap as it was before, because taking these
 * slabs again is no growth. */
void hak_idle_give_left(hak_cache_t *cache);

/* ---- Brakes: hak_cache_brake in cache.h ---- */

HAK_FAST_PATH bool hak_idle_is_braked(const hak_magazine_t *magazine) {
    return magazine->limit &&
           magazine->limit != (uint32_t)(uintptr_t)(magazine->base + magazine->slots - 1);
}

HAK_FAST_PATH void hak_idle_set_limit(hak_magazine_t *magazine, unsigned slots) {
    if (magazine->limit) /* if it is 0, the class has colours, or the magazine has no stack */
        magazine->limit = (uint32_t)(uintptr_t)(magazine->base + slots - 1);
}

/* An overflow of a braked magazine: empties it, and lets its stack be longer once the brake has ended. */
void hak_idle_empty_braked(hak_cache_t *cache, unsigned class_index);
