/* cache.h: a thread's free blocks, one array per size class.
 *
 * A magazine is a stack of block addresses; the blocks themselves are never touched.
 *
 *   base -> [NULL] [block] [block] ... [block]            ...
 *             ^sentinel                  ^top      ^limit
 *
 *   base <= top < base + slots; blocks in the magazine = top - base
 *   pop: *top is NULL exactly when the magazine is empty
 *   push: top >= limit is a full magazine. limit = base + slots - 1, or 0, which no top is
 *         below: in every magazine without a stack (all zero), and in those of classes whose slabs
 *         have colours, where it takes a closer look whether a block begins as it should;
 *         less in a magazine that is braked. Low halves are compared: a stack that lies across
 *         a multiple of 4 GiB would be found full too early, and then looked at closely
 *
 * So three rare cases need no branch of their own: a thread without a cache has
 * the shared `none` cache, whose magazines are all full and whose routing table leads
 * to magazine 0, which is always empty; an exited thread has `dead`, the same; and NULL,
 * foreign pointers and large blocks have magazines that are always full.
 *
 * A cache is its thread's own. Others only count the blocks of a magazine, for statistics:
 * they read `top` as it is, and the rest under the stack lock. */
#ifndef HAK_CACHE_H
#define HAK_CACHE_H

#include "base/base.h"
#include "classes/classes.h"
#include "debug/ways.h"
#include "os/gate.h"
#include "region/region.h"

typedef struct {
    _Atomic(void **) top; /* owner writes; first: the hot paths address it by the offset alone */
    uint64_t start_test;  /* constant from the first stack on; is it the start of a block? */
    uint32_t limit;       /* owner; low half of the address of the last slot, or 0 */
    uint16_t slots;       /* owner, stack lock to write; sentinel included; a power of two or 0 */
    uint16_t batch;       /* owner; blocks the last slow call moved; FLUSHED: to the shard */
    void **base;          /* owner, stack lock to write */
} hak_magazine_t;

_Static_assert(sizeof(hak_magazine_t) == 1 << HAK_MAGAZINE_SHIFT,
               "the map holds byte offsets of magazines");

typedef struct hak_cache {
    hak_magazine_t magazines[HAK_CLASS_LIMIT];
    uint16_t route[HAK_SMALL_MAX / 8 + 1]; /* (size + 7) / 8 -> byte offset of its magazine */
    hak_lock_t stack_lock;                 /* innermost but for meta; see above */
    hak_gate_post_t post;                  /* whether its thread is inside the engine; lost, with
                                              all that it holds, where a fork left that behind */
    uint8_t shard;                         /* home; changes only between two threads */
    bool holds;                        /* thread list lock; waits with blocks in its magazines */
    bool flushing;                     /* thread list lock; waited, and is being emptied */
    bool braked;                       /* owner; see hak_cache_brake */
    uint8_t upgraded[HAK_CLASS_LIMIT]; /* blocks of the class above given for this one */
    uint8_t streak[HAK_CLASS_LIMIT];   /* slow calls that went the same way; 255 goes round */
    uint32_t tid;                      /* thread list lock; its thread's number, or 0 */
    uint32_t slow_count;               /* slow calls so far */
    uint32_t born;                     /* slow_count when its thread got it */
    uint32_t clock[HAK_CACHED_TIERS];  /* slow calls of the tier's magazines */
    uint32_t used_at[HAK_CLASS_LIMIT]; /* that when the magazine was slow last */
    uint16_t seen[HAK_CLASS_LIMIT];    /* bits of `top` at the last look for magazines that rest */
    uint16_t victim;                   /* magazine that is asked next for its budget */
    size_t capacity[HAK_CACHED_TIERS]; /* bytes of blocks that its stacks may hold */
    struct hak_lifo *lifos;            /* owner, stack lock to write; see lifo.h */
    _Atomic(struct hak_warm_cache *) warm; /* owner writes; see warm_cache.h */
    struct hak_cache *next;                /* constant once in the list of all caches */
    struct hak_cache *next_waiting;        /* thread list lock; caches without a thread */
} hak_cache_t;

