/* call_paths.h: counts the path that each call took. In the debug build only, because a counter for
 * each call is too slow for other builds.
 *
 * Blocks are counted by class, calls for the process as a whole. stats/stats.def states the
 * equations that hold between the counters. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"

/* Blocks, by class; large and huge ones are HAK_CLASS_LARGE. */
enum {
    HAK_CALL_ALLOCATED, /* given to the program */
    HAK_CALL_FREED,     /* freed by the program */
    HAK_CALL_TLS_SLL,   /* pushed on the magazine of the freeing thread */
    HAK_CALL_SS_LOCAL,  /* set free in a slab of the thread's home shard */
    HAK_CALL_SS_REMOTE, /* set free in a slab of another shard */
    HAK_CALLS
};

/* Calls: how a free ended that the fast path did not serve; where a refill found blocks; why
 * a refill took one block only. */
enum {
    HAK_WAY_FREE_SLOW, /* all such frees */
    HAK_WAY_FREE_NULL,
    HAK_WAY_FREE_BAD,
    HAK_WAY_FREE_TWICE,
    HAK_WAY_FREE_LARGE,
    HAK_WAY_FREE_HUGE,
    HAK_WAY_FREE_NO_CACHE,
    HAK_WAY_FREE_NO_STACK,
    HAK_WAY_FREE_FULL,
    HAK_WAY_FREE_ROOM,
    HAK_WAY_REFILL_CALLS, /* all refills */
    HAK_WAY_REFILL_ABOVE,
    HAK_WAY_REFILL_LIFO,
    HAK_WAY_REFILL_DEPOT,
    HAK_WAY_REFILL_OWN,
    HAK_WAY_REFILL_OTHERS,
    HAK_WAY_REFILL_OWN_FRESH,
    HAK_WAY_REFILL_WARM,
    HAK_WAY_REFILL_BUDGET,
    HAK_WAY_REFILL_EMPTY,
    HAK_WAY_REFILL_POOL,
    HAK_WAY_REFILL_OTHERS_ANY,
    HAK_WAY_REFILL_NONE,
    HAK_WAY_REFILL_ONE_ZEROED,
    HAK_WAY_REFILL_ONE_NO_CACHE,
    HAK_WAY_REFILL_ONE_NO_STACK,
    HAK_WAYS
};

#if HAKMEM_DEBUG
extern _Atomic uint64_t hak_calls[HAK_CLASS_LIMIT][HAK_CALLS]; /* any thread adds */
extern _Atomic uint64_t hak_ways[HAK_WAYS];                    /* any thread adds */

#define HAK_COUNT_BLOCKS(class_index, call, count) \
    (void)hak_add_relaxed(&hak_calls[class_index][call], count)
#define HAK_COUNT_WAY(way) (void)hak_add_relaxed(&hak_ways[way], 1)
#define HAK_WAY_FOUND(way, count) hak_way_found(way, count)

/* Counts a way if it found blocks; returns `count`. Here, so that an analyzer sees that. */
HAK_FAST_PATH unsigned hak_way_found(unsigned way, unsigned count) {
    if (count) HAK_COUNT_WAY(way);
    return count;
}
#else
#define HAK_COUNT_BLOCKS(class_index, call, count) ((void)0)
#define HAK_COUNT_WAY(way) ((void)0)
#define HAK_WAY_FOUND(way, count) (count)
#endif

#define HAK_COUNT_CALL(class_index, call) HAK_COUNT_BLOCKS(class_index, call, 1)
