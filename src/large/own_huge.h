/* own_huge.h: huge blocks of the program's own heaps.
 *
 * Such a block is a huge block as any other (huge.h), whose note leads to a record in its heap's list.
 *
 * PROTOCOL. Who swaps the note of a block with 0 has its record: of two racing frees one gets it. That
 * one takes the record out of the heap, and frees the block after that. So as long as a record is listed
 * its address is nobody else's. The other one finds a huge block without a heap, or none, and frees it or
 * reports that; one of the two reports. A note that begins with two bits of 0 is a record's; others are
 * the hardened path's.
 *
 * A block gets its note and enters the list in one section of the heap's lock, under which the lock of a
 * huge table may be taken. A free swaps the note without the heap's lock, since the record may be gone
 * until the swap. Who frees all finds listed records under the lock: none of them is freed meanwhile. It
 * swaps the note, and takes the record out even where another thread has swapped it and has yet to come
 * for the lock; is_listed tells that thread. So each turn takes a record out, and nobody waits for a
 * thread that is between two sections.
 *  - Rejected: the list first, the note after the lock. Who frees all would find a block that it can
 *    neither free nor pass by. */
#ifndef HAK_OWN_HUGE_H
#define HAK_OWN_HUGE_H

#include "base/base.h"
#include "error/check.h"
#include "large/own.h"

/* A block of the heap; NULL without memory, or without room under the heap's limit. */
void *hak_own_huge_alloc(hak_own_t *heap, size_t size, size_t align, bool zero);

/* Frees a huge block, whether a heap of the program has it or none, as hak_huge_free does. */
size_t hak_own_huge_free(void *block);

/* All of a heap; `leave` is called for each before, inside the gate, unless it is NULL. */
void hak_own_huge_free_all(hak_own_t *heap, void (*leave)(const void *block));

/* The heap of a huge block; NULL for none. */
hak_own_t *hak_own_huge_heap(const void *block);

/* Bytes of a heap's huge blocks, counted. Every other thread is outside the engine. */
size_t hak_own_huge_check(hak_check_t *check, const hak_own_t *heap);

#endif