/* What a cache has done in one band, for all threads that it has served. It lies behind
 * the cache, so that the two constant caches are no larger for it. */
typedef struct {
    _Atomic uint64_t uc_miss;  /* owner writes; refills */
    _Atomic uint64_t refilled; /* owner writes; blocks taken from shards */
    _Atomic uint64_t flushed;  /* owner writes; blocks given to shards */
} hak_cache_counts_t;

enum { HAK_CACHE_SIZE = sizeof(hak_cache_t) + HAK_BAND_COUNT * sizeof(hak_cache_counts_t) };
_Static_assert((size_t)HAK_CACHE_SIZE <= 4096, "a cache is one page of records");

HAK_FAST_PATH hak_cache_counts_t *hak_cache_counts(hak_cache_t *cache, hak_band_t band) {
    return (hak_cache_counts_t *)(void *)(cache + 1) + band;
}

/* Caches of threads that have none yet, and none any more. */
extern const hak_cache_t hak_cache_none, hak_cache_dead;

/* The calling thread's cache: one pointer of static TLS, so that the library can be
 * loaded late in a process. The build sets the TLS model (musl has its own needs). */
extern __thread hak_cache_t *hak_cache;

_Static_assert(offsetof(hak_cache_t, magazines) == 0 && offsetof(hak_magazine_t, top) == 0,
               "a magazine's byte offset is the offset of its top");

/* True when a magazine takes no block by a plain push. */
HAK_FAST_PATH bool hak_cache_is_full(const hak_magazine_t *magazine, void **top) {
    return (uint32_t)(uintptr_t)top >= magazine->limit;
}

HAK_FAST_PATH hak_magazine_t *hak_cache_magazine(hak_cache_t *cache, size_t offset) {
    return (hak_magazine_t *)(void *)((char *)cache + offset);
}

/* The newest block of a magazine, NULL when it is empty. */
HAK_FAST_PATH void *hak_cache_pop(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **top = hak_load_relaxed(&magazine->top);
    if (*top) hak_store_relaxed(&magazine->top, top - 1);
    return *top;
}

/* A block of a class whose magazine is empty; the magazine is refilled. NULL without memory.
 * The very first blocks of a small class may be of the class above.
 * With `zeroed`, takes just this block and tells whether it is known to be zero.
 * A NULL cache (a thread on its way out) asks the shard for one block. */
void *hak_cache_refill(hak_cache_t *cache, unsigned class_index, bool *zeroed);

/* Takes a block of a class whose magazine is full: a larger stack, or the oldest blocks
 * go to the shard. A NULL cache gives the block straight to the shard. */
void hak_cache_overflow(hak_cache_t *cache, unsigned class_index, void *block);

/* Empties all magazines to the shards, and gives warm slabs back. */
void hak_cache_flush_all(hak_cache_t *cache);

/* For a thread that frees faster than purge work gives back, which is done by slow calls: its
 * frees become slow more often, and its stacks hold few blocks, each of which may be the last of
 * its slab. The first does some more magazines at each call; the second ends it, for each magazine
 * at its next slow call. */
void hak_cache_brake(hak_cache_t *cache);
void hak_cache_unbrake(hak_cache_t *cache);

/* Empties one magazine of a cache that has no thread and no warm slabs; false when all are empty. */
bool hak_cache_flush_magazine(hak_cache_t *cache);

/* A new cache, all magazines without a stack. NULL without memory. */
hak_cache_t *hak_cache_make(void);

/* All magazines without a stack, whatever they held: for the cache of a thread that a fork left
 * behind in an unknown state. Nothing is bound to it any more. */
void hak_cache_reset(hak_cache_t *cache);

/* Bytes of blocks of a tier that one cache may hold from now on; for all caches. */
void hak_cache_set_budget(hak_tier_t tier, size_t bytes);

/* Blocks that a cache holds of a class, from any thread; of one that is lost, none. */
size_t hak_cache_count(hak_cache_t *cache, unsigned class_index);

#endif
