/* fine_grain.h: blocks in steps of 16 or 32 bytes instead of size classes, in chunks of their own ("fine blocks").
 *
 * Two kinds of heaps use them (user_heap_table.h):
 *  - The heap of the process, for blocks of 513 bytes to 64 KiB while address space is scarce. A slab of a size
 *    class leaves up to half of its unit unused. That part has addresses but no pages, so it costs nothing
 *    as long as there are enough addresses. When they are scarce (hak_region_is_short), no more slabs are
 *    made for blocks above 1 KiB; once the heap has half of the limit, none for blocks above 512 bytes.
 *    If no slab has a free block for such a request, the block is cut in steps of 32 bytes, out of
 *    chunks that are whole superslabs.
 *  - The program's heaps (hakmem_heap_new), for blocks up to 64 KiB in steps of 16 bytes, out of chunks of
 *    one unit. A longer block has a chunk of whole units, up to a superslab, or a mapping. Short blocks
 *    come from a sweep through one chunk after the other. With blocks of 16 to 515 bytes that come and go
 *    at random, a sweep takes less than half of the instructions of a search for the last hole, and a
 *    quarter more memory.
 *
 * The units of a chunk have the owner HAK_FINE_OWNER, whose class is that of large blocks, and the
 * heap's number in their word `large`. So threads do not cache fine blocks, and large.c passes them on to
 * this code. Two bitmaps with a bit for each grain say what is in use and where blocks begin; a block ends
 * where the next one begins, or where nothing is in use. They lie outside the heap, like all records.
 *
 * The heap's lock protects all of this; the pool is called without it. A unit becomes part of a chunk, and
 * leaves it, under the lock. A thread that comes from a pointer reads the owner and the number again under
 * the lock. A chunk without a block in use goes back to the pool at once.
 *
 * Invariants under the lock, of each chunk:
 *   used = number of bits set in the first bitmap > 0
 *   a bit of the second is set  => it is set in the first
 *   longest >= longest free stretch; the highest bit of `longest` determines its list, 0 if longest = 0
 * and of the heap:
 *   its ring has each of its chunks once, those of lower epochs first
 *   blocks, bytes = sums over its chunks; committed = bytes of chunks and huge blocks, and of those that a
 *   thread inside the gate is about to enter */
#pragma once

#include "base/base.h"
#include "error/check.h"
#include "large/user_heap_table.h"
#include "region/superslab.h"
#include "region/unit.h"

enum {
    HAK_FINE_SHIFT = 5, /* log2 of the bytes of a grain, in the process's heap */
    HAK_FINE_OWNER = HAK_OWNER_WARM | HAK_CLASS_LARGE, /* no unit of a large heap is ever warm */
};

/* True for a unit of a chunk. */
HAK_FAST_PATH bool hak_fine_is(const hak_unit_t *unit) {
    return hak_load_acquire(&unit->owner) == HAK_FINE_OWNER;
}

/* Allocates a block of at least `size` bytes, up to 64 KiB, at a multiple of `align`, a power of two up to
 * 64 KiB, from the heap of the process. NULL when there is no memory. */
void *hak_fine_alloc(size_t size, size_t align);

/* Allocates a block of a heap of the program, of any size and alignment; zeroes it if `zero`. Unless `flight` is NULL,
 * the block is in flight (user_heap_table.h); *flight is all zero before. NULL when there is no memory, or no room
 * under the heap's limit. */
void *hak_fine_alloc_in(hak_user_heap_t *heap, size_t size, size_t align, bool zero,
                        hak_flight_t *flight);

/* Frees a block; returns its bytes, 0 when no block in use begins there. */
size_t hak_fine_free(void *block);

/* Both resize a block in place; false if it has to move. The first never takes units: it uses free grains behind the
 * block, or makes the block shorter. A block that is a whole chunk has to move if half of one unit would do. The second
 * lengthens a chunk that is one block of `old` bytes by the units behind it, if the pool has them free and the heap's
 * limit allows it. */
bool hak_fine_resize(void *block, size_t size);
bool hak_fine_extend(hak_user_heap_t *heap, void *block, size_t old, size_t size);

/* Puts a block of the heap in flight (user_heap_table.h), whatever its size; false if no block in use begins there. */
bool hak_fine_hold(hak_user_heap_t *heap, const void *block, hak_flight_t *flight);

/* Frees all blocks that a heap has now, chunk by chunk, except those in flight. Unless `leave` is NULL, it is called
 * for each block before the free. It may run under the heap's lock, so it takes only locks of a higher rank. Returns
 * the number of blocks. */
size_t hak_fine_free_all(hak_user_heap_t *heap, void (*leave)(const void *block));

/* Finds the block in use that contains `pointer`; false when there is none. */
bool hak_fine_find(const void *pointer, void **start, size_t *size);

/* The heap of the program to which the block in use that begins there belongs; NULL for any other pointer. */
hak_user_heap_t *hak_fine_heap_of(const void *block);

/* Bytes of blocks in use in each 4 KiB of a unit; false if the unit is in no chunk now. */
bool hak_fine_used_bytes(const hak_unit_t *unit, uint16_t used[HAK_UNIT_GRAINS]);

/* Adds the blocks in use and their bytes, huge ones excluded. */
void hak_fine_add_stats(size_t *count, size_t *bytes);

/* Checks all heaps of fine blocks, with every other thread outside the engine. */
void hak_fine_check(hak_check_t *check);
