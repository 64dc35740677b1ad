/* user_heap_huge.h: huge blocks of the program's own heaps.
 *
 * Such a block is a huge block like any other (huge.h). Its note leads to a record in the ring of its heap.
 *
 * PROTOCOL. The note of a block without a heap is 0. A note whose lowest two bits are 0 is the address of a record. Any
 * other note belongs to the hardened path, or is NOTE_IN_HAND: a thread holds the record, but the block is in its
 * table.
 *   free            takes the block out of its table, and the note with it, in one section; then the record out of its
 *                   heap; then it gives the block up (hak_huge_drop)
 *   free of a heap  swaps the note for NOTE_IN_HAND and takes the record out of the heap, in one section of the heap's
 *                   lock; then it frees the block
 *   resize          swaps the note for NOTE_IN_HAND; resizes the block, which keeps that note; then the note comes back
 *   request         enters the block with NOTE_IN_HAND; then the record takes its place
 * The thread that has taken the block out, or swapped its note, owns the record. So only one of two racing frees
 * succeeds. The other one finds no block, or a block in hand. In either case it is not the owner and reports a wrong
 * free, however much the owner still has to do. As long as a record is listed, its block's address belongs to no other
 * block, unless a resize has moved the block away from it.
 *  - Rejected: to swap the note for 0, and then to free the block. A second free in between would find a block without
 *    a heap and free it, and the first one would free whatever block another thread got there.
 *
 * A block gets its note and enters the list in one section of the heap's lock; the lock of a huge table may be taken in
 * that section. A free takes the block out without the heap's lock, because the record may be gone before it has the
 * lock. A thread that frees the whole heap finds the listed records under the lock, so none of them is freed in the
 * meantime. It takes each record out of the ring, even if another thread has taken the block and still waits for the
 * lock; is_listed then tells that thread. So each step takes a record out, and no thread waits for another one that is
 * between two sections.
 *
 * While a block is resized its record stays listed, so that the heap's counts are right, until the block has its new
 * size and perhaps another address; then the note is restored in one section with those. If another thread frees the
 * whole heap in the meantime, it takes the record out of the list, as it does beside a free, and the block comes back
 * to the heap: the program must not do that (hakmem.h), and one of the two calls has no effect. The resizing thread is
 * inside the gate all the time, as for any block that is in hand.
 *  - Rejected: to list the block first and set its note after the lock. A thread that frees the whole heap
 *    would find a block that it can neither free nor skip. */
#pragma once

#include "base/base.h"
#include "error/check.h"
#include "large/user_heap_table.h"

/* Allocates a block of the heap, in flight unless `flight` is NULL. *dirty: number of bytes at its start that may not
 * be zero. NULL without memory, or without room under the heap's limit. */
void *hak_user_heap_huge_alloc(hak_user_heap_t *heap, size_t size, size_t align,
                               hak_flight_t *flight, size_t *dirty);

/* Frees a huge block, of a heap of the program or of none. Returns 0 if there is no such block, or the program may not
 * free it: it is in hand, or has a note of the hardened path. */
size_t hak_user_heap_huge_free(void *block);

/* Resizes a huge block of a heap to `size` bytes, more than 1 MiB. Returns its new address; NULL if it stays as it was.
 * `flight`: the calling thread's flight that the block is in and stays in, or NULL. */
void *hak_user_heap_huge_resize(void *block, size_t size, hak_flight_t *flight);

/* Puts a huge block of the heap in flight; false when none begins there. */
bool hak_user_heap_huge_hold(hak_user_heap_t *heap, const void *block, hak_flight_t *flight);

/* Frees all huge blocks of a heap from before an epoch, except those in flight. Unless `leave` is NULL, it is called
 * for each block before the free, inside the gate. Returns their number. */
size_t hak_user_heap_huge_free_all(hak_user_heap_t *heap, uint32_t epoch,
                                   void (*leave)(const void *block));

/* The heap of a huge block; NULL for none. */
hak_user_heap_t *hak_user_heap_huge_heap(const void *block);

/* Checks a heap's huge blocks, and returns their bytes. Every other thread is outside the engine. */
size_t hak_user_heap_huge_check(hak_check_t *check, const hak_user_heap_t *heap);
