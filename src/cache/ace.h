/* ace.h: the adaptive class engine: finds the size that the dynamic class should have.
 *
 * HAKMEM_MID_DYN1=auto. A refill of a mid class tells the size that was asked for; nothing
 * is noted on the way to a block that the thread's ring has. From these samples and from
 * the blocks in use follows what a class of that very size would save. What saves enough at
 * two looks in a row becomes the dynamic class. */
#ifndef HAK_ACE_H
#define HAK_ACE_H

#include "base/base.h"

/* A block of a mid class for `size` bytes has just come by a refill. */
void hak_ace_note(unsigned class_index, size_t size);

/* Bytes of pages that a full slab takes for each block when `size` bytes of it are used,
 * from a class of `pitch` bytes; without the page that its colour may add. */
size_t hak_ace_cost(size_t pitch, size_t size);

/* Samples so far; the bytes that the best candidate would have saved at the last look. */
uint64_t hak_ace_samples(void);
uint64_t hak_ace_waste(void);

#endif
