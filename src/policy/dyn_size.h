/* dyn_size.h: the adaptive class engine (ACE in its statistics) finds the size that the dynamic class should have.
 *
 * It works while HAKMEM_MID_DYN1=auto. Each refill of a mid class is a sample: it notes the
 * requested size. An allocation that the thread's magazine serves notes nothing. From the
 * samples and the number of blocks in use the engine computes how much a class of exactly the
 * sampled size would save. A size that saves enough at two looks in a row becomes the dynamic
 * class. */
#pragma once

#include "base/base.h"

/* Notes that a refill of a mid class was for a request of `size` bytes. `own` is a count of the caller's cache, or NULL
 * without one: where there are many CPUs, a cache notes one refill in eight. */
void hak_dyn_size_note(unsigned class_index, size_t size, uint8_t *own);

/* Bytes of pages per block in a full slab whose blocks are `pitch` bytes apart, when the
 * program uses `size` bytes of each; without the page that the colour of a slab may add. */
size_t hak_dyn_size_cost(size_t pitch, size_t size);

/* Samples so far; bytes that the best candidate would have saved, at the last look that found
 * one. */
uint64_t hak_dyn_size_samples(void);
uint64_t hak_dyn_size_waste(void);
