/* big.h: blocks above 64 KiB on the hardened path: large ones and huge ones.
 *
 *   | requested bytes | canary to the end of the page | guard page |
 *
 * If there is no guard, and a page ends with the requested bytes, the canary has the next page.
 *
 * PROTOCOL. The note of a block is its state, and what a free needs to know:
 *   note = requested size << 6 | guard << 4 | origin << 2 | state
 * That of a large block is an atomic word of its unit (state.h), in which at most one large block
 * begins; that of a huge block stands in the table of huge blocks, under its lock. As with small
 * blocks, a free begins with a compare-and-swap from USED to FREE. A resize takes the same step, and
 * makes the block USED again at its end: a free in between is reported. A block that goes back to its heap stays FREE:
 * the word of a unit until the next block of the hardened path begins there, the note of a huge block until its entry
 * is removed. A huge block is also entered as FREE. So each second free is reported until the program gets the block
 * again. A block without a note was allocated before the hardened path was switched on, or lies in a chunk
 * (large/fine_grain.h); the word of a chunk's unit says nothing about the block.
 *  - Rejected: to clear the note before the block goes back. A second free in between would take the block for one from
 *    before the hardened path, and free it; then another thread may own it when the first one frees it once more.
 *
 * hakmem_verify() reads the bytes behind each USED block with the gate closed (os/gate.h). So a
 * block becomes USED after these bytes are written, and leaves that state only inside the gate:
 * while the gate is closed its pages stay readable.
 *
 * A freed block up to HAK_BIG_KEPT bytes becomes a guard as a whole, where the kernel can do that by
 * advice: its pages go back, and each later access ends the program. Elsewhere the block is zeroed, and
 * compared with zero when it leaves the ring of its thread. It takes the place of another block in the
 * ring, which goes back to its heap. With HAKMEM_LIMIT the rings of all threads together have at most
 * an eighth of that. */
#pragma once

#include "base/base.h"
#include "hardened/quarantine.h"
#include "hardened/state.h"

#define HAK_BIG_KEPT (16 * MIB)       /* largest block in a ring */
#define HAK_BIG_RING_BYTES (64 * MIB) /* of all of them, at most, beside one block */

/* Allocates; NULL without memory. `mapped`: a mapping of its own. */
void *hak_big_alloc(size_t size, size_t align, bool zero, hak_origin_t origin, bool mapped);

/* The note of the block that starts at `block`; 0 for none. */
uint64_t hak_big_note(const void *block);

/* Swaps the note. If it is no longer `*note`, stores its value there and returns false. */
bool hak_big_swap(void *block, uint64_t *note, uint64_t new_note);

/* The large block that begins in a unit of a large heap; NULL for none. */
const void *hak_big_in_unit(const hak_unit_t *unit);

/* True while the bytes behind the block are unchanged. */
bool hak_big_holds(const void *block, uint64_t note);

/* Bytes that the program may use. */
size_t hak_big_usable(uint64_t note);

HAK_FAST_PATH size_t hak_big_size(uint64_t note) { return (size_t)(note >> 6); }

/* Keeps a block of `whole` bytes whose note the caller has made FREE; `quarantine` may be NULL.
 * Returns the bytes that went back to a heap. */
size_t hak_big_keep(hak_quarantine_t *quarantine, void *block, uint64_t note, size_t whole);

/* The new address of a block that is resized without a copy, to 64 KiB or more; NULL when that is
 * not possible. The caller has made the note FREE, and this makes it USED if it succeeds. */
void *hak_big_resize(void *block, uint64_t note, size_t size);

/* The same for a block that becomes shorter and stays where it is; the block keeps all of its
 * memory. Returns `block`, or NULL when the system refuses to remove the guard. */
void *hak_big_shorten(void *block, uint64_t note, size_t size);

/* Gives the blocks of a ring back. */
void hak_big_flush(hak_quarantine_t *quarantine);
