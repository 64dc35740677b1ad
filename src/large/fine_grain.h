/* fine_grain.h: blocks that are cut to measure, in chunks of their own.
 *
 * Two kinds of heaps cut blocks so (user_heap_table.h):
 *  - The process's, blocks of 513 bytes to 64 KiB where addresses are short. A slab of a size class leaves up to
 *    half of its unit unused: those are addresses and no pages, and they cost nothing as long as there
 *    are enough. Under a limit on the address space (hak_region_is_short) no more slabs are made for
 *    blocks above 1 KiB, and above half of the limit for those above 512 bytes. Each such block that no
 *    slab has is cut in steps of 32 bytes, out of chunks that are whole superslabs.
 *  - Those of the program (hakmem_heap_new), blocks up to 64 KiB in steps of 16 bytes, out of chunks of
 *    one unit. A longer block has a chunk of whole units, up to a superslab, or a mapping. Short blocks
 *    come from a sweep through one chunk after the other: less than half of the instructions of a search
 *    for the last hole, and a quarter more memory, where blocks of 16 to 515 bytes come and go by chance.
 *
 * Who owns what: a chunk's units have the owner HAK_FINE_OWNER, of the class of large blocks, and the
 * heap's number in their word `large`. So threads do not cache its blocks, and large.c passes them on to
 * here. Two bitmaps, a bit for each grain, say what is in use and where blocks begin; a block ends where
 * the next one begins, or where nothing is in use. They lie outside the heap, as all records do.
 *
 * The heap's lock protects all of this; the pool is called without it. A unit becomes fine, and ceases to
 * be, under the lock. Whoever comes from a pointer looks at the owner and the number again under it. A
 * chunk without a block in use goes back to the pool at once.
 *
 * Invariants under the lock, of each chunk:
 *   used = number of bits set in the first bitmap > 0
 *   a bit of the second is set  => it is set in the first
 *   longest >= longest free stretch; its list is that of the highest bit of `longest`, 0 when that is 0
 * and of the heap:
 *   its ring has each of its chunks once, those of lower epochs first
 *   blocks, bytes = those of all chunks and huge blocks; committed = their units and mappings, and those
 *   that a thread inside the gate is about to enter */
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

/* A block of at least `size` bytes, up to 64 KiB, at a multiple of `align`, a power of two up to
 * 64 KiB. NULL when there is no memory. The caller has seen that addresses are short. */
void *hak_fine_alloc(size_t size, size_t align);

/* A block of a heap of the program, of any size and alignment, all zero if `zero`; in flight (user_heap_table.h)
 * unless `flight`, which is zero, is NULL. NULL when there is no memory, or no room under the heap's limit. */
void *hak_fine_alloc_in(hak_user_heap_t *heap, size_t size, size_t align, bool zero,
                        hak_flight_t *flight);

/* Frees a block; returns its bytes, 0 when no block in use begins there. */
size_t hak_fine_free(void *block);

/* Resizes a block where it is; false when it has to move. That is also so where it has 64 KiB or more of a chunk alone,
 * and would need half of one unit or less. The second takes units behind a chunk that is one block of `old`
 * bytes, where the pool has them and the heap's limit allows them; false where it cannot. */
bool hak_fine_resize(void *block, size_t size);
bool hak_fine_extend(hak_user_heap_t *heap, void *block, size_t old, size_t size);

/* A block of the heap, of any size, is in flight from now on (user_heap_table.h); false when none that is in use begins
 * there. */
bool hak_fine_hold(hak_user_heap_t *heap, const void *block, hak_flight_t *flight);

/* Frees all blocks that a heap has now, chunk by chunk, but those in flight; `leave` is called for each
 * before, unless it is NULL: it must take no lock of a lower rank. Returns their number. */
size_t hak_fine_free_all(hak_user_heap_t *heap, void (*leave)(const void *block));

/* Finds the block in use that contains `pointer`; false when there is none. */
bool hak_fine_find(const void *pointer, void **start, size_t *size);

/* The heap of the program that has a block in use which begins there; NULL for anything else. */
hak_user_heap_t *hak_fine_heap_of(const void *block);

/* Bytes of blocks in use in each 4 KiB of a unit; false when it is in no chunk now. */
bool hak_fine_used_bytes(const hak_unit_t *unit, uint16_t used[HAK_UNIT_GRAINS]);

/* Adds the blocks in use and their bytes, huge ones excluded. */
void hak_fine_add_stats(size_t *count, size_t *bytes);

/* All of it, with every other thread outside the engine. */
void hak_fine_check(hak_check_t *check);
