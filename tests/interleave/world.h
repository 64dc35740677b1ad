/* world.h: what the checked code stands on (world.c), and a ledger of who holds which block (world_ledger.c).
 *
 * The sources of src/shard/ are the real ones. Below them is the least that works: a few units as the pool,
 * an arena that reuses a bitmap on request only, a lock that waits by the explorer. */
#pragma once

#include "shard/bin.h"
#include "shard/warm_slab.h"

enum {
    WORLD_SHARDS = 2,
    WORLD_UNITS = 4,
    /* The size classes in use: slabs of 1, 2, 4 and 68 blocks; the last have two words of bitmap. */
    WORLD_ONE = 81,
    WORLD_PAIR = 73,
    WORLD_QUAD = 63, /* with colours */
    WORLD_TWO_WORDS = 32,
    WORLD_COUNTED = 41, /* 32 blocks; its counters are followed, too */
};

/* Once; for scenarios with warm slabs also the second one, which makes more steps. */
void world_make(void);
void world_track_warm(void);

/* A new execution: no slabs, `units` units in the pool. */
void world_reset(unsigned units);

/* Until the next reset: TINY_PROFILE=larson_guard. */
void world_guard(void);

/* hak_shard_take and hak_shard_flush, with the ledger: a block that is handed out is nobody's, one
 * that is freed is no longer the caller's. The content of blocks is written, too, so that a race
 * between a block's former and next holder is a violation. */
unsigned world_take(unsigned home, unsigned class_index, unsigned want, void **blocks);
void world_free(unsigned home, unsigned class_index, void *block);

/* The same ledger for hak_shard_take_last. */
unsigned world_take_last(unsigned home, unsigned class_index, void **block);

/* A thread's warm slabs: one slot. In prepare. They are of WORLD_QUAD, at home in shard 0. */
hak_warm_t *world_warm(void);

/* The same ledger for hak_warm_take, and for a refill: hak_shard_take_warm when that has none. */
unsigned world_carve(hak_warm_t *warm, unsigned want, void **blocks);
unsigned world_carve_locked(hak_warm_t *warm, unsigned want, void **blocks);
unsigned world_refill(hak_warm_t *warm, unsigned want, void **blocks);

/* Frees a block for the second time; the ledger expects one report of that. */
void world_free_again(unsigned home, unsigned class_index, void *block);

/* After such a free that the call must tell, and not a later one. */
void world_check_told(void);

/* Frees blocks in one batch, blocks[twice] for the second time, if there is one. */
void world_free_batch(unsigned home, unsigned class_index, void **blocks, unsigned count,
                      unsigned twice);

/* Until the next reset: the gate's steps are explored, too. In prepare. */
void world_forks(void);

/* Until the next reset: no slab is made where a thread that has a unit in hand could see free blocks of WORLD_QUAD
 * in shard 0. */
void world_needs_one_slab(void);

/* Until the next reset: a thread calls this when a slab has left its bin, and belongs to nobody yet. In prepare. */
void world_at_leave(void (*call)(void));

/* One double free may go by without a report: where it does no harm, since the slab is another's. */
void world_may_miss(void);

/* Until the next reset: a bitmap that was given back may serve again. In prepare. */
void world_reuses(void);

/* What thread/fork.c does around a fork, up to the child: every other thread ends here. */
void world_fork(void);

/* What holds at any time: no slab is on two pending stacks. */
void world_check_always(void);

/* What holds when nothing is under way: after sweeps, every block that nobody holds is free, and
 * exactly once; every slab's equations hold; every unit has one place. */
void world_check_finally(void);

/* What the world consists of, the slabs first; the last row is empty. And the name of a variable in it, in
 * a bin or among the counts of bins; NULL for any other. */
typedef struct {
    const char *what;
    const void *start;
    size_t count, size; /* of entries; bytes of each */
} world_array_t;
extern const world_array_t world_arrays[];
const char *world_describe(const volatile void *variable);
