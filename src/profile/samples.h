/* samples.h: the sampled blocks that are in use, and what each stands for. Which calls are sampled: cache/sampler.h.
 *
 * A sample lies outside the heap, in a list that the block's address determines. A sampled block whose size has a class
 * is a fine block (large/fine_grain.h) instead of a block of a slab. So its free comes to the slow half, like that of a
 * large block, and blocks of slabs need no look-up. On the hardened path blocks of slabs are sampled, and each free
 * looks for a sample.
 *
 * PROTOCOL. A sample is entered before its block is given to the program, and taken out before the block is freed, so
 * no list has two samples of one address. If the free will be refused, the sample is put back before the free begins;
 * the block is in use all the time. Each step holds the lock of the list. A thread that frees a block first looks at
 * the head of its list without the lock: if the block has a sample, that was entered before the program had the
 * address. */
#pragma once

#include "base/base.h"

extern _Atomic bool hak_sample_on;

HAK_FAST_PATH bool hak_samples_on(void) {
    return HAK_UNLIKELY(hak_load_acquire(&hak_sample_on)); /* partner: hak_sample_start */
}

typedef struct {
    _Atomic uint64_t taken;   /* samples so far */
    _Atomic uint64_t live;    /* of blocks in use */
    _Atomic uint64_t unknown; /* blocks that were to be sampled and have no sample */
    _Atomic uint64_t dropped; /* those, and samples whose call stack has no site */
} hak_sample_stats_t;

extern hak_sample_stats_t hak_sample_stats;

/* Makes the table. False when there is no memory for it; then nothing is sampled. */
bool hak_sample_start(void);

/* Enters a sampled block: its site, the requested bytes, and the bytes that determined how likely it was to be sampled.
 * `class_size` is 0 for blocks above 64 KiB. True: a profile is due. */
bool hak_sample_enter(const void *block, const void *site, size_t requested, size_t given,
                      uint32_t class_size);

/* Counts a block that was to be sampled and has no sample. */
void hak_sample_miss(void);

/* The block is being freed: its sample, if it has one, is removed. */
void hak_sample_leave(const void *block);

/* The first takes the sample of a block out, before a resize may move the block; NULL if it has none. The second then
 * removes the sample, or puts it back if the block stays as it was. */
typedef struct hak_sample hak_sample_t;
hak_sample_t *hak_sample_take(const void *block);
void hak_sample_end(hak_sample_t *sample, bool stays);

/* The block size of the class that determined how likely a sample was; 0 above 64 KiB. */
size_t hak_sample_class_size(const hak_sample_t *sample);

/* Adds the sample of a block, if it has one, to its site's sum of blocks that the program can reach. */
void hak_sample_reach(const void *block);

/* The number of blocks that a sampled block of `size` bytes stands for, in fixed point. */
uint64_t hak_sample_weight(size_t size);
