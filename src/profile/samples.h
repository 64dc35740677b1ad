/* samples.h: the sampled blocks that are in use, and what each stands for. Which calls are sampled: cache/sampler.h.
 *
 * A sample lies beside the heap, in a list that its block's address tells. A sampled block of a class
 * is cut to measure (large/fine_grain.h), so that its free comes to the slow half as that of a large block
 * does; blocks of slabs are never sampled and need no look-up. On the hardened path they are, and each
 * free there looks.
 *
 * PROTOCOL. A sample is entered before its block is given to the program, and taken out before the
 * block is freed, so no list has two samples of one address. If a look at the block says that its free will
 * be refused, the sample is put back before the free begins: the block is in use all the while. Both
 * hold the lock of the list. A thread that frees a block looks at its list without the lock first: an entry of that very block, if there is one,
 * was made before the program had the address. */
#pragma once

#include "base/base.h"

extern _Atomic bool hak_sample_on;

HAK_FAST_PATH bool hak_samples_on(void) {
    return HAK_UNLIKELY(hak_load_acquire(&hak_sample_on)); /* partner: hak_sample_start */
}

typedef struct {
    _Atomic uint64_t taken;   /* samples so far */
    _Atomic uint64_t live;    /* of blocks in use */
    _Atomic uint64_t unknown; /* blocks that were to have one: there was no memory */
    _Atomic uint64_t dropped; /* those, and samples whose call stack has no site */
} hak_sample_stats_t;

extern hak_sample_stats_t hak_sample_stats;

/* Makes the table. False when there is no memory for it; then nothing is sampled. */
bool hak_sample_start(void);

/* Enters a sampled block: its site, the bytes that were asked for, and those that decided how likely it
 * was to be sampled. `class_size` is 0 for blocks above 64 KiB. True: a profile is to be written. */
bool hak_sample_enter(const void *block, const void *site, size_t requested, size_t given,
                      uint32_t class_size);

/* Counts a block that was to be sampled and has no sample. */
void hak_sample_miss(void);

/* The block is freed: its sample, if it has one, goes. */
void hak_sample_leave(const void *block);

/* Takes the sample of a block out, before a resize may move it; NULL when it has none. Then the sample
 * goes, unless the block stays as it was. */
typedef struct hak_sample hak_sample_t;
hak_sample_t *hak_sample_take(const void *block);
void hak_sample_end(hak_sample_t *sample, bool stays);

/* The sum of a block's site has its sample as one that can be reached; nothing without a sample. */
void hak_sample_reach(const void *block);

/* The bytes of blocks that a sampled one of `size` bytes stands for are size times this, in
 * fixed-point. */
uint64_t hak_sample_weight(size_t size);
