/* cache.h: a thread's free blocks, one array per size class.
 *
 * A magazine is a stack of block addresses. It never accesses the blocks themselves.
 *
 *   base -> [NULL] [block] [block] ... [block]            ...
 *             ^sentinel                  ^top      ^limit
 *
 *   base <= top < base + slots; blocks in the magazine = top - base
 *   pop: *top is NULL exactly when the magazine is empty
 *   push: the fast path counts a magazine with top >= limit as full and leaves it to the slow
 *         path. limit is
 *           base + slots - 1  usually;
 *           less              in a braked magazine;
 *           0                 in a magazine without a stack (all zero), and in those of classes
 *                             whose slabs have colours, since there the slow path must check
 *                             where the block begins.
 *         Only the low 32 bits are compared. If a stack crosses a multiple of 4 GiB, its
 *         magazine counts as full too early, and the slow path finds the room.
 *
 * So three rare cases need no branch on the fast path. A thread without a cache uses the shared
 * cache `none`: all its magazines count as full, and its routing table leads to magazine 0,
 * which is always empty. A thread that has exited uses `dead`, which is the same. NULL, foreign
 * pointers and large blocks lead to magazines that always count as full.
 *
 * A cache belongs to its thread. Other threads only count the blocks of a magazine, for
 * statistics: they read `top` without a lock, and the rest under the stack lock. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"
#include "debug/call_paths.h"
#include "os/gate.h"
#include "region/region.h"

typedef struct {
    _Atomic(void **) top; /* owner writes; first member: hot paths use the magazine's offset */
    uint64_t start_test;  /* constant from the first stack on; for hak_is_block_start */
    uint32_t limit;       /* owner; low half of the address of the last slot, or 0 */
    uint16_t slots;       /* owner, stack lock to write; sentinel included; a power of two or 0 */
    uint16_t batch;       /* owner; blocks that the last slow call moved; FLUSHED: to the shard */
    void **base;          /* owner, stack lock to write */
} hak_magazine_t;

_Static_assert(sizeof(hak_magazine_t) == 1 << HAK_MAGAZINE_SHIFT,
               "the map holds byte offsets of magazines");

typedef struct hak_cache {
    hak_magazine_t magazines[HAK_CLASS_LIMIT];
    uint16_t route[HAK_SMALL_MAX / 8 + 1]; /* (size + 7) / 8 -> byte offset of its magazine */
    hak_lock_t stack_lock;                 /* innermost but for meta; see above */
    hak_gate_post_t post;                  /* whether its thread is inside the engine. In the child
                                              of a fork the posts and caches of the parent's
                                              other threads are lost */
    uint8_t shard;    /* stack lock to write; home, changes only between two threads */
    uint8_t partner;  /* owner; the shard with which it exchanged blocks last: see magazine.h */
    bool holds;       /* lock of its group; waits with blocks in its magazines */
    bool braked;      /* owner; see hak_cache_brake */
    bool has_sampler; /* owner; see sampler.h */
    bool unguarded;   /* owner; it has a sampler, and only the profiler counts */
    uint8_t noted;    /* owner; mid refills, of which policy/dyn_size.h takes some; modulo 256 */
    uint8_t upgraded[HAK_CLASS_LIMIT]; /* blocks of the class above given for this one */
    uint8_t streak[HAK_CLASS_LIMIT];   /* slow calls in a row that went the same way; after 255
                                          it goes on at 256 - STREAM_CALLS */
    uint32_t tid;                      /* stack lock to write; its thread's number, or 0 */
    uint32_t process;                  /* stack lock to write; that its thread belongs to */
    _Atomic uintptr_t place; /* its thread writes; that of its thread, or 0: silent_exit.h */
    uint32_t slow_count;     /* slow calls so far */
    uint32_t born;           /* slow_count when its thread got it */
    uint32_t clock[HAK_CACHED_TIERS];  /* slow calls of the tier's magazines */
    uint32_t used_at[HAK_CLASS_LIMIT]; /* `clock` at the last slow call of the magazine */
    uint16_t seen[HAK_CLASS_LIMIT];    /* bits of `top` at the last look for idle magazines */
    uint32_t rounds;                   /* owner; not yet told to policy/band_cost.h */
    uint32_t heap_units;               /* in use when it last gave back classes that were left */
    uint8_t lefts;                     /* how often it did, modulo 256 */
    uint8_t changing;                  /* owner; changes under way, see hak_cache_begin_change */
    uint16_t victim;                   /* magazine that is asked next to give up room */
    size_t capacity[HAK_CACHED_TIERS]; /* bytes of blocks that its stacks may hold */
    struct hak_stacks *stacks;         /* owner; see stacks.h */
    struct hak_lifo *lifos;            /* owner, stack lock to write; see lifo.h */
    _Atomic(struct hak_warm_cache *) warm;       /* owner writes; see warm_cache.h */
    _Atomic(struct hak_quarantine *) quarantine; /* owner writes; see hardened/quarantine.h */
    struct hak_quarantine *quick;   /* owner; the same if all parts of the hardened path are on */
    struct hak_cache *next;         /* constant once in the list of all caches */
    struct hak_cache *next_waiting; /* lock of its group; caches without a thread */
} hak_cache_t;

