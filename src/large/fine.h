/* fine.h: blocks of 1 to 64 KiB where addresses are short.
 *
 * A slab of a size class leaves up to half of its unit unused: those are addresses and no pages,
 * and they cost nothing as long as there are enough. Under a limit on the address space
 * (hak_region_is_short) no more slabs are made for blocks above 1 KiB. Each such block that no slab
 * has is then cut to measure, in steps of 64 bytes, out of whole superslabs.
 *
 * Who owns what: a fine superslab's units have the owner HAK_FINE_OWNER, of the class of large
 * blocks. So threads do not cache its blocks, and large.c passes them on to here. Two bitmaps, a bit
 * for each grain of 64 bytes, say what is in use and where blocks begin; a block ends where the next
 * one begins, or where nothing is in use. They lie outside the superslab, as all records do.
 *
 * One lock protects all of this; the pool is called without it. A unit becomes fine, and ceases to
 * be, under the lock. Whoever comes from a pointer looks at the owner again under it. A superslab
 * without a block in use goes back to the pool at once.
 *
 * Invariants under the lock, of each fine superslab:
 *   used = number of bits set in the first bitmap > 0
 *   a bit of the second is set  => it is set in the first
 *   all grains below `hint` are in use
 *   longest >= longest free stretch; its list is that of the highest bit of `longest` */
#ifndef HAK_FINE_H
#define HAK_FINE_H

#include "base/base.h"
#include "error/check.h"
#include "region/unit.h"

enum {
    HAK_FINE_SHIFT = 6, /* log2 of the bytes of a grain */
    HAK_FINE_OWNER = 0x7f << 8 | HAK_CLASS_LARGE,
};

/* A block of at least `size` bytes, up to 64 KiB, at a multiple of `align`, a power of two up to
 * 64 KiB. NULL when there is no memory. The caller has seen that addresses are short. */
void *hak_fine_alloc(size_t size, size_t align);

/* Frees a block; returns its bytes, 0 when no block in use begins there. */
size_t hak_fine_free(void *block);

/* Finds the block in use that contains `pointer`; false when there is none. */
bool hak_fine_find(const void *pointer, void **start, size_t *size);

/* Adds the blocks in use and their bytes. */
void hak_fine_add_stats(size_t *count, size_t *bytes);

/* All of it, with every other thread outside the engine. */
void hak_fine_check(hak_check_t *check);

#endif
