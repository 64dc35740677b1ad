/* trials.h - figures, and the programs that move them.
 *
 * A program runs in a process of its own; the figure is read before and after. A row of stats.def
 * without a trial fails the test. Figures of classes are read for the class of SIZE and for its band,
 * those of tiers for all four. The environment has HAKMEM_SHARDS=2, so that a thread's home is
 * another shard than main's. */
#pragma once

#include "stats.h"

/* A class whose first blocks are not taken from the class above. */
enum { SIZE = 224, COUNT = 1000, MIB = 1024 * 1024 };

static const uint64_t any = UINT64_MAX / 2; /* nothing comes near */

struct trial {
    const char *group, *name;
    void (*program)(void);
    uint64_t least, most; /* by how much the figure then has grown */
};

struct set_trial {
    struct trial trial;
    const char *setting; /* NAME=VALUE of an option that is fixed at start, or NULL */
};

extern const struct trial counter_trials[];
extern const struct set_trial set_trials[], way_trials[], record_trials[];
extern const size_t counter_trial_count, set_trial_count, way_trial_count, record_trial_count;

extern void *blocks[COUNT * 10];
extern void *volatile kept; /* so that no call is optimised away */

void allocate_some(size_t count, size_t size);
void free_some(size_t count);
void in_a_thread(void *(*body)(void *), void *argument);

/* Programs of counters.c that ways.c uses, too. */
void hold(void);
void hold_and_free(void);
void free_and_trim(void);
void allocate_in_another_shard(void);
void free_in_another_shard(void);
void free_in_another_shard_and_drain(void);
void leave_empty_slabs(void);
void refill_warm(void);
void refill_warm_to(int last);
void swing_beside_threads(void);

/* Programs of whole.c, on large and huge blocks. */
enum { LARGE = 100000, LARGE_COUNT = 42 };
void hold_large(void);
void free_large(void);
void free_large_for_long(void);
void trim_large(void);
void hold_huge(void);
void free_huge(void);
void grow_huge(void);
void hold_and_free_large_there(void);
void reuse_large(void);
void reuse_large_of_others(void);
void steal_large(void);
void resize_large(void);
void reuse_huge(void);
void lengthen_huge(void);
void refuse_huge(void);

/* Programs of guards.c, on 300 blocks: 256 may have a guard by protection. */
enum { GUARDED_COUNT = 300, PROTECTED_COUNT = 256 };
void hold_guarded_blocks(void);
void hold_blocks_without_advice(void);
void free_blocks_without_advice(void);

/* What the figures of ways.c have to add up to, in a process that went all the ways. */
void check_sums(const void *unused);