/* Counters of a cache in one band, over all threads that it has served. They lie behind the
 * cache in memory, so that the two constant caches need no room for them. */
typedef struct {
    _Atomic uint64_t uc_miss;   /* owner writes; refills */
    _Atomic uint64_t refilled;  /* owner writes; blocks taken from shards */
    _Atomic uint64_t flushed;   /* owner writes; blocks given to shards */
    _Atomic uint64_t lifo_hits; /* owner writes; refills that the second level served */
} hak_cache_counts_t;

enum { HAK_CACHE_SIZE = sizeof(hak_cache_t) + HAK_BAND_COUNT * sizeof(hak_cache_counts_t) };
_Static_assert((size_t)HAK_CACHE_SIZE <= 4096, "a cache is one page of records");

/* Shares (sampler.h) lie at this offset, so the low bits of the offset of a share, too, tell its
 * class. */
enum { HAK_SAMPLER_AT = 4096 };
_Static_assert((int)HAK_SAMPLER_AT >> HAK_MAGAZINE_SHIFT >= (int)HAK_CLASS_LIMIT,
               "more than all classes");

HAK_FAST_PATH unsigned hak_class_of_magazine(size_t offset) {
    return (unsigned)(offset % HAK_SAMPLER_AT) >> HAK_MAGAZINE_SHIFT;
}

HAK_FAST_PATH hak_cache_counts_t *hak_cache_counts(hak_cache_t *cache, hak_band_t band) {
    return (hak_cache_counts_t *)(void *)(cache + 1) + band;
}

/* The caches of threads that have none yet, and of threads that no longer have one. */
extern const hak_cache_t hak_cache_none, hak_cache_dead;

/* The calling thread's cache. The library has at most 64 bytes of static TLS in all (a test
 * counts them), so it can be loaded late in a process. The build sets the TLS model (musl has its own needs). */
extern __thread hak_cache_t *hak_cache;

_Static_assert(offsetof(hak_cache_t, magazines) == 0 && offsetof(hak_magazine_t, top) == 0,
               "a magazine's byte offset is the offset of its top");

/* The same, or NULL for a thread that has none. */
HAK_FAST_PATH hak_cache_t *hak_cache_own(void) {
    hak_cache_t *cache = hak_cache;
    return cache == &hak_cache_none || cache == &hak_cache_dead ? NULL : cache;
}

/* True when the fast path must not push a block on a magazine. */
HAK_FAST_PATH bool hak_cache_is_full(const hak_magazine_t *magazine, void **top) {
    return (uint32_t)(uintptr_t)top >= magazine->limit;
}

/* False: the block is not one of the two newest of a stack. True: it probably is. Below an empty
 * stack's sentinel lies a word of another record (meta.h), so check with the next function. */
HAK_FAST_PATH bool hak_cache_may_hold(void *const *top, const void *block) {
#ifdef __SANITIZE_THREAD__ /* would see a race with that record's owner */
    return top[0] == block;
#else
    return top[0] == block || top[-1] == block;
#endif
}

/* True when a magazine with a stack has a block as one of its two newest. */
HAK_FAST_PATH bool hak_cache_holds(const hak_magazine_t *magazine, const void *block) {
    void **top = hak_load_relaxed(&magazine->top);
    return top[0] == block || (top > magazine->base && top[-1] == block);
}

HAK_FAST_PATH hak_magazine_t *hak_cache_magazine(hak_cache_t *cache, size_t offset) {
    return (hak_magazine_t *)(void *)((char *)cache + offset);
}

HAK_FAST_PATH size_t hak_cache_offset_of(const hak_cache_t *cache, const hak_magazine_t *magazine) {
    return (size_t)((const char *)magazine - (const char *)cache);
}

/* Pops the newest block of a magazine; NULL when it is empty. */
HAK_FAST_PATH void *hak_cache_pop(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **top = hak_load_relaxed(&magazine->top);
    if (*top) hak_store_relaxed(&magazine->top, top - 1);
    return *top;
}

/* Refills the empty magazine of a class and returns a block; NULL when there is no memory.
 * The first blocks of a small class may be of the class above.
 * If `zeroed` is not NULL, takes this one block only, and stores whether it is known to be zero.
 * If `cache` is NULL (the thread is exiting, or has made few calls so far), takes one block from the depot
 * of the CPU or the shard. */
void *hak_cache_refill(hak_cache_t *cache, unsigned class_index, bool *zeroed);

/* Puts a freed block into a full magazine: makes the stack larger, or gives its oldest blocks to the shard. If `cache`
 * is NULL, gives the block to the depot of the CPU (cpu_depot.h) if depots serve such threads, else to the shard. False
 * when the depot finds a double free. */
bool hak_cache_overflow(hak_cache_t *cache, unsigned class_index, void *block);

/* Gives the blocks of all magazines to the shards, and warm slabs back. */
void hak_cache_flush_all(hak_cache_t *cache);

/* The same at the end of a thread. If depots are open (cpu_depot.h), the depot of the CPU takes as many blocks as it
 * has room for: the next thread there needs such blocks. */
void hak_cache_pass_on(hak_cache_t *cache);

/* Before a cache may wait for its next thread on a large machine: if it holds more than HAK_WAITING_BYTES, each
 * magazine gives all but its newest 4 KiB of blocks to the depot of the CPU and the shards. */
enum { HAK_WAITING_BYTES = 256 * 1024 };
void hak_cache_rest(hak_cache_t *cache);

/* Brakes a thread that frees faster than purge work gives memory back. Slow calls do the purge
 * work; with small stacks more frees become slow. Small stacks also hold fewer blocks, each of
 * which may be the last one that keeps its slab from becoming free. Each call of the first
 * function brakes some more magazines. The second ends the braking, for each magazine at its
 * next slow calls: a refill at once, overflows by doubling. */
void hak_cache_brake(hak_cache_t *cache);
void hak_cache_unbrake(hak_cache_t *cache);

/* Blocks that were already free when they left a cache. */
enum { HAK_BAD_MOST = 64 };
typedef struct {
    void **first; /* of `count`; in `blocks` */
    unsigned count, class_index;
    void *blocks[1 + HAK_BAD_MOST];
} hak_bad_t;

/* Empties one magazine of a cache that has no thread and no warm slabs, or a part of it: up to blocks that were already
 * free, which are in *bad. The caller reports them when it has put the cache back, since the program's handler of
 * SIGABRT may jump away. False when all magazines are empty. */
bool hak_cache_flush_magazine(hak_cache_t *cache, hak_bad_t *bad);
void hak_magazine_report(const hak_bad_t *bad);

/* Makes a cache whose magazines have no stacks. NULL when there is no memory. */
hak_cache_t *hak_cache_make(void);

/* Takes the stacks from all magazines without looking at what they held. For a cache whose
 * thread does not exist in the child of a fork, and whose state is therefore unknown; no slab is
 * bound to it any more. */
void hak_cache_reset(hak_cache_t *cache);

/* Sets how many bytes of blocks of a tier each cache may hold from now on. */
void hak_cache_set_budget(hak_tier_t tier, size_t bytes);
size_t hak_cache_budget(hak_tier_t tier);

/* Number of blocks of a class that a cache holds; 0 for a lost cache. Any thread may call it. */
size_t hak_cache_count(hak_cache_t *cache, unsigned class_index);
